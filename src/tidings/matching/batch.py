"""Batches: many events at once, as an Arrow table.

Columns become keys in bulk: a column of keys for each line that the segment knows. What a segment
still has to check in Python is looked up in the columns concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from tidings.matching.lines import BIG, Line
from tidings.matching.segment import Scratch, Segment

I64 = npt.NDArray[np.int64]
_ROOM: Final = 1 << 18


class Batch:
    """The events of a table, column by column. Nested columns flatten to dotted names."""

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
            elif name in self.columns:
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


def match(segment: Segment, batch: Batch, version: int) -> tuple[I64, I64]:
    """Pairs of event and row, for the rows alive at `version` whose filters match the event."""
    table, lines = _keys(segment, batch)
    more, more_off = _elements(segment, batch)
    scratch = Scratch(segment)
    longest = int(np.diff(more_off).max()) if len(more) else 0
    event = np.empty(2 * len(lines) + longest, np.int64)
    out = np.empty(max(segment.most, _ROOM), np.int32)
    rows = np.empty(len(out), np.int32)
    count = np.zeros(1, np.int64)
    found: list[tuple[I64, I64]] = []
    first = 0
    while first < batch.length:
        first = kernels.match_rows(
            segment.i64, segment.i32, segment.bits, segment.source.died, scratch.seen,
            version if segment.source.dead else -1, table, lines, more, more_off,
            first, segment.most, event, scratch.keys, scratch.work, out, rows, count,
        )  # fmt: skip
        events, answers = rows[: count[0]].astype(np.int64), out[: count[0]].astype(np.int64)
        if segment.source.rest and len(answers) and answers.min() < 0:
            events, answers = _settled(segment, batch, events, answers)
        found.append((events, answers))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([e for e, _ in found]), np.concatenate([a for _, a in found])


def _settled(segment: Segment, batch: Batch, events: I64, answers: I64) -> tuple[I64, I64]:
    """Check in Python what the arrays don't express, event by event."""
    settled_events: list[int] = []
    settled: list[int] = []
    for group in np.split(np.arange(len(events)), np.flatnonzero(np.diff(events)) + 1):
        row = int(events[group[0]])
        rows = segment.checked(answers[group].tolist(), _Event(batch, row))
        settled += rows
        settled_events += [row] * len(rows)
    return np.array(settled_events, np.int64), np.array(settled, np.int64)


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


def _keys(segment: Segment, batch: Batch) -> tuple[I64, I64]:
    """The table of keys and the lines of its columns."""
    columns: list[I64] = []
    lines: list[int] = []
    for name, column in batch.columns.items():
        named = segment.lines.by_attribute.get(name)
        line = None if named is None else named.get(_python_type(column.type, name))
        if line is not None and line.number < segment.line_count and not line.elements:
            columns.append(_column_keys(segment, line, batch, name))
            lines.append(line.number)
    table = np.empty((batch.length, len(lines)), np.int64)
    for at, keys in enumerate(columns):
        table[:, at] = keys
    return table, np.array(lines, np.int64)


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


def _column_keys(segment: Segment, line: Line, batch: Batch, name: str) -> I64:
    column = batch.column(name)
    if line.domain == "number":
        keys = _number_keys(segment, line, column, name)
    elif line.domain == "time":
        keys = np.array(pc.fill_null(column.cast(pa.int64()), 0))
    elif line.domain == "boolean":
        keys = np.array(pc.fill_null(column, False).cast(pa.int64()))
    else:
        encoded = column.dictionary_encode()
        known = [segment.key(line, value) for value in encoded.dictionary.to_pylist()]
        keys = np.array(known or [0], np.int64)[np.array(pc.fill_null(encoded.indices, 0))]
    keys = np.array(keys, np.int64)
    if column.null_count:
        keys[np.array(column.is_null())] = ABSENT
    return keys


def _number_keys(segment: Segment, line: Line, column: Any, name: str) -> I64:
    if pa.types.is_integer(column.type):
        whole = np.array(pc.fill_null(column, 0))
        values = whole.astype(np.float64)
    else:
        whole = values = np.array(pc.fill_null(column.cast(pa.float64()), 0.0))
        if np.isnan(values).any():
            row = int(np.flatnonzero(np.isnan(values))[0])
            raise NotificationError(f"row {row} is NaN, which can't be compared", field=name)
    keys = values.view(np.int64).copy()
    kernels.number_keys(keys)
    for row in np.flatnonzero(np.abs(values) >= BIG).tolist():
        keys[row] = segment.key(line, whole[row].item())
    return keys


def _elements(segment: Segment, batch: Batch) -> tuple[I64, I64]:
    """Pairs of line and key for the elements of set-valued columns that the segment knows."""
    pairs: list[list[int]] = []
    for name in batch.columns:
        line = segment.lines.by_attribute.get(name, {}).get(frozenset)
        if line is None or line.number not in segment.ranks:
            continue
        known = segment.ranks[line.number].keys
        pairs = pairs or [[] for _ in range(batch.length)]
        for row, value in enumerate(batch.values(name)):
            for element in value if isinstance(value, frozenset) else ():
                if element in known:
                    pairs[row] += (line.number, known[element])
    more = np.array([p for row in pairs for p in row], np.int64)
    return more, np.cumsum([0] + [len(row) for row in pairs]).astype(np.int64)
