"""How fast virtual time passes: messages between the brokers of a tree of 100, on one core."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from random import Random

from bench.report import Target, console, save, short, show, show_targets
from tidings.matching import warm
from tidings.node import Settings
from tidings.simulation import Simulation
from tidings.simulation.topology import random_tree
from tidings.workloads import WORKLOADS

_NODES = 100
_SUBSCRIPTIONS = 10
"""Of the one client that each broker has."""
_APART = 0.001
"""Seconds of virtual time between two events."""


def run(*, quick: bool, out: Path) -> int:
    console.rule(f"simulation: a tree of {_NODES} brokers, on one core")
    warm.wait()
    events = 4_000 if quick else 40_000
    rows, rates = [], {}
    for strategy in ("simple", "covering", "flooding"):
        measured = _measured(strategy, events)
        rates[strategy] = measured["event messages"]
        rows.append([strategy, *(short(value) for value in measured.values())])
    show(
        f"Messages per second: {events} events, {_SUBSCRIPTIONS} quotes wanted at each broker",
        ["strategy", "messages", "event messages", "subscription messages"],
        rows,
    )
    targets = [
        Target(f"messages per second, {strategy}", rate, 50_000) for strategy, rate in rates.items()
    ]
    show_targets(targets)
    save(out, "simulation", {"rates": rates}, targets)
    return 0


def _measured(strategy: str, events: int) -> dict[str, float]:
    workload = WORKLOADS["quote"]()
    filters = iter(list(workload.filters(_NODES * _SUBSCRIPTIONS)))
    settings = Settings(at_most_once=True, subscriptions=strategy)
    simulation = Simulation(random_tree(_NODES, seed=1), settings)
    simulation.settle()
    clients = [simulation.client(f"c{name}", at=name) for name in simulation.topology.nodes]
    simulation.traffic.reset()
    gc.collect()
    start = time.process_time()
    for client in clients:
        client.keeps = False
        for _ in range(_SUBSCRIPTIONS):
            client.subscribe(next(filters))
    simulation.settle()
    subscribing = simulation.traffic.packets / (time.process_time() - start)
    notifications = list(workload.notifications(events))
    random = Random(1)
    simulation.traffic.reset()
    gc.collect()
    start = time.process_time()
    for notification in notifications:
        random.choice(clients).publish(notification)
        simulation.run(simulation.now + _APART)
    simulation.settle()
    seconds = time.process_time() - start
    traffic = simulation.traffic
    return {
        "messages": traffic.packets,
        "event messages": traffic.packets / seconds,
        "subscription messages": subscribing,
    }
