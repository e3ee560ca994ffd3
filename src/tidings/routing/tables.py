"""Tables: what each port wants, and what each neighbour is to be told of it.

A *port* is what may want something: a client's session or a neighbour. For each neighbour a
reduction is fed with what all the other ports want. Everything but the tables themselves can be
computed from them, and `audit` does that where it finds them at odds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from tidings.events import Filter, Notification
from tidings.matching import Index
from tidings.routing import Change, Restricted, Statistics, reduction
from tidings.routing.filter_index import FilterIndex

P = TypeVar("P", bound=Hashable)

Table = dict[Filter, int]
NOTHING: Mapping[Filter, int] = {}
_FEW: Final = 2
_REMEMBERED: Final = 4_096
"""Answers remembered between changes, where few attributes of an event matter."""


class Tables(Generic[P]):
    """The tables of all ports.

    With `limits` (the tables of advertisements), a neighbour is told only what overlaps
    something in its table there; a change of that table is followed by `restrict`.

    >>> tables = Tables[str]()
    >>> tables.open("north", "covering")
    >>> tables.open("south", "covering")
    >>> _ = tables.change("client", {Filter.parse("price < 10"): 1})
    >>> _ = tables.change("south", {Filter.parse("price < 5"): 1})
    >>> [str(f) for f in tables.drain("north").added]
    ['price < 10']
    >>> sorted(tables.match(Notification({"price": 3})))
    ['client', 'south']
    """

    def __init__(self, *, limits: Tables[P] | None = None) -> None:
        self.wanted: dict[P, Table] = {}
        self.limits = limits
        self._strategies: dict[P, str] = {}
        self._reductions: dict[P, Restricted] = {}
        self._holders: dict[Filter, set[P]] = {}
        self._index: Index | None = None
        self._overlaps: FilterIndex | None = None
        """The filters that anybody wants; None until somebody asks for overlaps."""
        self._names: Counter[str] = Counter()
        """For each attribute, the number of filters that name it."""
        self._found: dict[tuple[object, ...], frozenset[P]] = {}
        """For the values of an event, the ports that want it; emptied by each change."""
        self.statistics: Statistics | None = None
        """What is known of the events."""
        self.repairs = 0
        """Times that something computed did not fit the tables."""
        # Sums of hashes of what each reduction was fed, limited to, and has told: see `audit`.
        self._fed: dict[P, int] = {}
        self._admitted: dict[P, int] = {}
        self._told: dict[P, int] = {}

    def __getstate__(self) -> dict[str, object]:
        """To be frozen, without what is only kept for speed."""
        return {**self.__dict__, "_index": None, "_overlaps": None, "_found": {}}

    def __len__(self) -> int:
        return len(self._holders)

    # -- ports ---------------------------------------------------------------------------------

    def open(self, neighbour: P, strategy: str) -> None:
        """From now on this neighbour is to be told what the others want, all of it at first."""
        self.wanted.setdefault(neighbour, {})
        self._strategies[neighbour] = strategy
        self._rebuild(neighbour)

    def close(self, port: P) -> None:
        """A port is gone, with all it wanted."""
        self.replace(port, NOTHING)
        self.wanted.pop(port, None)
        self._strategies.pop(port, None)
        self._reductions.pop(port, None)

    def has(self, neighbour: P) -> bool:
        """Whether this neighbour is told anything."""
        return neighbour in self._reductions

    # -- changes -------------------------------------------------------------------------------

    def change(
        self,
        port: P,
        added: Mapping[Filter, int] = NOTHING,
        removed: Mapping[Filter, int] = NOTHING,
    ) -> Change:
        """A port wants more or less: what that changed. What was not wanted can't be removed."""
        table = self.wanted.setdefault(port, {})
        steps: list[tuple[Filter, int, bool]] = []
        for filter_, count in removed.items():
            if held := table.get(filter_, 0):
                fewer = min(held, count)
                steps.append((filter_, -fewer, fewer == held))
                if fewer == held:
                    del table[filter_]
                else:
                    table[filter_] = held - fewer
        for filter_, count in added.items():
            held = table.get(filter_, 0)
            steps.append((filter_, count, not held))
            table[filter_] = held + count
        try:
            for filter_, count, is_new_or_gone in steps:
                self._feed(port, filter_, count)
                if is_new_or_gone:
                    self._hold(port, filter_, count > 0)
        except KeyError:  # what was computed does not fit the tables: it has been damaged
            self._repair()
        return Change(dict(added), {f: -n for f, n, _ in steps if n < 0})

    def replace(self, port: P, whole: Mapping[Filter, int]) -> Change:
        """A port wants exactly this; how that differs from before."""
        return self.change(port, *difference(self.wanted.get(port, NOTHING), whole))

    def drain(self, neighbour: P) -> Change:
        """What the neighbour has to be told since it was last told something."""
        change = self._reductions[neighbour].drain()
        if change:
            self._told[neighbour] += _sum(change.added) - _sum(change.removed)
        return change

    def told(self, neighbour: P) -> Mapping[Filter, int]:
        """All that the neighbour is to hold."""
        return self._reductions[neighbour].output

    def restrict(self, neighbour: P, change: Change) -> None:
        """The neighbour's table in `limits` has changed by this."""
        limited = self._reductions.get(neighbour)
        if limited is None:
            return
        try:
            for ad, count in change.added.items():
                for _ in range(count):
                    limited.admit(ad)
            for ad, count in change.removed.items():
                for _ in range(count):
                    limited.revoke(ad)
        except KeyError:
            self._repair()
        else:
            self._admitted[neighbour] += _sum(change.added) - _sum(change.removed)

    def learn(self, statistics: Statistics) -> None:
        """This is known of the events from now on: each neighbour may have to be told something."""
        self.statistics = statistics
        for limited in self._reductions.values():
            limited.learn(statistics)

    def _feed(self, port: P, filter_: Filter, count: int) -> None:
        weight = hash(filter_) * count
        for neighbour, limited in self._reductions.items():
            if neighbour != port:
                self._fed[neighbour] += weight
                for _ in range(count):
                    limited.add(filter_)
                for _ in range(-count):
                    limited.remove(filter_)

    # -- matching ------------------------------------------------------------------------------

    def match(self, notification: Notification) -> set[P]:
        """The ports that want it."""
        asked = self._asked(notification)
        if asked is not None and asked in self._found:
            return set(self._found[asked])
        found = self.holders(self.filters(notification))
        if asked is not None and len(self._found) < _REMEMBERED:
            self._found[asked] = frozenset(found)
        return found

    def filters(self, notification: Notification) -> list[Filter]:
        """The filters in the tables that match it."""
        return self._filled_index().match(notification)

    def filters_of(self, notifications: Sequence[Notification]) -> list[list[Filter]]:
        """For each of several notifications the filters that match it, at a lower price."""
        return self._filled_index().match_some(notifications)

    def _filled_index(self) -> Index:
        if self._index is None:
            self._index = Index()
            self._index.add_many((f, f) for f in self._holders)
        return self._index

    def holders(self, filters: Iterable[Filter]) -> set[P]:
        """The ports that want what one of these filters matches."""
        found: set[P] = set()
        for filter_ in filters:
            found.update(self._holders.get(filter_, ()))
        return found

    def overlap(self, filter: Filter) -> bool:
        """Whether somebody wants something that this filter matches."""
        if self._overlaps is None:
            self._overlaps = FilterIndex()
            for held in self._holders:
                self._overlaps.add(held)
        return self._overlaps.is_overlapped(filter)

    def _asked(self, notification: Notification) -> tuple[object, ...] | None:
        """All that matters of an event here, if that is few strings, which are likely to recur.

        (Numbers are not, and to a dictionary 1 is the same as a truth value.)
        """
        if len(self._names) > _FEW:
            return None
        values: list[object] = []
        for name in self._names:
            value = notification.attributes.get(name)
            if value is not None and value.__class__ is not str:
                return None
            values.append(value)
        return tuple(values)

    def _hold(self, port: P, filter_: Filter, holds: bool) -> None:
        self._found.clear()
        holders = self._holders.setdefault(filter_, set())
        if holds:
            if not holders:
                for name in _names(filter_):
                    self._names[name] += 1
                if self._index is not None:
                    self._index.add(filter_, filter_)
                if self._overlaps is not None:
                    self._overlaps.add(filter_)
            holders.add(port)
            return
        holders.remove(port)
        if not holders:
            del self._holders[filter_]
            for name in _names(filter_):
                self._names[name] -= 1
                if not self._names[name]:
                    del self._names[name]
            if self._index is not None:
                self._index.remove(filter_)
            if self._overlaps is not None:
                self._overlaps.remove(filter_)

    # -- auditing ------------------------------------------------------------------------------

    def audit(self) -> bool:
        """Compute anew whatever is not what the tables say it should be; whether all was well."""
        self._found.clear()
        sums = {port: _sum(table) for port, table in self.wanted.items()}
        total = sum(sums.values())
        sound = self._is_indexed() and all(
            self._fed.get(n) == total - sums.get(n, 0)
            and self._told.get(n) == _sum(limited.output)
            and (
                self.limits is None
                or self._admitted.get(n) == _sum(self.limits.wanted.get(n, NOTHING))
            )
            for n, limited in self._reductions.items()
        )
        if not sound:
            self._repair()
        return sound

    def _is_indexed(self) -> bool:
        """Whether everything that finds filters fits the tables."""
        return (
            self._holders == self._computed_holders()
            and self._names == self._computed_names()
            and all(i is None or len(i) == len(self) for i in (self._index, self._overlaps))
        )

    def _computed_names(self) -> Counter[str]:
        return Counter(name for filter_ in self._holders for name in _names(filter_))

    def _repair(self) -> None:
        self.repairs += 1
        self._holders, self._index, self._overlaps = self._computed_holders(), None, None
        self._names = self._computed_names()
        self._found.clear()
        for neighbour in self._reductions:
            self._rebuild(neighbour)

    def _computed_holders(self) -> dict[Filter, set[P]]:
        holders: dict[Filter, set[P]] = {}
        for port, table in self.wanted.items():
            for filter_ in table:
                holders.setdefault(filter_, set()).add(port)
        return holders

    def _rebuild(self, neighbour: P) -> None:
        ads = None
        if self.limits is not None:
            limits = self.limits.wanted.get(neighbour, NOTHING)
            ads = [ad for ad, count in limits.items() for _ in range(count)]
            self._admitted[neighbour] = _sum(limits)
        limited = Restricted(reduction(self._strategies[neighbour]), to=ads)
        if self.statistics is not None:
            limited.learn(self.statistics)
        self._fed[neighbour] = 0
        for port, table in self.wanted.items():
            if port != neighbour:
                self._fed[neighbour] += _sum(table)
                for filter_, count in table.items():
                    for _ in range(count):
                        limited.add(filter_)
        limited.drain()
        self._told[neighbour] = _sum(limited.output)
        self._reductions[neighbour] = limited


def difference(before: Mapping[Filter, int], after: Mapping[Filter, int]) -> Change:
    """What to add and to remove to get from one table to another."""
    added = {f: n - before.get(f, 0) for f, n in after.items() if n > before.get(f, 0)}
    removed = {f: n - after.get(f, 0) for f, n in before.items() if n > after.get(f, 0)}
    return Change(added, removed)


def _names(filter_: Filter) -> set[str]:
    return {name for c in filter_.conjunctions for name in c.constraints}


def _sum(table: Mapping[Filter, int]) -> int:
    return sum(hash(f) * count for f, count in table.items())
