"""Population: the clients and faults that a scenario asks for by the number, as steps.

All chance comes from the scenario's seed, with a generator for each purpose: more faults change
nothing about the clients. Times are drawn evenly, so that as many things happen as the rates say.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from tidings.simulation.scenario import Faults, Scenario, Step, Workload
from tidings.simulation.topology import Topology
from tidings.workloads import WORKLOADS


def written_out(scenario: Scenario) -> Scenario:
    """The same scenario with nothing but steps, in the order of their times.

    Equal scenarios give equal steps, on every machine; a scenario of nothing but steps is left
    as it is. At one moment the clients' steps come first, then the faults, then those by hand.

    >>> network = {"kind": "line", "nodes": 2}
    >>> small = Workload(subscriptions=1, events=0.2)
    >>> for step in written_out(Scenario(network=network, workload=small, duration=6.0)).steps:
    ...     print(f"{step.at:.2f}", step.client, step.do, step.filter or step.node or "…")
    0.00 b0-1 join b0
    0.00 b1-1 join b1
    0.07 b1-1 subscribe symbol = 'NJH'
    0.09 b0-1 subscribe symbol = 'KUE'
    2.90 b0-1 publish …
    """
    if scenario.workload is None and scenario.faults is None:
        return scenario
    network = scenario.topology()
    steps: list[Step] = []
    if scenario.workload is not None:
        steps += _Clients(scenario, scenario.workload, network).steps()
    if scenario.faults is not None:
        steps += _faults(scenario, scenario.faults, network)
    steps += scenario.steps
    steps.sort(key=lambda step: step.at)  # stable
    return msgspec.structs.replace(scenario, workload=None, faults=None, steps=tuple(steps))


def _times(random: Random, number: int, begin: float, end: float) -> list[float]:
    """This many moments, in order; to the microsecond, by which machines agree."""
    return sorted(round(random.uniform(begin, end), 6) for _ in range(number))


def _number(rate: float, begin: float, end: float) -> int:
    return round(rate * max(0.0, end - begin))


# -- clients -----------------------------------------------------------------------------------


class _Clients:
    """What the clients of a workload do, from the first to the last."""

    def __init__(self, scenario: Scenario, workload: Workload, network: Topology) -> None:
        self.workload = workload
        self.seed, self.end = scenario.seed, scenario.duration
        self.begin = min(workload.begin, self.end)
        self.homes = {c: node for node in network.nodes for c in workload.clients(node)}
        self.names = list(self.homes)
        self.advertises = workload.advertise and scenario.settings.advertisements is not None
        source = WORKLOADS[workload.kind](seed=scenario.seed)
        self.exchanged = _number(workload.churn, self.begin, self.end)
        self.filters = source.texts(len(self.names) * workload.subscriptions + self.exchanged)
        self.events = list(source.events(_number(workload.events, self.begin, self.end)))

    def steps(self) -> Iterator[Step]:
        """In no particular order, but that each client joins before all else."""
        if not self.names:
            return
        for client, node in self.homes.items():
            yield Step(0.0, "join", client=client, node=node)
        yield from self._publications()
        yield from self._subscriptions()

    def _subscriptions(self) -> Iterator[Step]:
        """Each client has its share by `begin`; then one after another is exchanged."""
        random = Random(f"{self.seed} subscriptions")
        held: list[tuple[str, str]] = []
        for client in self.names:
            for number in range(1, self.workload.subscriptions + 1):
                held.append((client, str(number)))
                yield self._subscribe(round(random.uniform(0.0, self.begin), 6), *held[-1])
        times = _times(random, self.exchanged if held else 0, self.begin, self.end)
        for number, at in enumerate(times, start=1):
            place = random.randrange(len(held))
            client, id = held[place]
            held[place] = (client, f"new {number}")
            yield Step(at, "unsubscribe", client=client, id=id)
            yield self._subscribe(at, *held[place])

    def _subscribe(self, at: float, client: str, id: str) -> Step:
        return Step(at, "subscribe", client=client, id=id, filter=next(self.filters))

    def _publications(self) -> Iterator[Step]:
        """Anybody publishes anything; where it is advertised, each symbol has one publisher."""
        random = Random(f"{self.seed} publications")
        times = _times(random, len(self.events), self.begin, self.end)
        publishers: dict[str, str] = {}
        for at, event in zip(times, self.events, strict=True):
            client = random.choice(self.names)
            if self.advertises:
                client = publishers.setdefault(event["symbol"], client)
            yield Step(at, "publish", client=client, event=event)
        yield from self._advertisements(publishers)

    def _advertisements(self, publishers: dict[str, str]) -> Iterator[Step]:
        symbols: dict[str, list[str]] = {}
        for symbol, client in sorted(publishers.items()):
            symbols.setdefault(client, []).append(symbol)
        for client, names in symbols.items():
            listed = ", ".join(f"'{name}'" for name in names)
            yield Step(0.0, "advertise", client=client, id="all", filter=f"symbol IN ({listed})")


# -- faults ------------------------------------------------------------------------------------


def _faults(scenario: Scenario, faults: Faults, network: Topology) -> Iterator[Step]:
    end = scenario.duration if faults.until is None else min(faults.until, scenario.duration)

    def times(random: Random, rate: float) -> list[float]:
        begin = min(faults.begin, end)
        return _times(random, _number(rate / 60, begin, end), begin, end)

    nodes: list[dict[str, Any]] = [{"node": node} for node in network.nodes]
    links: list[dict[str, Any]] = [{"node": link.a, "to": link.b} for link in network.links]
    for breaks, heals, rate, places in (
        ("crash", "restart", faults.crashes, nodes),
        ("cut", "mend", faults.cuts, links),
    ):
        random = Random(f"{scenario.seed} {breaks}")
        for place, at, until in _outages(random, times(random, rate), len(places), faults.outage):
            yield Step(at, breaks, **places[place])
            if until <= scenario.duration:
                yield Step(until, heals, **places[place])
    random = Random(f"{scenario.seed} corrupt")
    for at in times(random, faults.corruptions):
        yield Step(at, "corrupt", node=random.choice(network.nodes), number=random.getrandbits(31))


def _outages(
    random: Random, times: list[float], places: int, usual: float
) -> Iterator[tuple[int, float, float]]:
    """What is out, from when, until when: never what is out already."""
    back = [-1.0] * places
    for at in times:
        whole = [place for place, until in enumerate(back) if until < at]
        if whole:
            chosen = random.choice(whole)
            back[chosen] = round(at + usual * random.uniform(0.5, 1.5), 6)
            yield chosen, at, back[chosen]
