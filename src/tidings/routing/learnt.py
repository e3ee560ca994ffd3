"""Learnt: which gaps between intervals are not worth an entry, by what is known of the events.

Whether `price < 10 OR price > 12` may become `price IS NUMBER` depends on how many events have a
price from 10 to 12, not on how long that is. Each gap is judged by itself, so the outcome depends
on nothing but the conjunction; what is already joined is never taken apart.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.events import Conjunction
from tidings.routing.joins import Stretch, closed, gaps
from tidings.routing.statistics import Statistics


class Learnt(NamedTuple):
    """A rule: gaps that at most the `share` of all events falls into, as far as is known.

    >>> from tidings.events import Filter
    >>> from tidings.routing.statistics import Attribute, Distribution
    >>> prices = Attribute(present=1.0, number=Distribution(1.0, (0.0, 1.0, 100.0)))
    >>> rule = Learnt(0.1, Statistics(1000, {"price": prices}))
    >>> apart = Filter.parse("price BETWEEN 1 AND 20 OR price BETWEEN 30 AND 40")
    >>> print(rule.closed(apart.conjunctions[0], "price"))
    price BETWEEN 1 AND 40
    """

    share: float
    statistics: Statistics | None
    """What is known of the events; if it is None, no gap is closed."""

    def closed(self, conjunction: Conjunction, name: str) -> Conjunction:
        """The conjunction, with the small gaps of this attribute closed."""
        constraint = conjunction[name]
        if self.statistics is None or not any(map(gaps, constraint.parts.values())):
            return conjunction
        found = self.statistics.among(name, conjunction.constraints)
        if found is None:
            return conjunction
        known, factor = found

        def is_small(domain: str, gap: Stretch) -> bool:
            return known.between(domain, *gap) * factor <= self.share

        widened = closed(constraint, is_small)
        return conjunction if widened is constraint else conjunction.with_(name, widened)
