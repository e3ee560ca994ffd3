"""The grammar: from text to tree, what conditions make of constants, and of what is no filter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.exceptions import UnexpectedInput

from tidings.events.constraint import ABSENCE, DOMAINS, EXISTS, Constraint, ValueSet
from tidings.events.intervals import BOOLEANS, COMPARED, ORDERS, Intervals
from tidings.events.phrases import RESERVED
from tidings.events.sets import Sets
from tidings.events.strings import NO_TYPES, Like, Strings
from tidings.events.syntax_tree import (
    Context,
    Junction,
    Leaf,
    List,
    Maker,
    Negation,
    Node,
    Operand,
    Problem,
    Slot,
)
from tidings.events.values import STRING, domain_of

# -- what each condition makes of its constants ------------------------------------------------


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


def parse_tree(text: str) -> Node:
    """The tree of a text; `Problem` says where it is wrong."""
    try:
        return _parser().parse(text)  # type: ignore[return-value]  # the builder's result
    except UnexpectedInput as problem:
        raise _syntax_problem(text, problem) from None


@cache
def _parser() -> Lark:
    """The LALR parser, which builds nodes as it goes: no recursion, however long the text."""
    return Lark(
        (Path(__file__).parent / "filters.lark").read_text(encoding="utf-8"),
        parser="lalr",
        maybe_placeholders=True,
        transformer=_Builder(),
    )


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """From grammar rules to nodes."""

    def start(self, node: Node) -> Node:
        return node

    group = start

    def or_expr(self, *nodes: Node) -> Node:
        return Junction(False, nodes)

    def and_expr(self, *nodes: Node) -> Node:
        return Junction(True, nodes)

    def negation(self, node: Node) -> Node:
        return Negation(node)

    def always(self, token: Token) -> Node:
        return Junction(True, ())

    def never(self, token: Token) -> Node:
        return Junction(False, ())

    def name(self, token: Token) -> Token:
        if token.type == "WORD":
            if RESERVED.fullmatch(token):
                reason = f"{str(token)!r} is a word of the language; as a name it needs backticks"
                raise Problem(reason, _at(token))
            return token
        return token.update(value=str(token)[1:-1].replace("``", "`"))

    def list(self, opening: Token, *tokens: Token | None) -> List:
        constants = [t for t in tokens if t is not None and t.type not in ("COMMA", "RPAR")]
        return List(_at(opening), tuple(map(_constant, constants)))

    def holds(self, name: Token) -> Node:
        return Leaf(str(name), _at(name), holds)

    def exists(self, name: Token) -> Node:
        return Leaf(str(name), _at(name), lambda *_: EXISTS)

    def compare(self, name: Token, symbol: Token, constant: Token) -> Node:
        sign = "!=" if symbol == "<>" else str(symbol)
        return Leaf(str(name), _at(name), COMPARISONS[sign], (_operand(constant),), sign == "!=")

    def compare_reversed(self, constant: Token, symbol: Token, name: Token) -> Node:
        sign = MIRRORED.get(symbol, symbol)
        return self.compare(name, Token("COMPARISON", sign), constant)

    def between(self, name: Token, no: Token | None, low: Token, high: Token) -> Node:
        return _leaf(name, between, no, low, high)

    def like(self, name: Token, no: Token | None, pattern: Token, escape: Token | None) -> Node:
        return _leaf(name, like, no, pattern, *([] if escape is None else [escape]))

    def under(self, name: Token, no: Token | None, subject: Token) -> Node:
        return _leaf(name, under, no, subject)

    def among(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, among, no, items)

    def contains(self, name: Token, no: Token | None, item: Token) -> Node:
        return _leaf(name, set_maker(Sets.superset), no, item)

    def superset(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, set_maker(Sets.superset), no, items)

    def subset(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, set_maker(Sets.subset), no, items)

    def overlaps(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, set_maker(Sets.overlapping), no, items)

    def disjoint(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, set_maker(Sets.disjoint), no, items)

    def is_null(self, name: Token, no: Token | None) -> Node:
        return Leaf(str(name), _at(name), lambda *_: ABSENCE, negated=no is not None)

    def is_domain(self, name: Token, no: Token | None, domain: Token) -> Node:
        whole = Constraint.of(DOMAINS[domain.lower()].everything)
        return Leaf(str(name), _at(name), lambda *_: whole, negated=no is not None)

    def is_type(self, name: Token, no: Token | None, type_name: Token) -> Node:
        return _leaf(name, is_type, no, type_name)

    def is_a(self, name: Token, no: Token | None, type_name: Token) -> Node:
        return _leaf(name, is_a, no, type_name)

    def registered(self, name: Token, no: Token | None, word: Token, items: List) -> Node:
        return _leaf(name, registered(word), no, items)


def _at(token: Token) -> int:
    return token.start_pos or 0


def _operand(token: Token | List) -> Operand:
    return token if isinstance(token, List) else _constant(token)


def _constant(token: Token) -> Slot | bool:
    return token.type == "TRUE" if token.type in ("TRUE", "FALSE") else Slot(_at(token))


def _leaf(name: Token, make: Maker, no: Token | None, *operands: Token | List) -> Leaf:
    return Leaf(str(name), _at(name), make, tuple(map(_operand, operands)), no is not None)


# -- what to say of a text that is no filter ---------------------------------------------------

_CONSTANTS: Final = frozenset({"STRING", "NUMBER", "TIMESTAMP", "BYTES", "TRUE", "FALSE"})
_SPOKEN: Final = {
    "STRING": "a string in quotes",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "WORD": "an attribute's name",
    "DOMAIN": "a domain such as NUMBER",
    "COMPARISON": "a comparison",
    "$END": "the end",
}


def _syntax_problem(text: str, problem: UnexpectedInput) -> Problem:
    if not text.strip():
        return Problem("the filter is empty; TRUE admits everything", 0)
    at = problem.pos_in_stream or 0  # type: ignore[redundant-expr]  # lark's own type is wrong
    if isinstance(problem, UnexpectedToken) and problem.token.type == "$END":
        at = len(text.rstrip())
    if isinstance(problem, UnexpectedCharacters) and text[at] in "'\"`":
        return Problem(f"this {text[at]} is never closed", at)
    expected = set(problem.interactive_parser.accepts())  # type: ignore[no-untyped-call]
    history = getattr(problem, "token_history", None)
    if expected == {"LPAR"} and history and history[-1].type == "WORD":
        word = history[-1]
        return Problem(f"{str(word)[:40]!r} is no operator; expected {OPERATORS}", _at(word))
    return Problem(f"expected {_expectation(expected)}, found {_shown(text, at)}", at)


def _shown(text: str, at: int) -> str:
    word = re.compile(r"\w+|'[^']*'?|\S").match(text, at)
    return repr(word.group()[:40]) if word else "the end"


def _expectation(expected: set[str]) -> str:
    """What could stand there, in words."""
    if "BETWEEN" in expected:
        return f"an operator ({OPERATORS})"
    if "EXISTS" in expected or expected >= {"LPAR", "WORD"}:
        return "a condition, such as price > 10"
    words = []
    if expected >= _CONSTANTS:
        words.append("a constant")
        expected = expected - _CONSTANTS
    words += [_SPOKEN.get(e, e) for e in sorted(expected) if e != "QUOTED_NAME"]
    return " or ".join(words)
