"""What the samples hold: events of every kind, as they were published."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from tidings.events import Filter, Notification

SAID: tuple[dict[str, Any], ...] = (
    {"n": 1, "symbol": "DIS", "price": 101.25, "is_open": True},
    {"n": 2, "symbol": "DIS", "price": 99.5, "volume": 1200},
    {"n": 3, "symbol": "ÜBER", "price": -9.0, "tags": ["new", "hot"]},
    {"n": 4, "at": datetime(2026, 11, 19, 21, 30, 0, 123456, tzinfo=UTC), "id": 2**63},
    {"n": 5, "large": 2**70, "raw": b"\x00\xff", "mixed": [1, "one"]},
    {"n": 6, "lines": [{"item": "pen", "count": 2}, {"item": "ink", "count": 1}]},
    {"n": 7, "order": {"customer": {"name": "Ann"}, "total": 12.5}, "gone": None},
    {"n": 8, "text": "x" * 300, "tick": 5, "time": "as a text"},
    {"n": 9, "symbol": "DIS", "price": 2**60},
    {"n": 10},
    {"n": 11, "$body": {"type": "image/gif", "base64": "R0lGODlh"}},
)
FIRST = 6
"""So many are published first; the others by another client, or appended later."""
FILTER = "n BETWEEN 2 AND 9"


def events() -> list[Notification]:
    """What is published."""
    return [Notification(said) for said in SAID]


def told(message: Any) -> Any:
    """A message as JSON, with the names of its fields, to be held against another version's."""
    if isinstance(message, msgspec.Struct):
        fields = {name: told(getattr(message, name)) for name in message.__struct_fields__}
        return {"kind": type(message).__name__, **fields}
    if isinstance(message, Notification):
        return message.to_json()
    if isinstance(message, Filter):
        return str(message)
    if isinstance(message, bytes | memoryview):
        return bytes(message).hex()
    if isinstance(message, dict):
        return {str(told(key)): told(value) for key, value in message.items()}
    if isinstance(message, list | tuple):
        return [told(each) for each in message]
    return message


def still(before: Any, now: Any) -> bool:
    """Whether all that was told before is told now; there may be new fields besides."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            name in now and still(value, now[name]) for name, value in before.items()
        )
    if isinstance(before, list):
        return len(before) == len(now) and all(map(still, before, now))
    return bool(before == now) and type(before) is type(now)
