"""Adaptive merging: what it helps to know the events before merging what is wanted of them.

The REBECA thesis merges ranges that do not quite fit by a fixed rule, and leaves it to future work
to choose mergers by how many notifications they let through (Mühl 2002, outlook). Here brokers
learn that from statistics which the data pipeline computes, and which they hear as events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import numpy as np

from tidings.events import Filter, Notification
from tidings.events.intervals import Intervals
from tidings.experiments.compare import Finding
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.matching import Index
from tidings.node import Settings
from tidings.routing import Statistics
from tidings.routing.statistics import WANTED
from tidings.simulation import Client, Simulation
from tidings.simulation.topology import random_tree
from tidings.workloads.conditions import Equal, Range, filter_of

SYMBOLS: Final = 20
LEARNT_FROM: Final = 20_000
"""So many events are in the lake, before those that are measured."""
_OUTLIERS: Final = 0.05
"""So many prices are anywhere."""


class Market:
    """What is traded and what is wanted in one run, the same for all rules."""

    def __init__(self, run: int) -> None:
        rng = Random(f"market {run}")
        self._places = [rng.uniform(10.0, 90.0) for _ in range(SYMBOLS)]
        self._weights = [1.0 / (k + 1) for k in range(SYMBOLS)]

    def _symbol(self, rng: Random) -> int:
        return rng.choices(range(SYMBOLS), self._weights)[0]

    def event(self, rng: Random) -> dict[str, Any]:
        """A trade."""
        symbol = self._symbol(rng)
        price = rng.gauss(self._places[symbol], 3.0)
        if rng.random() < _OUTLIERS:
            price = rng.uniform(0.0, 100.0)
        return {"symbol": f"S{symbol}", "price": round(min(100.0, max(0.0, price)), 2)}

    def filter(self, rng: Random) -> Filter:
        """What somebody wants."""
        low = round(rng.uniform(0.0, 95.0), 1)
        wide = round(rng.uniform(2.0, 6.0), 1)
        symbol = Equal("symbol", f"S{self._symbol(rng)}")
        return filter_of((symbol, Range("price", low, round(low + wide, 1))))


@lru_cache(maxsize=8)
def learn(run: int) -> Statistics:
    """What the pipeline learns from the part of the trace that lies before the measurement."""
    from tidings.lakes.lake import Lake
    from tidings.lakes.layout import Archived
    from tidings.spark.statistics.statistics import statistics

    market, rng = Market(run), Random(f"first part {run}")
    when = datetime(2026, 11, 16, tzinfo=UTC)
    events = [
        Archived("trace", number, when, Notification(market.event(rng)))
        for number in range(1, LEARNT_FROM + 1)
    ]
    with TemporaryDirectory(prefix="tidings-adaptive-") as folder:
        lake = Lake(folder)
        lake.append(events, "experiment", 1)
        return statistics(None, lake).statistics


THESIS: Final = "Mühl 2002"
BROKERS: Final = 16
SUBSCRIPTIONS: Final = 24
"""At each broker."""
EVENTS: Final = 800
CHANGES: Final = 60
_ELSEWHERE: Final = 1_000
"""The number of a run with other prices."""

PERFECT, FIXED, LEARNT = "merging", "imperfect:F", "learnt:S"
MARGINAL, OUTDATED = "learnt:S, symbols apart", "learnt:S, outdated"


class AdaptivePoint(Point, frozen=True, kw_only=True):
    """A rule by which gaps are closed, and how far it goes: the F or S of its name."""

    rule: str
    limit: float

    @property
    def strategy(self) -> str:
        """The strategy of the brokers."""
        if self.rule == PERFECT:
            return "merging"
        return f"{'imperfect' if self.rule == FIXED else 'learnt'}:{self.limit}"


class AdaptiveMerging(Experiment[AdaptivePoint]):
    """Three rules for merging ranges that do not quite fit, where events are not spread evenly.

    16 brokers form a random tree; at each, 24 subscriptions ask for a symbol and a range of prices
    2 to 6 wide, anywhere from 0 to 100. Of 20 symbols the k-th is asked for, and traded, in
    proportion to 1/k. Its prices are where they usually are, within a few units of a place of its
    own (normal, deviation 3), but for one in twenty, which is anywhere. So most of what lies
    between two ranges hardly ever happens, and some of it happens all the time.

    *merging* joins perfectly: several ranges of a symbol become one filter with several intervals,
    and nothing comes through that is not wanted. *imperfect:F* joins neighbouring ranges if the
    whole is at most F times as long as the parts. *learnt:S* closes a gap if at most the share S
    of all events falls into it, as far as is known from statistics of 20,000 earlier events, which
    `tidings.spark.statistics` computes from a lake and a client publishes. They say how prices are
    distributed for each symbol; *symbols apart* is the same without that, from how symbols and
    prices are distributed each for itself. *outdated* are statistics of a market where each symbol
    was at another price, as after a long time.

    Tables are measured in intervals, since a filter may hold several; and in bytes of the filters
    as they are sent. Waste is the share of the hops of events that lead to nobody who wants them.
    """

    name = "adaptive-merging"
    title = "Adaptive merging: tables against wasted traffic, by rule and by what was learnt"
    source = f"the question that {THESIS} leaves open, section 6.5.2 and outlook"
    runs = 3
    quantities: ClassVar[Mapping[str, str]] = {
        "intervals": "intervals of prices in the tables for neighbours, all brokers together",
        "entries": "filters in these tables",
        "bytes": "these filters, as they are sent",
        "messages": "control messages for one change of a subscription",
        "filters": "filters added or removed by these messages, for one change",
        "hops": "links that an event travels, on average",
        "waste": "share of these hops that lead to nobody who wants the event",
        "learning": "control messages that the statistics caused, once",
    }
    panels = (
        Panel(
            quantity="waste",
            x="limit",
            against="intervals",
            title="the trade-off: nearer to the corner is better",
            x_label="intervals in all tables",
            y_label="share of event hops wasted",
        ),
        Panel(
            quantity="filters",
            x="limit",
            against="intervals",
            title="what a change of a subscription costs",
            x_label="intervals in all tables",
            y_label="filters sent for one change",
        ),
    )

    def points(self, *, full: bool) -> Sequence[AdaptivePoint]:
        factors = (1.25, 1.5, 2.0, 3.0, 5.0)
        shares = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
        few = shares if full else (0.0003, 0.003, 0.03)
        return [
            AdaptivePoint(rule=PERFECT, limit=1.0),
            *(AdaptivePoint(rule=FIXED, limit=factor) for factor in factors),
            *(AdaptivePoint(rule=LEARNT, limit=share) for share in shares),
            *(AdaptivePoint(rule=MARGINAL, limit=share) for share in few),
            *(AdaptivePoint(rule=OUTDATED, limit=share) for share in few),
        ]

    def measure(self, point: AdaptivePoint, seed: int) -> Mapping[str, float]:
        # The network, who wants what, and what happens are those of the run: rules share them.
        network = _Network(point.strategy, point.run, seed)
        learning = 0
        if point.rule in (LEARNT, MARGINAL, OUTDATED):
            learnt = learn(point.run + (_ELSEWHERE if point.rule == OUTDATED else 0))
            if point.rule == MARGINAL:
                learnt = Statistics(learnt.events, learnt.attributes)
            learning = network.learn(learnt)
        tables = network.tables()
        messages, filters = network.change(CHANGES)
        hops, needed = network.publish(EVENTS)
        return {
            **tables,
            "messages": messages / CHANGES,
            "filters": filters / CHANGES,
            "hops": hops / EVENTS,
            "waste": (hops - needed) / max(1, hops),
            "learning": learning,
        }

    def findings(self, results: Results) -> Sequence[Finding]:
        def at(point: Mapping[str, Any]) -> tuple[float, float]:
            return results.mean("intervals", **point), results.mean("waste", **point)

        places = {
            rule: {
                s.parameters["limit"]: at({"rule": rule, "limit": s.parameters["limit"]})
                for s in results.where("waste", rule=rule)
            }
            for rule in (PERFECT, FIXED, LEARNT, MARGINAL, OUTDATED)
        }
        ((whole, wasted),) = places[PERFECT].values()

        def wastes(rule: str, intervals: float) -> float:
            """What a rule wastes with tables of this size, between those that were measured."""
            curve = sorted([(whole, wasted), *places[rule].values()])
            sizes, shares = [size for size, _ in curve], [share for _, share in curve]
            return float(np.interp(intervals, sizes, shares))

        def beats(one: str, other: str) -> bool:
            return all(wastes(one, size) < waste for size, waste in places[other].values())

        return [
            Finding(
                claim="merging perfectly wastes nothing",
                source="by construction",
                holds=wasted == 0.0,
                evidence=f"{wasted:.2%} at {whole:,.0f} intervals",
            ),
            Finding(
                claim="with tables of the same size, what has learnt wastes less than the fixed"
                " rule, whatever that size is",
                source=f"the hope of {THESIS}, outlook",
                holds=beats(LEARNT, FIXED),
                evidence=f"{_told(places[FIXED], 'F')}; {_told(places[LEARNT], 'S')}",
            ),
            Finding(
                claim="it matters to know prices given a symbol: without that, more is wasted with"
                " tables of the same size",
                source="our guess",
                holds=beats(LEARNT, MARGINAL),
                evidence=_told(places[MARGINAL], "S"),
            ),
            Finding(
                claim="outdated statistics are worse than none: the fixed rule wastes less",
                source="our fear",
                holds=beats(FIXED, OUTDATED),
                evidence=_told(places[OUTDATED], "S"),
                why_not="Not at every limit: what was rare under any prices, such as a rare symbol,"
                " is still rare, and a small limit closes little else.",
            ),
        ]


def _told(places: Mapping[float, tuple[float, float]], letter: str) -> str:
    return ", ".join(
        f"{intervals:,.0f} intervals and {waste:.1%} wasted at {letter} = {limit:g}"
        for limit, (intervals, waste) in sorted(places.items())
    )


class _Network:
    """Brokers with their subscriptions."""

    def __init__(self, strategy: str, run: int, seed: int) -> None:
        self._market, self._rng = Market(run), Random(f"network {run}")
        self._topology = random_tree(BROKERS, run, latency=0.001)
        self._sim = Simulation(
            self._topology,
            Settings(at_most_once=True, subscriptions=strategy, delay=0.01),
            seed=seed,
        )
        self._sim.settle()
        self._clients: list[Client] = []
        for broker in self._topology.nodes:
            client = self._sim.client(f"client of {broker}", at=broker)
            client.keeps = False
            client.want(self._market.filter(self._rng) for _ in range(SUBSCRIPTIONS))
            self._sim.settle()
            self._clients.append(client)
        self._links = {
            broker: {to: tuple(pairwise(way)) for to, way in ways.items()}
            for broker in self._topology.nodes
            for ways in (self._topology.paths_from(broker),)
        }

    def learn(self, learnt: Statistics) -> int:
        """Publish statistics; how many control messages they caused."""
        self._sim.traffic.reset()
        self._clients[0].publish(learnt.notification())
        self._sim.settle()
        return self._sim.traffic.control

    def tables(self) -> dict[str, float]:
        """How large all tables for neighbours are, without what brokers want for themselves."""
        entries = intervals = size = 0
        for node in self._sim.nodes.values():
            for neighbour in node.neighbours.values():
                for filter_ in node.exchange.subscriptions.wanted.get(neighbour, {}):
                    if filter_ != WANTED:
                        entries += 1
                        intervals += _intervals(filter_)
                        size += len(filter_.to_json())
        return {"intervals": intervals, "entries": entries, "bytes": size}

    def change(self, count: int) -> tuple[int, int]:
        """Replace so many subscriptions: control messages, and the filters in them."""
        self._sim.traffic.reset()
        for _ in range(count):
            client = self._rng.choice(self._clients)
            client.unsubscribe(self._rng.choice(sorted(client.subscriptions)))
            client.subscribe(self._market.filter(self._rng))
            self._sim.settle()
        return self._sim.traffic.control, self._sim.traffic.filters

    def publish(self, count: int) -> tuple[int, int]:
        """The hops of so many events, and how many of them were needed."""
        self._sim.traffic.reset()
        wanted = Index()
        for at, client in enumerate(self._clients):
            wanted.add_many(((at, id), f) for id, f in client.subscriptions.items())
        needed = 0
        for _ in range(count):
            publisher = self._rng.choice(self._clients)
            event = Notification(self._market.event(self._rng))
            ways = self._links[publisher.at]
            readers = {self._clients[at].at for at, _ in wanted.match(event)}
            needed += len({link for reader in readers for link in ways[reader]})
            publisher.publish(event)
            self._sim.settle()
        return self._sim.traffic.events, needed


def _intervals(filter_: Filter) -> int:
    """Intervals of prices; a filter that says nothing of them counts as one."""
    count = 0
    for conjunction in filter_.conjunctions:
        parts = conjunction["price"].parts.values()
        count += max(1, sum(len(list(p.spans())) for p in parts if isinstance(p, Intervals)))
    return count
