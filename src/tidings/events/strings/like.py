"""LIKE: patterns with wildcards, how they match, and when one covers another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from tidings.events.intervals import STRINGS, Intervals
from tidings.events.phrases import escaped_pattern, quoted
from tidings.events.strings.narrowing import StringTest
from tidings.events.work import spend

ANY: Final = "%"
"""The wildcard for any text, even none."""
ONE: Final = "_"
"""The wildcard for any one character."""


class Like:
    """A LIKE pattern: `%` is any text, `_` any one character.

    `parts` holds literal runs and wildcards, each with whether it is a wildcard. Wildcards have a
    canonical order (`_` before `%`, one `%`), so equal patterns are equal objects.
    """

    def __init__(self, parts: tuple[tuple[bool, str], ...]) -> None:
        self.parts = parts

    @classmethod
    def parse(cls, pattern: str, escape: str = "\\", *, strict: bool = False) -> Like:
        """Read a pattern, in which the escape makes `%`, `_` or itself stand for itself.

        Before anything else, the escape is text, as in CloudEvents SQL, or, if `strict`, a
        `ValueError`.
        """
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
        # The first and last run have their places; what is between may as well stand at the first
        # place where it fits, so nothing is tried twice.
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
        """Whether all our literal text occurs in the texts; if not, we cannot cover them."""
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
    """What stands between two `%`: text of a fixed length. `regex` is there if it has a `_`."""

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
        """The first place between `at` and `end` where the run stands; -1 if there is none."""
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


_ENOUGH_WORK: Final = 4_000_000
"""Steps that comparing two patterns may take; patterns of megabytes are not worth comparing."""


def _absorbs(general: list[tuple[bool, str]], special: list[tuple[bool, str]]) -> bool:
    """Whether `general` matches `special` read as a string, so that it surely covers it.

    A `%` of `special` may only fall to a `%` of `general`, and a `_` to a `_` or a `%`. So nothing
    is claimed that is not so; some coverings between patterns with several wildcards in a row are
    missed.
    """
    if len(general) * len(special) > _ENOUGH_WORK:
        return False
    spend(len(general) * len(special) // 2)
    reach = {0}
    for symbol in [*special, None]:
        # a % may take nothing: a place before one is also a place behind it
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
