"""Random runs: scenarios drawn from a seed, in which anything may happen at any time.

Filters and events come from a universe so small that they cover, overlap and equal each other
all the time. In runs with logs the host is harsh, too: see `hardships`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from random import Random
from typing import Any, Final

from tidings.node import Settings
from tidings.routing.naming import Strategy
from tidings.routing.statistics import ABOUT, Attribute, Distribution, Statistics
from tidings.simulation.scenario import ACTIONS, Scenario, Step

FAULTS: Final = ("none", "packets", "links", "crashes", "all")
"""How much goes wrong: nothing; packets are lost, doubled and late, and clients slow; links and
connections are cut, too; nodes and clients crash and commits fail, too; tables are damaged, too,
or, where there are logs, these are trimmed, damaged or go back."""
DAMAGE: Final = "damage"
"""Another fault: anything that a node remembers is damaged."""

_CLIENTS: Final = 4
_QUIET: Final = 10.0
"""Seconds without damage at the beginning: who has never heard of a stream has no doubts of it."""


def random_scenario(
    seed: int,
    *,
    settings: Settings,
    network: Mapping[str, Any],
    faults: str = "all",
    steps: int = 60,
    duration: float = 20.0,
    erases: bool = False,
) -> Scenario:
    """A scenario of this many steps; the same for the same arguments.

    With `erases`, clients have events erased now and then.
    """
    random = Random(f"{seed} {faults} {steps}")
    drawn = _Steps(random, Scenario(network=dict(network), settings=settings))
    kinds = _kinds(faults, settings) | ({"erase": 4.0} if erases else {})
    later: list[Step] = []
    begin = _QUIET if faults == DAMAGE else 0.2
    end = begin + duration
    for at in sorted(random.uniform(begin, end) for _ in range(steps)):
        do = random.choices(list(kinds), list(kinds.values()))[0]
        step = drawn.step(round(at, 3), do)
        later += [step] if do != "hang" else [drawn.interrupted(step), step]
    return Scenario(
        title=f"random run {seed}, faults: {faults}",
        seed=seed,
        duration=end,
        network=dict(network),
        settings=settings,
        conditions={"jitter": 0.03} if faults != "none" else {},
        is_harsh=not settings.at_most_once,
        steps=(*drawn.first, *later),
    )


def _kinds(faults: str, settings: Settings) -> dict[str, float]:
    """What may happen, and how often."""
    if faults == DAMAGE:
        return _kinds_damage(settings)
    kinds = (
        _kinds_at_most_once(faults, settings) if settings.at_most_once else _kinds_logged(faults)
    )
    if learns(settings):
        kinds |= {"learn": 4}
    if settings.advertisements is not None:
        kinds |= {"advertise": 6, "unadvertise": 4}
    if faults != "none":
        kinds |= {"loss": 1, "duplication": 1, "jitter": 1}
    if faults not in ("none", "packets"):
        kinds |= {"cut": 2, "mute": 1, "mend": 4}
    if faults in ("crashes", "all"):
        kinds |= {"crash": 3, "restart": 5}
    return kinds


def _kinds_at_most_once(faults: str, settings: Settings) -> dict[str, float]:
    kinds = {"join": 2.0, "subscribe": 14, "unsubscribe": 9, "publish": 16, "leave": 1}
    if faults in ("crashes", "all") and settings.lease < inf:
        kinds |= {"vanish": 1}
    if faults == "all" and settings.check < inf:
        kinds |= {"corrupt": 2}
    return kinds


def _kinds_logged(faults: str) -> dict[str, float]:
    kinds = {"subscribe": 8.0, "unsubscribe": 3, "publish": 14, "ack": 5, "watch": 3, "unwatch": 1}
    kinds |= {"again": 1, "take": 2, "hop": 2}
    if faults != "none":
        kinds |= {"stall": 2, "drain": 3}
    if faults not in ("none", "packets"):
        kinds |= {"hang": 2, "split": 1}
    if faults in ("crashes", "all"):
        kinds |= {"vanish": 2, "join": 3, "fail": 2}
    if faults == "all":
        kinds |= {"trim": 1, "slow": 1, "back": 1, "spoil": 0.5}
    return kinds


def _kinds_damage(settings: Settings) -> dict[str, float]:
    kinds = {"publish": 14.0, "subscribe": 3, "unsubscribe": 2, "cut": 1, "mend": 2, DAMAGE: 4}
    return kinds | ({} if settings.at_most_once else {"ack": 5, "again": 1, "hang": 2})


class _Steps:
    """Steps of one scenario, drawn one after the other."""

    def __init__(self, random: Random, scenario: Scenario) -> None:
        self._random, self._settings = random, scenario.settings
        topology = scenario.topology()
        self._nodes = topology.nodes
        self._links = [(link.a, link.b) for link in topology.links]
        self._homes = {f"c{n}": random.choice(topology.nodes) for n in range(_CLIENTS)}
        self._subscriptions = 0
        self.first = list(self._beginning())

    def _beginning(self) -> list[Step]:
        """Everybody is there, and may say something in most runs."""
        found = [Step(0.0, "join", client=c, node=node) for c, node in self._homes.items()]
        settings = self._settings
        if settings.advertisements is None:
            return found
        if learns(settings):
            offer = f"EXISTS {ABOUT}"
            found += [Step(0.1, "advertise", client=c, id="s", filter=offer) for c in self._homes]
        if not settings.at_most_once:
            found += [
                Step(0.1, "advertise", client=c, id="a", filter=self._one("TRUE", "x < 6"))
                for c in self._homes
            ]
        return found

    def step(self, at: float, do: str) -> Step:
        """A step of this kind."""
        if do == "learn":
            return self._step(at, "publish", event=random_lesson(self._random))
        if do in _FIELDS:
            return self._step(at, do, **_FIELDS[do](self))
        return self._step(at, do)

    def interrupted(self, hang: Step) -> Step:
        """What was published shortly before a connection was lost, and may be under way."""
        at = max(0.2, round(hang.at - self._random.uniform(0.0, 0.4), 3))
        return Step(at, "publish", client=hang.client, event=random_event(self._random))

    def _step(self, at: float, do: str, **fields: Any) -> Step:
        if "`client`" in ACTIONS[do]:
            fields["client"] = f"c{self._random.randrange(_CLIENTS)}"
        return Step(at, do, **fields)

    # -- the fields of each kind ---------------------------------------------------------------

    def _subscribe(self) -> dict[str, Any]:
        self._subscriptions += 1
        wanted = {"id": f"s{self._subscriptions}", "filter": random_filter(self._random)}
        return wanted if self._settings.at_most_once else wanted | self._reading()

    def _reading(self) -> dict[str, Any]:
        """How, and since when, a subscription is read from logs."""
        random = self._random
        return {
            "durable": random.choice(("", "d1", "d2", "s1")),
            "since": random.choice(("", "", "", "", "begin", "time", "log")),
            "value": round(random.random(), 3),
            "unlike": random.random() < 0.25,
            "replace": random.random() < 0.4,
            "home": "here" if random.random() < 0.1 else "",
        }

    def _one(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _earlier(self) -> str:
        """A subscription that may have been asked for."""
        return f"s{self._random.randint(1, max(1, self._subscriptions))}"

    def _events(self) -> dict[str, Any]:
        event, more = random_event(self._random), self._one(0, 0, 1, 4)
        if self._settings.at_most_once:
            return {"event": event}
        return {"event": event, "more": [random_event(self._random) for _ in range(more)]}

    def _node(self, **more: Any) -> dict[str, Any]:
        return {"node": self._random.choice(self._nodes), **more}

    def _link(self) -> dict[str, Any]:
        a, b = self._random.choice(self._links) if self._links else (self._nodes[0],) * 2
        return {"node": a, "to": b}

    def _crash(self) -> dict[str, Any]:
        return self._node(number=self._one(0, 0, 1, 2, 3, 4, 6))


_FIELDS: Final[dict[str, Callable[[_Steps], dict[str, Any]]]] = {
    "subscribe": _Steps._subscribe,
    "unsubscribe": lambda s: {"id": s._earlier(), "forget": s._random.random() < 0.5},
    "again": lambda s: {"id": s._earlier()},
    "publish": _Steps._events,
    "split": lambda s: {
        "event": random_event(s._random),
        "value": round(s._random.uniform(0, 5), 3),
    },
    "ack": lambda s: {"number": s._random.randrange(2)},
    "advertise": lambda s: {"id": s._one(*"abcd"), "filter": random_filter(s._random)},
    "unadvertise": lambda s: {"id": s._one(*"abcd")},
    "watch": lambda s: {
        "id": s._one("v", "w"),
        "filter": s._one(_narrow, random_filter)(s._random),
    },
    "erase": lambda s: {"filter": s._one(_narrow, random_filter)(s._random)},
    "unwatch": lambda s: {"id": s._one("v", "w")},
    "join": _Steps._node,
    "hop": _Steps._node,
    "loss": lambda s: {"value": s._one(0.0, 0.1, 0.4)},
    "duplication": lambda s: {"value": s._one(0.0, 0.1, 0.4)},
    "jitter": lambda s: {"value": s._one(0.0, 0.05, 0.3)},
    "slow": lambda s: {"value": s._one(0.05, 0.5)},
    "cut": _Steps._link,
    "mute": _Steps._link,
    "mend": _Steps._link,
    "crash": _Steps._crash,
    "restart": _Steps._node,
    "corrupt": lambda s: s._node(number=s._random.randrange(1_000_000)),
    "damage": lambda s: s._node(number=s._random.randrange(1_000_000)),
    "fail": lambda s: s._node(number=s._one(1, 1, 2), value=s._one(0.0, 1.0)),
    "back": lambda s: s._node(number=s._one(1, 1, 3, 10, 100)),
    "spoil": lambda s: s._node(value=round(s._random.random(), 2), number=s._random.randint(1, 4)),
    "trim": lambda s: s._node(value=round(s._random.random(), 2)),
}
"""What is drawn for a step of each kind besides its client."""


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


def _narrow(random: Random) -> str:
    """A filter that may come to overlap nothing that is wanted."""
    return f"x = {random.randrange(10)} AND s = '{random.choice('abc')}'"


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
