"""Filling: events become columns, as `layout` says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.events import TidingsError
from tidings.events.encoding import encode_json, to_plain
from tidings.spark.layout import (
    EPOCH,
    FIXED,
    KINDS,
    MICROSECOND,
    REST,
    Happened,
    columns_of,
    days,
    microseconds,
)

_BIG: Final = 2**53
_KIND_OF: Final[dict[type, str]] = {
    bool: "boolean",
    float: "double",
    str: "string",
    datetime: "time",
    bytes: "bytes",
}
_NAME: Final = re.compile(r"(?!_)[\w.:@/#+-]{1,128}")
_MOST: Final = 1_000
"""A lake has no more columns than this, whatever is published; the others are in the rest."""


def to_table(events: Sequence[Happened], schema: pa.Schema) -> pa.Table:
    """The events as rows: all columns of `schema`, and behind them those that are new."""
    writing = _Writing(events, schema)
    records = writing.records
    for name in dict.fromkeys(chain.from_iterable(records)):
        writing.write(name, [record.get(name) for record in records])
    return writing.table()


class _Writing:
    """Columns while they are filled."""

    def __init__(self, events: Sequence[Happened], schema: pa.Schema) -> None:
        self.records = [event.notification.attributes for event in events]
        self._events = events
        self._schema = schema
        self._columns = columns_of(schema)
        self._folded = {_folded(name): name for name in self._columns}
        self._count = len(schema)
        self._arrays: dict[str, pa.Array] = {}
        self._rest: dict[int, dict[str, object]] = {}

    def write(self, name: str, values: list[Any]) -> None:
        """Write all values of an attribute; None is absence."""
        types = set(map(type, values)) - {type(None)}
        kind = _KIND_OF.get(next(iter(types))) if len(types) == 1 else None
        if kind is not None and kind != "double":
            self._put(name, kind, values)
            return
        if types <= {int, float}:
            self._put_numbers(name, values, has_floats=float in types)
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
            self._put_numbers(name, joint, has_floats=numbers[0] is not None)

    def _put_numbers(self, name: str, values: list[Any], *, has_floats: bool) -> None:
        known = [k for k in self._columns.get(name, ()) if k in ("integer", "double")]
        first = known[0] if known else "double" if has_floats else "integer"
        if first == "integer" and not has_floats:
            try:
                self._put(name, first, pa.array(values, pa.int64()))
                return
            except OverflowError:
                pass
        if first == "double":  # small integers are with the floats
            are_inside = all(v.__class__ is not int or -_BIG <= v <= _BIG for v in values)
            if are_inside:
                self._put(name, first, [None if v is None else float(v) for v in values])
                return
        split: dict[str, list[Any]] = defaultdict(lambda: [None] * len(values))
        for row, value in enumerate(values):
            if value is None:
                continue
            kind = "double" if value.__class__ is float else _kind_of_other(value)
            if kind == "integer" and first == "double" and -_BIG <= value <= _BIG:
                kind, value = "double", float(value)
            split[kind][row] = value
        for kind in sorted(split, key=lambda k: k != first):
            self._put(name, kind, split[kind])

    def _put(self, name: str, kind: str, values: Any) -> None:
        column = self._column(name, kind)
        if column is None:
            for row, value in enumerate(values):
                value = value.as_py() if isinstance(value, pa.Scalar) else value
                if value is not None:
                    self._rest.setdefault(row, {})[name] = value
            return
        if kind == "set":
            values = [None if v is None else sorted(v) for v in values]
        elif kind == "time":
            values = [None if v is None else (v - EPOCH) // MICROSECOND for v in values]
        self._arrays[column] = pa.array(values, KINDS[kind])

    def _column(self, name: str, kind: str) -> str | None:
        """The column for an attribute's values of a kind, perhaps a new one; None: the rest."""
        if kind not in KINDS:
            return None
        kinds = self._columns.get(name)
        if kinds is not None and kind in kinds:
            return kinds[kind]
        if self._count >= _MOST or self._folded.get(_folded(name), name) != name:
            return None
        if _NAME.fullmatch(name) is None:
            return None
        is_plain = kinds is None and _folded(name) not in FIXED.names
        column = name if is_plain else f"{name}${kind}"
        self._columns.setdefault(name, {})[kind] = column
        self._folded[_folded(name)] = name
        self._count += 1
        return column

    def table(self) -> pa.Table:
        """The whole of it."""
        events = self._events
        streams, ticks = [e.stream for e in events], [e.tick for e in events]
        times = np.array([microseconds(e.time) for e in events], np.int64)
        fixed = {
            "id": pa.array([f"{s}:{t}" for s, t in zip(streams, ticks, strict=True)], pa.string()),
            "stream": pa.array(streams, pa.string()),
            "tick": pa.array(ticks, pa.int64()),
            "time": pa.array(times, pa.int64()).cast(KINDS["time"]),
            "day": days(times),
            REST: pa.array([self._said(row) for row in range(len(events))], pa.string()),
        }
        arrays = {}
        for field in self._schema:
            found = fixed.get(field.name, self._arrays.pop(field.name, None))
            arrays[field.name] = pa.nulls(len(events), field.type) if found is None else found
        return pa.table({**arrays, **self._arrays})

    def _said(self, row: int) -> str | None:
        if row not in self._rest:
            return None
        try:
            return encode_json({name: to_plain(v) for name, v in self._rest[row].items()})
        except (TypeError, ValueError) as problem:
            event = self._events[row]
            raise TidingsError(
                f"{event.stream}:{event.tick} cannot be written to the lake: {problem}"
            ) from None


def _kind_of_other(value: Any) -> str:
    if value.__class__ is int:
        return "integer" if -(2**63) <= value < 2**63 else REST
    if value.__class__ is frozenset and all(e.__class__ is str for e in value):
        return "set"
    return REST


def _folded(name: str) -> str:
    return name.lower().casefold()
