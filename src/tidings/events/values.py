"""Values: the domains an attribute's value can come from, and the one form each is held in.

Every value belongs to exactly one domain, told by its Python type. A boolean is not a number
here although Python says so; integers and floats are one domain and compare by exact value.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from tidings.events.errors import NotificationError
from tidings.events.objects import plain

Scalar: TypeAlias = bool | int | float | str | datetime | bytes


class Truth(enum.Enum):
    """A boolean inside a set: Python's own `True` would be the same element as `1`."""

    FALSE = False
    TRUE = True


Element: TypeAlias = Truth | int | float | str | datetime | bytes


class Present(enum.Enum):
    """An attribute that is there, and has no value that a filter could look at: an object, or a
    list that holds more than scalars."""

    PRESENT = "present"

    def __repr__(self) -> str:
        return "PRESENT"


PRESENT: Final = Present.PRESENT

BOOLEAN: Final = "boolean"
NUMBER: Final = "number"
STRING: Final = "string"
TIME: Final = "time"
BYTES: Final = "bytes"
SET: Final = "set"
_PRESENCE: Final = "presence"

_DOMAIN_OF: Final[dict[type, str]] = {
    bool: BOOLEAN,
    int: NUMBER,
    float: NUMBER,
    str: STRING,
    datetime: TIME,
    bytes: BYTES,
    frozenset: SET,
}


def domain_of(value: object) -> str:
    """The domain of a canonical value.

    >>> domain_of(True), domain_of(1), domain_of("x"), domain_of(frozenset({1}))
    ('boolean', 'number', 'string', 'set')
    """
    return _DOMAIN_OF.get(value.__class__, _PRESENCE)


def register_domain(name: str, value_type: type) -> None:
    """Let values of `value_type` (immutable, hashable) form a domain of their own."""
    if _DOMAIN_OF.setdefault(value_type, name) != name:
        raise ValueError(
            f"{value_type.__name__} values already are the domain {_DOMAIN_OF[value_type]}"
        )


def canonical(value: object, field: str) -> object:
    """`value` as notifications hold it, or `NotificationError`.

    Sets and lists of scalars become frozensets of elements; what holds mappings or further
    lists is `PRESENT`.
    """
    kind = value.__class__
    if kind is str:
        return encodable(value, field)  # type: ignore[arg-type]
    if kind is int or kind is bool or kind is bytes:
        return value
    if kind is float:
        if value != value:
            raise NotificationError("NaN is not a number that can be compared", field=field)
        return value
    if kind is datetime:
        return utc(value, field)  # type: ignore[arg-type]
    if kind in _DOMAIN_OF and kind is not frozenset:
        return value  # of a registered domain, perhaps a named tuple
    if isinstance(value, list | tuple | set | frozenset):
        return _collection(value, field)
    return _converted(value, field)


def encodable(text: str, field: str) -> str:
    """The text, if it can be written; `NotificationError` otherwise."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotificationError("holds half of a surrogate pair", field=field) from None
    return text


def utc(when: datetime, field: str) -> datetime:
    """`when` in UTC; a time without a zone is refused, since nobody knows what it means."""
    if when.tzinfo is None or when.utcoffset() is None:
        raise NotificationError("a time needs a zone, such as +00:00", field=field)
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise NotificationError("the time is out of range in UTC", field=field) from None


def _collection(items: Iterable[object], field: str) -> object:
    members = [item if item.__class__ in _DOMAIN_OF else plain(item, field) for item in items]
    if any(isinstance(m, Mapping | list | tuple | set | frozenset) or m is None for m in members):
        return PRESENT
    return frozenset(element(canonical(m, field)) for m in members)


def _converted(value: object, field: str) -> object:
    """Subclasses and look-alikes (enum members, NumPy scalars) become the plain value."""
    if isinstance(value, str):
        return canonical(str.__str__(value), field)  # an enum member's str() is its name
    for number in (int, float):
        if isinstance(value, number):
            return canonical(number(value), field)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, datetime):
        return utc(datetime.fromisoformat(value.isoformat()), field)
    item = value.item() if getattr(value, "shape", None) == () else value  # type: ignore[attr-defined]
    if item.__class__ in _DOMAIN_OF:
        return canonical(item, field)  # NumPy's float32 and bool
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise NotificationError(
        f"a {value.__class__.__name__} is none of boolean, number, string, time, bytes, "
        "or a set of these",
        field=field,
    )


def element(value: object) -> Element:
    """A canonical scalar as an element of a set."""
    if value.__class__ is bool:
        return Truth.TRUE if value else Truth.FALSE
    return value  # type: ignore[return-value]


def scalar(item: Element) -> Scalar:
    """An element of a set as the plain scalar that a program expects."""
    return bool(item.value) if item.__class__ is Truth else item  # type: ignore[return-value]


def element_order(item: Element) -> tuple[str, Scalar]:
    """A total order over elements of any domains, for canonical text."""
    plain = scalar(item)
    return (domain_of(plain), plain)


def exact(number: int | float) -> int | float:
    """One spelling for each number: 2.0 and 2 are the same constant."""
    if number.__class__ is float and number.is_integer():
        return int(number)
    return number


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(when: datetime | float) -> int:
    """A time as microseconds since 1970; one in seconds is cut to them, as `moment` does."""
    if isinstance(when, datetime):
        return (when - EPOCH) // MICROSECOND
    seconds = int(when)
    return seconds * 1_000_000 + int((when - seconds) * 1e6)


def moment(seconds: float) -> datetime:
    """The time that many seconds after 1970 began, cut to microseconds."""
    whole = int(seconds)
    when = datetime.fromtimestamp(whole, UTC)
    return when.replace(microsecond=int((seconds - whole) * 1e6))


def time_text(when: datetime) -> str:
    """RFC 3339 in UTC, as short as it is exact."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


_FRACTION: Final = re.compile(r"[.,]\d{7,}")
_FINER: Final = re.compile(r"([.,]\d{6})\d+")


def parse_time(text: str) -> datetime:
    """An RFC 3339 time or an ISO date, in UTC where no zone is given; `ValueError` otherwise."""
    if _FRACTION.search(text):
        raise ValueError("times are exact to the microsecond, not finer")
    when = datetime.fromisoformat(text.strip())
    try:
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range in UTC") from None


def cut_time(text: str) -> datetime:
    """A time as `parse_time` reads it, but cut to microseconds where it is finer.

    >>> cut_time("2026-11-15T12:00:00.123456789Z").microsecond
    123456
    """
    return parse_time(_FINER.sub(r"\1", text, count=1))
