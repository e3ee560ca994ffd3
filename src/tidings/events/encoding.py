"""Encoding: values in JSON's terms, and JSON text itself.

JSON has no times, bytes or infinities; these are tagged: `{"$time": "2026-11-15T12:00:00Z"}`. So
are whole numbers of thousands of digits, which Python and others refuse to write in decimals.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tidings.events.values import element_order, parse_time, scalar, time_text


def decode_json(text: str | bytes) -> Any:
    """Read JSON; `ValueError` says what is wrong with it."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as problem:
        why = "half of a surrogate pair is no character" if _holds_half(text) else problem
        raise ValueError(f"not valid JSON: {why}") from None


def _holds_half(text: str | bytes) -> bool:
    """Whether all that is wrong with a JSON text is half of a surrogate pair, as it stands or
    escaped."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def encode_json(plain: object) -> str:
    """Write JSON on one line."""
    return msgspec.json.encode(plain).decode()


def is_too_deep(content: bytes) -> bool:
    """Whether JSON is nested more than `DEPTH` deep.

    >>> is_too_deep(b"[" * 100), is_too_deep(b"[" * 101), is_too_deep(b'["' + b"[" * 200 + b'"]')
    (False, True, False)
    """
    if content.count(b"[") + content.count(b"{") <= DEPTH:
        return False
    depth = 0
    for found in _BRACKETS.finditer(content):
        first = content[found.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > DEPTH:
            return True
    return False


def json_kind(plain: object) -> str:
    """What a JSON reader would call it.

    >>> json_kind([]), json_kind(None), json_kind(1)
    ('an array', 'null', 'a number')
    """
    for kind, word in _KINDS:
        if isinstance(plain, kind):
            return word
    return "null"


_KINDS: Final = (
    (bool, "a boolean"),
    (int | float, "a number"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
)
_TAGS: Final = frozenset({"$time", "$bytes", "$number"})
DEPTH: Final = 100
"""How deep objects and arrays may be nested in each other: not everybody could read more."""
TOO_DEEP: Final = f"nested more than {DEPTH} deep, the limit"
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_BITS: Final = 14_000
"""A longer number has no decimals: Python's limit is 4,300 digits, about 14,280 bits."""
_HEXADECIMAL: Final = re.compile("-?0x[0-9a-f]+")


def is_tagged(value: Mapping[Any, Any]) -> bool:
    """Whether a mapping is a tagged value and no mapping of attributes."""
    return len(value) == 1 and next(iter(value)) in _TAGS


def as_list(plain: object) -> list[Any]:
    """What must be a JSON array; `ValueError` if it is not."""
    if not isinstance(plain, list):
        raise ValueError(f"expected an array, found {json_kind(plain)}")
    return plain


def is_unspeakable(value: object) -> bool:
    """Whether it is a number for which neither JSON nor the filter language has words.

    >>> is_unspeakable(float("inf")), is_unspeakable(10**5_000), is_unspeakable(10**4_000)
    (True, True, False)
    """
    if value.__class__ is float:
        return math.isinf(value)
    return value.__class__ is int and value.bit_length() > _BITS


def to_plain(value: object) -> object:
    """A canonical value in JSON's terms; what JSON lacks is tagged: `{"$time": …}`."""
    kind = value.__class__
    if kind is datetime:
        return {"$time": time_text(value)}  # type: ignore[arg-type]
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}  # type: ignore[arg-type]
    if kind is frozenset:
        members = sorted(value, key=element_order)  # type: ignore[call-overload]
        return [to_plain(scalar(m)) for m in members]
    if is_unspeakable(value):
        if kind is int:
            return {"$number": hex(value)}  # type: ignore[arg-type]
        return {"$number": "Infinity" if value > 0 else "-Infinity"}  # type: ignore[operator]
    return value


def from_plain(value: object, *, time: Callable[[str], datetime] = parse_time) -> object:
    """The value behind a tag; anything else as it is. `ValueError` if the tag is damaged.

    `time` reads what is tagged as a time.

    >>> from_plain({"$bytes": "AQI="})
    b'\\x01\\x02'
    """
    if isinstance(value, list):
        return [from_plain(v, time=time) for v in value]
    if not isinstance(value, dict) or not is_tagged(value):
        return value
    ((tag, content),) = value.items()
    match tag, content:
        case "$time", str():
            return time(content)
        case "$bytes", str():
            return base64.b64decode(content, validate=True)
        case "$number", "Infinity" | "-Infinity":
            return float(content)
        case "$number", str() if _HEXADECIMAL.fullmatch(content):
            return int(content, 16)
    raise ValueError(f"{tag} can't be {content!r}")
