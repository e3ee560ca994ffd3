"""A set of strings: intervals, tests that its members pass, and tests that they fail."""

from __future__ import annotations

from typing import Any, Final

from tidings.events.intervals import STRINGS, Intervals
from tidings.events.phrases import Phrase, all_of, name_text
from tidings.events.strings.like import Like
from tidings.events.strings.narrowing import NO_TESTS, StringTest, all_pass, reduced
from tidings.events.strings.types import NO_TYPES, IsA, Types
from tidings.events.values import STRING


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
            intervals, passing, failing = reduced(intervals, passing, failing)
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


def _implies(strings: Strings, test: StringTest) -> bool:
    return any(test.covers(t) for t in strings.passing) or all_pass(strings.intervals, test)


def _excludes(strings: Strings, test: StringTest) -> bool:
    return not test.hull.overlaps(strings.intervals) or any(t.covers(test) for t in strings.failing)


def _without_opposite(one: Strings, other: Strings) -> Strings | None:
    """The union of two sets that differ in one test, which one passes and the other fails.

    There the test does not matter. None if the sets differ in anything else.
    """
    for test in one.passing & other.failing:
        joint = Strings(other.intervals, other.passing, other.failing - {test})
        if joint.intersect(Strings(joint.intervals, frozenset({test}))) == one:
            return joint
    return None
