"""Filling: events become columns, as `layout` says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.events import TidingsError
from tidings.events.encoding import encode_json, to_plain
from tidings.events.values import PRESENT, Present, microseconds
from tidings.lakes.layout import (
    BODY,
    KINDS,
    REST,
    Happened,
    body_text,
    days,
)
from tidings.lakes.naming import Naming, are_in_order
from tidings.protocol.records import Body, body_of
from tidings.protocol.runs import Rows

_BIG: Final = 2**53
_KIND_OF: Final[dict[type, str]] = {
    bool: "boolean",
    float: "double",
    str: "string",
    datetime: "time",
    bytes: "bytes",
    Present: "present",
}


def to_table(events: Sequence[Happened], schema: pa.Schema) -> pa.Table:
    """The events as rows: all columns of `schema`, and behind them those that are new."""
    streams = pa.array([e.stream for e in events], pa.string())
    ticks = pa.array([e.tick for e in events], pa.int64())
    times = np.array([microseconds(e.time) for e in events], np.int64)
    records = [event.notification.attributes for event in events]
    bodies = [body_of(event.notification) for event in events]
    return _Filling(streams, ticks, times, records, bodies, schema).table()


def rows_to_table(stream: str, rows: Rows, schema: pa.Schema) -> pa.Table:
    """Events in their lightest form as rows: all columns of `schema`, and behind them new ones."""
    streams = pa.repeat(pa.scalar(stream, pa.string()), len(rows.ticks))
    ticks = pa.array(rows.ticks, pa.int64())
    seconds = np.array(rows.times, np.float64)
    whole = seconds.astype(np.int64)
    times = whole * 1_000_000 + ((seconds - whole) * 1e6).astype(np.int64)  # as `microseconds`
    return _Filling(streams, ticks, times, rows.records, rows.bodies, schema).table()


class _Filling:
    """Columns while they are filled."""

    def __init__(
        self,
        streams: pa.Array,
        ticks: pa.Array,
        times: Any,
        records: Sequence[dict[str, object]],
        bodies: Sequence[Body | None],
        schema: pa.Schema,
    ) -> None:
        self._streams, self._ticks, self._times = streams, ticks, times
        self._schema = schema
        self._count = len(records)
        self._records, self._published = records, bodies
        self._naming = Naming(schema)
        self._arrays: dict[str, pa.Array] = {}
        self._rest: dict[int, dict[str, object]] = {}
        self._bent: set[int] = set()
        """Rows of which an integer is among floats."""
        names, values = _columns(records)
        self._names = names
        for name, column in values:
            self.write(name, column)

    def write(self, name: str, values: Sequence[Any]) -> None:
        """Write all values of an attribute; None is absence."""
        types = set(map(type, values)) - {type(None)}
        kind = _KIND_OF.get(next(iter(types))) if len(types) == 1 else None
        if kind is not None and kind != "double":
            self._put(name, kind, values)
            return
        if types <= {int, float}:
            self._put_numbers(name, values, has_floats=float in types, has_integers=int in types)
            return
        split: dict[str, list[Any]] = defaultdict(lambda: [None] * len(values))
        for row, value in enumerate(values):
            if value is not None:
                kind = _KIND_OF.get(value.__class__) or _kind_of_other(value)
                split[kind][row] = value
        numbers = [split.pop("double", None), split.pop("integer", None)]
        for kind, chosen in split.items():
            self._put(name, kind, chosen)
        if any(numbers):
            both = [v for v in numbers if v is not None]
            joint = [a if a is not None else b for a, b in zip(both[0], both[-1], strict=True)]
            has_floats, has_integers = (found is not None for found in numbers)
            self._put_numbers(name, joint, has_floats=has_floats, has_integers=has_integers)

    def _put_numbers(
        self, name: str, values: Sequence[Any], *, has_floats: bool, has_integers: bool
    ) -> None:
        known = [k for k in self._naming.columns.get(name, ()) if k in ("integer", "double")]
        first = known[0] if known else "double" if has_floats else "integer"
        if first == "integer" and not has_floats:
            try:
                self._put(name, first, pa.array(values, pa.int64()))
                return
            except OverflowError:
                pass
        if first == "double":  # small integers are with the floats
            is_float = not has_integers
            if is_float or all(v.__class__ is not int or -_BIG <= v <= _BIG for v in values):
                if not is_float:
                    self._bent.update(n for n, v in enumerate(values) if v.__class__ is int)
                self._put(name, first, values if is_float else _as_floats(values))
                return
        split: dict[str, list[Any]] = defaultdict(lambda: [None] * len(values))
        for row, value in enumerate(values):
            if value is None:
                continue
            kind = "double" if value.__class__ is float else _kind_of_other(value)
            if kind == "integer" and first == "double" and -_BIG <= value <= _BIG:
                kind, value = "double", float(value)
                self._bent.add(row)
            split[kind][row] = value
        for kind in sorted(split, key=lambda k: k != first):
            self._put(name, kind, split[kind])

    def _put(self, name: str, kind: str, values: Any) -> None:
        column = self._naming.column(name, kind)
        if column is None:
            for row, value in enumerate(values):
                value = value.as_py() if isinstance(value, pa.Scalar) else value
                if value is not None:
                    self._rest.setdefault(row, {})[name] = value
            return
        if kind == "set":
            values = [None if v is None else sorted(v) for v in values]
        elif kind == "present":
            values = [None if v is None else True for v in values]
        elif kind == "time":
            values = [None if v is None else microseconds(v) for v in values]
        self._arrays[column] = pa.array(values, KINDS[kind])

    def table(self) -> pa.Table:
        """The whole of it."""
        ids = pc.binary_join_element_wise(self._streams, self._ticks.cast(pa.string()), ":")
        fixed = {
            "id": ids,
            "stream": self._streams,
            "tick": self._ticks,
            "time": pa.array(self._times, pa.int64()).cast(KINDS["time"]),
            "day": days(self._times),
            REST: self._rests(),
            BODY: self._bodies(),
        }
        arrays = {}
        for field in self._schema:
            found = fixed.get(field.name, self._arrays.pop(field.name, None))
            arrays[field.name] = pa.nulls(self._count, field.type) if found is None else found
        return pa.table({**arrays, **self._arrays})

    def _bodies(self) -> pa.Array:
        """What was published, where it would not come back from the other columns."""
        bent = self._bent | self._disordered()
        published = self._published
        if not bent and published.count(None) == self._count:
            return pa.nulls(self._count, pa.string())
        texts = [
            body_text(record, body, is_exact=row not in bent)
            for row, (record, body) in enumerate(zip(self._records, published, strict=True))
        ]
        return pa.array(texts, pa.string())

    def _disordered(self) -> set[int]:
        """The rows whose attributes come in another order than their columns."""
        columns = self._naming.columns
        if self._names is not None and not self._rest:
            return set() if are_in_order(self._names, columns) else set(range(self._count))
        found: set[int] = set()
        known: dict[tuple[str, ...], bool] = {}
        for row, record in enumerate(self._records):
            names, rest = tuple(record), self._rest.get(row)
            if rest is not None:
                held = tuple([name for name in names if name not in rest])
                is_fine = names == (*held, *rest) and are_in_order(held, columns)
            else:
                is_fine = known[names] if names in known else are_in_order(names, columns)
                known[names] = is_fine
            if not is_fine:
                found.add(row)
        return found

    def _rests(self) -> pa.Array:
        if not self._rest:
            return pa.nulls(self._count, pa.string())
        return pa.array([self._said(row) for row in range(self._count)], pa.string())

    def _said(self, row: int) -> str | None:
        if row not in self._rest:
            return None
        try:
            return encode_json({name: _plain(v) for name, v in self._rest[row].items()})
        except TypeError as problem:  # of a domain that JSON cannot say
            place = f"{self._streams[row]}:{self._ticks[row]}"
            raise TidingsError(f"{place} cannot be written to the lake: {problem}") from None


def _columns(
    records: Sequence[dict[str, object]],
) -> tuple[list[str] | None, Iterator[tuple[str, Sequence[Any]]]]:
    """The names that all records have in the same order, if they do; and all values of each
    attribute, where None is absence."""
    names = list(records[0]) if records else []
    said = list(chain.from_iterable(records))
    if said == names * len(records):  # as mostly: a third of the time
        values = list(chain.from_iterable(map(dict.values, records)))
        return names, ((name, values[at :: len(names)]) for at, name in enumerate(names))
    return None, ((name, [r.get(name) for r in records]) for name in dict.fromkeys(said))


def _plain(value: object) -> object:
    return {} if value is PRESENT else to_plain(value)


def _kind_of_other(value: Any) -> str:
    if value.__class__ is int:
        return "integer" if -(2**63) <= value < 2**63 else REST
    if value.__class__ is frozenset and all(e.__class__ is str for e in value):
        return "set"
    return REST


def _as_floats(values: Sequence[Any]) -> list[Any]:
    return [None if v is None else float(v) for v in values]
