"""The filter language: from text to canonical filters. docs/filters.md is its normative page.

Subscriptions come by the thousand in few shapes, so a text is split into its shape and its
constants with one regular expression. Only a shape never seen before goes through the grammar;
the result is a `Template` that binds constants::

    symbol = 'DIS' AND change < 0   →   symbol = ? AND change < ?   with 'DIS', 0

Templates are kept in a bounded cache. When binding fails, the text is parsed afresh, so that
errors always point at the right place.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NoReturn, TypeAlias

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import ABSENCE, DOMAINS, EXISTS, Constraint, unions
from tidings.events.encoding import is_unspeakable
from tidings.events.errors import FilterError
from tidings.events.filter import Filter, canonical
from tidings.events.grammar import parse_tree
from tidings.events.schema import Schema
from tidings.events.syntax_tree import (
    DEFAULT_LIMITS,
    Context,
    Junction,
    Leaf,
    Limits,
    List,
    Negation,
    Node,
    Operand,
    Problem,
    Slot,
)
from tidings.events.values import parse_time


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
    constants = [piece for piece in found if piece[0] != "`"]
    return template, constants, is_new


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
        is_whole = constant.lstrip("+-").isdecimal()
        value = int(constant) if is_whole else float(constant)
    except ValueError as problem:
        raise Problem(f"{constant[:40]} is no constant: {problem}", at) from None
    if is_unspeakable(value):
        what = "constant" if is_whole else "floating-point number"
        raise Problem(f"{constant[:40]} is too large for a {what}", at)
    return value


def _unescaped(body: str) -> str:
    """A backslash escapes a quote or a backslash; before anything else it is itself."""
    return re.sub(r"\\(['\"\\])", r"\1", body)


def _values(constants: str, at: int) -> list[Any]:
    """The values of a list of constants in parentheses."""
    return [_value(m.group(), at + m.start()) for m in _SCALAR.finditer(constants)]


def _compile(text: str, limits: Limits) -> Template:
    """Parse a text through the grammar; `Problem` says where it is wrong."""
    places = [m.start() for m in _CONSTANT.finditer(text) if m.group()[0] != "`"]
    _check_depth(text, limits)
    tree = parse_tree(text)
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


# -- templates -------------------------------------------------------------------------------


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
            if at not in numbers:  # the grammar sees a constant in `and0`, where shapes see none
                raise Problem("expected a space before this constant", at)
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
