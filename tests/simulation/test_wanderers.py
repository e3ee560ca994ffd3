"""Programs that go from broker to broker while everything breaks: each id is kept once."""

from __future__ import annotations

import os
from math import inf
from random import Random
from typing import Any

import pytest

from tests.simulation.runs import NETWORKS
from tidings.node import Settings
from tidings.simulation.scenario import Scenario
from tidings.simulation.simulation import Conditions, Simulation
from tidings.simulation.wanderers import Wanderer

SEEDS = int(os.environ.get("TIDINGS_SEEDS", "2"))
FIXED = ("acyclic", "hierarchical")
KINDS = {
    "publish": 24,
    "go": 16,
    "retry": 6,
    "crash": 3,
    "crash within": 3,
    "restart": 6,
    "cut": 3,
    "mute": 2,
    "mend": 6,
    "loss": 1,
    "jitter": 1,
    "fail": 3,
    "slow": 2,
}


class Trial:
    """A network, its wanderers, and what happens to them, by a seed."""

    def __init__(self, seed: int, network: str, *, bold: float = 0.2) -> None:
        self.random = Random(f"wanderers {seed} {network}")
        topology = Scenario(network=NETWORKS[network]).topology()
        settings = Settings(
            tree=network not in FIXED and network != "single",
            grace=self.random.choice(("static:2", "strawman")),
            check=self.random.choice((2.0, inf)),
        )
        self.sim = Simulation(topology, settings, seed=seed, is_harsh=True)
        self.sim.guarantees.watch(thorough=False)
        self.nodes = list(topology.nodes)
        self.links = [(link.a, link.b) for link in topology.links]
        self.wanderers = [Wanderer(self.sim, f"w{n}/x") for n in range(3)]
        self.bold = bold
        self.count = 0

    def run(self, steps: int = 120, seconds: float = 40.0) -> Trial:
        for wanderer in self.wanderers:
            wanderer.come_back()
        end = self.sim.now + seconds
        times = sorted(self.random.uniform(3.0, end) for _ in range(steps))
        for at in times:
            kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
            self.sim.at(at, self.do, kind)
        self.sim.run(end)
        self.finish()
        return self

    def do(self, kind: str, _: Any = None) -> None:
        random, sim = self.random, self.sim
        node, who = random.choice(self.nodes), random.choice(self.wanderers)
        link = random.choice(self.links) if self.links else None
        match kind:
            case "publish":
                for _n in range(random.choice((1, 1, 3))):
                    self.count += 1
                    is_bold = random.random() < self.bold
                    who.publish(f"e{self.count}", random.choice((1, 1, 1, 3)), is_bold=is_bold)
            case "go":
                who.go(node)
            case "retry":
                who.retry()
            case "crash":
                sim.crash(node)
            case "crash within":
                sim.crash_within(node, random.choice((1, 1, 2, 3)))
            case "restart":
                sim.restart(node)
            case "cut" | "mute" if link is not None:
                sim.fail_link(*link, silently=kind == "mute")
            case "mend" if link is not None:
                sim.restore_link(*link)
            case "loss":
                sim.change_conditions(loss=random.choice((0.0, 0.2)))
            case "jitter":
                sim.change_conditions(jitter=random.choice((0.0, 0.2)))
            case "fail":
                sim.stores[node].failures += [random.random() < 0.5]
            case "slow":
                sim.committing = random.choice((0.02, 0.5, 2.0))
        for each in self.wanderers:
            each.check(is_over=False)

    def finish(self) -> None:
        """All faults are over: in the end, everything is kept."""
        sim = self.sim
        sim.spare()
        sim.set_conditions(Conditions())
        sim.committing = 0.02
        for a, b in self.links:
            sim.restore_link(a, b)
        for node in self.nodes:
            sim.restart(node)
        for _ in range(40):
            sim.run(sim.now + 5.0)
            for each in self.wanderers:
                each.retry()
                each.check(is_over=False)
            if all(each.published.keys() == each.kept.keys() for each in self.wanderers):
                break
        sim.run(sim.now + 10.0)
        for each in self.wanderers:
            each.check(is_over=True)
            assert each.published.keys() == each.kept.keys(), "something waits for ever"
        for name, node in sim.nodes.items():
            assert not len(node.from_log.publishing.inquiries), f"{name} still asks"

    @property
    def marked(self) -> int:
        kept = [receipts for each in self.wanderers for receipts in each.kept.values()]
        return sum(receipts.first.maybe_twice for receipts in kept)


@pytest.mark.parametrize("network", ["single", "line", "star", "graph", "acyclic"])
def test_each_id_is_kept_once_wherever_its_program_goes(network: str) -> None:
    for seed in range(SEEDS):
        Trial(seed, network).run()
