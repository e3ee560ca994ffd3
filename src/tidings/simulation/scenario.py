"""Scenarios: a network, how it is set up, and what happens in it, as plain data.

A scenario is either written by hand or drawn from a seed; either way it is a list of steps with
their times, so that a run can be kept, replayed and made smaller.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from tidings.events import Filter, Notification, TidingsError
from tidings.events.encoding import from_plain
from tidings.events.toml import unreadable
from tidings.node import Settings
from tidings.protocol.requests import Home
from tidings.simulation.simulation import Conditions
from tidings.simulation.topology import Link, Topology, hierarchical, topology
from tidings.workloads import WORKLOADS


class Step(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something happens. What the other fields mean depends on `do`: see `ACTIONS`."""

    at: float
    do: str
    client: str = ""
    node: str = ""
    to: str = ""
    id: str = ""
    filter: str = ""
    event: dict[str, Any] = {}
    more: list[dict[str, Any]] = []
    number: int = 0
    value: float = 0.0
    durable: str = ""
    """Under this name a broker keeps what was acknowledged of a subscription."""
    since: Literal["", "begin", "time", "log"] = ""
    """Where a subscription begins: now, with the first event that is kept, or where `value` (from 0
    to 1) says, of the time that has passed or of the log of its client's broker."""
    unlike: bool = False
    """The filter counts for a durable name that is known, too; else it goes on with its own."""
    replace: bool = False
    """What is unlike is not refused."""
    home: Home = ""
    """Where a durable name may live that a broker does not know: see `Subscribe`."""
    forget: bool = False


ACTIONS = {
    "join": "`client` attaches to `node`, or comes back to where it was",
    "subscribe": "`client` wants `filter`, under `id`; how (`durable`, `since`, …): see below",
    "unsubscribe": "`client` no longer wants `id`; with `forget`, its durable name is gone, too",
    "advertise": "`client` will publish what `filter` matches, under `id`",
    "unadvertise": "`client` takes the advertisement `id` back",
    "publish": "`client` publishes `event`, and `more` of them with it",
    "again": "`client` reads on a second time from where it is with `id`",
    "take": "`client` takes over a durable name from another one",
    "hop": "the connection of `client` breaks, and it goes on at `node`",
    "ack": "`client` acknowledges what it has heard; with `number`, what it had the last time",
    "erase": "`client` has what `filter` matches erased at all brokers that can be reached",
    "watch": "`client` wants to know under `id` whether somebody wants `filter`",
    "unwatch": "`client` takes the watch `id` back",
    "stall": "`client` does not read",
    "drain": "`client` has read all there was",
    "hang": "`client` loses its connection, and makes it again",
    "split": "`client` publishes `event` and is taken for dead; it is back after `value` seconds",
    "leave": "`client` detaches",
    "vanish": "`client` crashes",
    "crash": "`node` crashes; with `number`, after this many effects of its next input",
    "restart": "`node` comes back",
    "cut": "the link from `node` to `to` breaks, and both ends notice",
    "mute": "the link from `node` to `to` breaks, and nobody notices",
    "mend": "the link from `node` to `to` works again",
    "loss": "links lose this `value` of all packets",
    "duplication": "links double this `value` of all packets",
    "jitter": "links delay each packet by up to this `value`",
    "corrupt": "the tables of `node` are damaged, by a seed of `number`",
    "damage": "something that `node` remembers is damaged, by a seed of `number`",
    "slow": "disks take up to this `value`",
    "fail": "the next `number` commits of `node` fail, or with a `value` are kept all the same",
    "trim": "`node` keeps its log from this `value` (0 to 1) of it on",
    "spoil": "the disk of `node` loses `number` events, from this `value` (0 to 1) of its log on",
    "back": "`node` loses the last `number` commits of its store, and with a `value` unnoticed",
}

_LOGGED: Final = {
    *("again", "take", "ack", "hang", "split", "stall", "drain", "watch", "unwatch"),
    *("slow", "fail", "trim", "spoil", "back", "erase"),
}
"""Actions for which events must be kept."""

_READING: Final = ("durable", "since", "value", "unlike", "replace", "home")
"""How a subscription is read from logs."""
_OPTIONAL: Final = ("id", "number", "value", "more", "forget", *_READING)
"""What a step may leave out though its action speaks of it; all else must be said."""

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**6)]


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Clients by the number, instead of one by one."""

    kind: str = "quote"
    """Which of `tidings.workloads` the filters and events are drawn from."""
    clients_per_node: Count = 1
    subscriptions: Count = 10
    """For each client."""
    events: Amount = 10.0
    """Published by all clients together, in a second."""
    churn: Amount = 0.0
    """Times a second that somebody gives up a subscription for a new one."""
    begin: Amount = 1.0
    """Clients join at the beginning and have subscribed by now; then events and churn set in."""
    advertise: bool = True
    """Whether clients say beforehand what they publish, if the settings have advertisements."""

    def __post_init__(self) -> None:
        if self.kind not in WORKLOADS:
            raise TidingsError(f"workload: {_unknown('kind', self.kind, WORKLOADS)}")

    def clients(self, node: str) -> list[str]:
        """The names of a node's clients.

        >>> Workload(clients_per_node=2).clients("b7")
        ['b7-1', 'b7-2']
        """
        return [f"{node}-{number}" for number in range(1, self.clients_per_node + 1)]


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults by the number, instead of one by one; each of them passes."""

    crashes: Amount = 0.0
    """Of nodes, in a minute."""
    cuts: Amount = 0.0
    """Of links, in a minute."""
    corruptions: Amount = 0.0
    """Of what a node holds, in a minute."""
    outage: Amount = 2.0
    """Seconds that a crash or a cut lasts, on average."""
    begin: Amount = 1.0
    until: Amount | None = None
    """When the last of them sets in; else the end of the scenario."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to simulate."""

    title: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    duration: float = 10.0
    network: dict[str, Any]
    settings: Settings = Settings()
    conditions: dict[str, float] = {}
    workload: Workload | None = None
    faults: Faults | None = None
    is_harsh: bool = False
    """Clocks are wrong, disks slow and memories small, as the seed says."""
    steps: tuple[Step, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a scenario from a TOML or JSON file; `TidingsError` says what is wrong with it.

        TOML is taken for written by hand, and must make sense as a whole: no step may name
        somebody who isn't there. JSON may be what is left of a longer run.
        """
        is_kept = Path(path).suffix == ".json"
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as problem:
            raise TidingsError(f"cannot read {path}: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise TidingsError(f"cannot read {path}: it is no text in UTF-8") from None
        try:
            scenario = _read(_untagged(json.loads(text)) if is_kept else tomllib.loads(text))
            scenario.check(names=not is_kept)
        except tomllib.TOMLDecodeError as problem:
            raise TidingsError(f"{path}{unreadable(problem, text)}") from None
        except (ValueError, TidingsError, RecursionError) as problem:
            raise TidingsError(f"{path}: {problem}") from None
        return scenario

    def save(self, path: str | Path) -> None:
        """Write it as JSON, which `load` reads back; what is as usual is left out."""
        settled = _without_defaults(msgspec.structs.replace(self, steps=()))
        steps = ",\n  ".join(json.dumps(_plain_step(step)) for step in self.steps)
        head = json.dumps(settled, indent=1).removesuffix("\n}")
        Path(path).write_text(f'{head},\n "steps": [\n  {steps}\n ]\n}}\n', encoding="utf-8")

    def topology(self) -> Topology:
        """The network: `kind` and its parameters, or `links`; `root` makes it a hierarchy."""
        given = dict(self.network)
        root, kind = given.pop("root", None), given.pop("kind", "line")
        if not isinstance(kind, str) or not isinstance(root, str | None):
            raise TidingsError("network: `kind` and `root` are names")
        found = _linked(given) if "links" in given else topology(kind, **given)
        return found if root is None else hierarchical(found, root)

    # -- what can be wrong ---------------------------------------------------------------------

    def check(self, *, names: bool) -> None:
        """`TidingsError` if this can't be played; with `names`, if a step names who isn't there."""
        if not 0 < self.duration < inf:
            raise TidingsError(f"duration is a time above 0, not {self.duration:g}")
        network = self.topology()
        self._check_shape(network)
        _check_conditions(self.conditions)
        known = _Known(self, network) if names else None
        for number, step in enumerate(self.steps, start=1):
            try:
                if step.do not in ACTIONS:
                    raise TidingsError(_unknown("action", step.do, ACTIONS))
                if known is not None:
                    known.check(step)
            except TidingsError as problem:
                raise TidingsError(
                    f"step {number} ({step.do} at {step.at:g} s): {problem}"
                ) from None

    def _check_shape(self, network: Topology) -> None:
        if self.settings.tree and network.parents is not None:
            raise TidingsError("network: a hierarchy needs no `tree = true` under [settings]")
        if not self.settings.tree and not network.is_tree:
            raise TidingsError(
                "network: it has cycles, in which events would go round for ever; "
                "say `tree = true` under [settings], and the nodes agree on a tree"
            )


def _check_conditions(conditions: dict[str, float]) -> None:
    fields = tuple(Conditions.__dataclass_fields__)
    for name, value in conditions.items():
        if name not in fields:
            raise TidingsError(f"conditions: {_unknown('field', name, fields)}")
        _check_condition(name, value)


def _check_condition(name: str, value: float) -> None:
    if name in ("loss", "duplication") and not 0 <= value <= 1:
        raise TidingsError(f"{name} is a chance from 0 to 1, not {value:g}")
    if name == "jitter" and not 0 <= value < inf:
        raise TidingsError(f"jitter is a time from 0 up, not {value:g}")
    if name == "bandwidth" and not value > 0:
        raise TidingsError(f"bandwidth is a number of packets above 0, not {value:g}")


class _Known:
    """Who and what the steps of a scenario may name."""

    def __init__(self, scenario: Scenario, network: Topology) -> None:
        self.duration = scenario.duration
        self.network = network
        self.at_most_once = scenario.settings.at_most_once
        self.clients = {s.client for s in scenario.steps if s.do == "join"}
        if scenario.workload is not None:
            self.clients.update(c for n in network.nodes for c in scenario.workload.clients(n))
        self.ids = {(s.do, s.client, s.id) for s in scenario.steps}

    def check(self, step: Step) -> None:
        if not 0 <= step.at <= self.duration:
            raise TidingsError(f"the scenario lasts from 0 to {self.duration:g} s")
        self._check_fields(step)
        self._check_kept(step)
        if step.node and step.node not in self.network:
            raise TidingsError(_unknown("node", step.node, self.network.nodes))
        if step.to:
            self.network.link(step.node, step.to)
        if step.client and step.client not in self.clients:
            raise TidingsError(
                f"no client {step.client!r} has joined{_nearest(step.client, self.clients)}"
            )
        if step.do in ("loss", "duplication", "jitter"):
            _check_condition(step.do, step.value)
        if step.filter:
            Filter.parse(step.filter)
        for event in (step.event, *step.more):
            Notification(event)
        self._check_id(step)

    def _check_fields(self, step: Step) -> None:
        used = re.findall(r"`(\w+)`", ACTIONS[step.do])
        if step.do == "subscribe":
            used += _READING
        for name, usual in zip(Step.__struct_fields__[2:], Step.__struct_defaults__, strict=True):
            is_said = getattr(step, name) != (
                usual.factory() if hasattr(usual, "factory") else usual
            )
            if is_said and name not in used:
                raise TidingsError(f"it has no use for `{name}`: {ACTIONS[step.do]}")
            if not is_said and name in used and name not in _OPTIONAL:
                raise TidingsError(f"it needs `{name}`: {ACTIONS[step.do]}")

    def _check_kept(self, step: Step) -> None:
        """What needs logs is not for nodes that have none."""
        if self.at_most_once and (step.do in _LOGGED or step.durable or step.since):
            raise TidingsError("where events are delivered at most once there is no such thing")

    def _check_id(self, step: Step) -> None:
        if step.do in ("unsubscribe", "unadvertise"):
            before = step.do.removeprefix("un")
            if (before, step.client, step.id) not in self.ids:
                raise TidingsError(f"{step.client!r} has no step {before!r} with id {step.id!r}")


def _unknown(what: str, name: object, names: Iterable[str]) -> str:
    known = list(names)
    listed = f"; there are {', '.join(known)}" if len(known) <= 40 else ""
    return f"no {what} {name!r}{_nearest(name, known)}{listed}"


def _nearest(name: object, names: Iterable[str]) -> str:
    near = get_close_matches(str(name), list(names), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


# -- reading and writing -----------------------------------------------------------------------


def _read(plain: Any) -> Scenario:
    """A scenario from plain values; steps one by one, so that an error can name its step."""
    if not isinstance(plain, dict):
        raise TidingsError("a scenario is an object with fields")
    steps = _list(plain.get("steps", []), "steps")
    scenario: Scenario = _converted({**plain, "steps": ()}, Scenario, "")
    drawn = (_converted(s, Step, f"step {n}: ") for n, s in enumerate(steps, start=1))
    return msgspec.structs.replace(scenario, steps=tuple(drawn))


def _converted(plain: Any, kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        raise TidingsError(place + _explained(problem, kind)) from None


def _explained(problem: msgspec.ValidationError, kind: Any) -> str:
    """What is wrong with a field, in the words of the file."""
    what, _, path = str(problem).partition(" - at ")
    parts = path.strip("`").removeprefix("$").strip(".").split(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        sections = {"settings": Settings, "workload": Workload, "faults": Faults}
        fields = sections.get(parts[0], kind).__struct_fields__
        what = _unknown("field", unknown[1], fields)
    elif missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        what = f"`{missing[1]}` is missing"
    else:
        what = what[0].lower() + what[1:]
    return f"{'.'.join(parts)}: {what}" if parts[0] else what


def _linked(given: dict[str, Any]) -> Topology:
    """A network of which each link is given."""
    for name in given:
        if name not in ("links", "nodes"):
            raise TidingsError(f"network: {_unknown('field', name, ('links', 'nodes', 'root'))}")
    links = tuple(_link(ends) for ends in _list(given["links"], "links"))
    names = list(dict.fromkeys(end for link in links for end in (link.a, link.b)))
    return Topology(
        _converted(given.get("nodes", names), tuple[str, ...], "network, nodes: "), links
    )


class _Ends(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A link of a scenario: two nodes, and perhaps what it takes."""

    a: str
    b: str
    latency: float = 0.01
    cost: float = 1.0


def _link(plain: Any) -> Link:
    try:
        ends = msgspec.convert(plain, _Ends)
    except msgspec.ValidationError:
        raise TidingsError(
            f"network: a link is [node, node], [node, node, latency] or "
            f"[node, node, latency, cost], not {plain!r}"
        ) from None
    return Link(ends.a, ends.b, ends.latency, ends.cost)


def _list(plain: Any, what: str) -> list[Any]:
    if not isinstance(plain, list | tuple):
        raise TidingsError(f"{what} is a list, not {plain!r}")
    return list(plain)


def _without_defaults(struct: msgspec.Struct) -> dict[str, Any]:
    """The fields that say something. JSON has no infinity, which many times are by default."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        usual = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            usual = field.default_factory()
        if value != usual:
            is_struct = isinstance(value, msgspec.Struct)
            found[field.name] = _without_defaults(value) if is_struct else value
    return found


def _plain_step(step: Step) -> dict[str, Any]:
    """In JSON's terms: times and the like within events are tagged."""
    plain: dict[str, Any] = msgspec.to_builtins(step)
    if step.event:
        plain["event"] = _plain_event(step.event)
    if step.more:
        plain["more"] = [_plain_event(event) for event in step.more]
    return plain


def _plain_event(event: dict[str, Any]) -> Any:
    return json.loads(Notification(event).to_json())


def _untagged(plain: Any) -> Any:
    """The opposite for all steps."""
    steps = plain.get("steps") if isinstance(plain, dict) else None
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and isinstance(step.get("event"), dict):
            step["event"] = _untagged_event(step["event"])
        if isinstance(step, dict) and isinstance(step.get("more"), list):
            step["more"] = [_untagged_event(e) if isinstance(e, dict) else e for e in step["more"]]
    return plain


def _untagged_event(event: dict[str, Any]) -> dict[str, Any]:
    return {name: from_plain(value) for name, value in event.items()}
