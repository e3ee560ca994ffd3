"""Random trials for tests: guaranteed delivery on every kind of network, whatever breaks."""

from __future__ import annotations

from math import inf
from typing import Any

from tidings.node import Settings
from tidings.simulation.properties import Violation
from tidings.simulation.scenario import Scenario
from tidings.simulation.shrinking import shrink
from tidings.simulation.trials import Trial, fails, play, random_trial

NETWORKS: dict[str, dict[str, Any]] = {
    "single": {"kind": "single"},
    "line": {"kind": "line", "nodes": 4},
    "star": {"kind": "star", "nodes": 5},
    "ring": {"kind": "ring", "nodes": 5},
    "graph": {"kind": "random_graph", "nodes": 6, "seed": 3, "extra": 4},
    "acyclic": {"kind": "random_tree", "nodes": 6, "seed": 2},
    "hierarchical": {"kind": "random_tree", "nodes": 5, "seed": 1, "root": "b0"},
}
AGREED = ("line", "star", "ring", "graph")
"""There the nodes agree on a tree; the links of the others are one."""

STRATEGIES = ("covering", "merging", "flooding", "simple")

SEMANTICS: dict[str, dict[str, Any]] = {
    "subscriptions": {},
    "advertisements": {"advertisements": "same"},
    "not enforced": {"advertisements": "same", "enforce": False},
}

GRACES = ("static:2", "strawman", "adaptive:3", "static:10")


def trial(
    seed: int,
    network: str = "acyclic",
    strategy: str = "covering",
    semantics: str = "subscriptions",
    faults: str = "all",
    *,
    steps: int = 60,
) -> Scenario:
    """A random trial, the same for the same arguments."""
    given = dict(SEMANTICS[semantics])
    if given:
        given["advertisements"] = strategy
    settings = Settings(
        log=True,
        tree=network in AGREED,
        subscriptions=strategy,
        grace=GRACES[seed % len(GRACES)],
        margin=4.0 if seed % 2 else 300.0,
        check=(2.0, inf)[seed % 2],
        backlog=6 if seed % 3 == 0 and faults != "none" else inf,
        **given,
    )
    return random_trial(
        seed, settings=settings, network=NETWORKS[network], faults=faults, steps=steps
    )


def run(*args: Any, **options: Any) -> Trial:
    """Play it; if something does not hold, fail with the few steps that are enough."""
    drawn = trial(*args, **options)
    try:
        return play(drawn)
    except Violation as violation:
        small = shrink(drawn, fails)
        steps = "\n".join(str(step) for step in small.steps)
        raise AssertionError(f"{violation}\ntrial{args} fails with:\n{steps}") from None
