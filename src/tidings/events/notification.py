"""Notifications: what happened, as it was said, and as named values that filters look at."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from tidings.events.encoding import (
    DEPTH,
    TOO_DEEP,
    decode_json,
    encode_json,
    from_plain,
    is_tagged,
    is_too_deep,
    is_unspeakable,
    json_kind,
    to_plain,
)
from tidings.events.errors import NotificationError
from tidings.events.objects import plain
from tidings.events.values import (
    PRESENT,
    Truth,
    canonical,
    cut_time,
    domain_of,
    element_order,
    encodable,
    scalar,
    time_text,
    utc,
)

JSON: Final = "application/json"
"""The content type of a body that is a JSON value."""
BYTES: Final = "application/octet-stream"
"""The content type of a body of bytes of which nothing else is known."""
_BODY: Final = "$body"
"""Under which JSON says the bytes of a body, and their content type, beside the attributes:
`{"type": "image/gif", "base64": "R0lGODlh"}`. Anything else under it is a value like any other."""
_PLAIN: Final = frozenset({str, int, float, bool})


class Notification(Mapping[str, Any]):
    """An event's record. It is immutable, and has two faces.

    Publishers and subscribers see its *body*: exactly the JSON value, or the bytes, that was
    published. Filters see its *attributes*, which are computed from the body: nested objects are
    flattened to dotted names, lists of scalars are sets, times are in UTC, and null is absence. An
    object, or a list that holds more than scalars, is present. As a mapping, a notification has
    the attributes.

    What cannot be a value raises `NotificationError`.

    >>> n = Notification({"symbol": "DIS", "order": {"size": 100}, "tags": ["us", "media", "us"]})
    >>> n["order.size"], sorted(n["tags"]), "order" in n
    (100, ['media', 'us'], True)
    >>> n.body
    b'{"symbol":"DIS","order":{"size":100},"tags":["us","media","us"]}'
    """

    __slots__ = ("attributes", "bytes_type", "content", "packed")

    def __init__(self, published: Mapping[str, Any] | object) -> None:
        """Of a mapping, or of an object with fields, such as a dataclass: see `objects`."""
        self.attributes: dict[str, Any] = {}
        """The canonical values; sets hold `Element`s. For matching; treat as read-only."""
        self.packed: msgspec.Raw | None = None
        """How it was written to the wire, so that it need not be written twice."""
        self.content: bytes | None = None
        """The body, where the attributes alone do not say it."""
        self.bytes_type: str | None = None
        """The content type of a body of bytes; None if it is a JSON value."""
        if published.__class__ is not dict and not isinstance(published, Mapping):
            self._take(_fields(published))
        elif not _take_plain(published, self.attributes):
            try:
                self._take(published)
            except NotificationError:  # it may be one of `objects` that could not be a value
                found = _fields(published)
                if found is published:
                    raise
                self._take(found)

    def _take(self, published: Mapping[str, Any]) -> None:
        """Take what is more than names with plain values."""
        if _BODY in published and self._take_bytes(published):
            return
        is_event = "specversion" in published
        self.attributes = {}
        seen = _as_cloud_event(published) if is_event else published
        is_whole, is_json = _flatten(seen, self.attributes)
        if is_event or not is_whole:
            try:
                said = _in_words(published) if is_event else published
                self.content = msgspec.json.encode(said if is_json else _as_json(said, ""))
            except RecursionError:
                raise NotificationError(TOO_DEEP) from None
            except (msgspec.MsgspecError, TypeError) as problem:
                raise NotificationError(f"cannot be said in JSON: {problem}") from None
            if is_too_deep(self.content):
                raise NotificationError(TOO_DEEP)

    def _take_bytes(self, published: Mapping[str, Any]) -> bool:
        """Take what `to_json` makes of bytes; False if it is anything else."""
        said = published[_BODY]
        if not isinstance(said, Mapping) or said.keys() != {"type", "base64"}:
            return False
        try:
            kind, content = said["type"], base64.b64decode(said["base64"], validate=True)
            _check_type(kind)
        except (TypeError, ValueError):
            return False
        attributes = {name: value for name, value in published.items() if name != _BODY}
        found = Notification.of_bytes(content, kind, attributes)
        self.attributes, self.content, self.bytes_type = found.attributes, content, kind
        return True

    @classmethod
    def of_bytes(
        cls, content: bytes, content_type: str = BYTES, attributes: Mapping[str, Any] | None = None
    ) -> Notification:
        """One whose body is bytes; `attributes` are what filters see, and have no objects in them.

        >>> picture = Notification.of_bytes(b"GIF89a", "image/gif", {"width": 1, "height": 1})
        >>> picture.body, picture.content_type, picture["width"]
        (b'GIF89a', 'image/gif', 1)
        """
        found = cls(attributes or {})
        for name, value in found.attributes.items():
            if value is PRESENT:
                reason = "attributes beside a body of bytes are scalars and sets of them"
                raise NotificationError(reason, field=name)
        if _BODY in found.attributes:  # `to_json` could say only one of the two
            reason = "beside a body of bytes, this name is where JSON says the bytes"
            raise NotificationError(reason, field=_BODY)
        _check_type(content_type)
        found.content, found.bytes_type = bytes(content), content_type
        return found

    @classmethod
    def of_canonical(
        cls, attributes: dict[str, Any], content: bytes | None = None, bytes_type: str | None = None
    ) -> Notification:
        """One of values that are canonical already, and are not looked at again.

        The content is needed where the attributes alone do not say the body.
        """
        found = cls.__new__(cls)
        found.attributes, found.packed = attributes, None
        found.content, found.bytes_type = content, bytes_type
        return found

    # -- the body ------------------------------------------------------------------------------

    @property
    def body(self) -> bytes:
        """Exactly what was published: JSON without the space around its values, or the bytes."""
        return encode_json(self._said()).encode() if self.content is None else self.content

    @property
    def content_type(self) -> str:
        """`application/json`, or what was said of the bytes."""
        return JSON if self.bytes_type is None else self.bytes_type

    @property
    def value(self) -> Any:
        """The JSON value that was published, or the bytes.

        JSON has no times: those that Python has published are `{"$time": …}` here.

        >>> Notification({"order": {"sizes": [5, 4, 5]}, "note": None}).value
        {'order': {'sizes': [5, 4, 5]}, 'note': None}
        """
        if self.content is None:
            return self._said()
        if self.bytes_type is not None:
            return self.content
        try:
            return decode_json(self.content)
        except ValueError as problem:
            raise NotificationError(f"its body is damaged: {problem}") from None

    def said(self) -> dict[str, Any]:
        """The body as Python has it: an object's values by their names, and times as such.

        >>> Notification({"sizes": [5, 4, 5], "key": {"$bytes": "AQI="}}).said()
        {'sizes': [5, 4, 5], 'key': b'\\x01\\x02'}

        Of a body of bytes, it is what was said beside it.
        """
        if self.content is None or self.bytes_type is not None:
            return {name: _as_said(value) for name, value in self.attributes.items()}
        found: dict[str, Any] = _as_python(self.value)
        return found

    def _said(self) -> dict[str, Any]:
        return {name: to_plain(value) for name, value in self.attributes.items()}

    # -- the attributes ------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        value = self.attributes[name]
        if value.__class__ is frozenset and any(e.__class__ is Truth for e in value):
            return frozenset(scalar(e) for e in value)
        return _found(self.value, name) if value is PRESENT else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.attributes

    def __eq__(self, other: object) -> bool:
        """Whether both say the same: the same attributes, and exactly the same body."""
        if not isinstance(other, Notification):
            return NotImplemented
        mine, theirs = self.attributes, other.attributes
        return (
            mine == theirs
            and all(domain_of(v) == domain_of(theirs[n]) for n, v in mine.items())
            and self.bytes_type == other.bytes_type
            and self.body == other.body
        )

    def __repr__(self) -> str:
        if self.content is None:
            return f"Notification({dict(self)!r})"
        if self.bytes_type is None:
            return f"Notification.from_json({self.to_json()!r})"
        return f"Notification.of_bytes({self.content!r}, {self.bytes_type!r}, {dict(self)!r})"

    # -- as JSON -------------------------------------------------------------------------------

    @classmethod
    def from_json(cls, text: str | bytes) -> Notification:
        """Read a JSON object: plain attributes, or a CloudEvent. Its body is this text.

        A CloudEvent (an object with `specversion`) is read like any other object, so its data
        is found under `data.…`, except that filters see `time` as a time, and `data_base64` as
        bytes under `data`.

        >>> event = '{"specversion": "1.0", "time": "2026-11-15T12:00:00Z", "data": {"n": 1}}'
        >>> Notification.from_json(event)["time"].hour, Notification.from_json(event)["data.n"]
        (12, 1)
        """
        try:
            plain = decode_json(text)
            if not isinstance(plain, dict):
                raise NotificationError(f"expected a JSON object, found {json_kind(plain)}")
            found = cls(plain)
            content = msgspec.json.format(_as_bytes(text), indent=-1)
            if found.bytes_type is None and content != found.body:
                if is_too_deep(content):
                    raise NotificationError(TOO_DEEP)
                _check_names(content)
                found.content = content
        except NotificationError:
            raise
        except (ValueError, RecursionError, TypeError) as problem:
            raise NotificationError(str(problem)) from None
        return found

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads back to an equal notification: its body.

        Bytes are said beside the attributes.

        >>> Notification.of_bytes(b"GIF89a", "image/gif", {"width": 1}).to_json()
        '{"width":1,"$body":{"type":"image/gif","base64":"R0lGODlh"}}'
        """
        if self.bytes_type is None:
            return self.body.decode()
        text = base64.b64encode(self.content or b"").decode()
        return encode_json({**self._said(), _BODY: {"type": self.bytes_type, "base64": text}})


def _fields(published: object) -> Mapping[str, Any]:
    found = plain(published)
    if not isinstance(found, Mapping):
        raise NotificationError(
            "a notification is a mapping of attributes, or an object with fields, such as a "
            f"dataclass, not a {type(published).__name__}"
        )
    return found


def _take_plain(published: Mapping[str, Any], values: dict[str, Any]) -> bool:
    """Take names with plain values, as most notifications are; False if there is more to it."""
    for name, value in published.items():
        kind = value.__class__
        if kind not in _PLAIN or name.__class__ is not str or not name:
            return False
        if not name.isascii():
            encodable(name, name)
        if kind is float:
            if value - value != 0.0:  # NaN, or infinite
                return False
        elif kind is str and not value.isascii():
            encodable(value, name)
        values[name] = value
    return "specversion" not in values and _BODY not in values


def _flatten(published: Mapping[str, Any], values: dict[str, object]) -> tuple[bool, bool]:
    """Walk nested mappings without recursion.

    Whether the attributes alone say all of it, and whether it is in JSON's terms already.
    """
    is_whole = is_json = True
    waiting: list[tuple[str, Iterator[tuple[Any, Any]]]] = [("", iter(published.items()))]
    while waiting:
        prefix, items = waiting[-1]
        for key, value in items:
            if not isinstance(key, str) or not key:
                raise NotificationError(
                    f"an attribute's name is a non-empty string, not {key!r}", field=prefix or None
                )
            name = prefix + key
            if value is None:
                is_whole = False
                continue
            if name in values:
                raise NotificationError("given twice (once flattened)", field=name)
            kind = value.__class__
            is_json = is_json and key.__class__ is str
            if not name.isascii():
                encodable(name, name)
            if kind is str:
                values[name] = value if value.isascii() else encodable(value, name)
                continue
            if kind is int or kind is bool:
                values[name] = value
                is_json = is_json and not is_unspeakable(value)
                continue
            if isinstance(value, Mapping) and not is_tagged(value):
                values[name] = PRESENT
                is_whole = False
                is_json = is_json and kind is dict
                if len(waiting) >= DEPTH:
                    raise NotificationError(TOO_DEEP)
                waiting.append((f"{name}.", iter(value.items())))
                break
            found = values[name] = canonical(_untagged(value, name), name)
            is_whole = is_whole and _says(found, value, name)
            is_json = is_json and kind is float and not is_unspeakable(value)
        else:
            waiting.pop()
    return is_whole, is_json


def _says(found: object, value: Any, field: str) -> bool:
    """Whether JSON made of what filters see is JSON made of the value."""
    if found is PRESENT:
        return False
    if not isinstance(value, list | tuple | Mapping):
        return True
    return encode_json(to_plain(found)) == encode_json(_as_json(value, field))


def _untagged(value: Any, field: str) -> Any:
    if value.__class__ is not dict and value.__class__ is not list:
        return value
    try:
        return from_plain(value, time=cut_time)
    except RecursionError:
        raise NotificationError(TOO_DEEP, field=field) from None
    except ValueError as problem:
        raise NotificationError(str(problem), field=field) from None


def _as_json(value: Any, field: str) -> Any:
    """A value in JSON's terms, with all that filters do not see."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        if is_tagged(value):
            return dict(value)
        inner = f"{field}." if field else ""
        return {_key(key, field): _as_json(each, f"{inner}{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each, field) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((_as_json(each, field) for each in value), key=encode_json)
    return to_plain(canonical(value, field))


def _key(key: object, field: str) -> str:
    """A name of an object in a list. `str` of anything else could be the name of another value."""
    if not isinstance(key, str):
        raise NotificationError(f"a name in an object is a string, not {key!r}", field=field)
    return str(key)


def _as_cloud_event(published: Mapping[str, Any]) -> Mapping[str, Any]:
    """A CloudEvent as filters see it."""
    event = dict(published)
    when = event.get("time")
    if isinstance(when, str):
        try:
            event["time"] = cut_time(when)
        except ValueError as problem:
            raise NotificationError(f"not an RFC 3339 time: {problem}", field="time") from None
    if isinstance(event.get("data_base64"), str):
        if "data" in event:
            raise NotificationError("a CloudEvent has data or data_base64, not both", field="data")
        event["data"] = {"$bytes": event.pop("data_base64")}
    return event


def _in_words(published: Mapping[str, Any]) -> Mapping[str, Any]:
    """A CloudEvent as JSON says it, where Python has said its time or data by values of its own."""
    event = dict(published)
    if isinstance(when := event.get("time"), datetime):
        event["time"] = time_text(utc(when, "time"))
    if isinstance(data := event.get("data"), bytes):
        del event["data"]
        event["data_base64"] = base64.b64encode(data).decode()
    return event


def _as_said(value: Any) -> Any:
    """A canonical value as Python has it: a set is a list in JSON."""
    if value.__class__ is frozenset:
        return [scalar(each) for each in sorted(value, key=element_order)]
    return value


def _as_python(plain: Any) -> Any:
    """A JSON value with what is tagged in it as such."""
    if plain.__class__ is list:
        return [_as_python(each) for each in plain]
    if plain.__class__ is not dict:
        return plain
    if is_tagged(plain):
        try:
            return from_plain(plain)
        except ValueError:
            return plain  # in a list that filters do not look into
    return {name: _as_python(each) for name, each in plain.items()}


def _found(plain: Any, name: str) -> Any:
    """What a JSON object has under a dotted name."""
    if plain.__class__ is dict:
        for key, value in plain.items():
            if key == name:
                return value
            if name.startswith(f"{key}.") and value.__class__ is dict:
                with suppress(KeyError):
                    return _found(value, name[len(key) + 1 :])
    raise KeyError(name)


def _check_type(content_type: object) -> None:
    is_text = isinstance(content_type, str) and content_type.isascii()
    if not is_text or not content_type or not str(content_type).isprintable():
        raise NotificationError(f"a content type is like 'image/png', not {content_type!r}")


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _check_names(content: bytes) -> None:
    """`NotificationError` if an object has a name twice: which of the values would be meant?"""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise NotificationError("given twice in one JSON object", field=twice)
        return found

    json.loads(content, object_pairs_hook=members, parse_int=str, parse_float=str)
