"""Strings: sets of strings by order, by pattern and by event type, combined.

A set of strings is an `Intervals` narrowed by tests that intervals cannot express: LIKE patterns
and membership in a type. Prefixes and exact strings are intervals, never tests, and a pattern
that begins with literal text also narrows the intervals, so that indexes can use them.

Exact for what intervals express. With tests, `matches`, `intersect` and `complement` stay
exact; `covers` may miss a covering that only the combination of several tests implies, and
`overlaps` may claim an overlap between patterns that no string satisfies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

from tidings.events.errors import SchemaError
from tidings.events.intervals import STRINGS, Intervals, Span, after_prefix
from tidings.events.phrases import Phrase, all_of, escaped_pattern, literal, name_text, quoted
from tidings.events.values import STRING
from tidings.events.work import spend


class StringTest(Protocol):
    """A condition on a string that is not an interval. Immutable, hashable, ordered by `text`."""

    @property
    def text(self) -> str:
        """How it reads after the attribute's name."""

    @property
    def hull(self) -> Intervals:
        """Intervals that hold every string that passes."""

    def matches(self, value: str) -> bool: ...

    def covers(self, other: StringTest) -> bool:
        """Whether every string that passes `other` surely passes this."""

    def covers_prefix(self, prefix: str) -> bool:
        """Whether every string that begins with `prefix` surely passes this."""

    def examples(self) -> Iterator[str]:
        """Some strings that pass."""

    def to_plain(self) -> dict[str, object]: ...


ANY: Final = "%"
ONE: Final = "_"


class Like:
    """A LIKE pattern: `%` is any text, `_` any one character.

    `parts` holds literal runs and wildcards in canonical order (`_` before `%`, one `%`), so
    equal patterns are equal objects.
    """

    def __init__(self, parts: tuple[tuple[bool, str], ...]) -> None:
        self.parts = parts

    @classmethod
    def parse(cls, pattern: str, escape: str = "\\", *, strict: bool = False) -> Like:
        """Read a pattern; `ValueError` if `strict` and the escape stands before anything else
        than `%`, `_` or itself (otherwise it then stands for itself, as in CloudEvents SQL)."""
        tokens: list[tuple[bool, str]] = []
        at = 0
        while at < len(pattern):
            char = pattern[at]
            at += 1
            if char == escape:
                following = pattern[at : at + 1]
                if following and (following in "%_" or following == escape):
                    tokens.append((False, following))
                    at += 1
                    continue
                if strict:
                    raise ValueError(f"{escape!r} must be followed by %, _ or itself")
            tokens.append((char in "%_", char))
        return cls(_canonical_parts(tokens))

    @property
    def exact(self) -> str | None:
        """The only string it matches, if it has no wildcard."""
        return "".join(t for _, t in self.parts) if not any(w for w, _ in self.parts) else None

    @property
    def prefix(self) -> str | None:
        """The prefix it asks for, if it asks for nothing else."""
        match self.parts:
            case ((True, "%"),):
                return ""
            case ((False, text), (True, "%")):
                return text
        return None

    @property
    def pattern(self) -> str:
        return "".join(t if wild else escaped_pattern(t) for wild, t in self.parts)

    @property
    def text(self) -> str:
        return f"LIKE {quoted(self.pattern)}"

    @cached_property
    def hull(self) -> Intervals:
        wild, text = self.parts[0]
        return Intervals.everything(STRINGS) if wild else Intervals.prefix(text)

    @cached_property
    def _runs(self) -> tuple[_Run, ...]:
        return _runs(self.parts)

    def matches(self, value: str) -> bool:
        """The first and last run have their places; what is between may as well stand at the
        first place where it fits, so nothing is tried twice."""
        first, *between = self._runs
        at, end = len(first.text), len(value)
        if not between:
            return at == end and first.stands_at(value, 0)
        last = between.pop()
        end -= len(last.text)
        if at > end or not first.stands_at(value, 0) or not last.stands_at(value, end):
            return False
        for run in between:
            at = run.find(value, at, end)
            if at < 0:
                return False
            at += len(run.text)
        return True

    def covers(self, other: StringTest) -> bool:
        return (
            isinstance(other, Like)
            and self._is_written_in(other._literals)
            and _absorbs(_symbols(self.parts), _symbols(other.parts))
        )

    def covers_prefix(self, prefix: str) -> bool:
        return self._is_written_in([prefix]) and _absorbs(
            _symbols(self.parts), [(False, c) for c in prefix] + [(True, ANY)]
        )

    @cached_property
    def _literals(self) -> list[str]:
        return [text for wild, text in self.parts if not wild]

    def _is_written_in(self, texts: list[str]) -> bool:
        """Whether all our literal text occurs there: a quick way to say that we can't cover."""
        spend(len(self._literals) * len(texts) // 8)
        return all(any(mine in text for text in texts) for mine in self._literals)

    def examples(self) -> Iterator[str]:
        for one, anything in (("a", ""), ("a", "a"), ("b", "abc"), ("0", "0"), ("z", "zz")):
            yield "".join(
                t.replace("_", one).replace("%", anything) if wild else t for wild, t in self.parts
            )

    def to_plain(self) -> dict[str, object]:
        return {"like": self.pattern}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Like) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __reduce__(self) -> tuple[object, ...]:
        return (Like, (self.parts,))


def _canonical_parts(tokens: Iterable[tuple[bool, str]]) -> tuple[tuple[bool, str], ...]:
    """Join literal runs; write every run of wildcards as its `_`s followed by at most one `%`."""
    runs = groupby(tokens, key=itemgetter(0))
    parts = [(wild, "".join(text for _, text in run)) for wild, run in runs]
    return tuple(
        (True, ONE * text.count(ONE) + (ANY if ANY in text else "")) if wild else (wild, text)
        for wild, text in parts
    )


class _Run(NamedTuple):
    """What stands between two `%`: text of a fixed length, with a regular expression if `_` is
    in it."""

    text: str
    regex: re.Pattern[str] | None

    @classmethod
    def of(cls, symbols: list[tuple[bool, str]]) -> _Run:
        text = "".join(char for _, char in symbols)
        if not any(wild for wild, _ in symbols):
            return cls(text, None)
        pattern = "".join("." if wild else re.escape(char) for wild, char in symbols)
        return cls(text, re.compile(pattern, re.DOTALL))

    def stands_at(self, value: str, at: int) -> bool:
        if self.regex is None:
            return value.startswith(self.text, at)
        return self.regex.match(value, at) is not None

    def find(self, value: str, at: int, end: int) -> int:
        """Where it stands first between `at` and `end`; -1 if nowhere."""
        if self.regex is None:
            return value.find(self.text, at, end)
        found = self.regex.search(value, at, end)
        return -1 if found is None else found.start()


def _runs(parts: tuple[tuple[bool, str], ...]) -> tuple[_Run, ...]:
    """The runs between the `%`s of a pattern."""
    runs: list[list[tuple[bool, str]]] = [[]]
    for symbol in _symbols(parts):
        if symbol == (True, ANY):
            runs.append([])
        else:
            runs[-1].append(symbol)
    return tuple(map(_Run.of, runs))


def _symbols(parts: tuple[tuple[bool, str], ...]) -> list[tuple[bool, str]]:
    return [(wild, char) for wild, text in parts for char in text]


_ENOUGH_WORK: Final = 4_000_000  # steps; patterns of megabytes are not worth comparing


def _absorbs(general: list[tuple[bool, str]], special: list[tuple[bool, str]]) -> bool:
    """Whether `general` matches `special` read as a string: its `%` may only fall to our `%`,
    its `_` to our `_` or `%`. So nothing is claimed that is not so; some coverings between
    patterns with several wildcards in a row are missed."""
    if len(general) * len(special) > _ENOUGH_WORK:
        return False
    spend(len(general) * len(special) // 2)
    reach = {0}
    for symbol in [*special, None]:
        # a % may take nothing: whoever stands before one stands behind it too
        for at in sorted(reach):
            while at < len(general) and general[at] == (True, ANY):
                at += 1
                reach.add(at)
        if symbol is None:
            return len(general) in reach
        step = set()
        for at in reach:
            if at == len(general):
                continue
            wild, char = general[at]
            if wild and char == ANY:
                step.add(at)
            elif symbol == (wild, char) or (wild and not symbol[0]):
                step.add(at + 1)
            # our _ takes a literal or a _, never a %
        reach = step
    raise AssertionError("unreachable")


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
        """Ancestors of `name` and of all above it, without recursion: chains may be long."""
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


NO_TESTS: Final[frozenset[Any]] = frozenset()


class Strings:
    """The strings within `intervals` that pass every test of `passing` and none of `failing`."""

    __slots__ = ("_hash", "failing", "intervals", "passing")

    domain: Final = STRING

    def __init__(
        self,
        intervals: Intervals,
        passing: frozenset[StringTest] = NO_TESTS,
        failing: frozenset[StringTest] = NO_TESTS,
    ) -> None:
        if passing or failing:
            intervals, passing, failing = _reduced(intervals, passing, failing)
        self.intervals = intervals
        self.passing = passing
        self.failing = failing
        self._hash = hash((intervals, passing, failing))

    @classmethod
    def like(cls, like: Like) -> Strings:
        """All strings that match the pattern."""
        if like.exact is not None:
            return cls(Intervals.point(STRINGS, like.exact))
        if like.prefix is not None:
            return cls(Intervals.prefix(like.prefix))
        return cls(Intervals.everything(STRINGS), frozenset({like}))

    @classmethod
    def under(cls, subject: str) -> Strings:
        """The dotted subject itself and everything below it."""
        return cls(Intervals.point(STRINGS, subject).union(Intervals.prefix(subject + ".")))

    @classmethod
    def is_a(cls, name: str, types: Types) -> Strings:
        """The type and all that inherit from it."""
        return cls(Intervals.everything(STRINGS), frozenset({IsA(name, types)}))

    @property
    def is_empty(self) -> bool:
        return self.intervals.is_empty

    @property
    def is_full(self) -> bool:
        return self.intervals.is_full and not self.passing and not self.failing

    def matches(self, value: str) -> bool:
        return (
            self.intervals.matches(value)
            and all(test.matches(value) for test in self.passing)
            and not any(test.matches(value) for test in self.failing)
        )

    def covers(self, other: Strings) -> bool:
        if self == other or other.is_empty:
            return True
        if not self.passing and not self.failing:
            return self.intervals.covers(other.intervals)
        members = other.intervals.values()
        if members is not None:
            return all(map(self.matches, members))
        return (
            self.intervals.covers(other.intervals)
            and all(_implies(other, test) for test in self.passing)
            and all(_excludes(other, test) for test in self.failing)
        )

    def overlaps(self, other: Strings) -> bool:
        if not (self.passing or self.failing or other.passing or other.failing):
            return self.intervals.overlaps(other.intervals)
        return not self.intersect(other).is_empty

    def intersect(self, other: Strings) -> Strings:
        return Strings(
            self.intervals.intersect(other.intervals),
            self.passing | other.passing,
            self.failing | other.failing,
        )

    def union(self, other: Strings) -> Strings | None:
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        if self.passing == other.passing and self.failing == other.failing:
            return Strings(self.intervals.union(other.intervals), self.passing, self.failing)
        return _without_opposite(self, other) or _without_opposite(other, self)

    def complement(self) -> tuple[Strings, ...]:
        everything = Intervals.everything(STRINGS)
        rest = [Strings(everything, failing=frozenset({test})) for test in self.passing]
        rest += [Strings(everything, frozenset({test})) for test in self.failing]
        outside = Strings(self.intervals.inverse())
        if not outside.is_empty and not any(r.covers(outside) for r in rest):
            rest.append(outside)
        return tuple(rest)

    def phrase(self, name: str) -> Phrase:
        spoken = name_text(name)
        implied = Intervals.everything(STRINGS)
        for test in self.passing:
            implied = implied.intersect(test.hull)
        parts = [Phrase(f"{spoken} {text}") for text in sorted(t.text for t in self.passing)]
        parts += [
            Phrase(f"{spoken} {_negated(text)}") for text in sorted(t.text for t in self.failing)
        ]
        if self.intervals != implied or not parts:
            parts.insert(0, self.intervals.phrase(name))
        return all_of(parts)

    def example(self) -> str | None:
        """Some member; None if a handful of tries found none."""
        if self.is_empty:
            return None
        tries = [self.intervals.example()]
        starts = ["" if low is None else low[0] for low, _ in self.intervals.spans()]
        tries += starts
        for test in sorted(self.passing, key=lambda t: t.text):
            tries += [start + text for start in ("", *starts[:10]) for text in test.examples()]
        tries += ["", "a", "example"]
        return next((text for text in tries if self.matches(text)), None)

    def to_plain(self) -> dict[str, object]:
        plain: dict[str, object] = {"within": self.intervals.to_plain()}
        for word, tests in (("passing", self.passing), ("failing", self.failing)):
            if tests:
                plain[word] = [t.to_plain() for t in sorted(tests, key=lambda t: t.text)]
        return plain

    @classmethod
    def from_plain(cls, plain: Any, types: Types = NO_TYPES) -> Strings:
        tests = {
            word: frozenset(_test_from_plain(t, types) for t in plain.get(word, ()))
            for word in ("passing", "failing")
        }
        within = Intervals.from_plain(STRINGS, plain["within"])
        return cls(within, tests["passing"], tests["failing"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.intervals == other.intervals
            and self.passing == other.passing
            and self.failing == other.failing
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<Strings {'nothing' if self.is_empty else self.phrase('x').text}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Strings, (self.intervals, self.passing, self.failing))


def _negated(text: str) -> str:
    return f"IS NOT A {text.removeprefix('IS A ')}" if text.startswith("IS A ") else f"NOT {text}"


def _test_from_plain(plain: Any, types: Types) -> StringTest:
    match plain:
        case {"like": str(pattern)}:
            like = Like.parse(pattern)
            if like.exact is None and like.prefix is None:
                return like
        case {"is a": str(name)}:
            return IsA(name, types)
    raise ValueError(f"not a test: {plain!r}")


def _reduced(
    intervals: Intervals, passing: frozenset[StringTest], failing: frozenset[StringTest]
) -> tuple[Intervals, frozenset[StringTest], frozenset[StringTest]]:
    """The canonical form: no test that follows from the rest, nothing left if none can pass."""
    for test in passing:
        intervals = intervals.intersect(test.hull)
    tests = len(passing) + len(failing)
    spend((tests + len(intervals.cuts)) * tests)
    members = intervals.values()
    if members is not None:
        members = [
            m
            for m in members
            if all(t.matches(m) for t in passing) and not any(t.matches(m) for t in failing)
        ]
        return Intervals.points(STRINGS, members), NO_TESTS, NO_TESTS
    passing = frozenset(
        t for t in passing if not _within(intervals, t) and not any(_follows(o, t) for o in passing)
    )
    failing = frozenset(
        t
        for t in failing
        if t.hull.overlaps(intervals) and not any(_follows(t, o) for o in failing)
    )
    if any(_within(intervals, t) or any(t.covers(p) for p in passing) for t in failing):
        return Intervals.nothing(STRINGS), NO_TESTS, NO_TESTS
    return intervals, passing, failing


def _follows(special: StringTest, general: StringTest) -> bool:
    """Whether `general` is another test and says nothing that `special` does not."""
    if special == general or not general.covers(special):
        return False
    return not special.covers(general) or special.text < general.text


def _within(intervals: Intervals, test: StringTest) -> bool:
    """Whether every string of the intervals surely passes."""
    if intervals.is_full:
        return False  # no test is passed by every string
    for span in intervals.spans():
        value = STRINGS.value(span)
        if not (test.covers_prefix(_common_prefix(span)) if value is None else test.matches(value)):
            return False
    return True


def _common_prefix(span: Span) -> str:
    """The longest text that every string of the span begins with."""
    low, high = span
    if low is None or high is None:
        return ""
    first, beyond = str(low[0]), str(high[0])
    shared = 0
    while shared < min(len(first), len(beyond)) and first[shared] == beyond[shared]:
        shared += 1
    longer = first[: shared + 1]
    return longer if len(longer) > shared and after_prefix(longer) == beyond else first[:shared]


def _implies(strings: Strings, test: StringTest) -> bool:
    return any(test.covers(t) for t in strings.passing) or _within(strings.intervals, test)


def _excludes(strings: Strings, test: StringTest) -> bool:
    return not test.hull.overlaps(strings.intervals) or any(t.covers(test) for t in strings.failing)


def _without_opposite(one: Strings, other: Strings) -> Strings | None:
    """`LIKE p` here and `NOT LIKE p` there, all else equal: together, p does not matter."""
    for test in one.passing & other.failing:
        joint = Strings(other.intervals, other.passing, other.failing - {test})
        if joint.intersect(Strings(joint.intervals, frozenset({test}))) == one:
            return joint
    return None
