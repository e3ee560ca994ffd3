"""Objects: what programs have in their hands, as the mappings, lists and scalars of notifications.

Dataclasses, msgspec's structs, attrs' classes and pydantic's models are mappings of their fields;
enums stand for their values. Nothing of these is imported: an object's class tells what it is.
Numbers stay exact, or are refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from tidings.events.errors import NotificationError

_LARGEST: Final = 4_300
"""Digits of a whole number; Python reads and writes no more of them as text."""
_Fields: TypeAlias = Callable[[Any], Iterator[tuple[str, Any]]]
_DEEPEST: Final = 100
"""Levels of objects and lists that are looked into."""
_SHOWN: Final = 64
"""Characters of a path that an error shows of what is nested too deeply."""
_SCALARS: Final = frozenset({str, int, float, bool, bytes, datetime, type(None)})


def plain(value: object, field: str = "", *, depth: int = 0) -> Any:
    """A value in which only mappings, lists and scalars are left, itself if it was so before.

    What nobody knows here is left as it is. `field` is where the value stands.

    >>> plain({"price": Decimal("1.5"), "size": Decimal("100"), "on": date(2026, 11, 19)})
    {'price': 1.5, 'size': 100, 'on': '2026-11-19'}
    >>> plain({"price": Decimal("0.1234567890123456789")})
    Traceback (most recent call last):
        ...
    tidings.events.errors.NotificationError: attribute 'price': 0.1234567890123456789 has more \
digits than a number can hold exactly; round it, or publish it as text
    """
    kind = value.__class__
    if kind in _SCALARS:
        return value
    if isinstance(value, Mapping):
        return _mapping(value, field, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _list(value, field, depth)
    if isinstance(value, Enum):
        return plain(value.value, field, depth=depth + 1)
    fields = _fields_of(kind)
    if fields is not None:
        return _object(value, fields, field, depth)
    if isinstance(value, Decimal):
        return _number(value, field)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, date | time) and not isinstance(value, datetime):
        return value.isoformat()
    return value


def _object(value: object, fields: _Fields, field: str, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        shown = field if len(field) <= _SHOWN else f"{field[:_SHOWN]}…"
        raise NotificationError(f"objects are nested more than {_DEEPEST} deep", field=shown)
    return {name: plain(each, _below(field, name), depth=depth + 1) for name, each in fields(value)}


def _mapping(value: Mapping[Any, Any], field: str, depth: int) -> Mapping[Any, Any]:
    if depth > _DEEPEST:  # it is refused later, if that is too much
        return value
    found = {k: plain(each, _below(field, k), depth=depth + 1) for k, each in value.items()}
    is_same = all(found[key] is each for key, each in value.items())
    return value if is_same else found


def _list(value: Any, field: str, depth: int) -> Any:
    if depth > _DEEPEST:
        return value
    found = [plain(each, field, depth=depth + 1) for each in value]
    return value if all(map(_is, found, value)) else found


def _is(one: object, other: object) -> bool:
    return one is other


def _below(field: str, name: object) -> str:
    return f"{field}.{name}" if field else str(name)


def _number(value: Decimal, field: str) -> int | float:
    """The same number, exactly: 0.1 is what a program means by the float that is written so."""
    if value.is_nan():
        raise NotificationError("NaN is not a number that can be compared", field=field or None)
    if value.is_infinite():
        return float(value)
    if value.adjusted() > _LARGEST:
        raise NotificationError(f"{value} has too many digits", field=field or None)
    if value == value.to_integral_value():
        return int(value)
    if Decimal(repr(float(value))) == value:
        return float(value)
    raise NotificationError(
        f"{value} has more digits than a number can hold exactly; round it, or publish it as text",
        field=field or None,
    )


# -- classes -----------------------------------------------------------------------------------


def _fields_of(kind: type) -> _Fields | None:
    """How to find the fields of an object of a class; None if it is none that has such."""
    if issubclass(kind, msgspec.Struct):
        return _of_struct
    if hasattr(kind, "__dataclass_fields__") and not hasattr(kind, "model_dump"):
        return _of_dataclass
    if hasattr(kind, "__attrs_attrs__"):
        return _of_attrs
    if hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_dump"):
        return _of_model
    return None


def _of_struct(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """By the names that they have in JSON, with the tag that tells one kind from others."""
    config = value.__struct_config__
    if config.tag_field is not None:
        yield config.tag_field, config.tag
    for each in msgspec.structs.fields(value):
        yield each.encode_name, getattr(value, each.name)


def _of_dataclass(value: Any) -> Iterator[tuple[str, Any]]:
    return ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))


def _of_attrs(value: Any) -> Iterator[tuple[str, Any]]:
    return ((each.name, getattr(value, each.name)) for each in value.__attrs_attrs__)


def _of_model(value: Any) -> Iterator[tuple[str, Any]]:
    """By the names that they have in JSON."""
    return iter(value.model_dump(by_alias=True).items())
