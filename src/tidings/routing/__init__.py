"""Routing: what a broker tells a neighbour, as a reduction of what everybody else wants.

A strategy is a pure function of a multiset of filters (`reduce`, in plain Python, the oracle) and
beside it an object that keeps the outcome up to date as filters come and go (`reduction`). Nothing
here sends anything or knows who wants what: that is the node's.
"""

from tidings.routing.naming import STRATEGIES
from tidings.routing.plain import reduce
from tidings.routing.reduction import Change, Reduction
from tidings.routing.restricted import Restricted
from tidings.routing.statistics import Statistics
from tidings.routing.strategies import reduction

__all__ = [
    "STRATEGIES",
    "Change",
    "Reduction",
    "Restricted",
    "Statistics",
    "reduce",
    "reduction",
]
