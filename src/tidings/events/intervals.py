"""Intervals: sets over one ordered domain, as unions of disjoint intervals.

`=`, `!=`, `<`, `<=`, `>`, `>=`, `IN`, `BETWEEN`, their negations, string prefixes and dotted
subjects are all the same thing here, so covering and merging need no table of rules.

A set is the list of places where it begins or ends. A place (`Cut`) lies just before or just
after a value; reading along the line, every cut toggles between outside and inside::

    x < 4 OR x = 7          inside = True      cuts = ((4, 0), (7, 0), (7, 1))

        ━━━━━━━━━━━━○──────────●──────────
                    4          7

Complement flips `inside`; the other operations are merges and binary searches. Domains in which
values have neighbours (strings, bytes, times, booleans) spell each place in one way only, so
the algebra is exact in them too: nothing lies between 'a' and 'a\\0'. Numbers are a dense line;
there the operations are exact over the reals and safe for the numbers a machine can hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias

from tidings.events.encoding import as_list, from_plain, is_unspeakable, to_plain
from tidings.events.phrases import (
    Phrase,
    all_of,
    any_of,
    escaped_pattern,
    listed,
    literal,
    name_text,
    quoted,
)
from tidings.events.values import (
    BOOLEAN,
    BYTES,
    MICROSECOND,
    NUMBER,
    STRING,
    TIME,
    domain_of,
    exact,
)

BEFORE: Final = 0
AFTER: Final = 1

Cut: TypeAlias = tuple[Any, int]
"""(value, BEFORE or AFTER). `None` instead of a cut stands for the end of the line."""

Span: TypeAlias = tuple[Cut | None, Cut | None]
"""One interval: where it begins and where it ends."""


class Order(Protocol):
    """An ordered domain: how it spells places on its line."""

    domain: str

    def cut(self, value: Any, side: int) -> Cut | bool:
        """The one spelling of a place; False if it is the low end of the line, True the high."""

    def spellings(self, cut: Cut) -> list[Cut]:
        """All spellings of a place, for text: (v, AFTER) may also be (successor of v, BEFORE)."""

    def value(self, span: Span) -> Any:
        """The only value in the span, or None if there are several."""

    def idiom(self, span: Span) -> str:
        """A predicate of the language that says just this span, or ""."""

    def example(self, span: Span) -> Any:
        """Some value in the span."""


class _Numbers:
    domain = NUMBER

    def cut(self, value: Any, side: int) -> Cut | bool:
        return (exact(value), side)

    def spellings(self, cut: Cut) -> list[Cut]:
        return [cut]

    def value(self, span: Span) -> Any:
        low, high = span
        return low[0] if low and high and low[0] == high[0] else None

    def idiom(self, span: Span) -> str:
        return ""

    def example(self, span: Span) -> Any:
        low, high = span
        if low is None:
            if high is None:
                return 0
            return high[0] if high[1] == AFTER else exact(high[0] - 1)
        if low[1] == BEFORE:
            return low[0]
        if high is None:
            return exact(low[0] + 1)
        whole = int(low[0] // 1) + 1
        if (whole, BEFORE) < high:
            return whole
        if abs(whole) > 2**53:
            return None  # no number that a machine can hold lies between neighbours this large
        middle = low[0] + (high[0] - low[0]) / 2
        return middle if low[0] < middle < high[0] else (high[0] if high[1] == AFTER else None)


class _Discrete:
    """An order where a value may have a direct successor: places are spelt BEFORE a value."""

    domain: str
    lowest: Any

    def successor(self, value: Any) -> Any:
        raise NotImplementedError

    def predecessor(self, value: Any) -> Any:
        raise NotImplementedError

    def cut(self, value: Any, side: int) -> Cut | bool:
        if side == AFTER:
            value = self.successor(value)
            return True if value is None else (value, BEFORE)
        return False if value == self.lowest else (value, BEFORE)

    def spellings(self, cut: Cut) -> list[Cut]:
        previous = self.predecessor(cut[0])
        return [cut] if previous is None else [cut, (previous, AFTER)]

    def value(self, span: Span) -> Any:
        low, high = span
        first = self.lowest if low is None else low[0]
        return first if self.successor(first) == (None if high is None else high[0]) else None

    def idiom(self, span: Span) -> str:
        return ""

    def example(self, span: Span) -> Any:
        return self.lowest if span[0] is None else span[0][0]


class _Strings(_Discrete):
    domain = STRING
    lowest = ""

    def successor(self, value: Any) -> Any:
        return value + "\0"

    def predecessor(self, value: Any) -> Any:
        return value[:-1] if value.endswith("\0") else None

    def idiom(self, span: Span) -> str:
        low, high = span
        if low is None or high is None or high[0] != after_prefix(low[0]):
            return ""
        return f"LIKE {quoted(escaped_pattern(low[0]) + '%')}"

    def example(self, span: Span) -> Any:
        """Prefer readable strings to the very first one."""
        low, high = span
        first = "" if low is None else low[0]
        for candidate in (first, first.replace("\0", "a"), first[:-1] + "a"):
            if (
                candidate.isprintable()
                and (high is None or candidate < high[0])
                and candidate >= first
            ):
                return candidate
        return first


def after_prefix(prefix: str) -> str | None:
    """The first string after all those that begin with `prefix`; None if there is none.

    >>> after_prefix("abc")
    'abd'
    """
    prefix = prefix.rstrip(_LAST)
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    # Surrogates are no characters: what follows U+D7FF is U+E000.
    return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)


_LAST: Final = chr(0x10FFFF)


class _Bytes(_Discrete):
    domain = BYTES
    lowest = b""

    def successor(self, value: Any) -> Any:
        return value + b"\0"

    def predecessor(self, value: Any) -> Any:
        return value[:-1] if value.endswith(b"\0") else None


class _Times(_Discrete):
    domain = TIME
    lowest = datetime.min.replace(tzinfo=UTC)
    highest = datetime.max.replace(tzinfo=UTC)
    tick = MICROSECOND

    def successor(self, value: Any) -> Any:
        return None if value == self.highest else value + self.tick

    def predecessor(self, value: Any) -> Any:
        return value - self.tick

    def example(self, span: Span) -> Any:
        low, high = span
        if low is not None:
            return low[0]
        return datetime(2000, 1, 1, tzinfo=UTC) if high is None else high[0] - self.tick


class _Booleans(_Discrete):
    domain = BOOLEAN
    lowest = False

    def successor(self, value: Any) -> Any:
        return None if value else True

    def predecessor(self, value: Any) -> Any:
        return False


NUMBERS: Final[Order] = _Numbers()
STRINGS: Final[Order] = _Strings()
TIMES: Final[Order] = _Times()
BYTE_STRINGS: Final[Order] = _Bytes()
BOOLEANS: Final[Order] = _Booleans()
ORDERS: Final[dict[str, Order]] = {
    order.domain: order for order in (BOOLEANS, NUMBERS, STRINGS, TIMES, BYTE_STRINGS)
}


class Intervals:
    """A set of values of one ordered domain. Immutable; equal sets are equal objects.

    >>> small = Intervals.below(NUMBERS, 4)
    >>> large = Intervals.above(NUMBERS, 7)
    >>> print(small.union(large).phrase("x").text)
    x NOT BETWEEN 4 AND 7
    """

    __slots__ = ("_hash", "cuts", "inside", "order")

    def __init__(self, order: Order, inside: bool, cuts: tuple[Cut, ...]) -> None:
        self.order = order
        self.inside = inside
        self.cuts = cuts
        self._hash = hash((order.domain, inside, cuts))

    # -- making ------------------------------------------------------------------------------

    @classmethod
    def everything(cls, order: Order) -> Intervals:
        """All values of the domain."""
        return cls(order, True, ())

    @classmethod
    def nothing(cls, order: Order) -> Intervals:
        """No value."""
        return cls(order, False, ())

    @classmethod
    def point(cls, order: Order, value: Any) -> Intervals:
        """Just this value."""
        return cls._between(order, order.cut(value, BEFORE), order.cut(value, AFTER))

    @classmethod
    def points(cls, order: Order, values: Iterable[Any]) -> Intervals:
        """Just these values."""
        cuts: list[Cut] = []
        inside = False
        for value in sorted(set(values)):
            low, high = order.cut(value, BEFORE), order.cut(value, AFTER)
            if low is False:
                inside = True
            elif cuts and cuts[-1] == low:
                cuts.pop()
            else:
                cuts.append(low)  # type: ignore[arg-type]
            if high is not True:
                cuts.append(high)  # type: ignore[arg-type]
        return cls(order, inside, tuple(cuts))

    @classmethod
    def joined(cls, order: Order, parts: Iterable[Intervals]) -> Intervals:
        """The union of all parts, in the time that it takes to sort their intervals.

        >>> ends = [Intervals.below(NUMBERS, 1), Intervals.above(NUMBERS, 9)]
        >>> print(Intervals.joined(NUMBERS, [*ends, Intervals.point(NUMBERS, 1)]).phrase("x").text)
        x <= 1 OR x > 9
        """
        depth = 0
        changes: dict[Cut, int] = {}
        for part in parts:
            depth += part.inside
            change = -1 if part.inside else 1
            for cut in part.cuts:
                changes[cut] = changes.get(cut, 0) + change
                change = -change
        inside, cuts = depth > 0, []
        for cut in sorted(changes):
            before = depth > 0
            depth += changes[cut]
            if (depth > 0) != before:
                cuts.append(cut)
        return cls(order, inside, tuple(cuts))

    @classmethod
    def below(cls, order: Order, value: Any, *, closed: bool = False) -> Intervals:
        """`< value`, or `<= value` if closed."""
        return cls._between(order, False, order.cut(value, AFTER if closed else BEFORE))

    @classmethod
    def above(cls, order: Order, value: Any, *, closed: bool = False) -> Intervals:
        """`> value`, or `>= value` if closed."""
        return cls._between(order, order.cut(value, BEFORE if closed else AFTER), True)

    @classmethod
    def between(cls, order: Order, low: Any, high: Any) -> Intervals:
        """`BETWEEN low AND high`: both ends belong to it; nothing if they are the wrong way."""
        return cls._between(order, order.cut(low, BEFORE), order.cut(high, AFTER))

    @classmethod
    def prefix(cls, text: str) -> Intervals:
        """All strings that begin with `text`."""
        high = after_prefix(text)
        return cls._between(
            STRINGS, STRINGS.cut(text, BEFORE), True if high is None else (high, BEFORE)
        )

    @classmethod
    def _between(cls, order: Order, low: Cut | bool, high: Cut | bool) -> Intervals:
        if low is False:
            if high is False:
                return cls(order, False, ())
            return cls(order, True, () if high is True else (high,))
        if low is True or high is False:
            return cls(order, False, ())
        if high is True:
            return cls(order, False, (low,))
        return cls(order, False, (low, high) if low < high else ())

    # -- asking ------------------------------------------------------------------------------

    @property
    def domain(self) -> str:
        return self.order.domain

    @property
    def is_empty(self) -> bool:
        return not self.inside and not self.cuts

    @property
    def is_full(self) -> bool:
        return self.inside and not self.cuts

    def spans(self) -> Iterator[Span]:
        """The disjoint intervals in order."""
        ends: list[Cut | None] = [None, *self.cuts] if self.inside else list(self.cuts)
        if len(ends) % 2:
            ends.append(None)
        return iter(list(zip(ends[::2], ends[1::2], strict=True)))

    def values(self) -> list[Any] | None:
        """All members if each interval is a single value, else None."""
        found = []
        for span in self.spans():
            value = self.order.value(span)
            if value is None:
                return None
            found.append(value)
        return found

    def matches(self, value: Any) -> bool:
        return self.inside ^ (bisect_right(self.cuts, (value, BEFORE)) & 1) == 1

    def covers(self, other: Intervals) -> bool:
        cuts = self.cuts
        if not cuts:
            return self.inside or other.is_empty
        for low, high in other.spans():
            passed = 0 if low is None else bisect_right(cuts, low)
            if not self.inside ^ (passed & 1):
                return False
            if passed < len(cuts) and (high is None or cuts[passed] < high):
                return False
        return True

    def overlaps(self, other: Intervals) -> bool:
        if len(other.cuts) > len(self.cuts):
            self, other = other, self
        cuts = self.cuts
        for low, high in other.spans():
            passed = 0 if low is None else bisect_right(cuts, low)
            if self.inside ^ (passed & 1):
                return True
            if passed < len(cuts) and (high is None or cuts[passed] < high):
                return True
        return False

    # -- combining ---------------------------------------------------------------------------

    def intersect(self, other: Intervals) -> Intervals:
        return self._merged(other, lambda mine, theirs: mine and theirs)

    def union(self, other: Intervals) -> Intervals:
        return self._merged(other, lambda mine, theirs: mine or theirs)

    def inverse(self) -> Intervals:
        """The rest of the domain."""
        return Intervals(self.order, not self.inside, self.cuts)

    def complement(self) -> tuple[Intervals, ...]:
        rest = self.inverse()
        return () if rest.is_empty else (rest,)

    def _merged(self, other: Intervals, keep: Callable[[bool, bool], bool]) -> Intervals:
        mine, theirs = self.inside, other.inside
        first = now = keep(mine, theirs)
        cuts: list[Cut] = []
        i = j = 0
        while i < len(self.cuts) or j < len(other.cuts):
            if j == len(other.cuts) or (i < len(self.cuts) and self.cuts[i] <= other.cuts[j]):
                here = self.cuts[i]
            else:
                here = other.cuts[j]
            if i < len(self.cuts) and self.cuts[i] == here:
                mine, i = not mine, i + 1
            if j < len(other.cuts) and other.cuts[j] == here:
                theirs, j = not theirs, j + 1
            if keep(mine, theirs) != now:
                now = not now
                cuts.append(here)
        return Intervals(self.order, first, tuple(cuts))

    # -- writing -----------------------------------------------------------------------------

    def phrase(self, name: str) -> Phrase:
        """The shortest way to say it that this class knows."""
        spoken = name_text(name)
        if self.is_full:
            return Phrase(f"{spoken} IS {self.domain.upper()}")
        hull = self._hull()
        holes = hull.intersect(self.inverse())
        if hull.is_full:
            missing = holes._predicates()
            if len(missing) == 1 and missing[0][0]:
                return Phrase(f"{spoken} {_negated(missing[0][0])}")
        if not holes.is_empty and holes.values() and not hull.is_full:
            return all_of([hull.phrase(name), holes.inverse().phrase(name)])
        return any_of(
            Phrase(f"{spoken} {predicate}") if predicate else self._comparisons(spoken, span)
            for predicate, span in self._predicates()
        )

    def _hull(self) -> Intervals:
        """The smallest single interval that holds everything."""
        inside_at_end = self.inside ^ (len(self.cuts) & 1)
        low = False if self.inside else self.cuts[0]
        high = True if inside_at_end else self.cuts[-1]
        return Intervals._between(self.order, low, high)

    def _predicates(self) -> list[tuple[str, Span]]:
        """What to say of each span after the name; "" where only comparisons will do."""
        ranges: list[tuple[str, Span]] = []
        singles: dict[Any, None] = {}
        for span in self.spans():
            value = self.order.value(span)
            if value is not None:
                singles[value] = None
            else:
                ranges.append((self.order.idiom(span) or self._between_text(span), span))
        for i, (predicate, span) in enumerate(ranges):
            # a subject and everything below it: = 'a' and LIKE 'a.%' are UNDER 'a'
            stem = span[0][0][:-1] if predicate.startswith("LIKE") and span[0] else None
            if stem in singles and span[0] is not None and span[0][0].endswith("."):
                del singles[stem]
                ranges[i] = (f"UNDER {literal(stem)}", span)
        if singles:
            first = literal(next(iter(singles)))
            text = f"= {first}" if len(singles) == 1 else f"IN {listed(singles)}"
            ranges.append((text, (None, None)))
        return ranges

    def _between_text(self, span: Span) -> str:
        low, high = span
        if low is None or high is None:
            return ""
        (first, low_side), (last, high_side) = self._spelling(low), self._spelling(high)
        if low_side == AFTER or high_side == BEFORE:
            return ""
        return f"BETWEEN {literal(first)} AND {literal(last)}"

    def _comparisons(self, spoken: str, span: Span) -> Phrase:
        low, high = span
        parts = []
        if low is not None:
            value, side = self._spelling(low)
            parts.append(Phrase(f"{spoken} {'>' if side == AFTER else '>='} {literal(value)}"))
        if high is not None:
            value, side = self._spelling(high)
            parts.append(Phrase(f"{spoken} {'<=' if side == AFTER else '<'} {literal(value)}"))
        return all_of(parts)

    def _spelling(self, cut: Cut) -> Cut:
        return min(self.order.spellings(cut), key=lambda c: len(literal(c[0])))

    def example(self) -> Any:
        """Some member, preferably one that reads well; None if there is none."""
        return None if self.is_empty else self.order.example(next(self.spans()))

    def to_plain(self) -> list[dict[str, object]]:
        """In JSON's terms: [{"ge": 1, "lt": 5}, {"eq": 9}]."""
        return [self._span_to_plain(span) for span in self.spans()]

    def _span_to_plain(self, span: Span) -> dict[str, object]:
        value = self.order.value(span)
        if value is not None:
            return {"eq": to_plain(value)}
        ends: dict[str, object] = {}
        low, high = span
        if low is not None:
            ends["gt" if low[1] == AFTER else "ge"] = to_plain(low[0])
        if high is not None:
            ends["le" if high[1] == AFTER else "lt"] = to_plain(high[0])
        return ends

    @classmethod
    def from_plain(cls, order: Order, plain: Any) -> Intervals:
        """The inverse of `to_plain`; `ValueError` or `TypeError` if damaged."""
        points, spans = [], []
        for ends in as_list(plain):
            if len(ends) == 1 and "eq" in ends:
                points.append(_comparable(order, ends["eq"]))
            else:
                spans.append(cls._span_from_plain(order, ends))
        return cls.joined(order, [cls.points(order, points), *spans])

    @classmethod
    def _span_from_plain(cls, order: Order, ends: Any) -> Intervals:
        span = cls.everything(order)
        for word, end in ends.items():
            span = span.intersect(COMPARED[word](order, _comparable(order, end)))
        return span

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.inside == other.inside
            and self.cuts == other.cuts
            and self.domain == other.domain
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return (
            f"<Intervals {self.phrase('x').text}>" if not self.is_empty else "<Intervals nothing>"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self.domain, self.inside, self.cuts))


def _comparable(order: Order, plain: object) -> Any:
    value = from_plain(plain)
    if domain_of(value) != order.domain or is_unspeakable(value):
        raise ValueError(f"{plain!r} is no {order.domain} to compare with")
    return value


def _restored(domain: str, inside: bool, cuts: tuple[Cut, ...]) -> Intervals:
    return Intervals(ORDERS[domain], inside, cuts)


COMPARED: Final[dict[str, Callable[[Order, Any], Intervals]]] = {
    "eq": Intervals.point,
    "lt": Intervals.below,
    "le": lambda order, value: Intervals.below(order, value, closed=True),
    "gt": Intervals.above,
    "ge": lambda order, value: Intervals.above(order, value, closed=True),
}


def _negated(predicate: str) -> str:
    return f"!{predicate}" if predicate.startswith("=") else f"NOT {predicate}"
