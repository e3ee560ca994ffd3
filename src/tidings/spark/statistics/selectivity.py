"""Selectivity: how many events each filter matches, what mergers would cost, who wants the same.

Filters belong to brokers. What a broker's filters make when they are merged perfectly has gaps;
to close one would let through, for nothing, those events in it that no filter of the broker
matches. All of this is counted, event by event, with one index of all filters and all gaps, a few
events at a time where they match much. Nothing here knows of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidings.events import Conjunction, Constraint, Filter, TidingsError
from tidings.events.intervals import ORDERS, Intervals
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import columns_of
from tidings.matching.named import NamedIndex
from tidings.routing import Statistics, reduction
from tidings.routing.joins import Stretch, gaps
from tidings.spark.matching.asking import Asking

_MOST_MERGERS: Final = 10_000
"""Candidates for merging that are looked at, at most."""
_MOST_BROKERS: Final = 1_000
"""Brokers, at most: each is compared with each other."""

Owner = Callable[[str], str]
"""Which broker the filter under a key belongs to; a function of some module, as tasks need it."""
Numbers = npt.NDArray[np.int64]


def broker_of(key: str) -> str:
    """The broker that a filter belongs to: what stands before the first slash of its key.

    >>> broker_of("paris/17"), broker_of("17")
    ('paris', '')
    """
    return key.partition("/")[0] if "/" in key else ""


def one_broker(key: str) -> str:
    """All filters belong to the same one."""
    return ""


def brokers_of(keys: Iterable[str], owner: Owner) -> list[str]:
    """All brokers, in order; `TidingsError` if there are too many to compare them."""
    found = sorted(set(map(owner, keys)))
    if len(found) > _MOST_BROKERS:
        raise TidingsError(
            f"the keys of the filters name {len(found):,} brokers ({found[0]}, {found[1]}, …), and "
            f"more than {_MOST_BROKERS:,} cannot be compared. What stands before the first slash "
            "of a key is a broker; where it is none, write the keys without a slash"
        )
    return found


class Merger(NamedTuple):
    """A gap between two neighbouring intervals of what a broker's filters make."""

    broker: str
    conjunction: Conjunction
    """With the gap."""
    name: str
    domain: str
    gap: Stretch

    @property
    def filter(self) -> Filter:
        """What closing the gap would add."""
        inside = Intervals(ORDERS[self.domain], False, self.gap)
        return Filter([self.conjunction.with_(self.name, Constraint.of(inside))])

    def estimate(self, statistics: Statistics) -> float | None:
        """The share of all events that would come through, as far as was learnt."""
        found = statistics.among(self.name, self.conjunction.constraints)
        if found is None:
            return None
        known, factor = found
        return known.between(self.domain, *self.gap) * factor


def mergers(filters: Mapping[str, Filter], owner: Owner = broker_of) -> list[Merger]:
    """The candidates of each broker, in an order that is always the same."""
    brokers: dict[str, list[Filter]] = {}
    for key, filter_ in filters.items():
        brokers.setdefault(owner(key), []).append(filter_)
    found: list[Merger] = []
    for broker, wanted in sorted(brokers.items()):
        merged = reduction("merging")
        for filter_ in wanted:
            merged.add(filter_)
        for conjunction in sorted((f.conjunctions[0] for f in merged.output), key=str):
            for name, constraint in conjunction.constraints.items():
                for domain, part in constraint.parts.items():
                    some = [Merger(broker, conjunction, name, domain, gap) for gap in gaps(part)]
                    found += some[: _MOST_MERGERS - len(found)]
    return found


class Counts(NamedTuple):
    """What was counted, of some events."""

    events: int
    matched: Numbers
    """By each filter."""
    inside: Numbers
    """The gap of each merger."""
    wasted: Numbers
    """Of these, those that no filter of the broker matches."""
    shared: Numbers
    """A row and a column for each broker: the events that both want."""

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.events + other.events,
            self.matched + other.matched,
            self.inside + other.inside,
            self.wasted + other.wasted,
            self.shared + other.shared,
        )


class Selectivity:
    """Counts for a set of filters and their candidate mergers."""

    def __init__(
        self,
        filters: Mapping[str, Filter],
        candidates: Sequence[Merger],
        owner: Owner = broker_of,
    ) -> None:
        self._filters = len(filters)
        number = {broker: n for n, broker in enumerate(brokers_of(filters, owner))}
        self._brokers = len(number)
        self._owner = np.array(
            [number[owner(key)] for key in filters] + [number[m.broker] for m in candidates],
            np.int64,
        )
        asked = [*filters.values(), *(m.filter for m in candidates)]
        self._names = names_in(asked)
        self._index = NamedIndex(dict(enumerate(asked)))
        self._schema: pa.Schema | None = None

    def count(self, batch: pa.RecordBatch) -> Counts:
        """Of the rows of a lake."""
        if batch.schema != self._schema:
            self._schema, columns = batch.schema, columns_of(batch.schema)
            self._asking = Asking(self._index, Grouping(self._names, columns), "bigint")
        counts = self.none()
        for some, rows, numbers, _ in self._asking.pieces(batch):
            counts = counts.plus(self._counted(some.num_rows, rows, numbers))
        return counts

    def _counted(self, events: int, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> Counts:
        """The counts of some events, given pairs of their numbers and those of what they match."""
        is_filter = numbers < self._filters
        heard = np.zeros((events, self._brokers), np.float32)
        heard[rows[is_filter], self._owner[numbers[is_filter]]] = 1.0
        rows, found = rows[~is_filter], numbers[~is_filter]
        wasted = heard[rows, self._owner[found]] == 0.0
        candidates = len(self._owner) - self._filters
        return Counts(
            events,
            np.bincount(numbers[is_filter], minlength=self._filters),
            np.bincount(found - self._filters, minlength=candidates),
            np.bincount(found[wasted] - self._filters, minlength=candidates),
            np.rint(heard.T @ heard).astype(np.int64),
        )

    def none(self) -> Counts:
        """The counts of no events."""
        candidates, brokers = len(self._owner) - self._filters, self._brokers
        zeros = (self._filters, candidates, candidates, (brokers, brokers))
        return Counts(0, *(np.zeros(shape, np.int64) for shape in zeros))
