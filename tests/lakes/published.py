"""Whatever can be published: JSON objects of any form, and bytes, as strategies."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tidings.events import Notification, NotificationError

NAMES = st.sampled_from(["a", "b", "c", "data", "id", "body", "content", "specversion", "x y", "Ä"])
NUMBERS = st.sampled_from(
    ["1", "1.0", "-0", "-0.0", "1e3", "1E+2", "1.10", "-9", "-9.0", "9007199254740993", "1" * 30]
)
WORDS = st.sampled_from(['"a"', '"b"', '"\\u0041"', '"é"', "null", "true", "false", '""'])


def _pairs(names: list[str], values: list[str]) -> str:
    pairs = zip(map(json.dumps, names), values, strict=False)
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"


def _objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.lists(NAMES, max_size=4, unique=True)
    return st.builds(_pairs, names, st.lists(inner, min_size=4, max_size=4))


def _is_notification(text: str) -> bool:
    try:
        Notification.from_json(text)
    except NotificationError:
        return False
    return True


_JSON = st.recursive(
    NUMBERS | WORDS,
    lambda inner: _objects(inner) | st.lists(inner, max_size=4).map(lambda m: f"[{','.join(m)}]"),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[str] = (_objects(NUMBERS | WORDS) | _objects(_JSON)).filter(
    _is_notification
)
"""Texts of JSON objects, without the space around values: numbers and strings as one may write
them, null, nesting, lists with repetitions, names in any order, and CloudEvents."""

_ODD = [
    '{"$body":{"type":"a","base64":"?"}}',
    '{"$body":{"type":"a"},"b":1}',
    '{"$body":{"type":"a/b","base64":"AA==","c":1}}',
    '{"a":"\\"$body\\":{\\"type\\":"}',
    '{"b":1,"a":{"$bytes":"AA=="},"when":{"$time":"2026-11-15T12:00:00Z"}}',
    '{"specversion":"1.0","id":"7","time":"2026-11-15T12:00:00.123456789+01:00","data":{"n":1}}',
    '{"specversion":"1.0","id":"7","data_base64":"AAE="}',
]


def _of_bytes(content: bytes, kind: str, beside: dict[str, Any]) -> Notification:
    return Notification.of_bytes(content, kind, beside)


PUBLISHED: st.SearchStrategy[Notification] = st.one_of(
    OBJECTS.map(Notification.from_json),
    st.sampled_from(_ODD).map(Notification.from_json),
    st.builds(
        _of_bytes,
        st.binary(max_size=9),
        st.sampled_from(["image/gif", "application/json", "a"]),
        st.dictionaries(NAMES, st.sampled_from([1, -9, 2.5, "x", ["a"], 2**70]), max_size=3),
    ),
)
"""Notifications of these, and of bytes with attributes beside them."""
