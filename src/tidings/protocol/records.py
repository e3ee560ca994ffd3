"""Records: notifications, filters and what a node stores, as bytes and back; `runs` are of events.

All of it is MessagePack. A notification is a map from names to values: times are timestamps, and
sets are arrays. A filter is a string, its JSON. What MessagePack lacks are extension types::

    1  an integer of more than 64 bits       two's complement, the highest byte first
    3  a notification that is more than      its map
       strings, numbers and booleans
    9  a notification with a body that its   an array: the notification without it, the names of
       attributes do not say                 attributes that are but present, the content type
                                             (nil: JSON), and the body

Stored values may hold more::

    4  a tuple                               an array
    5  a set                                 an array
    6  a filter                              its JSON
    7  a notification                        as above
    8  a mapping not only from strings       an array: key, value, key, value …

A body and its attributes are made by one client, from the same value. Whoever decodes them makes
sure that the body is JSON if it is said to be, and takes the client's word for the rest.

Extension 3 only saves the decoder a try: most notifications can be checked while they are decoded,
and this one can't. The decoder trusts nothing: any bytes are either understood or refused with
a `WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from sys import maxsize
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder, Ext

from tidings.events import Filter, Limits, Notification, Schema, TidingsError
from tidings.events.encoding import TOO_DEEP, decode_json, is_too_deep
from tidings.events.values import PRESENT, canonical, element, scalar
from tidings.events.work import TooMuchWorkError, limited, spend

_INTEGER: Final = 1
_MIXED: Final = 3
_TUPLE: Final = 4
_SET: Final = 5
_FILTER: Final = 6
_NOTIFICATION: Final = 7
_MAPPING: Final = 8
_BODIED: Final = 9

_PLAIN: Final = frozenset({str, int, float, bool})
_SCALARS: Final = _PLAIN | {bytes, datetime}
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 64) - 1
_LOWEST: Final = -1.7976931348623157e308

_CHARACTERS: Final = 4
"""Characters of a filter's JSON that are read in one step of work."""
_LONG: Final = 10_000
"""Characters of a filter's JSON from which on its key is made together with it."""
_SHORT: Final = 1_000
"""Characters of the longest filter that is remembered."""
_REMEMBERED: Final = 8_192
"""Filters that are remembered."""


class WireError(TidingsError):
    """Bytes that cannot be understood, or something that cannot be written as bytes."""


@dataclass(frozen=True)
class WireLimits:
    """How much a decoder accepts; what is beyond a limit is refused with an error that says it."""

    attributes: int = 1_000
    """Of one notification."""
    filters: Limits = field(default_factory=Limits)
    """`characters` are those of a filter's JSON."""
    values: int = 50_000
    """Values, patterns and the like in one filter."""
    work: int = 5_000_000
    """Steps of about a microsecond that it may take to bring one filter into its canonical form."""

    def check(self, notification: Notification) -> None:
        """Raise the `WireError` that a decoder with these limits would raise."""
        self.check_number(len(notification))

    def check_number(self, attributes: int) -> None:
        """Raise the `WireError` that a decoder would raise for this number of attributes."""
        if attributes > self.attributes:
            raise WireError(
                f"a notification has {attributes} attributes; the limit is {self.attributes}"
            )

    def check_filter(self, text: str) -> None:
        """Check a filter's JSON; `WireError` if it is beyond a limit."""
        most = self.filters
        if len(text) > most.characters:
            raise WireError(f"a filter has {len(text)} characters; the limit is {most.characters}")
        if len(text) <= min(most.conjunctions, self.values):
            return  # it is too short to have more
        plain = decode_json(text)
        found = plain.get("any") if isinstance(plain, dict) else None
        if isinstance(found, list) and len(found) > most.conjunctions:
            raise WireError(
                f"a filter has {len(found)} conjunctions; the limit is {most.conjunctions}"
            )
        if len(text) > self.values and (values := _leaves(plain)) > self.values:
            raise WireError(
                f"a filter has {values} values; the limit is {self.values}, so make several of it"
            )


def _leaves(plain: object) -> int:
    """How much there is in a JSON value, but for lists and objects."""
    count, left = 0, [plain]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
        else:
            count += 1
    return count


UNLIMITED: Final = WireLimits(
    attributes=maxsize,
    filters=Limits(characters=maxsize, conjunctions=maxsize),
    values=maxsize,
    work=maxsize,
)
"""Limits for bytes that this program has written itself."""


# -- writing -----------------------------------------------------------------------------------


def pack_notification(notification: Notification) -> Raw:
    """A notification as bytes; made once, and kept with it."""
    raw = notification.packed
    if raw is None:
        if notification.content is None:
            raw = Raw(_written(notification.attributes))
        else:
            raw = Raw(_bodied(notification, notification.content))
        notification.packed = raw
    return raw


def _bodied(notification: Notification, content: bytes) -> bytes:
    values = notification.attributes
    present = [name for name, value in values.items() if value is PRESENT]
    if present:
        values = {name: value for name, value in values.items() if value is not PRESENT}
    parts = (Raw(_written(values)), present, notification.bytes_type, content)
    return _ENCODER.encode(Ext(_BODIED, _ENCODER.encode(parts)))


def _written(values: dict[str, object]) -> bytes:
    if _PLAIN.issuperset(map(type, values.values())):
        try:
            return _ENCODER.encode(values)
        except OverflowError:
            pass  # a number of more than 64 bits
    spelt = {name: _spelt(value, name) for name, value in values.items()}
    return _ENCODER.encode(Ext(_MIXED, _ENCODER.encode(spelt)))


def pack_unlooked(values: dict[str, Any]) -> Raw | None:
    """Pack values that were looked at before, in half the time; None if that cannot be.

    They are scalars, but for lists of strings, which are sets.
    """
    try:
        return Raw(_ENCODER.encode(Ext(_MIXED, _ENCODER.encode(values))))
    except OverflowError:  # a number of more than 64 bits
        return None


def _spelt(value: object, name: str) -> object:
    kind = value.__class__
    if kind is int:
        return _integer(value)  # type: ignore[arg-type]
    if kind in _SCALARS:
        return value
    if kind is frozenset:
        return [_spelt(scalar(item), name) for item in value]  # type: ignore[attr-defined]
    raise WireError(f"attribute {name!r}: a {kind.__name__} is of a domain that cannot travel")


def _integer(value: int) -> int | Ext:
    if _LEAST <= value <= _MOST:
        return value
    return Ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def pack_filter(filter: Filter) -> Raw:
    """A filter as bytes."""
    raw = _WRITTEN.get(filter)
    if raw is None:
        raw = Raw(_ENCODER.encode(filter.to_json()))
        if len(memoryview(raw)) <= _SHORT:
            if len(_WRITTEN) >= _REMEMBERED:
                _WRITTEN.clear()
            _WRITTEN[filter] = raw
    return raw


_WRITTEN: Final[dict[Filter, Raw]] = {}


def hook(value: object) -> Raw:
    """For encoders: what is no MessagePack by itself."""
    if value.__class__ is Notification:
        return pack_notification(value)
    if value.__class__ is Filter:
        return pack_filter(value)
    raise WireError(f"a {value.__class__.__name__} cannot be written")


_ENCODER: Final = Encoder(enc_hook=hook)


def pack_value(value: object) -> bytes:
    """What a node wants to have stored: scalars, filters, notifications, and lists, tuples, sets
    and mappings of such, all told apart."""
    try:
        return _ENCODER.encode(_storable(value))
    except UNWRITABLE as problem:
        raise unwritten(problem) from None


def _storable(value: object) -> object:
    if value.__class__ is int:
        return _integer(value)
    if value is None or value.__class__ in _SCALARS:
        return value
    match value:
        case dict():
            if all(key.__class__ is str for key in value):
                return {key: _storable(v) for key, v in value.items()}
            both = [_storable(each) for item in value.items() for each in item]
            return Ext(_MAPPING, _ENCODER.encode(both))
        case list():
            return [_storable(v) for v in value]
        case tuple():
            return Ext(_TUPLE, _ENCODER.encode([_storable(v) for v in value]))
        case frozenset() | set():
            return Ext(_SET, _ENCODER.encode([_storable(v) for v in value]))
        case Filter():
            return Ext(_FILTER, value.to_json().encode())
        case Notification():
            return Ext(_NOTIFICATION, bytes(pack_notification(value)))
    raise WireError(f"a {value.__class__.__name__} cannot be stored")


def unwritten(problem: Exception) -> WireError:
    """What to raise where something could not be written."""
    if isinstance(problem, RecursionError):
        return WireError("nested too deeply to be written")
    return WireError(f"cannot be written: {problem}")


UNWRITABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


# -- reading -----------------------------------------------------------------------------------

Plain = dict[str, str | int | Annotated[float, msgspec.Meta(ge=_LOWEST)] | bool]
"""A common notification: checked while it is decoded, and NaN is not `ge` anything."""


class _Bodied(msgspec.Struct, array_like=True, gc=False):
    """What is in extension 9."""

    notification: Raw
    present: list[str]
    kind: str | None
    content: bytes


class Body(NamedTuple):
    """What was published, where attributes do not say it."""

    kind: str | None
    """The content type of bytes; None if it is a JSON value."""
    content: bytes


def body_of(notification: Notification) -> Body | None:
    """The body of a notification, where its attributes do not say it."""
    content = notification.content
    return None if content is None else Body(notification.bytes_type, content)


class RecordDecoder:
    """Decodes notifications, filters, records and stored values."""

    def __init__(self, limits: WireLimits | None = None, *, schema: Schema | None = None) -> None:
        """The schema's types are those that `IS A` in filters means."""
        self.limits = limits or WireLimits()
        self._schema = schema
        self._most = self.limits.attributes
        self._filters: dict[str, Filter] = {}
        self._plain = Decoder(Plain | Ext).decode
        self._rich = Decoder(dict[str, Any], ext_hook=_integer_or_ext).decode
        self._stored = Decoder(ext_hook=self._extension).decode

    def notification(self, raw: Raw) -> Notification:
        """A notification from the bytes of its map, which it keeps."""
        try:
            values: Any = self._plain(raw)
        except msgspec.ValidationError:
            values = self._mixed(raw)
        bodied: _Bodied | None = None
        if values.__class__ is not dict:
            if values.code == _BODIED:
                bodied = _BODIED_PARTS.decode(values.data)
                values = self._attributes(bodied)
            elif values.code == _MIXED:
                values = self._mixed(values.data)
            else:
                raise WireError(f"a notification is a map, not extension {values.code}")
        if len(values) > self._most:
            self.limits.check_number(len(values))
        if "" in values:
            raise WireError("an attribute's name is a non-empty string, not ''")
        found = _of_canonical(values)  # its constructor would look at every value again
        if bodied is not None:
            found = _of_canonical(values, bodied.content, bodied.kind)
        found.packed = raw.copy()  # of its own, so as not to keep the whole frame
        return found

    def _attributes(self, bodied: _Bodied) -> dict[str, Any]:
        """The attributes of a notification that has a body as well, which is looked at, too."""
        values: Any
        try:
            values = self._plain(bodied.notification)
        except msgspec.ValidationError:
            values = self._mixed(bodied.notification)
        if isinstance(values, Ext):
            if values.code != _MIXED:
                raise WireError(f"beside a body is a map, not extension {values.code}")
            values = self._mixed(bytes(values.data))
        for name in bodied.present:
            if values.setdefault(name, PRESENT) is not PRESENT:
                raise WireError(f"attribute {name!r} has a value, and has none")
        if bodied.kind is None:
            str(bodied.content, "utf-8")  # which is all that a lake's columns hold
            _JSON_OBJECT.decode(bodied.content)
            if is_too_deep(bodied.content):
                raise WireError(f"a notification is {TOO_DEEP}")
        elif not bodied.kind or bodied.present:
            raise WireError("a body of bytes has a content type, and no objects beside it")
        found: dict[str, Any] = values
        return found

    def _mixed(self, raw: Raw | bytes) -> dict[str, object]:
        """A notification's map with values that are less common, or wrong."""
        values = self._rich(raw)
        for name, value in values.items():
            kind = value.__class__
            if kind is float:
                if value != value:
                    raise WireError(f"attribute {name!r}: NaN cannot be compared")
            elif kind not in _SCALARS:
                values[name] = self._unusual(name, value)
        return values

    def _unusual(self, name: str, value: object) -> object:
        if value.__class__ is list:
            if all(item.__class__ in _SCALARS for item in value):
                return frozenset(element(canonical(i, name)) for i in value)
            raise WireError(f"attribute {name!r}: a set holds scalars only")
        if isinstance(value, Ext):
            raise WireError(f"attribute {name!r}: extension {value.code} is no value")
        flat = "; names are flat, such as 'order.size'" if value.__class__ is dict else ""
        raise WireError(f"attribute {name!r}: {_KINDS[value.__class__]} is no value{flat}")

    def filter(self, text: object) -> Filter:
        """A filter from its JSON."""
        if text.__class__ is not str:
            raise WireError(
                f"a filter is a string, not {_KINDS.get(text.__class__, 'an extension')}"
            )
        found = self._filters.get(text)
        return self._filter(text) if found is None else found

    def _filter(self, text: str) -> Filter:
        spend(len(text) // _CHARACTERS)
        self.limits.check_filter(text)
        try:
            with limited(self.limits.work) as budget:
                found = Filter.from_json(text, schema=self._schema)
        except TooMuchWorkError as problem:
            if problem.budget is not budget:
                raise
            raise WireError(
                "a filter is too much work: its parts are compared with each other, and that "
                f"takes more than {budget.steps} steps; make several of it"
            ) from None
        if len(text) > _LONG:
            _ = found.key  # it takes as long again, better here than where it is asked for
        if len(text) <= _SHORT:
            if len(self._filters) >= _REMEMBERED:
                self._filters.clear()
            self._filters[text] = found
        return found

    def marked(self, content: Ext) -> tuple[dict[str, object], Body | None]:
        """What a notification says that stands in an extension."""
        try:
            if content.code == _MIXED:
                return self._mixed(bytes(content.data)), None
            if content.code == _BODIED:
                parts = _BODIED_PARTS.decode(content.data)
                return self._attributes(parts), Body(parts.kind, parts.content)
        except UNREADABLE as problem:
            raise unread("a record of the log", problem) from None
        raise WireError(f"a notification is a map, not extension {content.code}")

    def unpack_value(self, blob: bytes | memoryview) -> Any:
        """What `pack_value` wrote."""
        try:
            return self._stored(blob)
        except UNREADABLE as problem:
            raise unread("a stored value", problem) from None

    def _extension(self, code: int, data: memoryview) -> object:
        if code == _TUPLE:
            return tuple(_listed(self._stored(data)))
        if code == _SET:
            return frozenset(_listed(self._stored(data)))
        if code == _MAPPING:
            both = iter(_listed(self._stored(data)))
            return dict(zip(both, both, strict=True))
        if code == _FILTER:
            return self.filter(str(data, "utf-8"))
        if code == _NOTIFICATION:
            return self.notification(Raw(bytes(data)))
        if code == _INTEGER:
            return _integer_or_ext(code, data)
        raise WireError(f"extension {code} is no stored value")


_of_canonical: Final = Notification.of_canonical
_BODIED_PARTS: Final = Decoder(_Bodied)
_JSON_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
"""Looks at all of it, and makes nothing of it."""
_KINDS: Final[dict[type, str]] = {
    type(None): "nil",
    dict: "a map",
    list: "an array",
    bytes: "bytes",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    datetime: "a time",
}


def _integer_or_ext(code: int, data: memoryview) -> object:
    return int.from_bytes(data, "big", signed=True) if code == _INTEGER else Ext(code, bytes(data))


def _listed(content: object) -> list[object]:
    if content.__class__ is not list:
        raise WireError("a stored tuple, set or mapping is an array")
    return content


UNREADABLE: Final = (
    TidingsError,
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    LookupError,
    RecursionError,
    MemoryError,
)
"""Whatever bytes can make decoders raise."""


def unread(what: str, problem: Exception) -> WireError:
    """What to raise where bytes could not be read."""
    match problem:
        case WireError():
            return problem
        case UnicodeError():
            return WireError(f"{what} holds text that is not UTF-8")
        case RecursionError():
            return WireError(f"{what} is nested too deeply")
        case MemoryError():
            return WireError(f"{what} is too large for the memory")
    if str(problem) == "Input data was truncated":
        return WireError(f"{what} ends in the middle")
    return WireError(f"{what} cannot be read: {problem}")


_OWN: Final = RecordDecoder(UNLIMITED)


def unpack_value(blob: bytes | memoryview) -> Any:
    """What `pack_value` wrote; `WireError` if it is damaged."""
    return _OWN.unpack_value(blob)
