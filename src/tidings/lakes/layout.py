"""Layout: how events become columns of the lake, and how they come back, with nothing lost.

Each event is a row: `id` (`paris:17`), `stream`, `tick`, `time` (when it was published), `day` (of
that time, in UTC), and a column for each attribute. An attribute has a column for each kind of
value that it was seen with. The first has the attribute's name, any other one the kind behind it;
of kinds that are first seen in the same file, numbers come last::

    symbol          symbol = 'DIS'          the first kind
    price           price = 101.25, 101     a double holds whole numbers up to 2**53 exactly
    price$integer   price = 2**60           and this is where larger ones are
    time$time                               an attribute that is called as one of the fixed columns

Kinds are `boolean`, `integer` (64 bits), `double`, `string`, `time`, `bytes`, and `set` (of
strings). If the first numbers of an attribute are all integers, they make an integer column, and
floats are in `…$double` from then on. So a number comes back equal, but an integer that shares a
column with floats comes back as a float.

What fits no column is in `rest`, as JSON: larger integers, other sets, nested lists, and attributes
whose names cannot be those of columns everywhere (that is, names which differ from another one in
case only, begin with `_`, or have other characters than letters, digits and `_ . : @ / # + -`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.delivery.copies import ORDINARY
from tidings.events import Notification
from tidings.events.encoding import decode_json, from_plain
from tidings.events.values import EPOCH, MICROSECOND, canonical

EVERYTHING: Final = ORDINARY
"""What a lake is to have unless something else is said: all but the copies for bulk subscribers."""

DAY: Final = 86_400_000_000
_TIME: Final = pa.timestamp("us", "UTC")

REST: Final = "rest"
FIXED: Final = pa.schema(
    [
        ("id", pa.string()),
        ("stream", pa.string()),
        ("tick", pa.int64()),
        ("time", _TIME),
        ("day", pa.date32()),
        (REST, pa.string()),
    ]
)
"""The columns that every lake has."""

KINDS: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "time": _TIME,
    "bytes": pa.binary(),
    "set": pa.list_(pa.field("element", pa.string())),
}

Columns: TypeAlias = dict[str, dict[str, str]]
"""For each attribute the kinds it has columns for, in the order in which they came, and those."""


class Happened(Protocol):
    """An event with its place in its stream, as clients and nodes have it."""

    @property
    def stream(self) -> str: ...
    @property
    def tick(self) -> int: ...
    @property
    def time(self) -> Any: ...  # a datetime, or seconds since 1970
    @property
    def notification(self) -> Notification: ...


class Archived(NamedTuple):
    """An event of the lake."""

    stream: str
    tick: int
    time: datetime
    notification: Notification

    @property
    def id(self) -> str:
        """Stream and tick, like `paris:17`."""
        return f"{self.stream}:{self.tick}"


def columns_of(schema: pa.Schema) -> Columns:
    """Which columns of a lake hold which attribute.

    >>> schema = pa.schema([*FIXED, ("n", pa.int64()), ("n$double", pa.float64())])
    >>> columns_of(schema)
    {'n': {'integer': 'n', 'double': 'n$double'}}
    """
    found: Columns = {}
    for field in schema:
        if field.name not in FIXED.names:
            name, _, kind = field.name.partition("$")
            found.setdefault(name, {})[kind or _kind(field.type)] = field.name
    return found


def _kind(held: pa.DataType) -> str:
    """The kind of a column of a lake, or of a frame of Spark's that is made of one.

    Spark hands times over in the zone of its session, texts as large ones if it is told so, and
    columns that somebody has added may be narrower.
    """
    return next(kind for kind, belongs in _BELONGS if belongs(held))


_BELONGS: Final[tuple[tuple[str, Callable[[pa.DataType], bool]], ...]] = (
    ("boolean", pa.types.is_boolean),
    ("integer", pa.types.is_integer),
    ("double", pa.types.is_floating),
    ("string", pa.types.is_string),
    ("string", pa.types.is_large_string),
    ("time", pa.types.is_timestamp),
    ("bytes", pa.types.is_binary),
    ("bytes", pa.types.is_large_binary),
    ("set", pa.types.is_list),
    ("set", pa.types.is_large_list),
)


def days(times: Any) -> pa.Array:
    """The days of times in microseconds."""
    return pa.array((times // DAY).astype(np.int32), pa.int32()).cast(pa.date32())


# -- columns to events ---------------------------------------------------------------------------


def to_events(batch: pa.RecordBatch | pa.Table) -> Iterator[Archived]:
    """The events that rows of a lake say."""
    streams, ticks = batch["stream"].to_pylist(), batch["tick"].to_pylist()
    times = _values(batch["time"], "time")
    notifications = to_notifications(batch)
    yield from map(Archived, streams, ticks, times, notifications)


def to_notifications(batch: pa.RecordBatch | pa.Table) -> list[Notification]:
    """What the rows say; attributes without a column in the batch are absent."""
    records: list[dict[str, object]] = [{} for _ in range(batch.num_rows)]
    for name, kinds in columns_of(batch.schema).items():
        for kind, column in kinds.items():
            if batch[column].null_count == batch.num_rows:
                continue
            for record, value in zip(records, _values(batch[column], kind), strict=True):
                if value is not None:
                    record[name] = value
    if REST in batch.schema.names and batch[REST].null_count < batch.num_rows:
        for record, text in zip(records, batch[REST].to_pylist(), strict=True):
            if text is not None:
                for name, plain in decode_json(text).items():
                    record[name] = canonical(from_plain(plain), name)
    return list(map(Notification.of_canonical, records))


def _values(column: Any, kind: str) -> list[Any]:
    if kind == "time":
        counts = column.cast(pa.int64()).to_pylist()
        return [None if c is None else EPOCH + c * MICROSECOND for c in counts]
    if kind == "set":
        return _sets(column)
    values: list[Any] = column.to_pylist()
    return values


def _sets(column: Any) -> list[Any]:
    """A lake's own sets are of strings; an array that somebody has added may be any, or no set."""
    if pa.types.is_timestamp(column.type.value_type):
        column = column.cast(pa.list_(_TIME))
    is_own = column.type.value_type == pa.string() and not pc.list_flatten(column).null_count
    return [
        None if v is None else frozenset(v) if is_own else canonical(v, "an array")
        for v in column.to_pylist()
    ]
