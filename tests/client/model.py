"""A broker to hold a session against: lists, loops and nothing clever.

It keeps every stream as a list, and answers at once; what is under way between the two is in two
queues, which a lost connection empties.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tidings.client.session import Session
from tidings.events import Filter, Notification
from tidings.protocol.messages import Event
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Advertise,
    Attach,
    Interest,
    Kept,
    Missed,
    Progress,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
    Watch,
)
from tidings.protocol.wire import Delivery, Ping, Pong

OWN, FAR = "own", "far"


@dataclass
class Follower:
    filter: Filter
    position: dict[str, int]
    durable: str | None
    is_live: bool = False


@dataclass
class Broker:
    """The model. `refuses` is what nobody may publish."""

    refuses: Filter = field(default_factory=Filter.none)
    streams: dict[str, list[Notification]] = field(default_factory=lambda: {OWN: [], FAR: []})
    kept: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    """Those that are kept."""
    runs: dict[str, list[Kept]] = field(default_factory=dict)
    """Where they are kept."""
    refused: dict[str, dict[int, Refused]] = field(default_factory=dict)
    durable: dict[str, dict[str, int]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    followers: dict[str, Follower] = field(default_factory=dict)
    is_wanted: bool = False

    def now(self) -> dict[str, int]:
        return {stream: len(events) for stream, events in self.streams.items()}

    def lost(self) -> None:
        self.followers.clear()

    def answer(self, session: str, request: Any) -> list[Any]:
        match request:
            case Attach():
                kept, refused = self.kept.get(session, 0), self.refused.get(session, {})
                self.refused[session] = {n: said for n, said in refused.items() if n <= kept}
                runs = tuple(self.runs.get(session, ()))[-4:]
                return [*self.refused[session].values(), Accepted("attach", kept, kept=runs)]
            case Publish(number=number, notifications=()):
                if number > self.kept.get(session, 0):
                    left_out = Refused(str(number), "left out")
                    self.refused.setdefault(session, {})[number] = left_out
                return []
            case Publish(number=first, notifications=notifications):
                answers: list[Any] = []
                runs = []
                is_out = request.is_whole and any(map(self.refuses.matches, notifications))
                for number, notification in enumerate(notifications, first):
                    if number <= self.kept.get(session, 0):
                        continue
                    if is_out or self.refuses.matches(notification):
                        answers.append(Refused(str(number), "not this"))
                        self.refused.setdefault(session, {})[number] = answers[-1]
                        continue
                    self.streams[OWN].append(notification)
                    self.numbers[session] = [*self.numbers.get(session, []), number]
                    self.kept[session] = number
                    runs.append(Kept(number, 1, OWN, len(self.streams[OWN]), float(number)))
                self.runs.setdefault(session, []).extend(runs)
                last = max(self.kept.get(session, 0), first + len(notifications) - 1)
                return [*answers, Accepted("publish", last, kept=tuple(runs))]
            case Subscribe():
                return self._subscribe(request)
            case Unsubscribe(id=id):
                self.followers.pop(id, None)
                return [Accepted(id)]
            case Acknowledge(id=id, cursor=cursor, durable=name, number=number):
                if name is None:  # a client acknowledges only what it reads
                    follower = self.followers[id]
                    assert follower.durable is not None
                    name = follower.durable
                    for stream, tick in cursor.items():
                        assert tick <= follower.position[stream], "acknowledged what was not told"
                else:
                    assert self.owners[name] == request.owner
                before = self.durable[name]
                for stream, tick in cursor.items():
                    before[stream] = max(tick, before.get(stream, 0))
                return [Accepted(f"acknowledge {id}", number)]
            case Advertise(id=id):
                return [Accepted(id)]
            case Watch(id=id):
                return [Accepted(id), Interest(id, self.is_wanted)]
            case Ping(number=number):
                return [Pong(number)]
        raise AssertionError(request)

    def _subscribe(self, request: Subscribe) -> list[Any]:
        assert request.id not in self.followers, "an id is used again"
        saved = self.durable.get(request.durable or "")
        before = self.now() if saved is None and request.begun < 0 else saved or {}
        if request.heard is not None:
            assert request.since is None
            assert request.durable is None or self.owners[request.durable] == request.owner
            start = dict.fromkeys(self.streams, 0) | before | request.heard
        elif isinstance(request.since, dict):
            start = dict.fromkeys(self.streams, 0) | before | request.since
        elif request.since == "begin":
            start = dict.fromkeys(self.streams, 0)
        else:
            start = dict(self.now() if saved is None else saved)
        if request.durable is not None:
            for id, other in list(self.followers.items()):
                assert other.durable != request.durable, f"{id} reads it already"
            if saved is None or request.since is not None:
                self.durable[request.durable] = dict(start)
            self.owners[request.durable] = request.owner
        self.followers[request.id] = Follower(request.filter, start, request.durable)
        return [
            Accepted(request.id, cursor=dict(start)),
            Progress(request.id, dict(start), is_live=False),
        ]

    def step(self, stream: str) -> list[Any]:
        """Tell everybody of the next event of a stream, as far as they want it."""
        said: list[Any] = []
        for id, follower in self.followers.items():
            tick = follower.position[stream]
            if tick < len(self.streams[stream]):
                follower.position[stream] = tick + 1
                notification = self.streams[stream][tick]
                if follower.filter.matches(notification):
                    event = Event(stream, tick + 1, notification, time=float(tick))
                    said.append(Delivery(event, (id,)))
        return said

    def skip(self, stream: str) -> list[Any]:
        """Tell those that are not durable of the next event only that they have missed it."""
        said: list[Any] = []
        for id, follower in self.followers.items():
            tick = follower.position[stream]
            if follower.durable is None and tick < len(self.streams[stream]):
                follower.position[stream] = tick + 1
                if follower.filter.matches(self.streams[stream][tick]):
                    said.append(Missed(id, 1, dict(follower.position)))
        return said

    def beat(self) -> list[Any]:
        """How far all streams are, for those who were last told that they are live."""
        if any(f.is_live and f.position != self.now() for f in self.followers.values()):
            return []
        return [Progress("", self.now(), is_live=True)]

    def progress(self) -> list[Any]:
        for follower in self.followers.values():
            follower.is_live = follower.position == self.now()
        return [
            Progress(id, dict(f.position), is_live=f.position == self.now())
            for id, f in self.followers.items()
        ]


class Line:
    """A session and a broker, and what is under way between them."""

    def __init__(self, session: Session, broker: Broker, name: str) -> None:
        self.session, self.broker, self.name = session, broker, name
        self.to_broker: deque[Any] = deque()
        self.to_client: deque[list[Any]] = deque()

    def connect(self) -> None:
        if not self.session.broker:
            self.session.connected("model")

    def lose(self) -> None:
        if self.session.broker:
            self.session.lost()
            self.broker.lost()
            self.to_broker.clear()
            self.to_client.clear()

    def send(self) -> None:
        for frame in self.session.outgoing():
            self.to_broker.extend(frame)

    def handle(self) -> None:
        """The broker takes in one request."""
        if self.to_broker:
            self.say(self.broker.answer(self.name, self.to_broker.popleft()))

    def say(self, messages: list[Any]) -> None:
        if messages and self.session.broker:
            self.to_client.append(messages)

    def receive(self) -> None:
        """The client takes in one frame."""
        if self.to_client:
            self.session.receive(self.to_client.popleft())

    @property
    def is_quiet(self) -> bool:
        return not (self.to_broker or self.to_client)
