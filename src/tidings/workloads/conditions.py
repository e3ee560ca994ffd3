"""Conditions: what a generated filter asks of one attribute, in plain values.

A generated filter is a tuple of conditions, all of which must hold. They are what a benchmark
translates into the language of another engine; `text_of` and `filter_of` translate them into
ours, and agree: `Filter.parse(text_of(c)) == filter_of(c)`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from tidings.events import Conjunction, Constraint, Filter
from tidings.events.intervals import NUMBERS, STRINGS, Intervals
from tidings.events.strings import Strings


class Equal(NamedTuple):
    """The attribute is this string."""

    name: str
    value: str


class Among(NamedTuple):
    """The attribute is one of these strings."""

    name: str
    values: tuple[str, ...]


class Prefix(NamedTuple):
    """The attribute is a string that begins with this one, which holds no wildcard."""

    name: str
    text: str


class Range(NamedTuple):
    """The attribute is a number from `low` to `high`, both included; None is no bound."""

    name: str
    low: int | float | None
    high: int | float | None


Condition: TypeAlias = Equal | Among | Prefix | Range
Conditions: TypeAlias = tuple[Condition, ...]


def text_of(conditions: Conditions) -> str:
    """The filter's text.

    >>> text_of((Equal("symbol", "DIS"), Range("price", 50, 60), Range("change", None, -1.5)))
    "symbol = 'DIS' AND price BETWEEN 50 AND 60 AND change <= -1.5"
    """
    return " AND ".join(map(_text, conditions))


def _text(condition: Condition) -> str:
    match condition:
        case Equal(name, value):
            return f"{name} = '{value}'"
        case Among(name, values):
            listed = "', '".join(values)
            return f"{name} IN ('{listed}')"
        case Prefix(name, text):
            return f"{name} LIKE '{text}%'"
        case Range(name, None, high):
            return f"{name} <= {high}"
        case Range(name, low, None):
            return f"{name} >= {low}"
        case Range(name, low, high):
            return f"{name} BETWEEN {low} AND {high}"


def filter_of(conditions: Conditions) -> Filter:
    """The filter itself, several times faster than from its text.

    >>> filter_of((Prefix("symbol", "D"),)) == Filter.parse("symbol LIKE 'D%'")
    True
    """
    return Filter([Conjunction({c.name: _constraint(c) for c in conditions})])


def _constraint(condition: Condition) -> Constraint:
    if isinstance(condition, Range):
        return Constraint.of(_interval(condition))
    return _string_constraint(condition)


def _interval(condition: Range) -> Intervals:
    _, low, high = condition
    if low is None:
        return Intervals.below(NUMBERS, high, closed=True)
    if high is None:
        return Intervals.above(NUMBERS, low, closed=True)
    return Intervals.between(NUMBERS, low, high)


@lru_cache(maxsize=65_536)  # few differ, and constraints may be shared
def _string_constraint(condition: Equal | Among | Prefix) -> Constraint:
    match condition:
        case Equal(_, value):
            intervals = Intervals.point(STRINGS, value)
        case Among(_, values):
            intervals = Intervals.points(STRINGS, values)
        case Prefix(_, text):
            intervals = Intervals.prefix(text)
    return Constraint.of(Strings(intervals))
