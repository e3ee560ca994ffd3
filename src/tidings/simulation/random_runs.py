"""Random runs: scenarios drawn from a seed, in which anything may happen at any time.

Filters and events come from a universe so small that they cover, overlap and equal each other
all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import inf
from random import Random
from typing import Any

from tidings.node import Settings
from tidings.routing.naming import Strategy
from tidings.routing.statistics import ABOUT, Attribute, Distribution, Statistics
from tidings.simulation.scenario import Scenario, Step

FAULTS = ("none", "packets", "links", "crashes", "all")
"""How much goes wrong: nothing; packets are lost, doubled and late; links are cut, too; nodes and
clients crash, too; tables are damaged, too."""

PROBES: tuple[Mapping[str, Any], ...] = (
    *({"x": x, "s": s} for x, s in product((0, 2, 4, 5, 7, 9), "abc")),
    {"x": 3},
    {"s": "b"},
    {"y": 1},
)
"""Events that tell any two filters of the universe apart."""


def random_scenario(
    seed: int,
    *,
    settings: Settings,
    network: Mapping[str, Any],
    nodes: tuple[str, ...],
    links: tuple[tuple[str, str], ...],
    faults: str = "all",
    steps: int = 60,
    duration: float = 20.0,
) -> Scenario:
    """A scenario of so many steps; the same for the same arguments."""
    random = Random(f"{seed} {faults} {steps}")
    drawn = [Step(0.0, "join", client=f"c{n}", node=random.choice(nodes)) for n in range(4)]
    if learns(settings) and settings.advertisements is not None:
        offer = f"EXISTS {ABOUT}"
        drawn += [Step(0.0, "advertise", client=f"c{n}", id="s", filter=offer) for n in range(4)]
    times = sorted(random.uniform(0.0, duration) for _ in range(steps))
    kinds = _kinds(faults, settings)
    for number, at in enumerate(times):
        do = random.choices(list(kinds), list(kinds.values()))[0]
        drawn.append(_step(random, round(at, 3), do, number, nodes, links))
    return Scenario(
        title=f"random run {seed}, faults: {faults}",
        seed=seed,
        duration=duration,
        network=dict(network),
        settings=settings,
        conditions={"jitter": 0.03} if faults != "none" else {},
        steps=tuple(drawn),
    )


def _kinds(faults: str, settings: Settings) -> dict[str, float]:
    """What may happen, and how often."""
    kinds = {"join": 2.0, "subscribe": 14, "unsubscribe": 9, "publish": 16, "leave": 1}
    if settings.advertisements is not None:
        kinds |= {"advertise": 10, "unadvertise": 5}
    if learns(settings):
        kinds |= {"learn": 4}
    if faults != "none":
        kinds |= {"loss": 1, "duplication": 1, "jitter": 1}
    if faults not in ("none", "packets"):
        kinds |= {"cut": 2, "mute": 1, "mend": 4}
    if faults in ("crashes", "all"):
        kinds |= {"crash": 3, "restart": 5}
        if settings.lease < inf:
            kinds |= {"vanish": 1}
    if faults == "all" and settings.check < inf:
        kinds |= {"corrupt": 2}
    return kinds


def _step(
    random: Random,
    at: float,
    do: str,
    number: int,
    nodes: tuple[str, ...],
    links: tuple[tuple[str, str], ...],
) -> Step:
    client, node = f"c{random.randrange(4)}", random.choice(nodes)
    id = str(random.randrange(number + 1))
    match do:
        case "subscribe" | "advertise":
            return Step(at, do, client=client, id=str(number), filter=random_filter(random))
        case "unsubscribe" | "unadvertise":
            return Step(at, do, client=client, id=id)
        case "publish":
            return Step(at, do, client=client, event=random_event(random))
        case "learn":
            return Step(at, "publish", client=client, event=random_lesson(random))
        case "join":
            return Step(at, do, client=client, node=node)
        case "leave" | "vanish":
            return Step(at, do, client=client)
        case "cut" | "mute" | "mend":
            a, b = random.choice(links) if links else (node, node)
            return Step(at, do, node=a, to=b)
        case "loss" | "duplication":
            return Step(at, do, value=random.choice((0.0, 0.1, 0.4)))
        case "jitter":
            return Step(at, do, value=random.choice((0.0, 0.05, 0.3)))
        case "crash":
            return Step(at, do, node=node, number=random.choice((0, 0, 1, 2, 4)))
        case _:
            return Step(at, do, node=node, number=random.randrange(1_000_000))


def random_filter(random: Random) -> str:
    """A filter of the small universe, as text."""
    low, high = sorted((random.randrange(10), random.randrange(10)))
    letter = random.choice("abc")
    return random.choice(
        (
            f"x < {high}",
            f"x >= {low}",
            f"x BETWEEN {low} AND {high}",
            f"x = {low}",
            f"s = '{letter}'",
            f"s = '{letter}' AND x < {high}",
            f"s = '{letter}' AND x BETWEEN {low} AND {high}",
            f"s = '{letter}' OR x > {high}",
            f"s IN ('a', '{letter}') AND x >= {low}",
            "EXISTS x" if random.random() < 0.3 else f"x > {low}",
            "TRUE" if random.random() < 0.2 else f"x <= {low}",
        )
    )


def random_event(random: Random) -> dict[str, Any]:
    """An event of the small universe."""
    event: dict[str, Any] = {"x": random.randrange(10), "s": random.choice("abc")}
    if random.random() < 0.1:
        event.pop(random.choice("xs"))
    return event


def learns(settings: Settings) -> bool:
    """Whether nodes listen to statistics."""
    return Strategy.parse(settings.subscriptions).learns


def random_lesson(random: Random) -> dict[str, Any]:
    """Statistics of the small universe as an event, which are right or not, or none at all."""
    if random.random() < 0.1:
        return {ABOUT: "distribution", "content": random.choice(("", "{", 7))}
    places = tuple(sorted(float(random.randrange(10)) for _ in range(random.randint(2, 5))))
    known = {
        "x": Attribute(present=1.0, number=Distribution(0.9, places)),
        "s": Attribute(present=1.0, strings={"a": 0.5, "b": random.choice((0.0, 0.4))}),
    }
    return dict(Statistics(random.randrange(100), known).notification())
