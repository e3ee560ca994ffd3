"""A small world, and every way in which things may go in it.

    publisher ──▶ b ◀────▶ a ──▶ subscriber
                  │        │
                disk      disk

Two real nodes, the packets between them, their disks and what the subscriber has heard are one
value: a `World`. Whatever may happen next leads to another one. `explore` goes through all of
them, each once, and looks at what was heard wherever nothing more can happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.epochs import comes_after
from tidings.protocol.frozen import freeze, thaw
from tidings.protocol.host import (
    Append,
    Deliver,
    Drained,
    Effect,
    Full,
    Input,
    LinkDown,
    LinkUp,
    Raise,
    Read,
    Received,
    Records,
    Reply,
    Request,
    Send,
    Span,
    Store,
    Wake,
    Woken,
)
from tidings.protocol.messages import Event
from tidings.protocol.requests import (
    Accepted,
    Attach,
    Detach,
    Missed,
    Progress,
    Refused,
    Since,
    Subscribe,
)

NAMES: Final = ("a", "b")
A, B = 0, 1
WANTED: Final = Filter.parse("n < 9")
SETTINGS: Final = Settings(grace="strawman", progress=1e6)
"""Who cannot be reached is given up at once, and nobody says anything only since time passes."""
_SOON: Final = 10.0
"""Seconds; whatever is due later is of no interest here."""


class Host:
    """A node with its disk, on which nothing is lost, and which answers when it likes."""

    def __init__(
        self, at: int, logs: Mapping[str, list[Event]], settings: Settings, *, part: int
    ) -> None:
        """Of its logs it reads this many events at a time, and sends no more."""
        self.at, self.name, self.part = at, NAMES[at], part
        self.logs, self.settings = dict(logs), settings
        self.stored: dict[str, Any] = {}
        self.reads: list[Records] = []
        self.sent: list[Any] = []
        self.told: list[Deliver | Reply] = []
        self.wake_at = inf
        self.lives = 0
        self.gone: list[dict[str, list[Event]]] = []
        self.node: Node

    def start(self, now: float) -> None:
        """It comes up with what is on its disk."""
        self.lives += 1
        self.reads.clear()
        self.node = Node(
            self.name,
            self.settings,
            neighbours={NAMES[1 - self.at]: "peer"},
            stored=self.stored,
            logs={
                s: Span(1, len(log), log[-1].time if log else 0.0) for s, log in self.logs.items()
            },
            instance=f"{self.name}{self.lives}",
        )
        self.node.from_log.logs.read_limit = self.part
        self.node.from_log.logs.part_limit = 1 if self.part == 1 else 1 << 20
        self.perform(self.node.start(now))

    def replace(self, now: float) -> None:
        """It comes up with an empty disk."""
        self.gone.append(self.logs)
        self.stored, self.logs = {}, {self.name: []}
        self.start(now)

    def read(self, now: float) -> None:
        """Its disk answers."""
        self.handle(self.reads.pop(0), now)

    def handle(self, input: Input, now: float) -> None:
        self.perform(self.node.handle(input, now))
        problems = list(self.node.parts.audit(list(self.node.sessions.values())))
        assert not problems, problems

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(_, packet):
                    self.sent.append(packet)
                case Deliver() | Reply():
                    self.told.append(effect)
                case Store(key, None):
                    self.stored.pop(key, None)
                case Store(key, value):
                    self.stored[key] = value
                case Append(events):
                    self.logs[events[0].stream] += events
                case Raise(stream):
                    self.logs[stream] = []
                case Wake(at):
                    self.wake_at = at
                case Read(number, stream, since, after, limit):
                    log = self.logs[stream]
                    found = [e for e in log if e.tick > since and e.time >= after][:limit]
                    since = found[0].tick - 1 if found else since
                    upto = found[-1].tick if found else since
                    self.reads.append(Records(number, since, upto, tuple(found)))


Said = tuple[Any, ...]
"""What a subscriber was told: see `_said`."""
Pairs = tuple[tuple[str, int], ...]
"""A cursor that hashes."""


class Step(NamedTuple):
    """What clients of a node ask, all at once."""

    at: int
    asked: tuple[Request, ...]


class Scenario(NamedTuple):
    """What happens in any case, and what may happen besides, each only a number of times."""

    scripts: tuple[tuple[Step, ...], ...]
    """Each happens in its order; there is none between them."""
    faults: Mapping[str, int] = {}
    """`lose` a packet, `swap` two, `cut` the link, `restart` b, `replace` it by one that has lost
    its disk, the client does not read (`full`), or nothing happens for a while (`wait`)."""
    logs: Mapping[str, int] = {"a": 0, "b": 0}
    """How many events each stream has to begin with; in the order of epochs."""
    part: int = 100
    """How many of them are read at a time."""
    settings: Settings = SETTINGS


class World(NamedTuple):
    """All that there is. Hosts and packets have numbers."""

    hosts: tuple[int, int]
    wires: tuple[tuple[int, ...], tuple[int, ...]]
    """What is on its way to each of them."""
    heard: tuple[Said, ...]
    """What the subscriber was told."""
    taken: tuple[int, ...]
    """Steps of each script."""
    faults: tuple[tuple[str, int], ...]
    """How often each may still happen."""
    is_cut: bool = False
    is_full: bool = False
    now: float = 10.0


Move = tuple[str, World]
"""What happens, and what comes of it."""


class Explorer:
    """What may happen in a scenario. What a host does in a state is found out once."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._numbers: dict[Hashable, int] = {}
        self._things: list[Any] = []
        """By number: packets, and the states of hosts."""
        self._hosts: dict[int, tuple[float, int, Mapping[str, int]]] = {}
        """By state: when to wake a host, how much its disk is asked, and where its logs end."""
        self._known: dict[Hashable, tuple[int, tuple[int, ...], tuple[Said, ...]]] = {}
        self._before: dict[int, tuple[int, str, tuple[Input, ...], float]] = {}
        """How a host came to each state first."""

    def begin(self) -> World:
        """Both nodes have met, and their clients are attached."""
        scenario = self._scenario
        blank = self._keep(Host(A, {}, scenario.settings, part=1))
        world = World((blank, blank), ((), ()), (), (0,) * len(scenario.scripts), ())
        for at in (A, B):
            logs = {s: _events(s, n) for s, n in scenario.logs.items() if s[0] == NAMES[at]}
            host = self._keep(Host(at, logs, scenario.settings, part=scenario.part))
            world = self._do(world._replace(hosts=_with(world.hosts, at, host)), at, "start")
        for at, session in ((A, "s"), (B, "p")):
            world = self._do(self.settled(world), at, "handle", Request(session, Attach()))
        return world._replace(heard=(), faults=tuple(scenario.faults.items()))

    def logs(self, world: World) -> dict[str, list[list[Event]]]:
        """What each stream held before its disk was lost, and holds."""
        logs: dict[str, list[list[Event]]] = {}
        for number in world.hosts:
            host: Host = thaw(self._things[number])
            for each in (*host.gone, host.logs):
                for stream, log in each.items():
                    logs.setdefault(stream, []).append(log)
        return logs

    # -- what may happen -----------------------------------------------------------------------

    def moves(self, world: World) -> Iterator[Move]:
        """Whatever may happen next.

        It does not matter who of two hosts is first if nothing can come between: then it is b.
        """
        for at in (B, A):
            inner = list(self._inner(world, at))
            yield from inner
            if inner and self._is_alone(world, at):
                return
        for number, script in enumerate(self._scenario.scripts):
            taken = world.taken[number]
            if taken < len(script):
                after = world._replace(taken=_with(world.taken, number, taken + 1))
                yield f"step {taken + 1} of script {number + 1}", self._step(after, script[taken])
        if world.is_cut:
            yield "the link is mended", self._link(world, LinkUp)
        if world.is_full:
            yield "the client reads", self._full(world, Drained)
        for fault, left in world.faults:
            if left:
                faults = {**dict(world.faults), fault: left - 1}
                after = world._replace(faults=tuple(faults.items()))
                yield from ((f"{fault} {what}", each) for what, each in self._fault(after, fault))

    def _inner(self, world: World, at: int) -> Iterator[Move]:
        if world.wires[at]:
            yield f"{NAMES[at]} hears {self._label(world, at)}", self._deliver(world, at)
        if self._reads(world, at):
            yield f"the disk of {NAMES[at]} answers", self._do(world, at, "read")

    def _is_alone(self, world: World, at: int) -> bool:
        """Whether a host hears nothing any more but from the other one and from its disk."""
        is_left_alone = not any(left for _, left in world.faults) and not world.is_cut
        scripts = zip(self._scenario.scripts, world.taken, strict=True)
        steps = any(step.at == at for script, taken in scripts for step in script[taken:])
        return is_left_alone and not steps and not (world.is_full and at == A)

    def _fault(self, world: World, fault: str) -> Iterator[Move]:
        match fault:
            case "lose":
                for at in (each for each in (A, B) if world.wires[each]):
                    yield self._label(world, at), _flying(world, at, world.wires[at][1:])
            case "swap":
                for at in (each for each in (A, B) if len(world.wires[each]) > 1):
                    first, second, *others = world.wires[at]
                    yield self._label(world, at), _flying(world, at, (second, first, *others))
            case "cut" if not world.is_cut:
                yield "", self._link(world, LinkDown)
            case "full" if not world.is_full:
                yield "", self._full(world, Full)
            case "restart":
                yield "", self._do(world._replace(wires=((), ())), B, "start")
            case "replace" if not world.is_cut:
                yield "", self._do(self._link(world, LinkDown), B, "replace")
            case "wait" if not any(world.wires) and self._due(world) < world.now + _SOON:
                yield "", self._wait(world)

    def settled(self, world: World) -> World:
        """What comes of a world if nothing hinders it any more."""
        if world.is_cut:
            world = self._link(world, LinkUp)
        if world.is_full:
            world = self._full(world, Drained)
        for _ in range(1_000):
            for at in (A, B):
                while world.wires[at]:
                    world = self._deliver(world, at)
                while self._reads(world, at):
                    world = self._do(world, at, "read")
            if not any(world.wires):
                if self._due(world) >= world.now + _SOON:
                    return world
                world = self._wait(world)
        raise AssertionError("it does not come to rest")

    # -- doing ---------------------------------------------------------------------------------

    def _step(self, world: World, step: Step) -> World:
        for request in step.asked:
            if isinstance(request.body, Subscribe):
                body = request.body
                asked = ("asked", body.id, freeze(body.since), body.durable)
                world = world._replace(heard=(*world.heard, asked))
            elif isinstance(request.body, Detach):
                world = world._replace(heard=(*world.heard, ("closed", None)))
            world = self._do(world, step.at, "handle", request)
        return world

    def _deliver(self, world: World, at: int) -> World:
        packet = Received(NAMES[1 - at], self._things[world.wires[at][0]])
        return self._do(_flying(world, at, world.wires[at][1:]), at, "handle", packet)

    def _link(self, world: World, how: type[LinkUp | LinkDown]) -> World:
        world = world._replace(wires=((), ()), is_cut=how is LinkDown)
        for at in (A, B):
            world = self._do(world, at, "handle", how(NAMES[1 - at]))
        return world

    def _full(self, world: World, how: type[Full | Drained]) -> World:
        return self._do(world._replace(is_full=how is Full), A, "handle", how("s"))

    def _wait(self, world: World) -> World:
        world = world._replace(now=max(world.now, self._due(world)))
        for at in (A, B):
            if self._hosts[world.hosts[at]][0] <= world.now:
                world = self._do(world, at, "handle", Woken())
        return world

    def _do(self, world: World, at: int, what: str, *given: Input) -> World:
        key = (world.hosts[at], what, freeze(given), world.now)
        if key not in self._known:
            host: Host = thaw(self._things[world.hosts[at]])
            getattr(host, what)(*given, world.now)
            packets, host.sent = host.sent, []
            effects, host.told = host.told, []
            sent = tuple(self._number(freeze(each), each) for each in packets)
            told = tuple(said for each in effects if (said := _said(each)))
            after = self._keep(host)
            self._known[key] = after, sent, told
            self._before.setdefault(after, (world.hosts[at], what, given, world.now))
        number, sent, told = self._known[key]
        world = world._replace(hosts=_with(world.hosts, at, number))
        if sent and not world.is_cut:
            world = _flying(world, 1 - at, world.wires[1 - at] + sent)
        if told:
            ends = self._ends(world)
            told = tuple((*said, ends) if said[0] == "accepted" else said for said in told)
            world = world._replace(heard=world.heard + told)
        return world

    def replayed(self, number: int) -> tuple[Hashable, Hashable]:
        """A state of a host, and that of one which did the same without a pause."""
        doings, first = [], number
        while first in self._before:
            first, *doing = self._before[first]
            doings.append(doing)
        host: Host = thaw(self._things[first])
        for what, given, now in reversed(doings):
            getattr(host, what)(*given, now)
            host.sent, host.told = [], []
        return self._things[number], freeze(host)

    @property
    def states(self) -> list[int]:
        """Of hosts, by number."""
        return list(self._hosts)

    # -- looking -------------------------------------------------------------------------------

    def _keep(self, host: Host) -> int:
        frozen = freeze(host)
        number = self._number(frozen, frozen)
        ends = {stream: len(log) for stream, log in host.logs.items()}
        self._hosts[number] = host.wake_at, len(host.reads), ends
        return number

    def _number(self, frozen: Hashable, thing: Any) -> int:
        number = self._numbers.setdefault(frozen, len(self._things))
        if number == len(self._things):
            self._things.append(thing)
        return number

    def _due(self, world: World) -> float:
        return min(self._hosts[number][0] for number in world.hosts)

    def _reads(self, world: World, at: int) -> int:
        return self._hosts[world.hosts[at]][1]

    def _ends(self, world: World) -> tuple[tuple[str, int], ...]:
        return tuple(end for number in world.hosts for end in self._hosts[number][2].items())

    def _label(self, world: World, at: int) -> str:
        packet = self._things[world.wires[at][0]]
        return type(getattr(packet, "body", None) or packet).__name__


class Found(NamedTuple):
    """How much there was to explore."""

    worlds: int
    ends: int
    """Those in which nothing more can happen."""


def explore(explorer: Explorer) -> Found:
    """Go through all worlds that there may be. `AssertionError` says how it came to a wrong one."""
    world = explorer.begin()
    before: dict[World, tuple[str, World | None]] = {world: ("the beginning", None)}
    todo = deque([world])
    ends = 0
    while todo:
        world = todo.popleft()
        try:
            is_end = True
            for what, after in explorer.moves(world):
                is_end = False
                if after not in before:
                    before[after] = (what, world)
                    todo.append(after)
            if is_end:
                ends += 1
                rest = explorer.settled(world)
                check(rest.heard, explorer.logs(rest))
        except Exception as problem:
            raise AssertionError(f"{problem!r} after\n{_way(before, world)}") from problem
    return Found(len(before), ends)


def _way(before: Mapping[World, tuple[str, World | None]], world: World | None) -> str:
    """How it came to a world."""
    steps = []
    while world is not None:
        what, world = before[world]
        steps.append(what)
    return "\n".join(reversed(steps))


def check(heard: Sequence[Said], logs: Mapping[str, Sequence[Sequence[Event]]]) -> None:
    """Whether each subscription was told exactly what it should have been, in order, and once.

    `logs` are those of each stream, the last one and before it what was lost with a disk.
    """
    durables: dict[str, Account] = {}
    for id in dict.fromkeys(said[1] for said in heard if said[0] == "asked"):
        account = Account(id)
        for said in heard:
            account.take(*said)
        before = durables.get(account.durable or "")
        if before is not None and before.begun is not None:  # and it has acknowledged nothing
            account.since = {stream: before.begin(stream) for stream in logs}
        account.check(logs)
        if account.durable is not None:
            durables[account.durable] = account


class Account:
    """What one subscription was told."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.told: dict[str, list[int]] = {}
        self.since: Since = None
        self.durable: str | None = None
        self.is_asked = False
        self.begun: Mapping[str, int] | None = None
        self.missed = 0
        self.has_ended = False
        self.places: list[tuple[Mapping[str, int], Mapping[str, int]]] = []
        """Cursors that it was told, and how many events of each stream it had been told then."""

    def take(self, kind: str, about: Any, *more: Any) -> None:
        """Something was told, perhaps to another one."""
        if kind == "event" and self.id in about:
            self._hear(*more)
        elif about == self.id and kind != "event":
            getattr(self, f"_{kind}")(*more)
        elif kind == "closed" and self.is_asked:
            self.has_ended = True

    def _hear(self, stream: str, tick: int) -> None:
        assert not self.has_ended, f"{self.id} has ended, and hears {tick} of {stream}"
        later = [s for s in self.told if s != stream and comes_after(s, [stream])]
        assert not later, f"{self.id} hears {tick} of {stream} after {later}"
        self.told.setdefault(stream, []).append(tick)

    def _asked(self, since: Hashable, durable: str | None) -> None:
        self.since, self.durable, self.is_asked = thaw(since), durable, True

    def _accepted(self, cursor: Pairs | None, ends: Pairs) -> None:
        if cursor is None:
            self.has_ended = True
            return
        self.begun = dict(cursor)
        beyond = [s for s, tick in cursor if tick > dict(ends).get(s, 0)]
        assert not beyond, f"{self.id} begins behind what is to come in {beyond}"
        self._progress(cursor)

    def _refused(self) -> None:
        self.has_ended = True

    def _missed(self, count: int) -> None:
        assert self.durable is None, f"{self.id} is durable, and has missed {count}"
        self.missed += count

    def _progress(self, cursor: Pairs) -> None:
        self.places.append(
            (dict(cursor), {stream: len(told) for stream, told in self.told.items()})
        )

    def check(self, logs: Mapping[str, Sequence[Sequence[Event]]]) -> None:
        """Now that nothing more is to come."""
        assert self.begun is not None or self.has_ended, f"{self.id} was not answered"
        missed = 0
        for stream, versions in logs.items():
            told = self.told.get(stream, [])
            wanted = [self._wanted(stream, log) for log in versions]
            if self.has_ended:
                assert told in [each[: len(told)] for each in wanted], self._wrong(stream, wanted)
                continue
            if self.missed:
                missed += len(wanted[-1]) - len(told)
                wanted[-1] = [tick for tick in wanted[-1] if tick in told]
            assert told == wanted[-1], self._wrong(stream, wanted)
            for cursor, count in self.places:
                due = [tick for tick in wanted[-1] if tick <= cursor.get(stream, 0)]
                assert len(due) <= count.get(stream, 0), f"{self.id} was told {cursor} too early"
        assert self.has_ended or missed == self.missed, f"{self.id} missed {missed}: {self.missed}"

    def begin(self, stream: str) -> int:
        """Behind which tick of a stream it is to begin; where it is free to choose, it has."""
        if self.since is None:
            before = [tick - 1 for tick in self.told.get(stream, ())]
            return min([(self.begun or {}).get(stream, 0), *before])
        return self.since.get(stream, 0) if isinstance(self.since, dict) else 0

    def _wanted(self, stream: str, log: Sequence[Event]) -> list[int]:
        """What it is to be told of a stream."""
        begin = self.begin(stream)
        return [e.tick for e in log if e.tick > begin and WANTED.matches(e.notification)]

    def _wrong(self, stream: str, wanted: list[list[int]]) -> str:
        return f"{self.id} was told {self.told.get(stream)} of {stream}, not {wanted}"


def _said(effect: Deliver | Reply) -> Said | None:
    """What the subscriber is told, as far as it matters."""
    if effect.session != "s":
        return None
    if isinstance(effect, Deliver):
        return "event", effect.ids, effect.event.stream, effect.event.tick
    match effect.answer:
        case Accepted(id, cursor=cursor) if id != "attach":
            return "accepted", id, cursor and tuple(cursor.items())
        case Progress(id, cursor):
            return "progress", id, tuple(cursor.items())
        case Refused(id):
            return "refused", id
        case Missed(id, count, _, lost):
            return "missed", id, count + lost
    return None


def _events(stream: str, count: int) -> list[Event]:
    """What is in a stream to begin with."""
    return [Event(stream, n, Notification({"n": n}), time=float(n)) for n in range(1, count + 1)]


def _with(pair: Any, at: int, thing: Any) -> Any:
    """A tuple with something else at one place."""
    return (*pair[:at], thing, *pair[at + 1 :])


def _flying(world: World, to: int, packets: tuple[int, ...]) -> World:
    return world._replace(wires=_with(world.wires, to, packets))
