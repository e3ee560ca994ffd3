"""Reaches: constraints as numbers, which are compared before the algebra is asked.

Each constraint has a *reach* on the line of floats, rounded so that a range within another one has
its reach within the other's; and a *mark*, a set of 64 bits, so that a list within another one has
its bits among the other's. Where two constraints overlap, their reaches do, and they share a bit.
"""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from tidings.events import Constraint
from tidings.events.intervals import BYTE_STRINGS, NUMBERS, STRINGS, TIMES, Cut, Intervals
from tidings.events.strings import Strings

_remembered = lru_cache(maxsize=1 << 15)
"""Remembers answers, since the reductions of all neighbours ask the same of the same filters."""

ALL_BITS: Final = 2**64 - 1
"""The mark of what is no list."""


def is_single(constraint: Constraint) -> bool:
    """Whether one value, or absence, is all that it admits."""
    if constraint.others:
        return False
    if not constraint.parts:
        return constraint.absent
    if constraint.absent or len(constraint.parts) > 1:
        return False
    (part,) = constraint.parts.values()
    if part.__class__ is Strings and not part.passing and not part.failing:
        part = part.intervals
    if part.__class__ is not Intervals:
        return False
    cuts = part.cuts
    if len(cuts) == 2 and not part.inside and cuts[0][0].__class__ is str:
        return bool(cuts[1][0] == cuts[0][0] + "\0")
    if len(cuts) > 2:
        return False
    values = part.values()
    return values is not None and len(values) == 1


_EVERYWHERE: Final = (-math.inf, math.inf)
_PLACED: Final = (NUMBERS, STRINGS, TIMES, BYTE_STRINGS)


@_remembered
def reach(constraint: Constraint) -> tuple[float, float]:
    """A stretch of the line of floats that holds all its values.

    Of two constraints in one domain, the one within the other has its reach within the other's,
    and two that overlap have reaches that do. What is in several domains reaches everywhere.
    """
    part = _only_intervals(constraint)
    if part is None or part.order not in _PLACED or not part.cuts:
        return _EVERYWHERE
    cuts = part.cuts
    low = -math.inf if part.inside else _place(cuts[0])
    high = math.inf if part.inside ^ (len(cuts) & 1) else _place(cuts[-1])
    return low, high


def _only_intervals(constraint: Constraint) -> Intervals | None:
    """The intervals that hold all its values, if these are of one domain."""
    if constraint.others or constraint.absent or len(constraint.parts) != 1:
        return None
    (part,) = constraint.parts.values()
    if isinstance(part, Strings):
        return part.intervals
    return part if isinstance(part, Intervals) else None


def _place(cut: Cut) -> float:
    """Where a value is on the line: never in another order than the values are."""
    value: Any = cut[0]
    if isinstance(value, str):
        value = value[:6].encode()
    elif isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bytes):
        return float(int.from_bytes(value[:6].ljust(6, b"\0"), "big"))
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@_remembered
def mark(constraint: Constraint) -> int:
    """One bit for each value of a list, all bits for what is no list.

    Of two constraints, the one within the other has its bits among the other's: what lies within
    a list is a list. Two that overlap have a bit in common. The bits are Python's hashes and differ
    from process to process.
    """
    part = _only_intervals(constraint)
    if part is None or part.inside or len(part.cuts) & 1:
        return ALL_BITS
    values = part.values()
    if values is None:
        return ALL_BITS
    bits = 0
    for value in values:
        bits |= 1 << (hash(value) & 63)
    return bits
