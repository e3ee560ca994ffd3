"""The syntax tree: what a filter's text says, before its constants are known.

Nodes come from the grammar; their leaves know how to make a set of values from constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from tidings.events.constraint import Constraint, ValueSet
from tidings.events.schema import Schema


@dataclass(frozen=True)
class Limits:
    """How much a filter may ask for; a text beyond a limit is refused with an error."""

    characters: int = 4_000_000
    depth: int = 100
    conjunctions: int = 1_000

    def __post_init__(self) -> None:
        if self.depth > _DEEPEST:
            raise ValueError(f"a filter can't be nested more than {_DEEPEST} deep")


_DEEPEST: Final = 200  # evaluation recurses, and Python's stack is not endless

DEFAULT_LIMITS: Final = Limits()


class Problem(Exception):  # noqa: N818 - it never leaves the language
    """What is wrong with a text, and at which position. Becomes a `FilterError`."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class Slot(NamedTuple):
    """Where a template takes a constant, by its place in the text the template was made from."""

    at: int


class List(NamedTuple):
    """A list of constants: one constant of the text, unless it holds TRUE or FALSE."""

    at: int
    items: tuple[Slot | bool, ...]


Operand: TypeAlias = Slot | List | bool
"""A constant that varies with the text, or TRUE or FALSE, which belong to the shape."""

Maker: TypeAlias = "Callable[[Context, Sequence[Any], Leaf], ValueSet | Constraint]"


class Leaf(NamedTuple):
    """One condition on one attribute."""

    name: str
    at: int
    make: Maker
    operands: tuple[Operand, ...] = ()
    negated: bool = False

    def place(self, operand: int) -> int:
        """The text position of an operand."""
        found = self.operands[operand]
        return self.at if isinstance(found, bool) else found.at


class Junction(NamedTuple):
    """AND or OR of several nodes. AND of none is TRUE, OR of none is FALSE."""

    conjunctive: bool
    nodes: tuple[Node, ...]


class Negation(NamedTuple):
    """NOT of a node."""

    node: Node


Node: TypeAlias = Leaf | Junction | Negation


@dataclass
class Context:
    """What binding needs to know besides the constants."""

    schema: Schema | None
    limits: Limits
    conflicts: list[str] | None = None
    """Where to note why conjunctions are empty, if anybody asks."""
