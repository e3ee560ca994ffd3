"""Digests: small summaries by which two ends, of a link or a session, find out whether they hold
the same.

A digest is the sum of the keys of all filters, a sketch of constant size. Where two digests
differ, both ends compare the sums of *buckets*, some multiple of the root of the table's size, and
exchange only the buckets that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isqrt
from typing import Final

from tidings.events import Filter

_MASK: Final = (1 << 64) - 1
_FINENESS: Final = 4


def key(filter: Filter) -> int:
    """A filter as a number of 64 bits, the same in every process."""
    return int(filter.key[:16], 16)


def digest(table: Mapping[Filter, int]) -> int:
    """A number of 64 bits that tells two tables apart, unless they were made to collide."""
    return sum(key(f) * count for f, count in table.items()) & _MASK


def fineness(table: Mapping[Filter, int]) -> int:
    """Into how many buckets to divide it."""
    return _FINENESS * (isqrt(len(table)) + 1)


def buckets(table: Mapping[Filter, int], number: int) -> tuple[int, ...]:
    """The digest of each part, if there are this many."""
    found = [0] * number
    for f, count in table.items():
        found[key(f) % number] += key(f) * count
    return tuple(each & _MASK for each in found)


def part(table: Mapping[Filter, int], number: int, which: Collection[int]) -> dict[Filter, int]:
    """What is in these buckets."""
    return {f: count for f, count in table.items() if key(f) % number in which}


def count(filters: Mapping[str, Filter]) -> dict[Filter, int]:
    """A table of what is there under several ids."""
    table: dict[Filter, int] = {}
    for each in filters.values():
        table[each] = table.get(each, 0) + 1
    return table


def summary(subscriptions: Mapping[str, Filter], advertisements: Mapping[str, Filter]) -> int:
    """A digest by which client and node find out whether they mean the same session."""
    return digest(count(subscriptions)) ^ (digest(count(advertisements)) * 3 & (1 << 64) - 1)
