"""Frozen: what a node remembers, as one value that can be compared, kept and gone on from.

Two nodes whose frozen states are equal do the same whatever happens, so a small world can be
explored exhaustively: freeze, try an input, thaw, try the next one.

What never changes is compared by its content, and anything else by its place, so what two parts
share is shared in the copy, too. Dictionaries keep their order, in which a node goes through them.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Final

import msgspec

from tidings.events import Conjunction, Constraint, Filter, Notification

_ATOMS: Final = frozenset(
    {NoneType, bool, int, float, str, bytes, datetime, Filter, Conjunction, Constraint}
)
_CODE: Final = (type, Enum, FunctionType, BuiltinFunctionType)
_VALUES: Final = (tuple, frozenset, msgspec.Struct)
"""What has no place of its own: two that are equal may as well be one."""


def freeze(thing: Any, *outside: Any) -> Hashable:
    """The state of a node or a part. What lies `outside` is not looked into, but given to `thaw`.

    >>> row = [1, 2]
    >>> shared, alike = freeze([row, row]), freeze([[1, 2], [1, 2]])
    >>> shared == freeze([row, row]), shared == alike
    (True, False)
    >>> one, other = thaw(shared)
    >>> one is other, one == row, one is row
    (True, True, False)
    """
    frozen: Hashable = _Freezing(outside).freeze(thing)
    return frozen


def thaw(frozen: Hashable, *outside: Any) -> Any:
    """A new thing of this state, which goes on as the one that was frozen would."""
    return _Thawing(outside).thaw(frozen)


class _Freezing:
    """What is frozen is a tuple that begins with how to thaw it, or stands for itself."""

    def __init__(self, outside: tuple[Any, ...]) -> None:
        self._seen = list(outside)
        self._places = {id(thing): place for place, thing in enumerate(outside)}

    def freeze(self, thing: Any) -> Any:
        kind = thing.__class__
        if kind in _ATOMS:
            return thing
        place = self._places.get(id(thing))
        if place is not None:
            return "seen", place
        if kind is tuple:
            return "tuple", *map(self.freeze, thing)
        if kind is MethodType:
            return "method", self.freeze(thing.__self__), thing.__name__
        if isinstance(thing, _CODE):
            return _bare(thing)
        if kind is Notification:
            body = (thing.content, thing.bytes_type)
            packed = thing.packed and bytes(thing.packed)
            return "notification", packed, body, *thing.attributes.items()
        is_value = isinstance(thing, _VALUES)
        if not is_value:
            self._places[id(thing)] = len(self._seen)
            self._seen.append(thing)  # so that nothing else gets its id meanwhile
        if kind is dict:
            return "dict", *((self.freeze(k), self.freeze(v)) for k, v in thing.items())
        if kind is list:
            return "list", *map(self.freeze, thing)
        if kind is set or kind is frozenset:
            return kind.__name__, *map(self.freeze, sorted(thing, key=self._rank))
        make, args, state, items, pairs = (*thing.__reduce_ex__(2), None, None, None)[:5]
        inner = (args, state, tuple(items or ()), tuple(pairs or ()))
        return "value" if is_value else "object", make, *map(self.freeze, inner)

    def _rank(self, thing: Any) -> tuple[int, str]:
        """An order of what a set holds; always the same, if all objects in it were seen before."""
        place = self._places.get(id(thing), -1)
        return place, repr(thing) if place < 0 else ""


def _bare(code: Any) -> Any:
    """Code, if it remembers nothing that could not be seen here."""
    holds = getattr(code, "__closure__", None) or getattr(code, "__self__", None)
    if holds is None or isinstance(holds, type | ModuleType):
        return code
    raise TypeError(f"{code.__qualname__} holds something: make it a method or a partial")


class _Thawing:
    def __init__(self, outside: tuple[Any, ...]) -> None:
        self._seen = list(outside)

    def thaw(self, frozen: Any) -> Any:
        if frozen.__class__ is not tuple:
            return frozen
        how, *inner = frozen
        match how:
            case "seen":
                return self._seen[inner[0]]
            case "object":
                self._seen.append(None)
                return self._made(len(self._seen) - 1, *inner)
            case "dict":
                return self._table(inner)
            case "tuple":
                return tuple(map(self.thaw, inner))
            case "method":
                return getattr(self.thaw(inner[0]), inner[1])
            case "value":
                return self._made(None, *inner)
            case "frozenset":
                return frozenset(map(self.thaw, inner))
            case "notification":
                return _notification(*inner)
        row: Any = [] if how == "list" else set()
        self._seen.append(row)
        things = map(self.thaw, inner)
        row.extend(things) if how == "list" else row.update(things)
        return row

    def _table(self, pairs: list[Any]) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        self._seen.append(table)
        for key, value in pairs:
            held = self.thaw(key)
            table[held] = self.thaw(value)
        return table

    def _made(
        self, place: int | None, make: Any, args: Any, state: Any, items: Any, pairs: Any
    ) -> Any:
        """Something as it said itself that it is to be made: see `object.__reduce_ex__`."""
        thing = make(*self.thaw(args))
        if place is not None:
            self._seen[place] = thing
        state = self.thaw(state)
        if state is not None and hasattr(thing, "__setstate__"):
            thing.__setstate__(state)
        elif state is not None:
            fields, slots = state if isinstance(state, tuple) else (state, None)
            for name, value in {**(fields or {}), **(slots or {})}.items():
                setattr(thing, name, value)
        for item in self.thaw(items):
            thing.append(item)
        for key, value in self.thaw(pairs):
            thing[key] = value
        return thing


def _notification(
    packed: bytes | None, body: tuple[bytes | None, str | None], *attributes: tuple[str, Any]
) -> Notification:
    said = Notification.of_canonical(dict(attributes), *body)
    said.packed = None if packed is None else msgspec.Raw(packed)
    return said
