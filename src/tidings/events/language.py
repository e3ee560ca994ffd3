"""The filter language: from text to canonical filters. docs/filters.md is its normative page.

Subscriptions come by the thousand in few shapes, so a text is split into its shape and its
constants with one regular expression. Only a shape never seen before goes through the grammar;
the result is a `Template` that binds constants::

    symbol = 'DIS' AND change < 0   →   symbol = ? AND change < ?   with 'DIS', 0

Templates are kept in a bounded cache. When binding fails, the text is parsed afresh, so that
errors always point at the right place.
"""

from __future__ import annotations

import difflib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.exceptions import UnexpectedInput

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import ABSENCE, DOMAINS, EXISTS, Constraint, ValueSet, unions
from tidings.events.errors import FilterError
from tidings.events.filter import Filter, canonical
from tidings.events.intervals import BOOLEANS, ORDERS, Intervals
from tidings.events.phrases import RESERVED
from tidings.events.schema import Schema
from tidings.events.sets import Sets
from tidings.events.strings import NO_TYPES, Like, Strings
from tidings.events.values import STRING, domain_of, parse_time


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


class Problem(Exception):  # noqa: N818 - it never leaves this module
    """What is wrong with a text, and at which position. Becomes a `FilterError`."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


def parse(text: str, *, schema: Schema | None = None, limits: Limits | None = None) -> Filter:
    """The canonical filter that `text` describes; see `Filter.parse`."""
    limits = limits or DEFAULT_LIMITS
    if len(text) > limits.characters:
        reason = f"the filter has {len(text):,} characters; the limit is {limits.characters:,}"
        raise FilterError(reason, text=text, position=limits.characters)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            reason = "half of a surrogate pair is no character"
            raise FilterError(reason, text=text, position=problem.start) from None
    context = Context(schema, limits)
    try:
        template, constants, is_new = _template_and_constants(text, limits)
        try:
            return template.bind(constants, context)
        except Problem:
            if is_new:
                raise
            # The template comes from another text of the same shape: find the place in this.
            return _compile(text, limits).bind(constants, context)
    except Problem as problem:
        raise FilterError(problem.reason, text=text, position=problem.at) from None


# -- shapes and constants --------------------------------------------------------------------

_STRING = r"""'[^'\\]*(?:(?:''|\\[\s\S])[^'\\]*)*'|"[^"\\]*(?:(?:""|\\[\s\S])[^"\\]*)*\""""
_NUMBER = r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])"
_TAGGED = r"\b(?i:TIMESTAMP\s*'[^']*'|X'[^']*')"
_SCALAR = re.compile(f"{_TAGGED}|{_STRING}|{_NUMBER}")
_CONSTANT = re.compile(
    rf"(`(?:[^`]|``)+`|{_TAGGED}"
    rf"|\(\s*(?:{_TAGGED}|{_STRING}|{_NUMBER})(?:\s*,\s*(?:{_TAGGED}|{_STRING}|{_NUMBER}))*\s*\)"
    rf"|{_STRING}|{_NUMBER}|['\"][\s\S]*)"  # a quote that is never closed takes all the rest
)
_CLOSED = re.compile(_STRING)
_KIND: Final = {"'": "s", '"': "s", "(": "l", "T": "t", "t": "t", "X": "x", "x": "x"}


def _split(text: str) -> list[str]:
    """The text cut at its constants: text, constant, text, constant, …, text.

    A list of constants in parentheses counts as one; so does a name in backticks, which is no
    constant but may hold what looks like one.
    """
    return _CONSTANT.split(text)


def _constants(pieces: list[str]) -> list[str]:
    return [piece for piece in pieces[1::2] if piece[0] != "`"]


def _template_and_constants(text: str, limits: Limits) -> tuple[Template, list[str], bool]:
    """The template of a text, its constants, and whether the template was made from this text."""
    pieces = _split(text)
    found = pieces[1::2]
    if found and found[-1][0] in "'\"" and not _CLOSED.fullmatch(found[-1]):
        _compile(text, limits)  # raises
        raise AssertionError(f"the grammar accepts {found[-1][:40]}")
    shape = "\0".join(pieces[::2])
    kinds = "".join([p if p[0] == "`" else _KIND.get(p[0], "n") for p in found])
    key = f"{limits.depth}\0{shape}\0{kinds}"
    template = _templates.get(key)
    is_new = template is None
    if template is None:
        template = _compile(text, limits)
        if len(key) <= _LONGEST_CACHED_SHAPE:
            _templates[key] = template
            while len(_templates) > _MOST_CACHED_SHAPES:
                _templates.popitem(last=False)
    else:
        _templates.move_to_end(key)
    return template, _constants(pieces), is_new


_MOST_CACHED_SHAPES: Final = 1_024
_LONGEST_CACHED_SHAPE: Final = 4_096
_templates: OrderedDict[str, Template] = OrderedDict()


def _value(constant: str, at: int) -> Any:
    """The value of a scalar constant."""
    first = constant[0]
    if first in "'\"":
        body = constant[1:-1]
        if first in body:
            body = body.replace(first * 2, first)
        return _unescaped(body) if "\\" in body else body
    try:
        if first in "Tt":
            return parse_time(constant[constant.index("'") + 1 : -1])
        if first in "Xx":
            return bytes.fromhex(constant[2:-1])
        if constant.lstrip("+-").isdecimal():
            return int(constant)
        value = float(constant)
    except ValueError as problem:
        raise Problem(f"{constant[:40]} is no constant: {problem}", at) from None
    if value in (float("inf"), float("-inf")):
        raise Problem(f"{constant} is too large for a floating-point number", at)
    return value


def _unescaped(body: str) -> str:
    """A backslash escapes a quote or a backslash; before anything else it is itself."""
    return re.sub(r"\\(['\"\\])", r"\1", body)


def _values(constants: str, at: int) -> list[Any]:
    """The values of a list of constants in parentheses."""
    return [_value(m.group(), at + m.start()) for m in _SCALAR.finditer(constants)]


# -- the tree --------------------------------------------------------------------------------


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


class Template:
    """A parsed shape: give it constants, get a filter."""

    __slots__ = ("_evaluate",)

    def __init__(self, tree: Node, numbers: dict[int, int]) -> None:
        """`numbers` tells for the places of constants which constant of the text is there."""
        self._evaluate = _evaluator(tree, numbers, negated=False)

    def bind(self, constants: list[str], context: Context) -> Filter:
        conjunctions = self._evaluate(constants, context)
        if context.schema is not None:
            # Neighbours like [1, 2] and [3, 4] of an integer have met only now.
            conjunctions = _bounded([context.schema.refined(c) for c in conjunctions], context)
        if not conjunctions:
            context = replace(context, conflicts=[])
            self._evaluate(constants, context)
            return Filter(reasons=tuple(dict.fromkeys(context.conflicts or ())))
        return Filter.of_canonical(tuple(conjunctions))


Evaluator: TypeAlias = Callable[[list[str], Context], list[Conjunction]]
"""From constants to conjunctions in canonical form."""


def _evaluator(node: Node, numbers: dict[int, int], *, negated: bool) -> Evaluator:
    """The node as a function from constants to conjunctions, NOT pushed down to the leaves."""
    node, negated = _positive(node, negated)
    if isinstance(node, Leaf):
        name, leaf = node.name, _leaf_evaluator(node, numbers, negated)
        return lambda constants, context: _bounded(
            [Conjunction({name: c}) for c in leaf(constants, context)], context
        )
    assert isinstance(node, Junction)
    leaves: list[tuple[str, LeafEvaluator]] = []
    others: list[Evaluator] = []
    for child in node.nodes:
        inner, flipped = _positive(child, negated)
        if isinstance(inner, Leaf):
            leaves.append((inner.name, _leaf_evaluator(inner, numbers, flipped)))
        else:
            others.append(_evaluator(inner, numbers, negated=flipped))
    combine = _disjunction if node.conjunctive == negated else _conjunction
    return combine(leaves, others)


def _positive(node: Node, negated: bool) -> tuple[Node, bool]:
    """The node under any NOTs, and whether they negate it."""
    while isinstance(node, Negation):
        node, negated = node.node, not negated
    return node, negated


LeafEvaluator: TypeAlias = Callable[[list[str], Context], list[Constraint]]


def _leaf_evaluator(leaf: Leaf, numbers: dict[int, int], negated: bool) -> LeafEvaluator:
    """A leaf as a function from constants to constraints of which one must hold."""
    make = leaf.make
    negated = negated != leaf.negated
    readers = [_reader(operand, numbers) for operand in leaf.operands]

    def evaluate(constants: list[str], context: Context) -> list[Constraint]:
        made = make(context, [read(constants) for read in readers], leaf)
        if isinstance(made, Constraint):
            found = [_opposite(made) if negated else made]
        elif negated:
            found = [Constraint.of(part) for part in made.complement()]
        else:
            found = [Constraint.of(made)]
            if context.schema is None and not made.is_empty:
                return found  # as nearly always
        if context.schema is not None:
            found = [context.schema.refine(leaf.name, c) for c in found]
        kept = [c for c in found if not c.is_empty]
        if not kept and context.conflicts is not None:
            context.conflicts.append(f"a condition on {leaf.name} admits no value at all")
        return kept

    return evaluate


def _opposite(constraint: Constraint) -> Constraint:
    """NOT of what is said of presence and of whole domains."""
    if constraint.absent:
        return EXISTS
    if constraint.others and not constraint.parts:
        return ABSENCE
    if constraint.others:
        return Constraint({d: DOMAINS[d].everything for d in constraint.parts})
    return Constraint({d: DOMAINS[d].nothing for d in constraint.parts}, others=True)


def _reader(operand: Operand, numbers: dict[int, int]) -> Callable[[list[str]], Any]:
    """An operand as a function from the text's constants to a value or a list of values."""
    match operand:
        case Slot(at):
            number = numbers[at]
            return lambda constants: _value(constants[number], at)
        case List(at) if at in numbers:
            number = numbers[at]
            return lambda constants: _values(constants[number], at)
        case List(_, items):
            readers = [_reader(item, numbers) for item in items]
            return lambda constants: [read(constants) for read in readers]
    return lambda constants: operand


def _disjunction(leaves: list[tuple[str, LeafEvaluator]], others: list[Evaluator]) -> Evaluator:
    by_name: dict[str, list[LeafEvaluator]] = {}
    for name, leaf in leaves:
        by_name.setdefault(name, []).append(leaf)

    def evaluate(constants: list[str], context: Context) -> list[Conjunction]:
        found = []
        for name, choices in by_name.items():
            constraints = [c for leaf in choices for c in leaf(constants, context)]
            found += [Conjunction({name: c}) for c in _unions(constraints, context)]
        for other in others:
            found += other(constants, context)
        return _bounded(found, context)

    return evaluate


def _conjunction(leaves: list[tuple[str, LeafEvaluator]], others: list[Evaluator]) -> Evaluator:
    def evaluate(constants: list[str], context: Context) -> list[Conjunction]:
        single: dict[str, Constraint] = {}
        several: dict[str, list[Constraint]] = {}
        choices: list[list[Conjunction]] = []
        for name, leaf in leaves:
            found = leaf(constants, context)
            if len(found) != 1:
                choices.append([Conjunction({name: c}) for c in found])
            elif name in single:
                several.setdefault(name, [single[name]]).append(found[0])
            else:
                single[name] = found[0]
        choices += [other(constants, context) for other in others]
        for name, constraints in several.items():
            single[name] = _intersection(context, name, constraints)
            if single[name].is_empty:
                return []
        result = [Conjunction(single)]
        for choice in choices:
            result = _product(result, choice, context)
        return result

    return evaluate


def _intersection(context: Context, name: str, constraints: list[Constraint]) -> Constraint:
    """All the constraints at once: by halves, so that each is looked at only a few times."""
    if len(constraints) == 1:
        return constraints[0]
    half = len(constraints) // 2
    one = _intersection(context, name, constraints[:half])
    other = _intersection(context, name, constraints[half:])
    both = one.intersect(other)
    if both.is_empty and not one.is_empty and not other.is_empty:
        _note_conflict(context, name, one, other)
    return both


def _product(
    left: list[Conjunction], right: list[Conjunction], context: Context
) -> list[Conjunction]:
    if len(left) * len(right) > 10 * context.limits.conjunctions:
        _too_many(context)
    found = []
    for one in left:
        for other in right:
            both = one.intersect(other)
            if both is not None:
                found.append(both)
            elif context.conflicts is not None:
                for name in one.constraints.keys() & other.constraints.keys():
                    _note_conflict(context, name, one[name], other[name])
    return _bounded(found, context)


def _bounded(conjunctions: list[Conjunction], context: Context) -> list[Conjunction]:
    if len(conjunctions) <= 1:
        return conjunctions
    try:
        return list(canonical(conjunctions, most=context.limits.conjunctions))
    except OverflowError:
        _too_many(context)


def _unions(constraints: list[Constraint], context: Context) -> list[Constraint]:
    if len(constraints) <= 1:
        return constraints
    try:
        return unions(constraints, most=context.limits.conjunctions)
    except OverflowError:
        _too_many(context)


def _too_many(context: Context) -> NoReturn:
    raise Problem(
        f"written without nested ORs, the filter has more than {context.limits.conjunctions:,} "
        "alternatives; split it into several",
        0,
    )


def _note_conflict(context: Context, name: str, one: Constraint, other: Constraint) -> None:
    if context.conflicts is not None and not one.overlaps(other):
        said = f"{one.phrase(name).text} excludes {other.phrase(name).text}"
        context.conflicts.append(said)


# -- what conditions mean --------------------------------------------------------------------


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
    build: Callable[[Any, Any], Intervals] = {
        "=": Intervals.point,
        "!=": Intervals.point,
        "<": Intervals.below,
        "<=": lambda order, value: Intervals.below(order, value, closed=True),
        ">": Intervals.above,
        ">=": lambda order, value: Intervals.above(order, value, closed=True),
    }[symbol]

    def make(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
        value = values[0]
        return _part(build(_comparable(context, leaf, 0, value), value))

    return make


_MAKERS: Final = {symbol: _compare(symbol) for symbol in ("=", "!=", "<", "<=", ">", ">=")}
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _among(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    items = values[0]
    if not items:
        raise Problem("IN needs at least one value", leaf.place(0))
    domains = dict.fromkeys(map(domain_of, items))
    if len(domains) > 1:
        raise Problem(f"the list mixes {' and '.join(domains)}", leaf.place(0))
    return _part(Intervals.points(_comparable(context, leaf, 0, items[0]), items))


def _between(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    low, high = values
    if domain_of(low) != domain_of(high):
        reason = f"BETWEEN a {domain_of(low)} AND a {domain_of(high)} means nothing"
        raise Problem(reason, leaf.place(1))
    return _part(Intervals.between(_comparable(context, leaf, 0, low), low, high))


def _like(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    _comparable(context, leaf, 0, values[0])
    if len(values) == 1:
        return Strings.like(Like.parse(values[0]))
    if len(values[1]) != 1:
        raise Problem("ESCAPE takes a single character", leaf.place(1))
    try:
        return Strings.like(Like.parse(values[0], values[1], strict=True))
    except ValueError as problem:
        raise Problem(str(problem), leaf.place(0)) from None


def _under(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    _comparable(context, leaf, 0, values[0])
    return Strings.under(values[0])


def _holds(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    if context.schema is not None and context.schema.domain(leaf.name) not in (None, "boolean"):
        declared = context.schema.domain(leaf.name)
        raise Problem(f"{leaf.name} is declared {declared}, so it needs a comparison", leaf.at)
    return Intervals.point(BOOLEANS, True)


def _set_maker(build: Callable[[Iterable[Any]], Sets]) -> Callable[..., ValueSet]:
    def make(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
        if context.schema is not None and context.schema.domain(leaf.name) not in (None, "set"):
            declared = context.schema.domain(leaf.name)
            raise Problem(f"{leaf.name} is declared {declared}, not a set", leaf.at)
        return build(values[0] if isinstance(values[0], list) else values)

    return make


def _is_type(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    _declared_type(context, values[0], leaf)
    return Strings(Intervals.point(ORDERS[STRING], values[0]))


def _is_a(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
    _declared_type(context, values[0], leaf)
    return Strings.is_a(values[0], NO_TYPES if context.schema is None else context.schema.types)


def _declared_type(context: Context, name: str, leaf: Leaf) -> None:
    types = NO_TYPES if context.schema is None else context.schema.types
    if len(types) and name not in types:
        near = difflib.get_close_matches(name, types.parents, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise Problem(f"the schema declares no type {name!r}{hint}", leaf.place(0))


def _registered(word: Token) -> Callable[[Context, Sequence[Any], Leaf], ValueSet]:
    def make(context: Context, values: Sequence[Any], leaf: Leaf) -> ValueSet:
        for domain in DOMAINS.values():
            operator = domain.operators.get(word.upper())
            if operator is not None:
                try:
                    return operator(*values[0])
                except (TypeError, ValueError) as problem:
                    raise Problem(f"{word}: {problem}", leaf.place(0)) from None
        raise Problem(f"{str(word)!r} is no operator; expected {_OPERATORS}", _at(word))

    return make


_OPERATORS: Final = "=, !=, <, <=, >, >=, IN, BETWEEN, LIKE, UNDER, CONTAINS, IS, …"


# -- the grammar -----------------------------------------------------------------------------


def _compile(text: str, limits: Limits) -> Template:
    """Parse a text through the grammar; `Problem` says where it is wrong."""
    places = [m.start() for m in _CONSTANT.finditer(text) if m.group()[0] != "`"]
    _check_depth(text, limits)
    try:
        tree: Node = _grammar().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as problem:
        raise _syntax_problem(text, problem) from None
    return Template(tree, {at: number for number, at in enumerate(places)})


_NESTING = re.compile(r"[()]")  # a chain of NOTs is walked, not recursed into


def _check_depth(text: str, limits: Limits) -> None:
    """Refuse deep nesting before anything recurses into it."""
    depth = at = 0
    for piece_number, piece in enumerate(_split(text)):
        if piece_number % 2 == 0:
            for bracket in _NESTING.finditer(piece):
                depth += -1 if bracket.group() == ")" else 1
                if depth > limits.depth:
                    reason = f"nested more than {limits.depth} deep"
                    raise Problem(reason, at + bracket.start())
        at += len(piece)


@cache
def _grammar() -> Lark:
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
        return Leaf(str(name), _at(name), _holds)

    def exists(self, name: Token) -> Node:
        return Leaf(str(name), _at(name), lambda *_: EXISTS)

    def compare(self, name: Token, symbol: Token, constant: Token) -> Node:
        sign = "!=" if symbol == "<>" else str(symbol)
        return Leaf(str(name), _at(name), _MAKERS[sign], (_operand(constant),), sign == "!=")

    def compare_reversed(self, constant: Token, symbol: Token, name: Token) -> Node:
        sign = _MIRRORED.get(symbol, symbol)
        return self.compare(name, Token("COMPARISON", sign), constant)

    def between(self, name: Token, no: Token | None, low: Token, high: Token) -> Node:
        return _leaf(name, _between, no, low, high)

    def like(self, name: Token, no: Token | None, pattern: Token, escape: Token | None) -> Node:
        return _leaf(name, _like, no, pattern, *([] if escape is None else [escape]))

    def under(self, name: Token, no: Token | None, subject: Token) -> Node:
        return _leaf(name, _under, no, subject)

    def among(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, _among, no, items)

    def contains(self, name: Token, no: Token | None, item: Token) -> Node:
        return _leaf(name, _set_maker(Sets.superset), no, item)

    def superset(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, _set_maker(Sets.superset), no, items)

    def subset(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, _set_maker(Sets.subset), no, items)

    def overlaps(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, _set_maker(Sets.overlapping), no, items)

    def disjoint(self, name: Token, no: Token | None, items: List) -> Node:
        return _leaf(name, _set_maker(Sets.disjoint), no, items)

    def is_null(self, name: Token, no: Token | None) -> Node:
        return Leaf(str(name), _at(name), lambda *_: ABSENCE, negated=no is not None)

    def is_domain(self, name: Token, no: Token | None, domain: Token) -> Node:
        whole = Constraint.of(DOMAINS[domain.lower()].everything)
        return Leaf(str(name), _at(name), lambda *_: whole, negated=no is not None)

    def is_type(self, name: Token, no: Token | None, type_name: Token) -> Node:
        return _leaf(name, _is_type, no, type_name)

    def is_a(self, name: Token, no: Token | None, type_name: Token) -> Node:
        return _leaf(name, _is_a, no, type_name)

    def registered(self, name: Token, no: Token | None, word: Token, items: List) -> Node:
        return _leaf(name, _registered(word), no, items)


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
        return Problem(f"{str(word)[:40]!r} is no operator; expected {_OPERATORS}", _at(word))
    return Problem(f"expected {_expectation(expected)}, found {_shown(text, at)}", at)


def _shown(text: str, at: int) -> str:
    word = re.compile(r"\w+|'[^']*'?|\S").match(text, at)
    return repr(word.group()[:40]) if word else "the end"


def _expectation(expected: set[str]) -> str:
    """What could stand there, in words."""
    if "BETWEEN" in expected:
        return f"an operator ({_OPERATORS})"
    if "EXISTS" in expected or expected >= {"LPAR", "WORD"}:
        return "a condition, such as price > 10"
    words = []
    if expected >= _CONSTANTS:
        words.append("a constant")
        expected = expected - _CONSTANTS
    words += [_SPOKEN.get(e, e) for e in sorted(expected) if e != "QUOTED_NAME"]
    return " or ".join(words)
