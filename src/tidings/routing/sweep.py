"""Sweeping: intervals along a line, and the hulls that near ones fall into, kept up to date."""

from __future__ import annotations

from bisect import bisect_left

from tidings.events.intervals import Cut
from tidings.routing.joins import Stretch, swallows


class Sweep:
    """Intervals in the order of where they begin, and the hulls they fall into.

    After each interval the hull so far is noted. A change begins there, and ends where a hull so
    far is what it was before: usually at once.
    """

    __slots__ = ("_factor", "_so_far", "_stretches", "hulls")

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._stretches: list[Stretch] = []
        self._so_far: list[Stretch | None] = []
        """For each stretch the hull so far; None for one that is about to be swept."""
        self.hulls: dict[Cut, Cut] = {}
        """For each place where a hull begins, the place where it ends."""

    def add(self, stretch: Stretch) -> None:
        """One more interval."""
        at = bisect_left(self._stretches, stretch)
        self._stretches.insert(at, stretch)
        self._so_far.insert(at, None)
        self._renew(at, [])

    def remove(self, stretch: Stretch) -> None:
        """An interval that was added."""
        at = bisect_left(self._stretches, stretch)
        del self._stretches[at]
        gone = self._so_far.pop(at)
        assert gone is not None
        self._renew(at, [gone[0]])

    def _renew(self, at: int, stale: list[Cut]) -> None:
        """Sweep on from `at` until nothing changes; `stale` are beginnings that may be none."""
        stretches, so_far = self._stretches, self._so_far
        hull = so_far[at - 1] if at else None
        here = at
        while here < len(stretches):
            following, old = stretches[here], so_far[here]
            if hull is not None and swallows(hull, following, self._factor):
                hull = (hull[0], max(hull[1], following[1]))
            else:
                hull = following
            if hull == old:
                break
            if old is not None:
                stale.append(old[0])
            so_far[here] = hull
            here += 1
        self._renew_hulls(at, here, stale)

    def _renew_hulls(self, first: int, last: int, stale: list[Cut]) -> None:
        """Note where hulls end, for those so far from `first` to before `last` that changed."""
        so_far, hulls = self._so_far, self.hulls
        unchanged = so_far[last] if last < len(so_far) else None
        end = None if unchanged is None else hulls[unchanged[0]]
        for begin in stale:
            hulls.pop(begin, None)
        for at in range(max(first - 1, 0), last):
            hull = so_far[at]
            following = so_far[at + 1] if at + 1 < len(so_far) else None
            if hull is not None and (following is None or following[0] != hull[0]):
                hulls[hull[0]] = hull[1]
        if unchanged is not None and end is not None:
            hulls[unchanged[0]] = end
