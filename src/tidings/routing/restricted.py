"""Restricted: a reduction seen through what the neighbour advertised.

A neighbour behind which nobody publishes what a filter asks for need not be told that filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tidings.events import Filter, TidingsError
from tidings.routing.filter_index import FilterIndex
from tidings.routing.reduction import Change, Net, Reduction
from tidings.routing.statistics import Statistics


class Restricted:
    """The filters of another reduction's output that overlap one of the advertisements.

    `to` are the advertisements to begin with, which may be none; None means that there is no
    restriction at all, now or later. The reduction within must not be used by anybody else.

    >>> from tidings.routing import reduction
    >>> told = Restricted(reduction("covering"), to=[])
    >>> told.add(Filter.parse("symbol = 'DIS'"))
    >>> bool(told.drain())
    False
    >>> told.admit(Filter.parse("symbol LIKE 'D%'"))
    >>> told.drain().added
    {Filter.parse("symbol = 'DIS'"): 1}
    """

    __slots__ = ("_ads", "_counts", "_inner", "_net", "_output", "_seen")

    def __init__(self, inner: Reduction, *, to: Iterable[Filter] | None) -> None:
        self._inner = inner
        self._ads: FilterIndex | None = None if to is None else FilterIndex()
        self._counts: dict[Filter, int] = {}
        self._seen = FilterIndex()
        """All filters of the inner output, to be found by a new advertisement."""
        self._output: dict[Filter, int] = {}
        self._net = Net()
        for ad in to or ():
            self.admit(ad)

    def add(self, filter: Filter) -> None:
        self._inner.add(filter)

    def remove(self, filter: Filter) -> None:
        """One less wants it; `KeyError` if nobody does."""
        self._inner.remove(filter)

    def learn(self, statistics: Statistics) -> None:
        """This is known of the events from now on."""
        self._inner.learn(statistics)

    def admit(self, ad: Filter) -> None:
        """The neighbour advertises this, perhaps once more."""
        ads = self._restricting()
        before = self._counts.get(ad, 0)
        self._counts[ad] = before + 1
        if before:
            return
        self._follow()
        ads.add(ad)
        for filter in self._seen.overlapping(ad):
            if filter not in self._output:
                self._show(filter, self._inner.output[filter])

    def revoke(self, ad: Filter) -> None:
        """The neighbour advertises this no more, or once less; `KeyError` if it did not."""
        ads = self._restricting()
        left = self._counts[ad] - 1
        if left:
            self._counts[ad] = left
            return
        del self._counts[ad]
        self._follow()
        ads.remove(ad)
        for filter in self._seen.overlapping(ad):
            if filter in self._output and not ads.is_overlapped(filter):
                self._show(filter, -self._output[filter])

    def drain(self) -> Change:
        """The net change of `output` since the last time."""
        if self._ads is None:
            return self._inner.drain()
        self._follow()
        return self._net.drain()

    @property
    def output(self) -> Mapping[Filter, int]:
        """What the neighbour is to hold. A view, to be copied if kept."""
        if self._ads is None:
            return self._inner.output
        self._follow()
        return MappingProxyType(self._output)

    def _restricting(self) -> FilterIndex:
        if self._ads is None:
            raise TidingsError("not restricted to advertisements, so none can come or go")
        return self._ads

    def _follow(self) -> None:
        """Take over what has changed within."""
        assert self._ads is not None
        change = self._inner.drain()
        for filter, count in change.removed.items():
            if filter not in self._inner.output:
                self._seen.remove(filter)
            if filter in self._output:
                self._show(filter, -count)
        for filter, count in change.added.items():
            if self._inner.output[filter] == count:
                self._seen.add(filter)
                if self._ads.is_overlapped(filter):
                    self._show(filter, count)
            elif filter in self._output:
                self._show(filter, count)

    def _show(self, filter: Filter, count: int) -> None:
        total = self._output.get(filter, 0) + count
        if total:
            self._output[filter] = total
        else:
            del self._output[filter]
        self._net.note(filter, count)
