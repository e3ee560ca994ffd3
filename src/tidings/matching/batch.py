"""Batches: many events at once, as an Arrow table.

Columns become keys in bulk: a column of keys for each line that the segment knows. What a segment
still has to check in Python is looked up in the columns concerned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidings.events.errors import NotificationError, TidingsError
from tidings.events.values import canonical
from tidings.matching import kernels
from tidings.matching.kernels import ABSENT
from tidings.matching.lines import BIG, Line, number_keys
from tidings.matching.segment import Scratch, Segment

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
_ROOM: Final = 1 << 18
_FOR_A_THREAD: Final = 8_192
"""Events for which another thread is worth its start."""


class Batch:
    """The events of a table, column by column. Structs flatten to dotted names, and are present."""

    def __init__(self, table: Any) -> None:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        self.length: int = table.num_rows
        self.columns: dict[str, Any] = {}
        waiting = list(zip(table.column_names, table.columns, strict=True))
        while waiting:
            name, column = waiting.pop()
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if pa.types.is_struct(column.type):
                parts = zip([f.name for f in column.type], column.flatten(), strict=True)
                waiting += [(f"{name}.{part}", values) for part, values in parts]
                column = presences(column)
            if name in self.columns:
                raise NotificationError("given twice (once flattened)", field=name)
            elif not pa.types.is_null(column.type):
                self.columns[name] = column
        self._plain: dict[str, Any] = {}
        self._values: dict[str, list[Any]] = {}

    def column(self, name: str) -> Any:
        """A column without dictionary, and its times in UTC, to the microsecond."""
        if name not in self._plain:
            self._plain[name] = _plain(self.columns[name], name)
        return self._plain[name]

    def values(self, name: str) -> list[Any]:
        """A column's canonical values; None where the attribute is absent."""
        if name not in self._values:
            self._values[name] = [self._value(name, row) for row in range(self.length)]
        return self._values[name]

    def _value(self, name: str, row: int) -> Any:
        try:
            value = self.column(name)[row].as_py()
            return None if value is None else canonical(value, name)
        except (NotificationError, OverflowError) as problem:
            reason = str(problem).removeprefix(f"attribute {name!r}: ")
            raise NotificationError(f"row {row}: {reason}", field=name) from None

    def event(self, row: int) -> dict[str, Any]:
        """One event's attributes."""
        found = ((name, self.values(name)[row]) for name in self.columns)
        return {name: value for name, value in found if value is not None}

    def sample(self, count: int) -> list[dict[str, Any]]:
        """About this many events; what can't be read is left to those who ask for it."""
        rows = range(0, self.length, max(1, self.length // count))
        events: list[dict[str, Any]] = [{} for _ in rows]
        for name in self.columns:
            with suppress(NotificationError):
                for event, row in zip(events, rows, strict=True):
                    value = self._value(name, row)
                    if value is not None:
                        event[name] = value
        return events


def presences(column: Any) -> Any:
    """A column for what is present where this one is not null, without a value to compare.

    >>> Batch(pa.table({"x": presences(pa.array([True, None]))})).values("x")
    [PRESENT, None]
    """
    absent = np.asarray(column.is_null())
    return _SOMETHING.take(pa.array(np.zeros(len(absent), np.int8), mask=absent))


_SOMETHING: Final = pa.array([[[]]], pa.list_(pa.list_(pa.bool_())))
"""A list of lists, which is no set."""


class _Event(Mapping[str, Any]):
    """One event of a batch, as far as somebody looks."""

    def __init__(self, batch: Batch, row: int) -> None:
        self._batch, self._row = batch, row

    def __getitem__(self, name: str) -> Any:
        if name in self._batch.columns:
            value = self._batch.values(name)[self._row]
            if value is not None:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch.event(self._row))

    def __len__(self) -> int:
        return len(self._batch.event(self._row))


def match(
    segment: Segment, batch: Batch, version: int, threads: int | None = None
) -> tuple[I32, I32]:
    """Pairs of event and row, for the rows alive at `version` whose filters match the event."""
    most = (os.cpu_count() or 1) if threads is None else threads
    shares = max(1, min(most, batch.length // _FOR_A_THREAD))
    bounds = [batch.length * share // shares for share in range(shares + 1)]

    def matched(spread: Any) -> list[tuple[I32, I32]]:
        prepared = (*_laid_out(segment, batch, spread), *_elements(segment, batch))
        parts = spread(
            lambda first, last: _match_part(segment, version, prepared, first, last),
            bounds[:-1],
            bounds[1:],
        )
        return [pair for part in parts for pair in part]

    if shares == 1:  # a thread costs as much as hundreds of events
        found = matched(map)
    else:
        with ThreadPoolExecutor(shares) as pool:  # kernels, NumPy and Arrow release the GIL
            found = matched(pool.map)
    if len(found) == 1:
        events, answers = found[0]
    else:
        nothing = np.zeros(0, np.int32)
        events = np.concatenate([nothing, *(e for e, _ in found)])
        answers = np.concatenate([nothing, *(a for _, a in found)])
    if segment.source.rest and len(answers) and answers.min() < 0:
        return _settled(segment, batch, events, answers)
    return events, answers


def _match_part(
    segment: Segment, version: int, prepared: tuple[Any, ...], first: int, last: int
) -> list[tuple[I32, I32]]:
    """Pairs for some of the events, in pieces as large as the buffers."""
    scratch = Scratch(segment)
    out = np.empty(max(segment.most, _ROOM), np.int32)
    rows = np.empty(len(out), np.int32)
    count = np.zeros(1, np.int64)
    found: list[tuple[I32, I32]] = []
    while first < last:
        first = kernels.match_rows(
            segment.i64, segment.i32, segment.bits, segment.source.died, scratch.seen,
            version if segment.source.dead else -1, *prepared,  # type: ignore[call-arg]
            first, last, segment.most, scratch.keys, scratch.work, out, rows, count,
        )  # fmt: skip
        pair = rows[: count[0]], out[: count[0]]
        # A piece may be small, and the buffers large; but the last one need not be copied.
        found.append(pair if first == last else (pair[0].copy(), pair[1].copy()))
    return found


def _settled(segment: Segment, batch: Batch, events: I32, answers: I32) -> tuple[I32, I32]:
    """Check in Python what the arrays don't express, event by event."""
    settled_events: list[int] = []
    settled: list[int] = []
    for group in np.split(np.arange(len(events)), np.flatnonzero(np.diff(events)) + 1):
        row = int(events[group[0]])
        rows = segment.checked(answers[group].tolist(), _Event(batch, row))
        settled += rows
        settled_events += [row] * len(rows)
    return np.array(settled_events, np.int32), np.array(settled, np.int32)


def key_column(keys: npt.NDArray[Any]) -> pa.Array:
    """Keys as an Arrow array; `TidingsError` if there is none that holds them as they are."""
    try:
        column = pa.array(keys)
        if not pa.types.is_nested(column.type):
            return column
        reason = f"{keys[0]!r} would come back as a list"
    except (pa.ArrowException, OverflowError) as problem:
        reason = str(problem)
    raise TidingsError(
        "match_batch returns all keys as one Arrow array, so they must be of one kind, such as "
        f"integers or strings: {reason}. (match takes any keys.)"
    )


def _laid_out(
    segment: Segment, batch: Batch, spread: Any
) -> tuple[I64, I64, npt.NDArray[np.uint8], I32, I64]:
    """The batch as `kernels.match_rows` takes it: table, lines, floats, places, probes."""
    known: list[tuple[Line, str]] = []
    for name, column in batch.columns.items():
        types = segment.lines.by_attribute.get(name)
        line = types.get(_python_type(column.type, name)) if types else None
        if line is not None and segment.uses(line) and not line.elements:
            known.append((line, name))
    lines = np.array([line.number for line, _ in known], np.int64)
    table = np.empty((len(known), batch.length), np.int64)
    columns = spread(lambda at: _column(segment, batch, *known[at], table[at]), range(len(known)))
    floats, found = zip(*columns, strict=True) if known else ((), ())
    places = [p for p in found if p is not None]
    return (
        table,
        lines,
        np.array(floats, np.uint8),
        np.array(places, np.int32).reshape(len(places), batch.length),
        np.array([at for at, (line, _) in enumerate(known) if segment.probes(line)], np.int64),
    )


def _column(
    segment: Segment, batch: Batch, line: Line, name: str, cells: I64
) -> tuple[bool, I32 | None]:
    """Write a column's cells; whether they are bits of floats, and the postings of its values."""
    posted = len(segment.posted_keys(line)) > 0
    if line.domain in ("string", "bytes"):
        encoded = _encoded(batch, name)
        keys = segment.text_keys(line, encoded.dictionary.to_pylist())
        distinct = np.array([*keys, ABSENT], np.int64)
        codes = np.asarray(pc.fill_null(encoded.indices, len(keys)))
        np.take(distinct, codes, out=cells)
        return False, segment.posting(line, distinct)[codes] if posted else None
    cells[:], are_floats = _cells(segment, line, batch.column(name), name)
    if not posted:
        return are_floats, None
    if are_floats:  # few lines have postings by number, so only these pay for the keys
        cells[:] = _keys_of_floats(cells)
    return False, segment.posting(line, cells)


def _encoded(batch: Batch, name: str) -> Any:
    """A column of strings as a dictionary: its own, unless that has more than there are rows."""
    column = batch.columns[name]
    if pa.types.is_dictionary(column.type):
        values = column.dictionary
        if len(values) <= batch.length and not values.null_count:
            return column
    return batch.column(name).dictionary_encode()


def _python_type(kind: Any, name: str) -> type:
    """The Python type of a column's canonical values."""
    t = pa.types
    if t.is_dictionary(kind):
        return _python_type(kind.value_type, name)
    for belongs, python in (
        (t.is_boolean, bool),
        (t.is_integer, int),
        (t.is_floating, float),
        (t.is_string, str),
        (t.is_large_string, str),
        (t.is_string_view, str),
        (t.is_timestamp, datetime),
        (t.is_binary, bytes),
        (t.is_large_binary, bytes),
        (t.is_fixed_size_binary, bytes),
        (t.is_binary_view, bytes),
        (t.is_nested, frozenset),
    ):
        if belongs(kind):
            return python
    raise NotificationError(f"a column of {kind} holds no values of a known domain", field=name)


def _plain(column: Any, name: str) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    wanted = pa.timestamp("us", "UTC")
    times = kind
    if _is_list(kind):
        times, wanted = kind.value_type, pa.list_(wanted)
    if not pa.types.is_timestamp(times):
        return column
    try:
        return column.cast(wanted)  # a time without a zone is taken to be UTC
    except pa.ArrowInvalid as problem:
        raise NotificationError(
            f"times are exact to the microsecond: {problem}", field=name
        ) from None


def _is_list(kind: Any) -> bool:
    t = pa.types
    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _cells(segment: Segment, line: Line, column: Any, name: str) -> tuple[I64, bool]:
    """The cells of a column that is not of strings, and whether they are the bits of floats."""
    if line.domain == "number":
        return _numbers(segment, line, column, name)
    return np.asarray(pc.fill_null(column.cast(pa.int64()), ABSENT)), False


def _numbers(segment: Segment, line: Line, column: Any, name: str) -> tuple[I64, bool]:
    """Floats where every number is one exactly, with NaN for null; else keys."""
    null = np.asarray(column.is_null()) if column.null_count else None
    if pa.types.is_integer(column.type):
        numbers = np.asarray(pc.fill_null(column, 0))
        values = numbers.astype(np.float64)
    else:
        numbers = values = np.array(pc.fill_null(column.cast(pa.float64()), 0.0))
        if np.isnan(values.min(initial=0.0)):
            row = int(np.flatnonzero(np.isnan(values))[0])
            raise NotificationError(f"row {row} is NaN, which can't be compared", field=name)
    if values.max(initial=0.0) < BIG and values.min(initial=0.0) > -BIG:
        if null is not None:
            values[null] = np.nan
        return values.view(np.int64), True
    keys = _keys_of_floats(values.view(np.int64))
    for row in np.flatnonzero(np.abs(values) >= BIG).tolist():
        keys[row] = segment.key(line, numbers[row].item())
    if null is not None:
        keys[null] = ABSENT
    return keys, False


def _keys_of_floats(bits: I64) -> I64:
    values = bits.view(np.float64)
    return np.where(np.isnan(values), ABSENT, number_keys(values))


def _elements(segment: Segment, batch: Batch) -> tuple[I64, I64]:
    """The postings of the elements of set-valued columns, event by event."""
    found: list[list[int]] = []
    for name in batch.columns:
        line = segment.lines.by_attribute.get(name, {}).get(frozenset)
        if line is None or line.number not in segment.ranks:
            continue
        keys = segment.ranks[line.number].keys
        places = segment.posting(line, np.array(list(keys.values()), np.int64)).tolist()
        known = {e: place for e, place in zip(keys, places, strict=True) if place >= 0}
        found = found or [[] for _ in range(batch.length)]
        for row, value in enumerate(batch.values(name)):
            if isinstance(value, frozenset):
                found[row] += [known[e] for e in value if e in known]
    more = np.array([p for row in found for p in row], np.int64)
    return more, np.cumsum([0] + [len(row) for row in found]).astype(np.int64)
