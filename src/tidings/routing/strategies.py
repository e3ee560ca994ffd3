"""Strategies: the reductions by name, each kept up to date as filters come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tidings.events import Conjunction, Filter
from tidings.routing.bounded import Bounded
from tidings.routing.maxima import Maxima
from tidings.routing.merging import Merging
from tidings.routing.naming import Strategy
from tidings.routing.reduction import Change, Difference, Net, Reduction, References, Stage
from tidings.routing.statistics import Statistics


def reduction(strategy: str) -> Reduction:
    """A new reduction of nothing; `TidingsError` if there is no such strategy.

    >>> told = reduction("covering")
    >>> told.add(Filter.parse("price < 5"))
    >>> told.add(Filter.parse("price < 10"))
    >>> told.drain().added
    {Filter.parse('price < 10'): 1}
    >>> told.remove(Filter.parse("price < 10"))
    >>> told.drain()
    Change(added={Filter.parse('price < 5'): 1}, removed={Filter.parse('price < 10'): 1})
    """
    name, factor, share, most = Strategy.parse(strategy)
    if name == "flooding":
        return _Flooding()
    if name == "simple":
        return _Simple()
    if name == "identity":
        return _Identity()
    if name == "covering":
        return _Staged(Maxima())
    if name == "imperfect":
        return _Staged(Maxima(), Merging(factor), Maxima())
    if name == "learnt":
        return _Learning(Maxima(), Merging(share=share), Maxima())
    if name == "merging":
        return _Staged(Maxima(), Merging(), Maxima())
    return _Staged(Maxima(), Merging(), Maxima(), Bounded(most), Maxima())


class _Counted:
    """The multiset that all of them keep, and what they make of it."""

    __slots__ = ("_net", "_output", "_wanted")

    def __init__(self) -> None:
        self._wanted: dict[Filter, int] = {}
        self._output: dict[Filter, int] = {}
        self._net = Net()

    def learn(self, statistics: Statistics) -> None:
        """Nothing to be learnt, unless a strategy says otherwise."""

    def drain(self) -> Change:
        self._run()
        return self._net.drain()

    @property
    def output(self) -> Mapping[Filter, int]:
        self._run()
        return MappingProxyType(self._output)

    def _run(self) -> None:
        """Do what was put off, if a strategy puts off anything."""

    def _one_more(self, filter: Filter) -> bool:
        """Count; whether it is the first."""
        before = self._wanted.get(filter, 0)
        self._wanted[filter] = before + 1
        return not before

    def _one_less(self, filter: Filter) -> bool:
        """Count; whether it was the last. `KeyError` if there was none."""
        left = self._wanted[filter] - 1
        if left:
            self._wanted[filter] = left
            return False
        del self._wanted[filter]
        return True

    def _show(self, filter: Filter) -> None:
        self._output[filter] = 1
        self._net.note(filter, 1)

    def _hide(self, filter: Filter) -> None:
        del self._output[filter]
        self._net.note(filter, -1)


class _Flooding(_Counted):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._show(Filter.all())

    def add(self, filter: Filter) -> None:
        self._one_more(filter)

    def remove(self, filter: Filter) -> None:
        self._one_less(filter)


class _Simple(_Counted):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._output = self._wanted

    def add(self, filter: Filter) -> None:
        self._one_more(filter)
        self._net.note(filter, 1)

    def remove(self, filter: Filter) -> None:
        self._one_less(filter)
        self._net.note(filter, -1)


class _Identity(_Counted):
    __slots__ = ()

    def add(self, filter: Filter) -> None:
        if self._one_more(filter):
            self._show(filter)

    def remove(self, filter: Filter) -> None:
        if self._one_less(filter):
            self._hide(filter)


class _Staged(_Counted):
    """Stages behind one another. They run when somebody asks, on the net change since then."""

    __slots__ = ("_pending", "_references", "_stages")

    def __init__(self, *stages: Stage) -> None:
        super().__init__()
        self._stages = stages
        self._references = References()
        self._pending: dict[Conjunction, int] = {}

    def add(self, filter: Filter) -> None:
        if self._one_more(filter):
            for conjunction in filter.conjunctions:
                self._pending[conjunction] = self._pending.get(conjunction, 0) + 1

    def remove(self, filter: Filter) -> None:
        if self._one_less(filter):
            for conjunction in filter.conjunctions:
                self._pending[conjunction] = self._pending.get(conjunction, 0) - 1

    def _run(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        self._pass(self._references.apply(pending), self._stages)

    def _pass(self, difference: Difference, stages: Sequence[Stage]) -> None:
        """Through these stages, the last ones, to the output."""
        for stage in stages:
            difference = stage.apply(difference)
        for conjunction in difference.lost:
            self._hide(Filter([conjunction]))
        for conjunction in difference.gained:
            self._show(Filter([conjunction]))


class _Learning(_Staged):
    """The second stage joins by what is known of the events, which may change."""

    __slots__ = ("_merging",)

    def __init__(self, first: Stage, merging: Merging, *others: Stage) -> None:
        super().__init__(first, merging, *others)
        self._merging = merging

    def learn(self, statistics: Statistics) -> None:
        self._run()
        self._pass(self._merging.learn(statistics), self._stages[2:])
