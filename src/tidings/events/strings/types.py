"""Types of events: which inherits from which, and the test for being of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tidings.events.errors import SchemaError
from tidings.events.intervals import STRINGS, Intervals
from tidings.events.phrases import literal
from tidings.events.strings.narrowing import StringTest


class Types:
    """A hierarchy of event types with multiple inheritance, fixed once made.

    >>> types = Types({"stock": [], "priced": [], "stock.quote": ["stock", "priced"]})
    >>> types.is_a("stock.quote", "priced"), types.is_a("stock", "stock.quote")
    (True, False)
    """

    __slots__ = ("_ancestors", "parents")

    def __init__(self, parents: Mapping[str, Iterable[str]] | None = None) -> None:
        self.parents = {name: tuple(above) for name, above in (parents or {}).items()}
        for name, above in list(self.parents.items()):
            for parent in above:
                self.parents.setdefault(parent, ())
                if parent == name:
                    raise SchemaError(f"the type {name!r} can't inherit from itself")
        self._ancestors: dict[str, frozenset[str]] = {}
        for name in self.parents:
            self._resolve(name)

    def _resolve(self, name: str) -> None:
        """Find the ancestors of `name` and of all above it; no recursion, as chains may be long."""
        path = [name]
        while path:
            here = path[-1]
            waiting = [p for p in self.parents[here] if p not in self._ancestors]
            if waiting:
                if waiting[0] in path:
                    raise SchemaError(f"the type {waiting[0]!r} inherits from itself")
                path.append(waiting[0])
                continue
            above = (self._ancestors[p] for p in self.parents[here])
            self._ancestors[here] = frozenset({here}).union(*above)
            path.pop()

    def __contains__(self, name: object) -> bool:
        return name in self.parents

    def __len__(self) -> int:
        return len(self.parents)

    def is_a(self, name: str, above: str) -> bool:
        """Whether `name` is `above` or inherits from it; an unknown type is only itself."""
        return name == above or above in self._ancestors.get(name, ())

    def __reduce__(self) -> tuple[object, ...]:
        return (Types, (self.parents,))


NO_TYPES: Final = Types()
"""The hierarchy in which no type inherits from another."""


class IsA:
    """Membership in a type of a hierarchy: the type itself or any that inherits from it."""

    __slots__ = ("name", "types")

    def __init__(self, name: str, types: Types = NO_TYPES) -> None:
        self.name = name
        self.types = types

    @property
    def text(self) -> str:
        return f"IS A {literal(self.name)}"

    @property
    def hull(self) -> Intervals:
        return Intervals.everything(STRINGS)

    def matches(self, value: str) -> bool:
        return self.types.is_a(value, self.name)

    def covers(self, other: StringTest) -> bool:
        return isinstance(other, IsA) and self.types.is_a(other.name, self.name)

    def covers_prefix(self, prefix: str) -> bool:
        return False

    def examples(self) -> Iterator[str]:
        yield self.name
        yield from (name for name in self.types.parents if self.matches(name))

    def to_plain(self) -> dict[str, object]:
        return {"is a": self.name}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IsA) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)
