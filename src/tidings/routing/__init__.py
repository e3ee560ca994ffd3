"""Routing: what a broker tells a neighbour, as a reduction of what everybody else wants.

A strategy is a pure function of a multiset of filters (`reduce`, in plain Python, the oracle) and
beside it an object that keeps the outcome up to date as filters come and go (`reduction`). `Tables`
hold what each port wants, and the parts of a node that tell neighbours, compare tables with theirs,
learn statistics and answer watches stand on them. No event is delivered here: that is `delivery`.
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
