"""tidings: content-based event notification. Say what happened; hear what you asked for.

>>> import tidings
>>> wanted = tidings.Filter.parse("symbol = 'DIS' AND change < 0")
>>> wanted.matches(tidings.Notification({"symbol": "DIS", "change": -4.0}))
True
"""

from tidings.events import (
    Conjunction,
    Constraint,
    Filter,
    FilterError,
    Limits,
    Notification,
    NotificationError,
    Schema,
    SchemaError,
    TidingsError,
)

__all__ = [
    "Conjunction",
    "Constraint",
    "Filter",
    "FilterError",
    "Limits",
    "Notification",
    "NotificationError",
    "Schema",
    "SchemaError",
    "TidingsError",
]
