"""The population: clients, what they want, and what their wishes cost a network of brokers.

All experiments run on the same tree, with one producer at the root. A subscription is for a stock,
or for a stock and a range of prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tidings.events import Filter
from tidings.experiments.rebeca.tree import ROOT, BrokerTree
from tidings.node import Settings
from tidings.simulation import Client, Simulation
from tidings.workloads.conditions import Equal, Range, filter_of
from tidings.workloads.quotes import symbol

TREE: Final = BrokerTree()
STOCKS: Final = 1000
"""Stocks that there are."""
WISHES: Final = 10
"""Different subscriptions of each client."""
EVERYWHERE: Final = {local: range(STOCKS) for local in TREE.locals}
"""Clients at every local broker, each of which may want any stock."""
STRATEGIES: Final = ("simple", "identity", "covering", "merging")
THESIS: Final = "Mühl 2002"
CLOSED_FORM: Final = "closed form (see closed_forms.py)"
"""The source of a figure that was computed rather than printed."""


class Wishes:
    """Draws what clients want: each wants `WISHES` different stocks of a given range.

    Prices are floats, not cents, so two clients never ask for quite the same range.
    """

    def __init__(self, rng: Random, kind: str) -> None:
        self._rng = rng
        self._kind = kind

    def draw(self, stocks: range) -> list[Filter]:
        return [self._filter(symbol(stock)) for stock in self._rng.sample(stocks, WISHES)]

    def _filter(self, stock: str) -> Filter:
        match self._kind:
            case "stock":
                return filter_of((Equal("symbol", stock),))
            case "around 50":
                low, high = 50 - 50 * self._rng.random(), 50 + 50 * self._rng.random()
            case _:
                low = 80 * self._rng.random()
                high = low + 20
        return filter_of((Equal("symbol", stock), Range("price", low, high)))


def kind_of(strategy: str) -> str:
    """The kind of subscription that a strategy is measured with: one that it can reduce."""
    if strategy.startswith("imperfect"):
        return "20 wide"
    return "stock" if strategy in ("simple", "identity") else "around 50"


class Population:
    """A network with a producer and many clients, each with its wishes, active or not."""

    def __init__(
        self,
        strategy: str,
        *,
        advertisements: bool,
        seed: int,
        subscriptions: float,
        active: float = 1.0,
        where: Mapping[str, range] = EVERYWHERE,
    ) -> None:
        """As many clients at each local broker of `where` as make this number of `subscriptions`
        on average, while the share `active` of them is active; who want stocks of its range.
        """
        clients = round(subscriptions / active / (len(where) * WISHES))
        self._strategy, self._advertisements = strategy, advertisements
        self._rng = Random(seed)
        settings = Settings(
            at_most_once=True,
            subscriptions=strategy,
            advertisements="identity" if advertisements else None,
        )
        self.sim = Simulation(TREE.topology, settings, seed=seed)
        self.sim.settle()
        self.producer = self.sim.client("producer", at=ROOT)
        if advertisements:
            self.producer.advertise(Filter.all())
            self.sim.settle()
        wishes = Wishes(self._rng, kind_of(strategy))
        self._clients: list[tuple[Client, list[Filter]]] = []
        for local, stocks in where.items():
            for number in range(clients):
                client = self.sim.client(f"{local}.{number}", at=local)
                client.keeps = False
                self._clients.append((client, wishes.draw(stocks)))
        for client, wanted in self._clients:
            if self._rng.random() < active:
                client.want(wanted)  # faster than one by one, and the tables are the same
                self.sim.settle()

    def entries(self) -> dict[str, int]:
        """How many subscriptions of neighbours each broker holds."""
        return self.sim.table_sizes()

    def overhead(self) -> float:
        """Control messages for one (un)subscription, while random clients become (in)active."""
        toggles = toggles_for(self._strategy, advertisements=self._advertisements)
        before = self.sim.traffic.control
        for client, wanted in self._rng.choices(self._clients, k=toggles):
            if client.subscriptions:
                for id in list(client.subscriptions):
                    client.unsubscribe(id)
                    self.sim.settle()
            else:
                for wish in wanted:
                    client.subscribe(wish)
                    self.sim.settle()
        return (self.sim.traffic.control - before) / (toggles * WISHES)

    def carried(self) -> float:
        """Messages between brokers for one notification, averaged over one of each stock."""
        before = self.sim.traffic.events
        for stock in range(STOCKS):
            self.producer.publish({"symbol": symbol(stock), "price": 50.0})
        self.sim.settle()
        return (self.sim.traffic.events - before) / STOCKS


def toggles_for(strategy: str, *, advertisements: bool) -> int:
    """How many clients become active or inactive in one measurement.

    There are more where a change costs little time, and few where it always costs the same or
    where nothing exact is known to compare with.
    """
    if advertisements:
        return 300 if strategy in ("simple", "identity") else 100
    return {"simple": 10, "identity": 150}.get(strategy, 40)
