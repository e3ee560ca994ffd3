"""At every step of random runs, whatever breaks, and when all is healed: what must hold, holds."""

import pytest

from tests.simulation.runs import NETWORKS, SEMANTICS, STRATEGIES, run
from tidings.simulation.random_runs import FAULTS


def _number(*parts: str) -> int:
    """A seed for each combination, so that no two of them see the same run."""
    return sum(ord(c) * 31**n for n, c in enumerate("/".join(parts))) % 100_000


@pytest.mark.parametrize("network", NETWORKS)
def test_all_properties_hold_in_every_network(network: str) -> None:
    run(3, network, "covering", "advertisements", "all", steps=40)


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_properties_hold_in_every_network_whatever_breaks(network: str, faults: str) -> None:
    for seed, strategy in enumerate(STRATEGIES):
        semantics = list(SEMANTICS)[(seed + len(network)) % len(SEMANTICS)]
        run(seed, network, strategy, semantics, faults, steps=40)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_properties_hold_for_every_strategy_and_semantics(network: str, strategy: str) -> None:
    for semantics in SEMANTICS:
        run(_number(network, strategy, semantics), network, strategy, semantics, "all")


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", [0.0, 8.0])
def test_digests_repair_whatever_was_damaged_with_fixed_and_adaptive_periods(
    adaptive: float,
) -> None:
    for seed in range(4):
        run(seed, "acyclic", STRATEGIES[seed + 1], "advertisements", "all", check_most=adaptive)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_all_properties_hold_while_brokers_learn(network: str) -> None:
    semantics = list(SEMANTICS)[len(network) % len(SEMANTICS)]
    for seed, faults in enumerate(("links", "all")):
        played = run(seed, network, "learnt:0.2", semantics, faults, steps=40)
    assert any(node.learning and node.learning.known for node in played.simulation.nodes.values())


def test_two_leases_that_run_out_at_once_are_two_changes() -> None:
    run(20261118502275, "line", "imperfect:1.5", "other advertisements", "crashes", steps=80)


def test_a_node_with_leases_and_audits_goes_on_to_listen_to_statistics() -> None:
    done = run(20261118701033, "centralised", "learnt:0.2", "other advertisements", "all", steps=60)
    for node in done.simulation.nodes.values():
        assert node.learning is not None
        assert node.learning.session in node.sessions.values()
