"""Statistics: what was learnt of the events, and how many of them a condition would let through.

Of each attribute the share of events that have it; of its numbers and of its times quantiles,
between any two of which equally many events lie; of its strings the most frequent ones. Where an
attribute goes with a value of another one (prices with a symbol), that is known apart, as `given`.

::

    quantiles of price      20        30  35 40  45        90
                            ├─────────┼───┼──┼───┼─────────┤      a fifth of the events in each
    between 32 and 50       ┄┄┄┄┄┄┄┄┄┄┄┄━━━━━━━━━━━┄┄┄┄┄┄┄┄┄      0.6 + 2 + 0.1 fifths

Everything here is an estimate. What depends on it may cost more than was thought, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from tidings.events import Conjunction, Constraint, Filter, Notification, TidingsError
from tidings.events.intervals import AFTER, BEFORE, NUMBERS, STRINGS, TIMES, Cut, Intervals
from tidings.events.strings import Strings
from tidings.events.values import EPOCH, STRING
from tidings.routing.reaches import is_single

ABOUT: Final = "tidings.statistics"
DISTRIBUTION: Final = "distribution"
CONTENT: Final = "content"
LONGEST: Final = 1 << 20
"""Statistics of more characters than this are not read."""
LONGEST_LISTED: Final = 200
"""Strings of more characters than this are not listed, however frequent they are."""
GREATEST: Final = 1e300
"""Numbers beyond this one are told as this one, so that the difference of two is a number."""
_EXACT: Final = 1 << 53
"""Each whole number up to this one is a double."""
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)

WANTED: Final = Filter(
    [Conjunction({ABOUT: Constraint.of(Strings(Intervals.point(STRINGS, DISTRIBUTION)))})]
)
"""The events that say what the distributions are: `tidings.statistics = 'distribution'`."""


class Distribution(msgspec.Struct, frozen=True):
    """Of the numbers of an attribute, or of its times, as seconds since 1970 (see `time_of`).

    >>> Distribution(1.0, (0.0, 10.0, 20.0)).below((5, 0))
    0.25
    """

    share: float
    """The share of all events that have such a value."""
    quantiles: tuple[float, ...]
    """The quantiles from the least to the greatest, at least two."""

    def __post_init__(self) -> None:
        _check_share(self.share)
        if len(self.quantiles) < 2 or not all(abs(q) <= GREATEST for q in self.quantiles):
            raise ValueError(f"quantiles are two numbers at least, and none beyond {GREATEST:g}")
        if list(self.quantiles) != sorted(self.quantiles):
            raise ValueError("quantiles rise")

    def below(self, cut: tuple[float, int]) -> float:
        """Of those that have a value, how many have one below this place."""
        value, side = cut
        known, steps = self.quantiles, len(self.quantiles) - 1
        # A value that is several quantiles is as frequent as the steps between them.
        at = (bisect_right if side == AFTER else bisect_left)(known, value)
        if at == 0:
            return 0.0
        if at > steps:
            return 1.0
        if side == AFTER and known[at - 1] == value:
            return (at - 1) / steps
        if known[at] == value:
            return at / steps
        low, high = known[at - 1], known[at]
        return (at - 1 + (value - low) / (high - low)) / steps

    def between(self, low: Cut | None, high: Cut | None) -> float:
        """The share of all events that have a value in there (None: an end of the line)."""
        upto = 1.0 if high is None else self.below(_told(high, AFTER))
        inside = upto - (0.0 if low is None else self.below(_told(low, BEFORE)))
        return self.share * max(inside, 0.0)  # it may be a hair below 0

    def within(self, part: Intervals) -> float:
        """The share of all events that have one of these values."""
        return min(self.share, sum(self.between(*span) for span in part.spans()))


def time_of(seconds: float) -> datetime:
    """The time that a quantile says, or the nearest one that there is.

    >>> print(time_of(0.5), time_of(1e300), sep=", ")
    1970-01-01 00:00:00.500000+00:00, 9999-12-31 23:59:59.999999+00:00
    """
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:  # the last time that there is, as a double, is already beyond it
        return _LAST if seconds > 0 else _FIRST


class Attribute(msgspec.Struct, frozen=True):
    """What is known of one attribute. All shares are shares of all events."""

    present: float
    number: Distribution | None = None
    time: Distribution | None = None
    strings: dict[str, float] = {}
    """The most frequent strings, each with its share."""
    unlisted: float = 0.0
    """The share of all other strings together."""

    def __post_init__(self) -> None:
        for share in (self.present, self.unlisted, *self.strings.values()):
            _check_share(share)

    def ordered(self, domain: str) -> Distribution | None:
        if domain == NUMBERS.domain:
            return self.number
        return self.time if domain == TIMES.domain else None

    def between(self, domain: str, low: Cut, high: Cut) -> float:
        """The share of all events that have a value between two places, rather too high."""
        known = self.ordered(domain)
        return self.elsewhere if known is None else known.between(low, high)

    @property
    def elsewhere(self) -> float:
        """The share of events with a value of which nothing more is known, not even the domain."""
        known = sum(d.share for d in (self.number, self.time) if d is not None)
        known += sum(self.strings.values()) + self.unlisted
        return max(0.0, self.present - known)

    def admitted(self, constraint: Constraint) -> float:
        """The share of all events whose attribute the constraint admits, rather too high."""
        share = 1.0 - self.present if constraint.absent else 0.0
        for domain, distribution in ((NUMBERS.domain, self.number), (TIMES.domain, self.time)):
            part = constraint.parts.get(domain)
            if distribution is None:
                continue
            if part is None:
                share += distribution.share if constraint.others else 0.0
            elif isinstance(part, Intervals):
                share += distribution.within(part)
        share += self._admitted_strings(constraint)
        if constraint.others or constraint.parts:
            share += self.elsewhere  # they may be of any domain
        return min(share, 1.0)

    def _admitted_strings(self, constraint: Constraint) -> float:
        part = constraint.parts.get(STRING)
        if part is None:
            whole = sum(self.strings.values()) + self.unlisted
            return whole if constraint.others else 0.0
        listed = {text: share for text, share in self.strings.items() if part.matches(text)}
        return sum(listed.values()) + self._unlisted(part, len(listed))

    def _unlisted(self, part: Any, listed: int) -> float:
        """None that could be listed and is not is more frequent than the least frequent that is."""
        if isinstance(part, Strings) and not part.passing and not part.failing:
            values = part.intervals.values()
            if values is not None and all(len(v) <= LONGEST_LISTED for v in values):
                least = min(self.strings.values(), default=self.unlisted)
                return min(self.unlisted, (len(values) - listed) * least)
        return self.unlisted


class Statistics(msgspec.Struct, frozen=True):
    """What was learnt of a number of events. Immutable; equal content is equal.

    >>> from tidings.events import Filter
    >>> known = Attribute(present=1.0, number=Distribution(1.0, (0.0, 10.0, 20.0)))
    >>> learnt = Statistics(events=1000, attributes={"price": known})
    >>> learnt.admitted("price", Filter.parse("price BETWEEN 5 AND 10").conjunctions[0]["price"])
    0.25
    >>> Statistics.parse(learnt.text()) == learnt
    True
    """

    events: int = 0
    attributes: dict[str, Attribute] = {}
    given: dict[str, dict[str, dict[str, Attribute]]] = {}
    """`given["symbol"]["DIS"]["price"]`: prices where the symbol is DIS."""

    def among(
        self, name: str, constraints: Mapping[str, Constraint]
    ) -> tuple[Attribute, float] | None:
        """An attribute as it is among the events that satisfy the constraints on all other ones,
        and a factor for all its shares; None if nothing is known of it.

        Where the attribute is known given a value that they ask for, that is used, and of several
        the least frequent. Of all else it is assumed that attributes are independent.
        """
        known = self.attributes.get(name)
        asked = ""
        if condition := self._condition(name, constraints):
            asked, value = condition
            known = self.given[asked][value][name]
        if known is None:
            return None
        factor = 1.0
        for other, constraint in constraints.items():
            if other not in (name, asked):
                factor *= self.admitted(other, constraint)
        return known, factor

    def admitted(self, name: str, constraint: Constraint) -> float:
        """The share of all events whose attribute the constraint admits; 1 if nothing is known."""
        known = self.attributes.get(name)
        return 1.0 if known is None else known.admitted(constraint)

    def _condition(
        self, name: str, constraints: Mapping[str, Constraint]
    ) -> tuple[str, str] | None:
        """The least frequent value that is asked for and given which the attribute is known."""
        found: list[tuple[float, str, str]] = []
        for other in (self.given.keys() & constraints.keys()) - {name}:
            value = _string(constraints[other])
            if value is not None and name in self.given[other].get(value, {}):
                known = self.attributes.get(other)
                share = 1.0 if known is None else known.strings.get(value, 1.0)
                found.append((share, other, value))
        return min(found)[1:] if found else None

    # -- writing ---------------------------------------------------------------------------------

    def text(self) -> str:
        """As JSON that `parse` reads; of equal statistics it is the same."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def parse(cls, text: str) -> Statistics:
        """Read what `text` wrote; `TidingsError` says what is wrong with it."""
        if len(text) > LONGEST:
            raise TidingsError(f"these statistics are longer than {LONGEST:,} characters")
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
            raise TidingsError(f"these are no statistics: {problem}") from None

    def notification(self) -> Notification:
        """As an event, which brokers listen to."""
        return Notification({ABOUT: DISTRIBUTION, "events": self.events, CONTENT: self.text()})

    @classmethod
    def of(cls, notification: Notification) -> Statistics:
        """What such an event says; `TidingsError` if that is nothing."""
        text = notification.attributes.get(CONTENT)
        if not isinstance(text, str):
            raise TidingsError(f"these are no statistics: {CONTENT} is to be their text")
        return cls.parse(text)

    def __hash__(self) -> int:
        return hash((self.events, frozenset(self.attributes), frozenset(self.given)))


@lru_cache(maxsize=1 << 12)
def _string(constraint: Constraint) -> str | None:
    """The only string that it admits, if that is all it admits."""
    if not is_single(constraint):
        return None
    part = constraint.parts.get(STRING)
    if not isinstance(part, Strings):
        return None
    values = part.intervals.values()
    return values[0] if values else None


def _told(cut: Cut, side: int) -> tuple[float, int]:
    """The place among doubles, which quantiles are. Several values may be told as the same double;
    if this may be one of them, the place is on the given side of all."""
    value, own = cut
    if isinstance(value, datetime):
        return value.timestamp(), side if value.microsecond else own
    near = float(min(max(value, -GREATEST), GREATEST))
    return near, own if near == value and abs(near) < _EXACT else side


def _check_share(share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share is a number from 0 to 1, not {share}")
