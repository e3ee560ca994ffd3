"""Events: notifications, constraints, filters, their algebra, their language, their encoding.

Everything here is a pure value: no clock, no network, no state. Everything else in tidings is
written with the five words of the algebra: matches, covers, overlaps, intersect, merge.
"""

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import ABSENT, Constraint, Domain, ValueSet, register
from tidings.events.errors import FilterError, NotificationError, SchemaError, TidingsError
from tidings.events.filter import Filter
from tidings.events.notification import Notification
from tidings.events.schema import Schema
from tidings.events.syntax_tree import Limits

__all__ = [
    "ABSENT",
    "Conjunction",
    "Constraint",
    "Domain",
    "Filter",
    "FilterError",
    "Limits",
    "Notification",
    "NotificationError",
    "Schema",
    "SchemaError",
    "TidingsError",
    "ValueSet",
    "register",
]
