"""At every step of random runs, whatever breaks, and when all is healed: what must hold, holds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.random_runs import FAULTS
from tests.simulation.runs import NETWORKS, SEMANTICS, STRATEGIES, run, scenario
from tests.simulation.shrinking import play

SEEDS = int(os.environ.get("TIDINGS_SEEDS", "3"))
"""For each network, level of faults and strategy, with logs: 320 runs for each seed."""

both = pytest.mark.parametrize("at_most_once", [False, True], ids=["from logs", "at most once"])


@both
@pytest.mark.parametrize("network", NETWORKS)
def test_all_holds_in_every_network(network: str, at_most_once: bool) -> None:
    for seed in range(3):
        options = {"steps": 50, "at_most_once": at_most_once}
        run(seed, network, "covering", "advertisements", "all", **options)


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_holds_from_logs_whatever_breaks(network: str, faults: str) -> None:
    for number, strategy in enumerate(STRATEGIES):
        for seed in range(SEEDS):
            semantics = list(SEMANTICS)[(seed + number + len(network)) % len(SEMANTICS)]
            run(100 * (seed + 1) + 10 * number, network, strategy, semantics, faults)


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_holds_at_most_once_whatever_breaks(network: str, faults: str) -> None:
    for seed, strategy in enumerate(STRATEGIES):
        semantics = list(SEMANTICS)[(seed + len(network)) % len(SEMANTICS)]
        run(seed, network, strategy, semantics, faults, steps=40, at_most_once=True)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_holds_at_most_once_for_every_strategy_and_semantics(
    network: str, strategy: str
) -> None:
    for semantics in SEMANTICS:
        seed = _number(network, strategy, semantics)
        run(seed, network, strategy, semantics, "all", at_most_once=True)


def _number(*parts: str) -> int:
    """A seed for each combination, so that no two of them see the same run."""
    return sum(ord(c) * 31**n for n, c in enumerate("/".join(parts))) % 100_000


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", [0.0, 8.0])
def test_digests_repair_whatever_was_damaged_with_fixed_and_adaptive_periods(
    adaptive: float,
) -> None:
    for seed in range(4):
        options = {"check_most": adaptive, "at_most_once": True}
        run(seed, "acyclic", STRATEGIES[seed + 1], "advertisements", "all", **options)


@pytest.mark.slow
@both
def test_all_holds_while_brokers_learn(at_most_once: bool) -> None:
    known = 0
    for number, network in enumerate(NETWORKS):
        for seed, faults in enumerate(FAULTS):
            semantics = list(SEMANTICS)[(seed + number) % len(SEMANTICS)]
            options = {"steps": 50, "at_most_once": at_most_once}
            done = run(seed, network, "learnt:0.2", semantics, faults, **options)
            nodes = done.simulation.nodes.values()
            known += sum(bool(node.learning and node.learning.known) for node in nodes)
    assert known > 20


def test_a_node_with_leases_and_audits_goes_on_to_listen_to_statistics() -> None:
    done = run(3, "single", "learnt:0.2", "other advertisements", "all", at_most_once=True)
    for node in done.simulation.nodes.values():
        assert node.learning is not None
        assert node.learning.session in node.sessions.values()


SUMS = """
from tests.simulation.runs import scenario
from tests.simulation.shrinking import play
for seed in range(3):
    for at_most_once in (True, False):
        for network in ("single", "graph"):
            drawn = scenario(seed, network, "merging", "advertisements", at_most_once=at_most_once)
            sim = play(drawn).simulation
            clients = [(c.name, c.count, c.published) for c in sim.clients.values()]
            print(sim.steps, sim.now, sim.traffic, clients)
"""


@pytest.mark.slow
def test_one_seed_is_one_run_in_every_process() -> None:
    """Nothing depends on the order of a set of strings, which each process draws for itself."""
    said = {
        subprocess.run(
            [sys.executable, "-c", SUMS],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            check=True,
            timeout=300,
        ).stdout
        for number in "03"
    }
    assert len(said) == 1


@both
def test_a_run_is_the_same_every_time(at_most_once: bool) -> None:
    drawn = scenario(5, "graph", at_most_once=at_most_once)
    first, second = play(drawn), play(drawn)
    assert first.simulation.steps == second.simulation.steps
    assert first.simulation.now == second.simulation.now
