"""Damage: what a broken memory might do to a node. Its disk is intact.

`damage_tables` is what the papers consider. `damage` takes any field of anything that a node
remembers, and puts another value of the same kind there: a number that is a little off, far off or
negative, another name, an entry more or less, a time that never comes.

What is left alone: code (bound methods, and the timers' callables, which may be lost or late but
not turn into others), what the configuration says (`_CONFIGURED`), the content of events, filters
and statistics, and the insides of the index and of the reductions, which are compared by sums
only.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from tidings.delivery import AtMostOnce, FromLog, at_most_once, readers
from tidings.delivery.doubts import Doubts
from tidings.delivery.fetching import Fetching
from tidings.delivery.log import Log, OwnStream
from tidings.delivery.logs import Logs
from tidings.delivery.names import Names
from tidings.delivery.publishers import Publishers
from tidings.delivery.publishing import Publishing
from tidings.delivery.reading import Reading
from tidings.delivery.stages import Stage
from tidings.delivery.standing import Standing
from tidings.delivery.streams import Reached
from tidings.delivery.subscriptions import Subscriptions
from tidings.delivery.telling import Telling
from tidings.delivery.ways import Ways
from tidings.events import Filter
from tidings.node import Node
from tidings.node.conversations import Conversations
from tidings.node.ports import Neighbour
from tidings.node.timers import Timers
from tidings.overlay import Fixed, Link, Tree
from tidings.protocol.parts import Session
from tidings.routing import Statistics
from tidings.routing.checks import Checks
from tidings.routing.exchange import Exchange
from tidings.routing.learning import Learning
from tidings.routing.tables import Tables
from tidings.routing.watches import Watches

_PARTS: Final = (
    *(Node, Conversations, Timers, Neighbour, Session, Link, Fixed, Tree),
    *(Exchange, Tables, Checks, Learning, Watches, AtMostOnce, at_most_once.Client),
    *(FromLog, Doubts, Fetching, Log, Logs, Publishers, Reading, Reached, Subscriptions, Telling),
    *(Names, OwnStream, Publishing, Standing, Ways, readers.Client, readers.Flow, readers.Reader),
)
_CONFIGURED: Final = {
    *("Node.name", "Node.settings", "Node._roles", "Node._own", "Timers._duties"),
    *("Conversations._incarnation", "Conversations._pause", "Conversations._delay"),
    *("Conversations._patience", "Conversations._backlog", "Fixed._roles"),
    *("Tree.name", "Tree._instance", "Tree._period", "Tree._expiry", "Link._pause", "Link._delay"),
    *("Exchange._strategies", "Exchange._period", "Checks._shortest", "Checks._longest"),
    *("Learning._is_durable", "AtMostOnce._enforce", "AtMostOnce._lease", "AtMostOnce._memory"),
    *("Publishing._enforce", "OwnStream.name", "FromLog._progress", "Subscriptions._margin"),
    *("Ways.own", "Log._longest", "Logs.read_limit", "Logs.part_limit"),
}
"""Given by the configuration, or by the code, and never changed."""
_OPTIONAL: Final[dict[str, Callable[[Random], Any]]] = {
    "Reader.durable": lambda random: random.choice(("d1", "d2")),
    "Reader.is_live": lambda random: random.random() < 0.5,
    "Reader.starts": lambda random: {},
    "Tree.parent": lambda random: f"b{random.randrange(6)}",
    "Learning._resume_at": lambda random: {"b0": random.randrange(9)},
}
"""What may be None, and what else it may be."""
_NAMED: Final = {"Reader.positions", "Client.progress", "AtMostOnce._heard"}
"""By names of streams or nodes; what is empty may get an entry, too."""
_TRANSIENT: Final = {
    *("Node._effects", "Node._soon", "Node._stored", "Node._was_damaged", "Tree._told"),
    *("Conversations.now", "Conversations._touched", "Conversations._hopeless", "Link._out"),
}
"""Set anew with each input, before it is looked at; empty between two inputs."""


class Place(NamedTuple):
    """A field of something that a node remembers."""

    owner: Any
    name: str

    @property
    def label(self) -> str:
        """Of what kind it is."""
        return f"{type(self.owner).__name__}.{self.name}"


def damage_tables(node: Node, random: Random) -> None:
    """Put in what nobody wants and lose what somebody wants, so that nothing computed fits."""
    for tables in (node.exchange.subscriptions, node.exchange.advertisements):
        if tables is None:
            continue
        for table in tables.wanted.values():
            for filter_ in [f for f in table if random.random() < 0.5]:
                del table[filter_]
            if random.random() < 0.5:
                table[_junk(random)] = random.randint(1, 3)


def damage(node: Node, random: Random) -> str:
    """Put another value into one field; which one it was, and what it is now."""
    names = [*node.neighbours, *node.sessions, node.name, "nobody"]
    return damage_part(node, random, [*names, *node.neighbours.values()])


def damage_part(part: Any, random: Random, things: list[Any]) -> str:
    """The same for a part of a node; these names and neighbours may come to stand in it."""
    found: dict[str, list[Place]] = {}
    for place in places(part):
        found.setdefault(place.label, []).append(place)
    for label in random.sample(sorted(found), len(found)):
        place = random.choice(found[label])
        before = getattr(place.owner, place.name)
        after = _other(before, random, things, label)
        if after is not before or isinstance(before, dict | set | list | deque):
            setattr(place.owner, place.name, after)
            return f"{label} = {_short(after)}"
    return "nothing"


def places(whole: Any) -> Iterator[Place]:
    """Every field of a node, or of a part of it, that can be damaged."""
    seen: set[int] = set()
    todo: list[Any] = [whole]
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        for name in _fields(part):
            place = Place(part, name)
            value = getattr(part, name)
            if place.label in _CONFIGURED or place.label in _TRANSIENT or value is whole:
                continue
            inner = [each for each in _within(value) if isinstance(each, _PARTS)]
            todo.extend(inner)
            if not isinstance(value, _PARTS) and not callable(value):
                yield place


def _fields(part: Any) -> list[str]:
    slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *getattr(part, "__dict__", {})]


def _within(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _within(each)
    elif isinstance(value, list | tuple | set | deque):
        for each in value:
            yield from _within(each)


def _other(value: Any, random: Random, things: list[Any], label: str) -> Any:
    """Another value of the same kind; the same one if there is none."""
    if label in _OPTIONAL and (value is None or random.random() < 0.3):
        return _OPTIONAL[label](random) if value is None else None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        others = (value + 1, value - 1, value + 7, random.randint(0, 20), -3, 1 << 50)
        return random.choice(others)
    if isinstance(value, float):
        return random.choice((value + 1.0, value - 1.0, 0.0, -1.0, 1e12, inf))
    if isinstance(value, str):
        return _name(random, things)
    if isinstance(value, Filter):
        return _junk(random)
    if isinstance(value, Stage):
        return random.choice(list(Stage))
    if isinstance(value, Neighbour):
        return random.choice([None, *(each for each in things if isinstance(each, Neighbour))])
    if isinstance(value, tuple):
        return _other_tuple(value, random, things, label)
    if isinstance(value, Counter):
        return Counter()
    if isinstance(value, dict):
        return _other_dict(value, random, things, label)
    if isinstance(value, set):
        return set(random.sample(sorted(value, key=repr), len(value) // 2))
    if isinstance(value, list | deque):
        return _other_row(value, random, things, label)
    if isinstance(value, msgspec.Struct) and not isinstance(value, Statistics):
        return _other_struct(value, random, things, label)
    return value


def _other_tuple(value: Any, random: Random, things: list[Any], label: str) -> Any:
    if not value:
        return value
    at = random.randrange(len(value))
    fields = list(value)
    fields[at] = _other(fields[at], random, things, label)
    return type(value)(*fields) if hasattr(value, "_fields") else tuple(fields)


def _other_struct(value: msgspec.Struct, random: Random, things: list[Any], label: str) -> Any:
    name = random.choice(value.__struct_fields__)
    if name == "notification":
        return value
    return msgspec.structs.replace(
        value, **{name: _other(getattr(value, name), random, things, label)}
    )


def _other_dict(value: dict[Any, Any], random: Random, things: list[Any], label: str) -> Any:
    after = dict(value)
    key = random.choice(list(after)) if after else None
    match random.choice(("lose one", "lose all", "change one", "add one")):
        case "lose one" if after:
            del after[key]
        case "lose all":
            after.clear()
        case "change one" if after:
            after[key] = _other(after[key], random, things, label)
        case "add one" if after:
            more = _other(key, random, things, label)
            after.setdefault(more, after[key])
        case _ if label in _NAMED:
            after[_name(random, things)] = 3
    return after


def _other_row(value: Any, random: Random, things: list[Any], label: str) -> Any:
    after = list(value)
    at = random.randrange(len(after)) if after else 0
    match random.choice(("lose one", "lose all", "change one", "repeat one")):
        case "lose one" if after:
            del after[at]
        case "lose all":
            after.clear()
        case "change one" if after:
            after[at] = _other(after[at], random, things, label)
        case "repeat one" if after:
            after.insert(at, after[at])
    return type(value)(after)


def _name(random: Random, things: list[Any]) -> str:
    return random.choice([each for each in things if isinstance(each, str)])


def _junk(random: Random) -> Filter:
    return Filter.parse(f"x = {random.randint(0, 9)} AND junk = {random.randint(0, 99)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 100 else f"{text[:100]}…"
