"""Random runs for tests: every strategy on every network under every semantics, and both kinds
of delivery."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, TypeAlias

from tests.simulation.random_runs import DAMAGE, random_scenario
from tests.simulation.shrinking import explain, play
from tidings.node import Settings
from tidings.simulation.guarantees import Violation
from tidings.simulation.play import Play
from tidings.simulation.scenario import Scenario

Patch: TypeAlias = Callable[[Any, str, Any], None]
"""Puts something else into a class or a module: the fixture `patch` does."""

NETWORKS: dict[str, dict[str, Any]] = {
    "single": {"kind": "single"},
    "line": {"kind": "line", "nodes": 4},
    "star": {"kind": "star", "nodes": 5},
    "ring": {"kind": "ring", "nodes": 5},
    "graph": {"kind": "random_graph", "nodes": 6, "seed": 3, "extra": 4},
    "waxman": {"kind": "waxman", "nodes": 7, "seed": 4},
    "acyclic": {"kind": "random_tree", "nodes": 6, "seed": 2},
    "hierarchical": {"kind": "random_tree", "nodes": 6, "seed": 1, "root": "b0"},
}
AGREED = ("line", "star", "ring", "graph", "waxman")
"""There the nodes with logs agree on a tree; where there are cycles, all do."""

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

SEMANTICS: dict[str, dict[str, Any]] = {
    "subscriptions": {},
    "advertisements": {"advertisements": "same"},
    "other advertisements": {"advertisements": "covering"},
    "not enforced": {"advertisements": "identity", "enforce": False},
}

GRACES = ("static:2", "strawman", "adaptive:3", "static:10")


def scenario(
    seed: int,
    network: str = "acyclic",
    strategy: str = "covering",
    semantics: str = "subscriptions",
    faults: str = "all",
    *,
    steps: int = 60,
    at_most_once: bool = False,
    erases: bool = False,
    **settings: Any,
) -> Scenario:
    """A random run, the same for the same arguments."""
    given = {"grace": GRACES[seed % len(GRACES)], **SEMANTICS[semantics]}
    if given.get("advertisements") == "same":
        given["advertisements"] = strategy
    if faults == DAMAGE:
        given |= {"check": 2.0, "progress": 0.5, "memory": 5.0}
    topology = Scenario(network=NETWORKS[network]).topology()
    if at_most_once:
        given = {"tree": not topology.is_tree, **_at_most_once(faults)} | given
    else:
        given = {"tree": network in AGREED, **_logged(seed, faults)} | given
    return random_scenario(
        seed,
        settings=Settings(subscriptions=strategy, at_most_once=at_most_once, **given | settings),
        network=NETWORKS[network],
        faults=faults,
        steps=steps,
        erases=erases,
    )


def _at_most_once(faults: str) -> dict[str, Any]:
    lease = {"lease": 3.0} if faults in ("crashes", "all", DAMAGE) else {}
    return lease | ({"check": 2.0} if faults == "all" else {})


def _logged(seed: int, faults: str) -> dict[str, Any]:
    return {
        "margin": 4.0 if seed % 2 else 300.0,
        "check": (2.0, inf)[seed % 2],
        "backlog": 6 if seed % 3 == 0 and faults != "none" else inf,
    }


def run(*args: Any, **options: Any) -> Play:
    """Play it; if something does not hold, fail with a small run and how to replay it."""
    drawn = scenario(*args, **options)
    try:
        return play(drawn)
    except Violation:
        raise AssertionError(explain(drawn)) from None
