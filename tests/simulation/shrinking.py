"""Shrinking: make a failing run small enough to be understood.

First steps are left out, in large pieces and then in smaller ones, then brokers, as long as the
run still fails. What remains is written to a file that `tidings simulate` replays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tidings.simulation.checking import PROBES
from tidings.simulation.guarantees import Violation
from tidings.simulation.play import Play
from tidings.simulation.scenario import Scenario, Step
from tidings.simulation.topology import Topology


def play(scenario: Scenario) -> Play:
    """Run a scenario with every check there is; `Violation` if something does not hold."""
    run = Play.begin(scenario, check=True)
    run.run()
    run.converge()
    run.probe(PROBES)
    return run


def fails(scenario: Scenario) -> bool:
    """Whether something does not hold in this scenario."""
    try:
        play(scenario)
    except Violation:
        return True
    return False


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool] = fails) -> Scenario:
    """A smaller scenario that still fails: no step and no outer broker can be left out."""
    while True:
        smaller = _fewer_nodes(_fewer_steps(scenario, fails), fails)
        if smaller == scenario:
            return scenario
        scenario = smaller


def explain(scenario: Scenario, folder: str | Path = "failures") -> str:
    """Shrink a failing scenario, keep it, and say how to replay it."""
    small = shrink(scenario)
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"run-{small.seed}.json"
    small.save(path)
    try:
        play(small)
    except Violation as violation:
        what = str(violation)
    return (
        f"{what}\n{len(small.steps)} steps on {len(small.topology().nodes)} nodes are enough.\n"
        f"Replay it: tidings simulate --check {path}"
    )


def _fewer_steps(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    steps: Sequence[Step] = scenario.steps
    size = len(steps)
    while size := size // 2 or (1 if size > 1 else 0):
        start = 0
        while start < len(steps):
            fewer = (*steps[:start], *steps[start + size :])
            smaller = msgspec.structs.replace(scenario, steps=fewer)
            if fails(smaller):
                scenario, steps = smaller, fewer
            else:
                start += size
    return scenario


def _fewer_nodes(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    for node in scenario.topology().nodes:
        rest = scenario.topology().without(node) if len(scenario.topology().nodes) > 1 else None
        if rest is not None:
            smaller = msgspec.structs.replace(scenario, network=_network(rest, scenario))
            if fails(smaller):
                scenario = smaller
    return scenario


def _network(topology: Topology, scenario: Scenario) -> dict[str, object]:
    network: dict[str, object] = {
        "nodes": list(topology.nodes),
        "links": [[link.a, link.b, link.latency, link.cost] for link in topology.links],
    }
    root = scenario.network.get("root")
    if root is not None:
        network["root"] = root if root in topology.nodes else topology.nodes[0]
    return network
