"""Filter parts: a set of filters cut into smaller ones, each of which concerns some events only.

A filter that asks for a value, `symbol = 'DIS' AND price > 100`, goes to the part that its value
is hashed to; an event is shown to the parts that its own values are hashed to. The attribute is
the one that has the most different values among all filters, of those that the filter asks for.
What asks for no value is dealt out to *general* parts, which see every event.

A filter that admits several values is in several parts, and in each admits only the values that
belong there. So an event that is shown to more parts than it has to be still finds a key once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

from tidings.events import Conjunction, Constraint, Filter, TidingsError
from tidings.events.intervals import ORDERS, Intervals
from tidings.events.strings import Strings
from tidings.events.values import STRING, domain_of, microseconds
from tidings.lakes.layout import REST, Columns
from tidings.matching import Index

_FEW: Final = 64
"""A filter that admits more values than this of an attribute is not cut by it."""
_SAMPLE: Final = 4_096
_MEMORY_PER_BYTE: Final = 1.6
"""What a process grows by for each byte that an index says it has."""


class FilterPart(NamedTuple):
    """Some of the filters, and which events to show them."""

    filters: dict[Any, Filter]
    number: int | None
    """The part's number among those with values; None: it sees every event."""


class StoredPart(NamedTuple):
    """A part of the filters, as tasks find it."""

    path: str
    names: list[str]
    """The attributes that they speak of."""
    number: int | None
    """See `FilterPart`."""


class FilterParts(NamedTuple):
    """All parts of a set."""

    parts: list[FilterPart]
    valued: int
    """How many of them have values."""
    attributes: list[str]
    """Whose values decide."""


def needed(filters: Mapping[Any, Filter], memory: int) -> int:
    """The parts to make so that the index of one takes no more than `memory` bytes of a process.

    `TidingsError` if that is no number of bytes.
    """
    if memory <= 0:
        raise TidingsError(f"an index needs memory; {memory} bytes are none")
    if not filters:
        return 1
    values = list(filters.values())
    sample = values[:: max(1, len(values) // _SAMPLE)]
    index = Index()
    index.add_many(enumerate(sample))
    index.match_batch(pa.record_batch({"": pa.nulls(1)}))  # lays it out
    each = _MEMORY_PER_BYTE * index.explain()["bytes"] / len(sample)
    return max(1, -int(-len(values) * each // memory))


def cut(filters: Mapping[Any, Filter], count: int) -> FilterParts:
    """The filters in about `count` parts of similar size."""
    if count <= 1:
        return FilterParts([FilterPart(dict(filters), None)], 0, [])
    chosen = _chosen(filters)
    with_values = sum(name is not None for name in chosen)
    general = round(count * (len(filters) - with_values) / max(1, len(filters)))
    if with_values < len(filters):
        general = max(1, general)
    valued = max(1, count - general) if with_values else 0
    by_value: list[dict[Any, Filter]] = [{} for _ in range(valued)]
    seen_by_all: list[dict[Any, Filter]] = [{} for _ in range(general)]
    dealt = 0
    for (key, filter_), name in zip(filters.items(), chosen, strict=True):
        if name is None:
            seen_by_all[dealt % general][key] = filter_
            dealt += 1
            continue
        for number, share in _shares(filter_, name, valued).items():
            by_value[number][key] = share
    parts = [FilterPart(held, number) for number, held in enumerate(by_value) if held]
    parts += [FilterPart(held, None) for held in seen_by_all if held]
    return FilterParts(parts, valued, sorted({name for name in chosen if name is not None}))


def _chosen(filters: Mapping[Any, Filter]) -> list[str | None]:
    """For each filter the attribute whose value decides where it goes."""
    asked = [_asked(filter_) for filter_ in filters.values()]
    distinct: dict[str, set[int]] = defaultdict(set)
    for values in asked:
        for name, found in values.items():
            distinct[name].update(map(_hashed, found))
    return [max(v, key=lambda name: (len(distinct[name]), name)) if v else None for v in asked]


def _asked(filter_: Filter) -> dict[str, list[Any]]:
    """The attributes of which every match has one of a few values, and these."""
    found: dict[str, list[Any]] = {}
    for number, conjunction in enumerate(filter_.conjunctions):
        here = {}
        for name, constraint in conjunction.constraints.items():
            if number and name not in found:
                continue
            values = constraint.values(_FEW)
            if values is not None:
                here[name] = [*found.get(name, ()), *values]
        found = {name: values for name, values in here.items() if len(values) <= _FEW}
    return found


def _shares(filter_: Filter, name: str, count: int) -> dict[int, Filter]:
    """The filter cut by its values of an attribute: what of it belongs to each part."""
    numbers = {
        _hashed(value) % count
        for conjunction in filter_.conjunctions
        for value in conjunction[name].values(_FEW) or ()
    }
    if len(numbers) == 1:
        return {numbers.pop(): filter_}
    return {number: _share(filter_, name, number, count) for number in sorted(numbers)}


def _share(filter_: Filter, name: str, number: int, count: int) -> Filter:
    kept: list[Conjunction] = []
    for conjunction in filter_.conjunctions:
        values = [v for v in conjunction[name].values(_FEW) or () if _hashed(v) % count == number]
        if values:
            narrowed = conjunction[name].intersect(_among(values))
            if not narrowed.is_empty:
                kept.append(conjunction.with_(name, narrowed))
    return Filter(kept)


def _among(values: Iterable[Any]) -> Constraint:
    by_domain: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        by_domain[domain_of(value)].append(value)
    points = {d: Intervals.points(ORDERS[d], found) for d, found in by_domain.items()}
    return Constraint({d: Strings(p) if d == STRING else p for d, p in points.items()})


def _hashed(value: Any) -> int:
    """A number that is the same for equal values, in every process and from year to year."""
    if value.__class__ is str:
        return crc32(value.encode("utf-8", "surrogatepass"))
    if value.__class__ is bytes:
        return crc32(b"bytes " + value)
    if value.__class__ is datetime:
        return crc32(b"time %d" % microseconds(value))
    if value.__class__ is bool:
        return crc32(b"true" if value else b"false")
    is_whole = value == value and abs(value) != float("inf") and value == int(value)
    return crc32(f"number {int(value) if is_whole else value!r}".encode())


class Concerned:
    """Which rows of a lake concern a part."""

    def __init__(self, attributes: Sequence[str], columns: Columns, count: int) -> None:
        self.used = [
            column
            for name in attributes
            for kind, column in columns.get(name, {}).items()
            if kind not in ("set", "present")
        ]
        self._count = count
        self._known: dict[Any, int] = {}

    def rows(self, batch: pa.RecordBatch, number: int) -> Any:
        """The numbers of the rows to show to a part with values: all that may match there."""
        wanted = np.array(batch[REST].is_valid())
        for name in self.used:
            if batch[name].null_count < batch.num_rows:
                wanted |= self._parts(batch[name]) == number
        return np.flatnonzero(wanted)

    def _parts(self, column: Any) -> Any:
        """For each row, the part of its value; -1 if it has none."""
        if not isinstance(column, pa.DictionaryArray):
            column = column.dictionary_encode()
        parts = [self._part(value) for value in column.dictionary.to_pylist()]
        codes = column.indices.fill_null(len(parts)).to_numpy(zero_copy_only=False)
        return np.array([*parts, -1], np.int64)[codes]

    def _part(self, value: Any) -> int:
        if value is None:
            return -1
        if value.__class__ not in (str, bytes):
            return _hashed(value) % self._count
        part = self._known.get(value)
        if part is None:
            if len(self._known) > 1_000_000:
                self._known.clear()
            part = self._known[value] = _hashed(value) % self._count
        return part
