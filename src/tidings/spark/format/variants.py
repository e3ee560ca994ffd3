"""Variants: values of events in the binary form of Spark's VARIANT, and back.

Each value is the variant that a cast gives back as it was: strings, booleans and bytes as such,
times as TIMESTAMP, floats as DOUBLE, and sets as arrays in the order of their JSON. A whole number
is the smallest of TINYINT to BIGINT that holds it, or else DECIMAL. Of more than 38 digits, it is a
DOUBLE if that is exact, or else a STRING of its digits: a cast to DOUBLE then gives the nearest,
and nothing is lost. Objects, and lists of more than scalars, are what they are in the event's body.

The form is that of `VariantEncoding.md` of Parquet. (PySpark's own reader rounds decimals of more
than 28 digits, and knows days, which events do not.) Nothing here knows of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate, chain
from struct import Struct
from typing import Any, Final

import pyarrow as pa

from tidings.events import Notification, NotificationError, TidingsError
from tidings.events.encoding import DEPTH, TOO_DEEP, encode_json
from tidings.events.values import (
    EPOCH,
    PRESENT,
    Present,
    Truth,
    element_order,
    microseconds,
)

_SHORT, _OBJECT, _ARRAY = 1, 2, 3
"""What the two lowest bits of the first byte say; the others say more. 0 is any other scalar."""
_NULL: Final = b"\x00"
_TRUE: Final = b"\x04"
_FALSE: Final = b"\x08"
_BYTE: Final = [bytes([3 << 2, n]) for n in range(256)]
"""By value: from 0 on, and those below 0 from the end."""
_SHORTINT: Final = Struct("<Bh")
_INT: Final = Struct("<Bi")
_BIGINT: Final = Struct("<Bq")
_DOUBLE: Final = Struct("<Bd")
_SIZED: Final = Struct("<BI")
_MOST: Final = 10**38
"""A decimal is smaller."""
_NO_NAMES: Final = b"\x01\x00\x00"
"""The metadata of a variant, which are the names that occur in it: version 1, none."""


# -- writing -----------------------------------------------------------------------------------


def encode(value: object) -> tuple[bytes, bytes]:
    """A canonical value of a notification, or a value of JSON, as a variant: its value and its
    metadata.

    >>> encode(7), encode("DIS")[0]
    ((b'\\x0c\\x07', b'\\x01\\x00\\x00'), b'\\rDIS')
    """
    return _ENCODE[value.__class__](value), _names(value)


def variants(said: Sequence[Notification], kind: pa.MapType) -> pa.MapArray:
    """The attributes of events as maps from their names to variants."""
    records = list(map(_with_objects, said))
    offsets = [0, *accumulate(map(len, records))]
    values = list(chain.from_iterable(record.values() for record in records))
    encoded = [_ENCODE[value.__class__](value) for value in values]
    if any(value.__class__ is list or value.__class__ is dict for value in values):
        names = pa.array(map(_names, values), pa.binary(), size=len(values))
    else:
        names = pa.repeat(pa.scalar(_NO_NAMES, pa.binary()), len(values))
    items = pa.StructArray.from_arrays(
        [pa.array(encoded, pa.binary()), names], fields=list(kind.item_type)
    )
    keys = pa.array(list(chain.from_iterable(records)), kind.key_type)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind)


def _with_objects(said: Notification) -> Mapping[str, object]:
    """The attributes, and of what is but present the value that the body has."""
    values = said.attributes
    if said.content is None or PRESENT not in values.values():
        return values
    try:
        whole = said.value
    except NotificationError:  # deeper than there is room for on this stack
        return values
    found = _objects_in(whole) if whole.__class__ is dict else ()
    return {**values, **{name: v for name, v in found if values.get(name) is PRESENT}}


def _objects_in(whole: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """All objects and lists that have a dotted name, which is theirs."""
    waiting = list(whole.items())
    while waiting:
        name, value = waiting.pop()
        if value.__class__ is dict:
            waiting += [(f"{name}.{inner}", each) for inner, each in value.items()]
            yield name, value
        elif value.__class__ is list:
            yield name, value


def _string(value: Any) -> bytes:
    text: bytes = value.encode()
    size = len(text)
    return bytes((size << 2 | _SHORT,)) + text if size < 64 else _SIZED.pack(16 << 2, size) + text


def _bytes(value: Any) -> bytes:
    return _SIZED.pack(15 << 2, len(value)) + bytes(value)


def _boolean(value: Any) -> bytes:
    return _TRUE if value else _FALSE


def _integer(value: int) -> bytes:
    if -0x80 <= value < 0x80:
        return _BYTE[value]
    if -0x8000 <= value < 0x8000:
        return _SHORTINT.pack(4 << 2, value)
    if -0x80000000 <= value < 0x80000000:
        return _INT.pack(5 << 2, value)
    if -(1 << 63) <= value < 1 << 63:
        return _BIGINT.pack(6 << 2, value)
    if -_MOST < value < _MOST:
        return b"\x28\x00" + value.to_bytes(16, "little", signed=True)  # scale 0
    try:
        if float(value) == value:
            return _double(value)
    except OverflowError:
        pass
    return _string(str(Decimal(value)))  # of an int, Python writes no more than 4300 digits


def _double(value: Any) -> bytes:
    return _DOUBLE.pack(7 << 2, value)


def _time(value: Any) -> bytes:
    return _BIGINT.pack(12 << 2, microseconds(value))


def _set(value: Any) -> bytes:
    return _array([_ENCODE[m.__class__](m) for m in sorted(value, key=element_order)])


def _json(value: Any) -> bytes:
    return _nested(value, {name: n for n, name in enumerate(_names_in(value))}, DEPTH)


def _nested(value: Any, places: dict[str, int], room: int) -> bytes:
    """What is nested; what is nested deeper than there is room for is text.

    Nobody can publish such a thing, but a lake may have it: its bodies are not looked at again.
    """
    if value.__class__ is not list and value.__class__ is not dict:
        return _ENCODE[value.__class__](value)
    if room == 0:
        return _string(encode_json(value))
    if value.__class__ is list:
        return _array([_nested(member, places, room - 1) for member in value])
    return _object({places[n]: _nested(value[n], places, room - 1) for n in sorted(value)})


def _array(members: Sequence[bytes]) -> bytes:
    offsets, width = _offsets(members)
    is_long, size = _size(members)
    return bytes((is_long << 4 | (width - 1) << 2 | _ARRAY,)) + size + offsets + b"".join(members)


def _object(fields: dict[int, bytes]) -> bytes:
    """In the order of the names, which is also that of their places."""
    members = list(fields.values())
    offsets, width = _offsets(members)
    is_long, size = _size(members)
    wide = _width(max(fields, default=0))
    head = bytes((is_long << 6 | (wide - 1) << 4 | (width - 1) << 2 | _OBJECT,))
    return head + size + _numbers(fields, wide) + offsets + b"".join(members)


def _size(members: Sequence[bytes]) -> tuple[bool, bytes]:
    is_long = len(members) > 0xFF
    return is_long, len(members).to_bytes(4 if is_long else 1, "little")


def _offsets(members: Sequence[bytes]) -> tuple[bytes, int]:
    """Where each member begins, and where the last one ends; and how many bytes that takes."""
    offsets = list(accumulate(map(len, members), initial=0))
    width = _width(offsets[-1])
    return _numbers(offsets, width), width


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _numbers(numbers: Iterable[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _names(value: object) -> bytes:
    is_nested = value.__class__ is list or value.__class__ is dict
    names = [name.encode() for name in _names_in(value)] if is_nested else []
    if not names:
        return _NO_NAMES
    ends = list(accumulate(map(len, names), initial=0))
    width = _width(max(ends[-1], len(names)))
    return bytes((1 | (width - 1) << 6,)) + _numbers([len(names), *ends], width) + b"".join(names)


def _names_in(value: Any) -> list[str]:
    found: set[str] = set()
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if inner.__class__ is dict:
            found.update(inner)
            waiting += inner.values()
        elif inner.__class__ is list:
            waiting += inner
    return sorted(found)


_ENCODE: Final[dict[type, Callable[[Any], bytes]]] = {
    str: _string,
    bool: _boolean,
    int: _integer,
    float: _double,
    datetime: _time,
    bytes: _bytes,
    frozenset: _set,
    Truth: lambda value: _boolean(value.value),
    list: _json,
    dict: _json,
    Present: lambda _: _object({}),
    type(None): lambda _: _NULL,
}


# -- reading -----------------------------------------------------------------------------------


def decode(value: bytes, metadata: bytes) -> object:
    """A variant as a value that `Notification` takes: of what `encode` makes, the same.

    A date is its midnight in UTC, a time without a zone is in UTC, and a decimal is a whole number,
    or else the nearest float. `TidingsError` if it is a variant of another kind, a time that Python
    does not have, or nested too deeply.
    """
    return _decode(value, 0, metadata, DEPTH)


def records(maps: pa.MapArray) -> list[dict[str, object]]:
    """The attributes of events that are maps from their names to variants; null has none."""
    return [
        without_parts({name: decode(**variant) for name, variant in (held or {}).items()})
        for held in maps.to_pylist(maps_as_pydicts="strict")
    ]


def without_parts(attributes: dict[str, object]) -> dict[str, object]:
    """What has all these attributes: of those that are there as part of an object, the object.

    >>> without_parts({"order": {"size": 1}, "order.size": 1, "order.by": "me"})
    {'order': {'size': 1}, 'order.by': 'me'}
    """
    parts: set[str] = set()
    waiting = [(name, value) for name, value in attributes.items() if value.__class__ is dict]
    while waiting:
        name, value = waiting.pop()
        for inner, each in value.items():
            parts.add(f"{name}.{inner}")
            if each.__class__ is dict:
                waiting.append((f"{name}.{inner}", each))
    return {name: v for name, v in attributes.items() if name not in parts} if parts else attributes


def _decode(value: bytes, at: int, names: bytes, room: int) -> object:
    """What begins here; it may be nested so deep."""
    basic, kind = value[at] & 3, value[at] >> 2
    at += 1
    if basic == _SHORT:
        return value[at : at + kind].decode()
    if basic and not room:
        raise TidingsError(f"a variant is {TOO_DEEP}")
    if basic == _OBJECT:
        return _decode_object(value, at, kind, names, room - 1)
    if basic == _ARRAY:
        members = _members(value, at, kind >> 2, 0, (kind & 3) + 1)
        return [_decode(value, member, names, room - 1) for member in members]
    read = _DECODE.get(kind)
    if read is None:
        raise TidingsError(f"a variant of kind {kind} is no value of a notification")
    return read(value, at)


def _decode_object(value: bytes, at: int, kind: int, names: bytes, room: int) -> dict[str, object]:
    wide = (kind >> 2 & 3) + 1
    members = _members(value, at, kind >> 4, wide, (kind & 3) + 1)
    at += 4 if kind >> 4 else 1
    return {
        _name(names, _number(value, at + wide * n, wide)): _decode(value, member, names, room)
        for n, member in enumerate(members)
    }


def _members(value: bytes, at: int, is_long: int, wide: int, width: int) -> list[int]:
    """Where the members begin, of an array or of an object with names of a width."""
    size = 4 if is_long else 1
    count = _number(value, at, size)
    at += size + wide * count
    begin = at + width * (count + 1)
    return [begin + _number(value, at + width * n, width) for n in range(count)]


def _name(names: bytes, place: int) -> str:
    width = (names[0] >> 6) + 1
    begin = 1 + width * (_number(names, 1, width) + 2)
    first, end = (_number(names, 1 + width * (place + n), width) for n in (1, 2))
    return names[begin + first : begin + end].decode()


def _number(value: bytes, at: int, width: int) -> int:
    return int.from_bytes(value[at : at + width], "little")


def _decode_decimal(value: bytes, at: int, width: int) -> int | float:
    number, unit = _signed(value, at + 1, width), int(10 ** value[at])
    return number / unit if number % unit else number // unit


def _signed(value: bytes, at: int, width: int) -> int:
    return int.from_bytes(value[at : at + width], "little", signed=True)


def _decode_time(value: bytes, at: int) -> datetime:
    return _after_epoch(microseconds=_signed(value, at, 8))


def _decode_date(value: bytes, at: int) -> datetime:
    return _after_epoch(days=_signed(value, at, 4))


def _after_epoch(**since: int) -> datetime:
    try:
        return EPOCH + timedelta(**since)
    except OverflowError:
        raise TidingsError("a time of an event lies in the years 1 to 9999") from None


def _decode_bytes(value: bytes, at: int) -> bytes:
    return bytes(value[at + 4 : at + 4 + _number(value, at, 4)])


_FLOAT: Final = Struct("<f")
_FLOAT8: Final = Struct("<d")
_DECODE: Final[dict[int, Callable[[bytes, int], object]]] = {
    0: lambda value, at: None,
    1: lambda value, at: True,
    2: lambda value, at: False,
    3: lambda value, at: _signed(value, at, 1),
    4: lambda value, at: _signed(value, at, 2),
    5: lambda value, at: _signed(value, at, 4),
    6: lambda value, at: _signed(value, at, 8),
    7: lambda value, at: _FLOAT8.unpack_from(value, at)[0],
    8: lambda value, at: _decode_decimal(value, at, 4),
    9: lambda value, at: _decode_decimal(value, at, 8),
    10: lambda value, at: _decode_decimal(value, at, 16),
    11: _decode_date,
    12: _decode_time,
    13: _decode_time,
    14: lambda value, at: _FLOAT.unpack_from(value, at)[0],
    15: _decode_bytes,
    16: lambda value, at: _decode_bytes(value, at).decode(),
}
