"""The oracle of filters: what a filter means, decided by trying every notification there is.

It has a small syntax tree of its own, writes it as filter text, and evaluates it without any of
the algebra of `tidings.events`. A condition is true, false or, for an attribute that is absent or
of another domain, neither (SQL's three-valued logic); a filter admits what makes it *true*. With
three values it makes no difference whether NOT is pushed to the leaves first.

`UNIVERSE` is every combination of a few dozen values of three attributes. A set of notifications
is then an integer, one bit for each, and set algebra is `&`, `|` and `& ~`.

The strategies draw constants from a pool for which the universe is *complete*: it has a value in
every region that such constants can cut out (`tests/oracles/test_filters.py` checks that), so two
sets are equal, disjoint or one within the other exactly if their bits are. Only `anything` goes
beyond: with 2**53 and 2**53 + 1 both in the pool there is a region between them that no machine
number is in, and patterns may differ on strings that are not enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain, combinations, pairwise, product
from typing import Any

from hypothesis import strategies as st

from tidings.events import Filter, Notification

# -- values ----------------------------------------------------------------------------------


class Absent:
    """The value of an attribute that is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
CARRIED = [{"price": 1}]
"""A list of mappings: present, in no domain that a filter can name."""

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def domain(value: object) -> str:
    """The domain of a plain value; sets are written as lists, since {1, True} has one element."""
    if value is ABSENT:
        return "absent"
    if value is CARRIED:
        return "carried"
    kinds: list[tuple[type, str]] = [
        (bool, "boolean"),
        (int, "number"),
        (float, "number"),
        (str, "string"),
        (datetime, "time"),
        (bytes, "bytes"),
        (list, "set"),
    ]
    return next(word for kind, word in kinds if isinstance(value, kind))


def members(items: Iterable[object]) -> frozenset[tuple[str, Any]]:
    """The elements of a set, each with its domain, so that 1 and True stay two."""
    return frozenset((domain(i), i) for i in items)


# -- the tree --------------------------------------------------------------------------------

Truth = bool | None
"""Of a condition: true, false, or neither."""


@dataclass(frozen=True)
class Condition:
    """One condition on one attribute: its text after the name, and what it says of a value."""

    name: str
    text: str
    truth: Callable[[Any], Truth]

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Not:
    node: Node


@dataclass(frozen=True)
class And:
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    nodes: tuple[Node, ...]


Node = Condition | Not | And | Or


def text(node: Node) -> str:
    """The tree as filter text, with parentheses where they are needed and no others."""
    match node:
        case Condition():
            return node.text
        case Not(inner):
            return f"NOT {text(inner)}" if isinstance(inner, Condition) else f"NOT ({text(inner)})"
        case And(()):
            return "TRUE"
        case Or(()):
            return "FALSE"
        case And(nodes):
            return " AND ".join(f"({text(n)})" if isinstance(n, Or) else text(n) for n in nodes)
        case Or(nodes):
            return " OR ".join(f"({text(n)})" if isinstance(n, Or) else text(n) for n in nodes)


# -- the universe ----------------------------------------------------------------------------

_STRINGS = ["".join(s) for n in range(3) for s in product("ab.%", repeat=n)]
_SETS = [list(s) for n in range(5) for s in combinations([1, True, "a", "fresh"], n)]

VALUES: dict[str, list[object]] = {
    "x": [
        *(ABSENT, CARRIED, False, True),
        *(-1, 0, 0.5, 1, 2, 2**53, 2**53 + 1, 2**53 + 2, math.inf),
        *(*_STRINGS, "!", "a.a", "a.b", "a.ba", "aab", "b.a", "abab", "c", "d"),
        *(NOON - TICK, NOON, NOON + TICK, NOON + 2 * TICK),
        *(b"", b"\0", b"a", b"b"),
        *_SETS,
    ],
    "y": [ABSENT, CARRIED, False, True, -1, 0, 0.5, 1, 2, "", "a", "b", NOON],
    "o.z": [ABSENT, CARRIED, False, True],
}

PLAIN: list[dict[str, Any]] = [
    {name: v for name, v in zip(VALUES, values, strict=True) if v is not ABSENT}
    for values in product(*VALUES.values())
]
UNIVERSE = [Notification(plain) for plain in PLAIN]
EVERYTHING = (1 << len(PLAIN)) - 1


def admitted(found: Filter) -> int:
    """The notifications that the real filter admits, as bits."""
    return int("".join("1" if found.matches(n) else "0" for n in reversed(UNIVERSE)), 2)


def expected(node: Node) -> int:
    """The notifications that the tree admits, as bits."""
    return _truths(node)[0]


def _truths(node: Node) -> tuple[int, int]:
    """For which notifications the node is true, and for which false."""
    match node:
        case Condition():
            return _truths_of_one(node)
        case Not(inner):
            true, false = _truths(inner)
            return false, true
        case And(nodes):
            pairs = [_truths(n) for n in nodes]
            return _common(t for t, _ in pairs), _joined(f for _, f in pairs)
        case Or(nodes):
            pairs = [_truths(n) for n in nodes]
            return _joined(t for t, _ in pairs), _common(f for _, f in pairs)


@cache
def _truths_of_one(condition: Condition) -> tuple[int, int]:
    truths = [condition.truth(value) for value in VALUES[condition.name]]
    places = _PLACES[condition.name]
    true = (places[i] for i, truth in enumerate(truths) if truth is True)
    false = (places[i] for i, truth in enumerate(truths) if truth is False)
    return _joined(true), _joined(false)


def _joined(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _common(masks: Iterable[int]) -> int:
    result = EVERYTHING
    for mask in masks:
        result &= mask
    return result


# For each attribute and each of its values: the notifications with that value.
_INDICES = list(product(*(range(len(values)) for values in VALUES.values())))
_PLACES = {
    name: [
        _joined(1 << n for n, row in enumerate(_INDICES) if row[at] == i)
        for i in range(len(VALUES[name]))
    ]
    for at, name in enumerate(VALUES)
}

# -- conditions ------------------------------------------------------------------------------


def _within(where: str, says: Callable[[Any], bool]) -> Callable[[Any], Truth]:
    """A condition that only values of one domain satisfy or fail."""
    return lambda value: says(value) if domain(value) == where else None


def _negated(truth: Callable[[Any], Truth]) -> Callable[[Any], Truth]:
    return lambda value: None if (t := truth(value)) is None else not t


def constant(value: object) -> str:
    """A constant as filter text."""
    match value:
        case bool():
            return "true" if value else "FALSE"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat()}'"
        case bytes():
            return f"x'{value.hex()}'"
    return repr(value)


def _list(values: Iterable[object]) -> str:
    return f"({', '.join(map(constant, values))})"


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, c: value == c,
    "!=": lambda value, c: value != c,
    "<>": lambda value, c: value != c,
    "<": lambda value, c: value < c,
    "<=": lambda value, c: value <= c,
    ">": lambda value, c: value > c,
    ">=": lambda value, c: value >= c,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def comparison(name: str, sign: str, c: object, *, mirrored: bool = False) -> Condition:
    says = _OPERATORS[sign]
    words = f"{constant(c)} {_MIRRORED.get(sign, sign)} {name}"
    return Condition(
        name,
        words if mirrored else f"{name} {sign} {constant(c)}",
        _within(domain(c), lambda value: says(value, c)),
    )


def one_of(name: str, values: list[Any], *, no: bool = False) -> Condition:
    truth = _within(domain(values[0]), lambda value: value in values)
    return _optional(name, f"IN {_list(values)}", truth, no)


def between(name: str, low: Any, high: Any, *, no: bool = False) -> Condition:
    truth = _within(domain(low), lambda value: low <= value <= high)
    return _optional(name, f"between {constant(low)} and {constant(high)}", truth, no)


def like(name: str, pattern: str, *, no: bool = False) -> Condition:
    truth = _within("string", lambda value: like_matches(pattern, value))
    return _optional(name, f"LIKE {constant(pattern)}", truth, no)


def like_matches(pattern: str, value: str) -> bool:
    """LIKE with a backslash as escape, by trying every length for every `%`."""
    if not pattern:
        return not value
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return any(like_matches(rest, value[n:]) for n in range(len(value) + 1))
    if first == "_":
        return bool(value) and like_matches(rest, value[1:])
    if first == "\\" and rest and rest[0] in "%_\\":
        first, rest = rest[0], rest[1:]
    return value[:1] == first and like_matches(rest, value[1:])


def under(name: str, subject: str, *, no: bool = False) -> Condition:
    truth = _within("string", lambda v: v == subject or v.startswith(subject + "."))
    return _optional(name, f"UNDER {constant(subject)}", truth, no)


_SET_OPERATORS: dict[str, Callable[[frozenset[Any], frozenset[Any]], bool]] = {
    "SUPERSET OF": lambda found, items: found >= items,
    "SUBSET OF": lambda found, items: found <= items,
    "OVERLAPS": lambda found, items: bool(found & items),
    "DISJOINT FROM": lambda found, items: not found & items,
}


def set_condition(name: str, operator: str, items: list[Any], *, no: bool = False) -> Condition:
    says, wanted = _SET_OPERATORS[operator], members(items)
    truth = _within("set", lambda value: says(members(value), wanted))
    return _optional(name, f"{operator} {_list(items)}", truth, no)


def contains(name: str, item: object, *, no: bool = False) -> Condition:
    truth = _within("set", lambda value: members([item]) <= members(value))
    return _optional(name, f"CONTAINS {constant(item)}", truth, no)


def exists(name: str) -> Condition:
    return Condition(name, f"EXISTS {name}", lambda value: value is not ABSENT)


def is_null(name: str, *, no: bool = False) -> Condition:
    words = "IS NOT NULL" if no else "IS NULL"
    return Condition(name, f"{name} {words}", lambda value: (value is ABSENT) != no)


def is_domain(name: str, word: str, *, no: bool = False) -> Condition:
    def truth(value: object) -> Truth:
        return None if value is ABSENT else (domain(value) == word) != no

    return Condition(name, f"{name} IS {'NOT ' if no else ''}{word.upper()}", truth)


def bare(name: str) -> Condition:
    return Condition(name, name, _within("boolean", bool))


def _optional(name: str, words: str, truth: Callable[[Any], Truth], no: bool) -> Condition:
    if no:
        return Condition(name, f"{name} NOT {words}", _negated(truth))
    return Condition(name, f"{name} {words}", truth)


# -- strategies ------------------------------------------------------------------------------

# The universe is complete for these: see the module's docstring.
CONSTANTS: dict[str, dict[str, list[Any]]] = {
    "x": {
        "boolean": [False, True],
        "number": [0, 1, 1.0, 2**53 + 1],
        "string": ["", "%", "a", "a.b", "b"],
        "time": [NOON, NOON + TICK],
        "bytes": [b"", b"a"],
    },
    "y": {"boolean": [False, True], "number": [0, 1], "string": ["a"]},
    "o.z": {"boolean": [False, True]},
}
NAMED_DOMAINS = {
    "x": ["boolean", "number", "string", "time", "bytes", "set"],
    "y": ["boolean", "number", "string", "time"],
    "o.z": ["boolean"],
}
SUBJECTS = ["a", "b"]
ELEMENTS = [1, True, "a"]
# Not complete for these.
MORE_NUMBERS = [-0.0, 0.5, 2**53, 2.0**53]
PATTERNS = ["%a", "%a%", "a%b", "_", "_%", "a_", "%.%", r"\%%", "%b_a%", "%ab%", "b%", "ab", r"%\%"]

_BOTH = (False, True)


def conditions(name: str, *, exact: bool = True, sets: bool = True) -> st.SearchStrategy[Condition]:
    """Conditions on one attribute: one of the few hundred that the constants make."""
    pool = dict(CONSTANTS[name])
    if not exact and name == "x":
        pool["number"] = pool["number"] + MORE_NUMBERS
    kinds: list[list[Condition]] = []
    for constants in pool.values():
        twos = list(product(constants, repeat=2))
        kinds += [
            [
                comparison(name, *c, mirrored=m)
                for c in product(_OPERATORS, constants)
                for m in _BOTH
            ],
            [one_of(name, list(pair), no=no) for pair in twos for no in _BOTH]
            + [between(name, *pair, no=no) for pair in twos for no in _BOTH],
        ]
    kinds.append([is_domain(name, word, no=no) for word in NAMED_DOMAINS[name] for no in _BOTH])
    kinds.append([exists(name), bare(name), *(is_null(name, no=no) for no in _BOTH)])
    if name == "x":
        groups = [list(g) for n in range(4) for g in combinations(ELEMENTS, n)]
        of_sets = [
            set_condition("x", *c, no=no) for c in product(_SET_OPERATORS, groups) for no in _BOTH
        ]
        of_sets += [contains("x", item, no=no) for item in ELEMENTS for no in _BOTH]
        subjects = [under("x", s, no=no) for s in SUBJECTS for no in _BOTH]
        prefixes = [like("x", s + "%", no=no) for s in ("", *SUBJECTS) for no in _BOTH]
        kinds += [subjects + prefixes, *([of_sets] * 3 if sets else [])]
        if not exact:
            kinds += [[like("x", p, no=no) for p in PATTERNS for no in _BOTH]] * 3
    return st.one_of([st.sampled_from(kind) for kind in kinds])


def _any_condition(exact: bool) -> st.SearchStrategy[Condition]:
    x, y, z = (conditions(name, exact=exact) for name in VALUES)
    return st.one_of(x, x, x, y, y, z)


def _trees(exact: bool) -> st.SearchStrategy[Node]:
    return st.recursive(
        _any_condition(exact),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(lambda nodes: And(tuple(nodes)), st.lists(inner, max_size=3)),
            st.builds(lambda nodes: Or(tuple(nodes)), st.lists(inner, max_size=3)),
        ),
        max_leaves=6,
    )


anything: st.SearchStrategy[Node] = _trees(exact=False)
"""Any filter."""

anything_exact: st.SearchStrategy[Node] = _trees(exact=True)
"""Any filter over ordered scalars and sets."""

conjunctions: st.SearchStrategy[Node] = st.builds(
    lambda nodes: And(tuple(nodes)), st.lists(_any_condition(exact=True), max_size=4)
)
"""Several conditions over ordered scalars and sets, all of which must hold. Where the negation
of a condition on sets is a union, so is the filter."""


def regions(cuts: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The pairs of neighbours among constants, with None for the ends of the line."""
    line = [None, *sorted(set(cuts)), None]
    return list(pairwise(line))


def cut_strings() -> list[str]:
    """Every string at which a condition of the exact pool can begin or end."""
    own = CONSTANTS["x"]["string"]
    ends = chain.from_iterable((s, s + ".", s + "/") for s in SUBJECTS)
    return sorted({*own, *ends, "c"})
