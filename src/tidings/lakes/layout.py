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
strings); and of what is there without a value that a filter could look at, such as an object,
`present`: always in a column `data$present`, which holds true. If the first numbers of an attribute
are all integers, they make an integer column, and floats are in `…$double` from then on. So a
number comes back equal, but as an attribute, an integer that shares a column with floats comes back
as a float.

What fits no column is in `rest`, as JSON: larger integers, other sets, and attributes whose names
cannot be those of columns everywhere (that is, names which differ from another one in case only,
begin with `_`, or have other characters than letters, digits and `_ . : @ / # + -`).

`body` is what was published, where the columns do not say exactly that, and else null. They say it
if the notification's attributes do, if these come in the order of the columns (and those in `rest`
at the end), and if no integer has become a float. As columns are only ever added behind the others,
that stays so. `body` is text, so that every reader of Delta can look into it with its own functions
for JSON: the JSON value as it was published or, of bytes, `{"$body":{"type":…,"base64":…}}`, as
`Notification.to_json` has it. (A column of bytes, or a struct, would be opaque to most of them, and
base64 takes no more room once it is compressed.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.delivery.copies import ORDINARY
from tidings.events import Notification, NotificationError
from tidings.events.encoding import decode_json, from_plain
from tidings.events.values import EPOCH, MICROSECOND, PRESENT, canonical
from tidings.protocol.records import Body

EVERYTHING: Final = ORDINARY
"""What a lake is to have unless something else is said: all but the copies for bulk subscribers."""

DAY: Final = 86_400_000_000
_TIME: Final = pa.timestamp("us", "UTC")

REST: Final = "rest"
BODY: Final = "body"
FIXED: Final = pa.schema(
    [
        ("id", pa.string()),
        ("stream", pa.string()),
        ("tick", pa.int64()),
        ("time", _TIME),
        ("day", pa.date32()),
        (REST, pa.string()),
        (BODY, pa.string()),
    ]
)
"""The columns that every lake has."""

CONTENT: Final = "content"
CONTENT_TYPE: Final = "content_type"
RESERVED: Final = frozenset([*FIXED.names, CONTENT, CONTENT_TYPE])
"""Names of columns that readers have for what is no attribute: no attribute's column has one."""

KINDS: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "time": _TIME,
    "bytes": pa.binary(),
    "set": pa.list_(pa.field("element", pa.string())),
    "present": pa.bool_(),
}

_MAYBE_BYTES: Final = '"$body":{"type":'
"""What is in `body` where the body is bytes, and in few others."""

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


def is_presence(column: str) -> bool:
    """Whether a column of a lake only says that an attribute is there."""
    return column.endswith("$present")


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
    if _has_some(batch, REST):
        for record, text in zip(records, batch[REST].to_pylist(), strict=True):
            if text is not None:
                for name, plain in decode_json(text).items():
                    record[name] = PRESENT if plain == {} else canonical(from_plain(plain), name)
    if not _has_some(batch, BODY):
        return list(map(Notification.of_canonical, records))
    return list(map(_notification, records, batch[BODY].to_pylist()))


def _has_some(batch: pa.RecordBatch | pa.Table, column: str) -> bool:
    return column in batch.schema.names and batch[column].null_count < batch.num_rows


def _notification(record: dict[str, object], body: str | None) -> Notification:
    if body is None:
        return Notification.of_canonical(record)
    if _MAYBE_BYTES in body and (said := _bytes_in(body)) is not None:
        record = said.attributes or record  # they are beside it if columns have bent them
        return Notification.of_canonical(record, said.content, said.bytes_type)
    return Notification.of_canonical(record, body.encode())


def _bytes_in(body: str) -> Notification | None:
    try:
        said = Notification.from_json(body)
    except NotificationError:  # its publisher's attributes are not those of its body
        return None
    return None if said.bytes_type is None else said


def body_text(record: dict[str, Any], body: Body | None, *, is_exact: bool) -> str | None:
    """What is in `body` for attributes and a body beside them.

    `is_exact` says whether the attributes come back from their columns in the same order, and with
    the same numbers.
    """
    if body is None:
        return None if is_exact else Notification.of_canonical(record).to_json()
    if body.kind is None:
        return body.content.decode()
    beside = {} if is_exact else record
    return Notification.of_canonical(beside, body.content, body.kind).to_json()


def _values(column: Any, kind: str) -> list[Any]:
    if kind == "time":
        counts = column.cast(pa.int64()).to_pylist()
        return [None if c is None else EPOCH + c * MICROSECOND for c in counts]
    if kind == "set":
        return _sets(column)
    if kind == "present":
        return [PRESENT if is_there else None for is_there in column.is_valid().to_pylist()]
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
