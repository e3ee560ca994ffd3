"""Notifications: what happened, as named values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tidings.events.encoding import (
    decode_json,
    encode_json,
    from_plain,
    is_tagged,
    json_kind,
    to_plain,
)
from tidings.events.errors import NotificationError
from tidings.events.objects import plain
from tidings.events.values import Truth, canonical, domain_of, parse_time, scalar


class Notification(Mapping[str, Any]):
    """An event's record: a mapping from attribute names to values. Immutable.

    Nested mappings flatten to dotted names, lists of scalars become sets, times become UTC;
    `None` means that the attribute is absent. What cannot be a value raises
    `NotificationError`.

    >>> n = Notification({"symbol": "DIS", "order": {"size": 100}, "tags": ["media", "us"]})
    >>> n["order.size"], sorted(n["tags"])
    (100, ['media', 'us'])
    """

    __slots__ = ("attributes", "packed")

    def __init__(self, attributes: Mapping[str, Any] | object) -> None:
        """Of a mapping, or of an object with fields, such as a dataclass: see `objects`."""
        values: dict[str, object] = {}
        try:
            _flatten(attributes if attributes.__class__ is dict else _fields(attributes), values)
        except NotificationError:  # it may be one of `objects` that could not be a value
            found = _fields(attributes)
            if found is attributes:
                raise
            values.clear()
            _flatten(found, values)
        self.attributes = values
        """The canonical values; sets hold `Element`s. For matching; treat as read-only."""
        self.packed: msgspec.Raw | None = None
        """How it was written to the wire, so that it need not be written twice."""

    @classmethod
    def of_canonical(cls, attributes: dict[str, Any]) -> Notification:
        """One of values that are canonical already, and are not looked at again."""
        found = cls.__new__(cls)
        found.attributes, found.packed = attributes, None
        return found

    def __getitem__(self, name: str) -> Any:
        value = self.attributes[name]
        if value.__class__ is frozenset and any(e.__class__ is Truth for e in value):
            return frozenset(scalar(e) for e in value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.attributes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Notification):
            return NotImplemented
        mine, theirs = self.attributes, other.attributes
        return mine == theirs and all(domain_of(v) == domain_of(theirs[n]) for n, v in mine.items())

    def __repr__(self) -> str:
        return f"Notification({dict(self)!r})"

    @classmethod
    def from_json(cls, text: str | bytes) -> Notification:
        """Read a JSON object: plain attributes, or a CloudEvent.

        A CloudEvent (an object with `specversion`) is read like any other object, so its data
        is found under `data.…`, except that `time` is a time and `data_base64` is bytes.

        >>> event = '{"specversion": "1.0", "time": "2026-11-15T12:00:00Z", "data": {"n": 1}}'
        >>> Notification.from_json(event)["time"].hour, Notification.from_json(event)["data.n"]
        (12, 1)
        """
        try:
            plain = decode_json(text)
        except ValueError as problem:
            raise NotificationError(str(problem)) from None
        if not isinstance(plain, dict):
            raise NotificationError(f"expected a JSON object, found {json_kind(plain)}")
        return cls(_cloud_event(plain) if "specversion" in plain else plain)

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads back to an equal notification."""
        return encode_json({name: to_plain(value) for name, value in self.attributes.items()})


def _fields(attributes: object) -> Mapping[str, Any]:
    found = plain(attributes)
    if not isinstance(found, Mapping):
        raise NotificationError(
            "a notification is a mapping of attributes, or an object with fields, such as a "
            f"dataclass, not a {type(attributes).__name__}"
        )
    return found


def _flatten(attributes: Any, values: dict[str, object]) -> None:
    """Walk nested mappings without recursion: depth is the sender's choice."""
    waiting: list[tuple[str, Iterator[tuple[Any, Any]]]] = [("", iter(attributes.items()))]
    while waiting:
        prefix, items = waiting[-1]
        for key, value in items:
            if not isinstance(key, str) or not key:
                raise NotificationError(
                    f"an attribute's name is a non-empty string, not {key!r}", field=prefix or None
                )
            name = prefix + key
            if isinstance(value, Mapping) and not is_tagged(value):
                waiting.append((f"{name}.", iter(value.items())))
                break
            if value is None:
                continue
            if name in values:
                raise NotificationError("given twice (once flattened)", field=name)
            canonical(name, name)
            values[name] = canonical(_untagged(value, name), name)
        else:
            waiting.pop()


def _untagged(value: Any, field: str) -> Any:
    if value.__class__ is not dict and value.__class__ is not list:
        return value
    try:
        return from_plain(value)
    except (ValueError, RecursionError) as problem:
        raise NotificationError(str(problem), field=field) from None


def _cloud_event(plain: dict[str, Any]) -> dict[str, Any]:
    event = dict(plain)
    when = event.get("time")
    if isinstance(when, str):
        try:
            event["time"] = parse_time(when)
        except ValueError as problem:
            raise NotificationError(f"not an RFC 3339 time: {problem}", field="time") from None
    if isinstance(event.get("data_base64"), str):
        if "data" in event:
            raise NotificationError("a CloudEvent has data or data_base64, not both", field="data")
        event["data"] = {"$bytes": event.pop("data_base64")}
    return event
