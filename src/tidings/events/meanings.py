"""Meanings: what each condition of the language makes of its constants."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from lark import Token

from tidings.events.constraint import DOMAINS, ValueSet
from tidings.events.intervals import BOOLEANS, COMPARED, ORDERS, Intervals
from tidings.events.sets import Sets
from tidings.events.strings import NO_TYPES, Like, Strings
from tidings.events.syntax_tree import Context, Leaf, Problem
from tidings.events.values import STRING, domain_of


def _comparable(context: Context, leaf: Leaf, operand: int, value: Any) -> Any:
    """The order of a constant's domain, which must be the declared one."""
    domain = domain_of(value)
    declared = context.schema.domain(leaf.name) if context.schema is not None else None
    if declared is not None and declared != domain:
        raise Problem(
            f"{leaf.name} is declared {declared}, this is a {domain}", leaf.place(operand)
        )
    return ORDERS[domain]


def _part(intervals: Intervals) -> ValueSet:
    return Strings(intervals) if intervals.domain == STRING else intervals


def _compare(symbol: str) -> Callable[[Context, Sequence[Any], Leaf], ValueSet]:
    build = COMPARED[_WORDS[symbol]]

    def make(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
        value = values[0]
        return _part(build(_comparable(context, leaf, 0, value), value))

    return make


_WORDS: Final = {"=": "eq", "!=": "eq", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
COMPARISONS: Final = {symbol: _compare(symbol) for symbol in _WORDS}
MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def among(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """`IN (…)`."""
    items = values[0]
    if not items:
        raise Problem("IN needs at least one value", leaf.place(0))
    domains = dict.fromkeys(map(domain_of, items))
    if len(domains) > 1:
        raise Problem(f"the list mixes {' and '.join(domains)}", leaf.place(0))
    return _part(Intervals.points(_comparable(context, leaf, 0, items[0]), items))


def between(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """`BETWEEN … AND …`."""
    low, high = values
    if domain_of(low) != domain_of(high):
        reason = f"BETWEEN a {domain_of(low)} AND a {domain_of(high)} means nothing"
        raise Problem(reason, leaf.place(1))
    return _part(Intervals.between(_comparable(context, leaf, 0, low), low, high))


def like(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """`LIKE … [ESCAPE …]`."""
    _comparable(context, leaf, 0, values[0])
    if len(values) == 1:
        return Strings.like(Like.parse(values[0]))
    if len(values[1]) != 1:
        raise Problem("ESCAPE takes a single character", leaf.place(1))
    try:
        return Strings.like(Like.parse(values[0], values[1], strict=True))
    except ValueError as problem:
        raise Problem(str(problem), leaf.place(0)) from None


def under(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """`UNDER …`."""
    _comparable(context, leaf, 0, values[0])
    return Strings.under(values[0])


def holds(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """A bare name: `= TRUE`."""
    if context.schema is not None and context.schema.domain(leaf.name) not in (None, "boolean"):
        declared = context.schema.domain(leaf.name)
        raise Problem(f"{leaf.name} is declared {declared}, so it needs a comparison", leaf.at)
    return Intervals.point(BOOLEANS, True)


def set_maker(build: Callable[[Iterable[Any]], Sets]) -> Callable[..., ValueSet]:
    """The operators on sets, which take a list or one element."""

    def make(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
        if context.schema is not None and context.schema.domain(leaf.name) not in (None, "set"):
            declared = context.schema.domain(leaf.name)
            raise Problem(f"{leaf.name} is declared {declared}, not a set", leaf.at)
        return build(values[0] if isinstance(values[0], list) else values)

    return make


def is_type(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """`IS '…'`."""
    _declared_type(context, values[0], leaf)
    return Strings(Intervals.point(ORDERS[STRING], values[0]))


def is_a(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    """`IS A '…'`."""
    _declared_type(context, values[0], leaf)
    return Strings.is_a(values[0], NO_TYPES if context.schema is None else context.schema.types)


def _declared_type(context: Context, name: str, leaf: Leaf) -> None:
    types = NO_TYPES if context.schema is None else context.schema.types
    if len(types) and name not in types:
        near = difflib.get_close_matches(name, types.parents, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise Problem(f"the schema declares no type {name!r}{hint}", leaf.place(0))


def registered(word: Token) -> Callable[[Context, Sequence[Any], Leaf], ValueSet]:
    """An operator that a registered domain brings along."""

    def make(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
        for domain in DOMAINS.values():
            operator = domain.operators.get(word.upper())
            if operator is not None:
                try:
                    return operator(*values[0])
                except (TypeError, ValueError) as problem:
                    raise Problem(f"{word}: {problem}", leaf.place(0)) from None
        raise Problem(f"{str(word)!r} is no operator; expected {OPERATORS}", word.start_pos or 0)

    return make


OPERATORS: Final = "=, !=, <, <=, >, >=, IN, BETWEEN, LIKE, UNDER, CONTAINS, IS, …"
