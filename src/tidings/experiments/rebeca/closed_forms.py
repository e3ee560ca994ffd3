"""Closed forms: what the REBECA experiments must measure on average, computed from the tree.

Everything follows from one question asked of each directed link: *of the clients behind it, how
many want this?* With `c` clients at each of `n` local brokers behind a link, and each client
wanting a given stock with probability `p`, their number is binomial.

- A table of **identity** routing holds a stock once for each link behind which somebody wants it.
- **Covering** holds the intervals that no other one covers. They are pairs of two independent
  uniform numbers, so of `N` of them the N-th harmonic number is maximal, on average.
- **Merging** intervals that all contain one price makes one of them: as identity.
- A change crosses a link if nobody else behind that link wants the same, now.

No routing algorithm is run here, nor imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidings.experiments.rebeca.tree import ROOT, BrokerTree

ACTIVE: Final = 0.5
"""The share of clients that are active, on average, while random ones toggle."""


@dataclass(frozen=True)
class Market:
    """At each local broker are `clients`, who each want `wishes` different ones of the `stocks`."""

    clients: float
    stocks: int = 1000
    wishes: float = 10

    @property
    def wanted(self) -> float:
        """The probability that a client wants a given stock."""
        return self.wishes / self.stocks

    @classmethod
    def of(
        cls, subscriptions: float, locals_: int, stocks: int = 1000, wishes: float = 10
    ) -> Market:
        """The market in which all clients together have this number of subscriptions."""
        return cls(subscriptions / (locals_ * wishes), stocks, wishes)


# -- table sizes: remote entries, summed over all brokers --------------------------------------


def simple_entries(tree: BrokerTree, market: Market, toward: str | None = None) -> float:
    """Simple routing holds every subscription once for each link that it crosses."""
    return sum(tree.behind(toward)) * market.clients * market.wishes


def identity_entries(tree: BrokerTree, market: Market, toward: str | None = None) -> float:
    """Identity routing holds, for each link, the different subscriptions behind it.

    Merging holds as many where everything merges.
    """
    some: list[float] = [
        1 - (1 - market.wanted) ** (market.clients * n) for n in tree.behind(toward)
    ]
    return market.stocks * sum(some)


def covering_entries(tree: BrokerTree, market: Market, toward: str | None = None) -> float:
    """Covering holds, for each link, the intervals around one price that no other one covers."""
    clients = [market.clients * n for n in tree.behind(toward)]
    drawn = np.arange(1, ceil(max(clients, default=0)) + 1)
    maximal = np.concatenate([[0.0], np.cumsum((1 - (1 - market.wanted) ** drawn) / drawn)])
    return market.stocks * float(np.interp(clients, np.arange(len(maximal)), maximal).sum())


def united_entries(
    tree: BrokerTree, market: Market, gap: float, toward: str | None = None
) -> float:
    """Perfect merging holds, for each link, the unions of the intervals that touch.

    The intervals are as long as each other and begin anywhere, uniformly; two neighbours stay
    apart if they begin more than `gap` of the whole range after each other. A given one of the
    N - 1 spaces between N uniform beginnings is that wide with probability (1 - gap) ** N.
    """
    p, keep = market.wanted, 1 - gap
    total = 0.0
    for n in tree.behind(toward):
        clients = market.clients * n
        none = (1 - p) ** clients
        shrunk = 1 - p + p * keep
        expected_power = shrunk**clients  # of keep ** N
        expected_times = clients * p * keep * shrunk ** (clients - 1)  # of N * keep ** N
        total += (1 - none) + expected_times - expected_power + none
    return market.stocks * total


def table_entries(
    tree: BrokerTree, strategy: str, subscriptions: float, toward: str | None = None
) -> float:
    """What all tables hold under a strategy, for the subscriptions that it is measured with."""
    market = Market.of(subscriptions, len(tree.locals))
    match strategy:
        case "simple":
            return simple_entries(tree, market, toward)
        case "covering":
            return covering_entries(tree, market, toward)
        case _:
            return identity_entries(tree, market, toward)


def mean_distance(tree: BrokerTree, toward: str = ROOT, among: Sequence[str] = ()) -> float:
    """How many links, on average, are between a client and where all notifications come from."""
    chosen = among or tree.locals
    return sum(tree.distance(local, toward) for local in chosen) / len(chosen)


# -- overhead: control messages for one change of one subscription -----------------------------


def simple_overhead(tree: BrokerTree, toward: str | None = None) -> float:
    """A change crosses every link; with advertisements, only those on the way to the source."""
    return float(len(tree.links)) if toward is None else mean_distance(tree, toward)


def identity_overhead(tree: BrokerTree, market: Market, toward: str | None = None) -> float:
    """A change crosses a link unless somebody else behind it wants the same, now."""
    quiet = 1 - ACTIVE * market.wanted
    total: float = sum(
        quiet ** (market.clients * behind - 1)
        for local in tree.locals
        for behind in _behind_links_away(tree, local, toward)
    )
    return total / len(tree.locals)


def _behind_links_away(tree: BrokerTree, local: str, toward: str | None) -> Iterable[int]:
    """For each link that leads away from a local broker: the local brokers on its own side."""
    own = set(tree.way_up(local))
    target = None if toward is None else set(tree.way_up(toward))
    for lower in tree.links:
        if target is not None and (lower in own) == (lower in target):
            continue  # not between the two
        below = tree.below[lower]
        yield below if lower in own else len(tree.locals) - below


# -- locality: the root's parts want different ranges of stocks ---------------------------------


@dataclass(frozen=True)
class Locality:
    """Each of the root's parts wants the stocks of a range of its own, a `share` of all stocks.

    The ranges are equally spaced. With three parts and a share of 1/3 they are disjoint, and with
    a share of 1 they are the same.

    >>> Locality(BrokerTree(), share=0.4).ranges
    [(0, 400), (300, 700), (600, 1000)]
    """

    tree: BrokerTree
    share: float
    stocks: int = 1000
    wishes: int = 10

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first stock and the one after the last, for each part."""
        width = round(self.share * self.stocks)
        step = (self.stocks - width) / (self.tree.fan_out - 1)
        firsts = [round(part * step) for part in range(self.tree.fan_out)]
        return [(first, first + width) for first in firsts]

    @property
    def locals(self) -> list[str]:
        """The brokers with clients: all but the root's own."""
        return [local for local in self.tree.locals if self.tree.subnet(local) is not None]

    def market(self, subscriptions: float) -> Market:
        """The market of clients who together have this number of subscriptions."""
        return Market.of(subscriptions, len(self.locals), self.stocks, self.wishes)

    def entries(
        self, market: Market, toward: str | None = None, *, active: float = ACTIVE
    ) -> float:
        """Σ|R| of identity routing, while the share `active` of the clients is active."""
        sides = [side for _, side in self._directed(toward)]
        return float(sum((1 - self._nobody(side, market, active)).sum() for side in sides))

    def overhead(self, market: Market, toward: str | None = None) -> float:
        """Control messages for one change under identity routing."""
        quiet = 1 - ACTIVE * market.wishes / self._width
        total = 0.0
        for local in self.locals:
            own = set(self.tree.way_up(local))
            part = self.tree.subnet(local)
            assert part is not None
            first, last = self.ranges[part]
            for (lower, up), side in self._directed(toward):
                if (lower in own) == up:  # it leads away from this local broker
                    nobody = self._nobody(side, market, ACTIVE)[first:last] / quiet
                    total += float(nobody.mean())
        return total / len(self.locals)

    def saved(self, market: Market, *, active: float = ACTIVE) -> float:
        """Messages between brokers that flooding sends in vain for one notification.

        The notification is of a random stock, from the root.
        """
        sides = [side for _, side in self._directed(ROOT)]
        return sum(float(self._nobody(side, market, active).mean()) for side in sides)

    @property
    def _width(self) -> int:
        first, last = self.ranges[0]
        return last - first

    def _directed(self, toward: str | None) -> Iterable[tuple[tuple[str, bool], tuple[int, ...]]]:
        """Each directed link: its lower end, whether it leads up, and who is behind it.

        The last says for each of the root's parts how many of its local brokers are there.
        """
        parts = range(self.tree.fan_out)
        whole = tuple(
            sum(self.tree.subnet(local) == part for local in self.locals) for part in parts
        )
        up_to = None if toward is None else set(self.tree.way_up(toward))
        for lower in self.tree.links:
            part = self.tree.subnet(lower)
            below = tuple(self.tree.below[lower] if p == part else 0 for p in parts)
            if up_to is None or lower not in up_to:
                yield (lower, True), below
            if up_to is None or lower in up_to:
                yield (lower, False), tuple(w - b for w, b in zip(whole, below, strict=True))

    def _nobody(self, side: tuple[int, ...], market: Market, active: float) -> NDArray[np.float64]:
        """For each stock, the probability that no active client on that side wants it."""
        nobody = np.ones(self.stocks)
        for (first, last), locals_ in zip(self.ranges, side, strict=True):
            quiet = 1 - active * market.wishes / self._width
            nobody[first:last] *= quiet ** (market.clients * locals_)
        return nobody
