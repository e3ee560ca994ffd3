"""Checking: a scenario played with all checks that its size affords, to its end and beyond.

Comparing all tables with the plain functions at every step takes time with the square of their
size. So in larger scenarios only what clients hear is checked at every step; at the end, brokers
and clients must agree on what they have told each other, and the rest is left to probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final, TypeAlias

from tidings.events import Notification, TidingsError
from tidings.simulation.guarantees import Violation
from tidings.simulation.play import Play
from tidings.simulation.population import written_out
from tidings.simulation.scenario import Scenario
from tidings.simulation.simulation import Simulation

MOST_SUBSCRIPTIONS: Final = 40
"""A scenario in which there are more is a large one."""
PROBES: Final[tuple[Mapping[str, Any], ...]] = (
    *({"x": x, "s": s} for x, s in product((0, 2, 4, 5, 7, 9), "abc")),
    {"x": 3},
    {"s": "b"},
    {"y": 1},
)
"""Events that tell any two filters of a random run apart: see `tests/simulation/random_runs.py`."""
_LOOKS: Final = 200
_PUBLICATIONS: Final = 300

_State: TypeAlias = dict[tuple[str, str, str], int]


@dataclass(frozen=True)
class Verdict:
    """What the checks at the end have found, if they found nothing wrong."""

    was_thorough: bool
    """Whether tables were checked at every step."""
    damaged_at: float | None
    """Since when they had been damaged, if they had, and could not be right."""
    bound: float
    """Seconds that the network was given after the end of all faults."""
    converged_after: float
    """Seconds of these after which the tables were what they then stayed."""
    probes: int
    """Events that every client published at the end, and exactly those who want them heard."""


def begin(scenario: Scenario) -> Play:
    """A play that raises `Violation` at the first step that breaks a promise."""
    scenario = written_out(scenario)
    subscriptions = sum(step.do == "subscribe" for step in scenario.steps)
    return Play.begin(scenario, check=True, thorough=subscriptions <= MOST_SUBSCRIPTIONS)


def finish(play: Play, probes: Iterable[Mapping[str, Any]] = ()) -> Verdict:
    """End all faults, and check that the network recovers from them within its bound.

    These probes are published first, and then some events that the clients want.
    """
    simulation = play.simulation
    began, patience = simulation.now, play.patience
    looks: list[tuple[float, _State]] = [(0.0, _state(simulation))]

    def look(*_: object) -> None:
        looks.append((simulation.now - began, _state(simulation)))

    for number in range(1, _LOOKS + 1):
        simulation.at(began + patience * number / _LOOKS, look)
    _converge(play)
    chosen = [*probes, *_probes(play)]
    play.probe(chosen)
    return Verdict(
        was_thorough=simulation.guarantees.is_thorough,
        damaged_at=min((s.at for s in play.scenario.steps if s.do == "corrupt"), default=None),
        bound=patience,
        converged_after=_since(looks),
        probes=len(chosen),
    )


def _converge(play: Play) -> None:
    try:
        play.converge()
    except Violation:
        raise
    except TidingsError as problem:
        raise Violation(f"at {play.simulation.now:.3f} s: {problem}") from None


def _state(simulation: Simulation) -> _State:
    """What all nodes hold for everybody, made small."""
    return {
        (node.name, kind, port.name): hash(frozenset(table.items()))
        for node in simulation.nodes.values()
        for kind, tables in (
            ("wanted", node.exchange.subscriptions),
            ("offered", node.exchange.advertisements),
        )
        if tables is not None
        for port, table in tables.wanted.items()
        if table
    }


def _since(looks: list[tuple[float, _State]]) -> float:
    """Since when all was as it is at the last look."""
    since, last = looks[-1]
    for time, state in reversed(looks):
        if state != last:
            break
        since = time
    return since


def _probes(play: Play) -> list[Mapping[str, Any]]:
    """Events that clients want now, and such as were published last."""
    clients = play.living()
    most = max(4, _PUBLICATIONS // max(1, len(clients)))
    wanted = [f for c in clients for f in c.subscriptions.values()]
    apart = wanted[:: max(1, len(wanted) // most)]
    examples = (f.example() for f in apart)
    published = (Notification(s.event) for s in reversed(play.scenario.steps) if s.event)
    found = [*islice((e for e in examples if e is not None), most), *islice(published, most // 2)]
    return [each for n, each in enumerate(found) if each not in found[:n]]
