"""Random runs for tests: every strategy on every topology under both semantics."""

from __future__ import annotations

from tidings.node import Settings
from tidings.simulation.play import Play
from tidings.simulation.properties import Violation
from tidings.simulation.random_runs import random_scenario
from tidings.simulation.scenario import Scenario
from tidings.simulation.shrinking import explain, play

NETWORKS = {
    "centralised": {"kind": "single"},
    "hierarchical": {"kind": "random_tree", "nodes": 6, "seed": 1, "root": "b0"},
    "line": {"kind": "line", "nodes": 4},
    "acyclic": {"kind": "random_tree", "nodes": 6, "seed": 2},
    "ring": {"kind": "ring", "nodes": 5},
    "graph": {"kind": "random_graph", "nodes": 6, "seed": 3, "extra": 4},
    "waxman": {"kind": "waxman", "nodes": 7, "seed": 4},
}
"""The last three have cycles: there the nodes agree on a tree."""

STRATEGIES = (
    "flooding",
    "simple",
    "identity",
    "covering",
    "merging",
    "imperfect:1",
    "imperfect:1.5",
    "bounded:3",
)

SEMANTICS = {
    "subscriptions": {"advertisements": None},
    "advertisements": {"advertisements": "same"},
    "other advertisements": {"advertisements": "covering"},
    "not enforced": {"advertisements": "identity", "enforce": False},
}


def scenario(
    seed: int,
    network: str = "acyclic",
    strategy: str = "covering",
    semantics: str = "subscriptions",
    faults: str = "all",
    *,
    steps: int = 60,
    **settings: object,
) -> Scenario:
    """A random run, the same for the same arguments."""
    given = dict(SEMANTICS[semantics])
    if given["advertisements"] == "same":
        given["advertisements"] = strategy
    if faults in ("crashes", "all"):
        given["lease"] = 3.0
    if faults == "all":
        given["check"] = 2.0
    topology = Scenario(network=NETWORKS[network]).topology()
    chosen = Settings(
        subscriptions=strategy,
        tree=not topology.is_tree,
        **({"grace": ("static:2", "strawman", "adaptive:3")[seed % 3]} | given | settings),
    )
    return random_scenario(
        seed,
        settings=chosen,
        network=NETWORKS[network],
        nodes=topology.nodes,
        links=tuple((link.a, link.b) for link in topology.links),
        faults=faults,
        steps=steps,
    )


def run(*args: object, **settings: object) -> Play:
    """Play it; if something does not hold, fail with a small run and how to replay it."""
    drawn = scenario(*args, **settings)
    try:
        return play(drawn)
    except Violation:
        raise AssertionError(explain(drawn)) from None


__all__ = ["NETWORKS", "SEMANTICS", "STRATEGIES", "run", "scenario"]
