"""Expressions: filters in Spark's own words.

A truth is a Python bool where it is known beforehand, else a column that is never null for a row
that has the attribute. Constants are turned into the column's own type first, with the comparison
adjusted: no `BIGINT` equals 0.5, and those above it are those from 1 on. So Spark converts
nothing, and 2^53 + 1 stays different from 2^53.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import and_, or_
from typing import Any, Final, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidings.events import Conjunction, Constraint, Filter, TidingsError
from tidings.events.intervals import BEFORE, Cut, Intervals, Span, after_prefix
from tidings.events.sets import Elements, Sets
from tidings.events.strings import ANY, IsA, Like, Strings, StringTest
from tidings.events.values import NUMBER, TIME, domain_of, microseconds, scalar
from tidings.spark.columns.attributes import NESTED, AttributeColumn, Kind

Truth: TypeAlias = bool | Column

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1


def condition(filter: Filter, attributes: Mapping[str, AttributeColumn]) -> Column:
    """The filter on rows with these attributes; true or false, never null."""
    return _as_column(_either(*[_conjunction(c, attributes) for c in filter.conjunctions]))


def condition_of_kinds(
    filter: Filter,
    attributes: Mapping[str, list[AttributeColumn]],
    mentioned: Mapping[str, Column] | None = None,
) -> Column:
    """The filter on rows in which an attribute has several columns, of which one is used at most.

    An attribute that is `mentioned` elsewhere may be anything: there, it is true.
    """
    return _as_column(
        _either(
            *[
                _both(
                    *[
                        _either(
                            _among_kinds(constraint, attributes.get(name, [])),
                            mentioned[name] if mentioned is not None else False,
                        )
                        for name, constraint in conjunction.constraints.items()
                    ]
                )
                for conjunction in filter.conjunctions
            ]
        )
    )


def _among_kinds(constraint: Constraint, kinds: list[AttributeColumn]) -> Truth:
    found = _either(*[_both(a.is_present, _inside(constraint, a)) for a in kinds])
    if not constraint.absent:
        return found
    return _either(found, _not(_either(*[a.is_present for a in kinds])))


def either(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds."""
    return _as_column(_either(*conditions))


def _conjunction(conjunction: Conjunction, attributes: Mapping[str, AttributeColumn]) -> Truth:
    return _both(
        *[
            _constraint(constraint, attributes[name]) if name in attributes else constraint.absent
            for name, constraint in conjunction.constraints.items()
        ]
    )


def _constraint(constraint: Constraint, attribute: AttributeColumn) -> Truth:
    present = attribute.is_present
    inside = _inside(constraint, attribute)
    if constraint.absent:
        return _either(~present, inside)
    return _both(present, inside)


def _inside(constraint: Constraint, attribute: AttributeColumn) -> Truth:
    """Whether a value that is there is admitted."""
    part = constraint.parts.get(attribute.kind.domain)
    value, kind = attribute.value, attribute.kind
    try:
        match part:
            case None:
                return constraint.others
            case Intervals():
                return _intervals(value, kind, part)
            case Strings():
                return _strings(value, kind, part)
            case Sets() if attribute.element is NESTED:
                empty = F.size(value) == 0
                is_admitted = part.matches(frozenset())
                return _either(_both(empty, is_admitted), _both(~empty, constraint.others))
            case Sets():
                gap = attribute.has_gap
                members = _sets(value, attribute.element, part)
                return _either(_both(gap, constraint.others), _both(_not(gap), members))
    except _UnknownTestError as problem:
        raise TidingsError(f"attribute {attribute.name!r}: Spark cannot say {problem}") from None
    raise TidingsError(
        f"attribute {attribute.name!r}: Spark cannot say what a {type(part).__name__} says"
    )


class _UnknownTestError(Exception):
    """A test of strings that is not one of ours."""


# -- ordered domains -----------------------------------------------------------------------------


def _intervals(value: Column, kind: Kind, intervals: Intervals) -> Truth:
    holes = intervals.inverse().values()
    if intervals.inside and holes is not None:
        return _not(_among(value, kind, holes))
    points: list[Any] = []
    ranges: list[Truth] = []
    for span in intervals.spans():
        point = intervals.order.value(span)
        if point is not None:
            points.append(point)
        else:
            ranges.append(_within(value, kind, span))
    return _either(_among(value, kind, points), *ranges)


def _within(value: Column, kind: Kind, span: Span) -> Truth:
    low, high = span
    if low and high and isinstance(low[0], str) and high[0] == after_prefix(low[0]):
        return value.startswith(low[0])
    return _both(
        low is None or _behind(value, kind, low), high is None or _not(_behind(value, kind, high))
    )


def _behind(value: Column, kind: Kind, cut: Cut) -> Truth:
    """Whether a value lies behind the cut."""
    place, side = cut
    if kind.domain != NUMBER:  # there, a cut is always before a value
        return value >= _constant(kind, place)
    if kind.is_float:
        nearest = _nearest(place)
        if nearest == place:
            return value >= F.lit(nearest) if side == BEFORE else value > F.lit(nearest)
        following = nearest if nearest > place else math.nextafter(nearest, math.inf)
        return value >= F.lit(following)
    if math.isinf(_nearest(place)):
        return bool(place < 0)
    first = math.ceil(place) if side == BEFORE else math.floor(place) + 1
    if not _SMALLEST < first <= _LARGEST:
        return bool(first <= _SMALLEST)
    return value >= F.lit(first)


def _among(value: Column, kind: Kind, constants: Iterable[Any]) -> Truth:
    """Whether a value is one of the constants."""
    held = [_constant(kind, c) for c in constants if _can_hold(kind, c)]
    if len(held) < 2:
        return value == held[0] if held else False
    return value.isin(*held)


def _can_hold(kind: Kind, constant: Any) -> bool:
    """Whether a column of this kind can hold just this value."""
    if domain_of(constant) != kind.domain:
        return False
    if kind.domain != NUMBER:
        return True
    if kind.is_float:
        return bool(_nearest(constant) == constant)
    return bool(constant % 1 == 0 and _SMALLEST <= constant <= _LARGEST)


def _nearest(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _constant(kind: Kind, value: Any) -> Column:
    if kind.domain == TIME:
        if kind.is_zoned:  # as a number, it passes through no calendar and no zone
            return F.timestamp_micros(F.lit(microseconds(value)))
        return F.lit(value.replace(tzinfo=None).isoformat(sep=" ")).cast("timestamp_ntz")
    if kind.domain == NUMBER:
        return F.lit(float(value) if kind.is_float else int(value))
    return F.lit(value)


# -- strings -------------------------------------------------------------------------------------


def _strings(value: Column, kind: Kind, strings: Strings) -> Truth:
    said: Callable[[StringTest], Truth] = partial(_test, value, kind)
    return _both(
        _intervals(value, kind, strings.intervals),
        *map(said, sorted(strings.passing, key=lambda test: test.text)),
        *[_not(said(test)) for test in sorted(strings.failing, key=lambda test: test.text)],
    )


def _test(value: Column, kind: Kind, test: StringTest) -> Truth:
    match test:
        case IsA():  # an unknown type is only itself, so the types that pass can be listed
            return _among(
                value, kind, sorted({test.name, *filter(test.matches, test.types.parents)})
            )
        case Like(parts=((True, "%"), (False, text))):
            return value.endswith(text)
        case Like(parts=((True, "%"), (False, text), (True, "%"))):
            return value.contains(text)
        case Like():
            return value.rlike(_regex(test))
    raise _UnknownTestError(test.text)


def _regex(like: Like) -> str:
    """The pattern for Java, which would try `%a%b%` of Spark's own LIKE in all ways there are."""
    runs = [""]
    for wild, text in like.parts:
        for char in text:
            if wild and char == ANY:
                runs.append("")
            else:
                runs[-1] += "." if wild else re.escape(char)
    first, *between = runs
    if not between:
        return rf"(?s)\A{first}\z"
    last = between.pop()
    # What is between may as well stand at the first place where it fits, so that may be kept.
    return rf"(?s)\A{first}{''.join(f'(?>.*?{run})' for run in between)}.*{last}\z"


# -- sets ----------------------------------------------------------------------------------------


def _sets(value: Column, kind: Kind | None, sets: Sets) -> Truth:
    assert kind is not None
    return _both(
        *[_touches(value, kind, Elements((e,))) for e in sorted(sets.lower, key=repr)],
        _not(_touches(value, kind, sets.upper.inverse())),
        *[_touches(value, kind, hit) for hit in sorted(sets.hits, key=lambda h: h.sort_key)],
    )


def _touches(value: Column, kind: Kind, elements: Elements) -> Truth:
    """Whether some element of the array is among these."""
    listed = [scalar(e) for e in elements.ordered]
    if not any(_can_hold(kind, e) for e in listed):
        return F.size(value) > 0 if elements.others else False

    def belongs(element: Column) -> Column:
        found = _among(element, kind, listed)
        return _as_column(_not(found) if elements.others else found)

    return F.exists(value, belongs)


# -- truths --------------------------------------------------------------------------------------


def _both(*truths: Truth) -> Truth:
    return _joined(truths, and_, neutral=True)


def _either(*truths: Truth) -> Truth:
    return _joined(truths, or_, neutral=False)


def _joined(
    truths: Iterable[Truth], join: Callable[[Column, Column], Column], *, neutral: bool
) -> Truth:
    columns: list[Column] = []
    for truth in truths:
        if isinstance(truth, Column):
            columns.append(truth)
        elif truth is not neutral:
            return truth
    while len(columns) > 1:  # in rounds: Spark walks through deep expressions by recursion
        pairs = [join(a, b) for a, b in zip(columns[::2], columns[1::2], strict=False)]
        columns = pairs + columns[len(columns) // 2 * 2 :]
    return columns[0] if columns else neutral


def _not(truth: Truth) -> Truth:
    return ~truth if isinstance(truth, Column) else not truth


def _as_column(truth: Truth) -> Column:
    return truth if isinstance(truth, Column) else F.lit(truth)
