"""Joining: which small files of a lake become one, so that no event is written again too often.

Of each day, files are joined from the smallest on, up to the largest that is no larger than all
before it together. So whatever is written again is then in a file of twice the size, at least: an
event that came in a file of 100 kB is written ten times until it is in one of 100 MB, where it
stays. What is left of a day are some files, each larger than all the smaller ones together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Final, NamedTuple

LARGE: Final = 100 << 20
"""Bytes from which on a file is joined with no other."""


class Joint(NamedTuple):
    """Files of a day that are to be joined: all with fewer bytes than `below`."""

    day: date
    files: int
    below: int


def joints(files: Iterable[tuple[date, int]]) -> list[Joint]:
    """What to join, of files that are given with their days and sizes.

    >>> day = date(2026, 11, 15)
    >>> [(j.files, j.below) for j in joints((day, size) for size in (20, 5, 5, 9, 40))]
    [(3, 20)]
    """
    days: defaultdict[date, list[int]] = defaultdict(list)
    for day, size in files:
        if size < LARGE:
            days[day].append(size)
    found = [_joint(day, sorted(sizes)) for day, sizes in sorted(days.items())]
    return [joint for joint in found if joint.files]


def _joint(day: date, sizes: list[int]) -> Joint:
    count = before = 0
    for number, size in enumerate(sizes, start=1):
        if size <= before:
            count = number
        before += size
    return Joint(day, count, sizes[count] if count < len(sizes) else LARGE)
