"""A node with several streams of its own, and two nodes in one process."""

from __future__ import annotations

from collections import deque

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import (
    Append,
    Deliver,
    Effect,
    Input,
    Raise,
    Received,
    Reply,
    Request,
    Send,
    Span,
    Store,
    Wake,
    Woken,
)
from tidings.protocol.messages import Heard
from tidings.protocol.requests import Accepted, Attach, Publish, Subscribe

SETTINGS = Settings()
LOGS = {"paris": Span(), "low": Span()}
"""The second one is of what paris itself finds low."""


class Process:
    """A host of several nodes, which loses nothing and waits for nothing."""

    def __init__(self, *nodes: Node) -> None:
        self.now = 0.0
        self.nodes = {node.name: node for node in nodes}
        self.stored: dict[str, dict[str, object]] = {node.name: {} for node in nodes}
        self.logs: dict[str, list[int]] = {}
        """The ticks of each stream."""
        self.heard: list[tuple[str, int]] = []
        """The stream and tick of each delivery to anybody."""
        self.cursor: dict[str, int] = {}
        """Where the last subscription began."""
        self.raised: list[str] = []
        self._wake_at: dict[str, float] = {}
        self._inputs: deque[tuple[str, Input]] = deque()
        for node in nodes:
            self.perform(node.name, node.start(self.now))
        self.run(2.0)

    def ask(self, name: str, body: object) -> None:
        self.tell(name, Request("client", body, self.now))

    def tell(self, name: str, input: Input) -> None:
        self._inputs.append((name, input))
        while self._inputs:
            name, input = self._inputs.popleft()
            self.perform(name, self.nodes[name].handle(input, self.now))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := min(self._wake_at.values())) < end:
            self.now = max(self.now, due)
            for name in [n for n, at in self._wake_at.items() if at <= self.now]:
                self.tell(name, Woken())
        self.now = end

    def perform(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(neighbour, packet):
                    self._inputs.append((neighbour, Received(name, packet)))
                case Append(events):
                    self.logs.setdefault(events[0].stream, []).extend(e.tick for e in events)
                case Store(key, value):
                    self.stored[name][key] = value
                case Raise(stream):
                    self.raised.append(stream)
                case Wake(at):
                    self._wake_at[name] = at
                case Deliver(_, event):
                    self.heard.append((event.stream, event.tick))
                case Reply(_, Accepted(_, cursor=dict(cursor))):
                    self.cursor = cursor


def find(process: Process, count: int) -> None:
    """Paris finds something by itself, and says it in its other stream."""
    delivery = process.nodes["paris"].from_log
    said = [(Notification({"low": n}), False, "") for n in range(count)]
    delivery.let_flow(delivery.logs.keep(delivery.logs.own["low"], said, time=1.0))
    process.tell("paris", Woken())


def pair() -> Process:
    paris = Node("paris", SETTINGS, neighbours={"rome": "peer"}, logs=LOGS, instance="p")
    return Process(paris, Node("rome", SETTINGS, neighbours={"paris": "peer"}, instance="r"))


def said(*numbers: int) -> tuple[Notification, ...]:
    return tuple(Notification({"n": n}) for n in numbers)


def test_each_own_stream_has_its_ticks_and_is_read_like_any_other() -> None:
    process = pair()
    process.ask("rome", Attach())
    process.ask("rome", Subscribe("1", Filter.all()))
    assert process.cursor == {"paris": 0, "low": 0, "rome": 0}
    process.ask("paris", Attach())
    process.ask("paris", Publish(1, said(1, 2)))
    find(process, 3)
    process.ask("paris", Publish(3, said(3)))
    assert process.logs == {"paris": [1, 2, 3], "low": [1, 2, 3]}
    assert sorted(process.heard) == [
        *(("low", n) for n in (1, 2, 3)),
        *(("paris", n) for n in (1, 2, 3)),
    ]
    process.run(3.0)
    known = process.nodes["rome"].from_log.reached.known
    assert known == {"paris": 3, "low": 3}, "silence tells how far both are"


def test_what_was_missed_of_each_own_stream_is_fetched() -> None:
    process = pair()
    find(process, 2)
    process.ask("rome", Attach())
    process.ask("rome", Subscribe("1", Filter.all(), since={"low": 1, "paris": 0, "rome": 0}))
    assert process.heard == [("low", 2)]


def test_each_own_stream_has_epochs_of_its_own() -> None:
    process = pair()
    find(process, 1)
    process.tell("paris", Heard({"low": 7, "paris": 0}))
    assert process.raised == ["low~2"]
    find(process, 1)
    process.ask("paris", Attach())
    process.ask("paris", Publish(1, said(1)))
    assert process.logs == {"low": [1], "low~2": [1], "paris": [1]}
    assert process.stored["paris"]["identities"] == {"paris": "p", "low": "p", "low~2": "p"}
    assert not list(process.nodes["paris"].parts.audit([]))


def test_a_durable_name_is_asked_for_at_a_node_with_several_streams() -> None:
    process = pair()
    for name in ("rome", "paris"):
        process.ask(name, Attach())
        process.ask(name, Subscribe("1", Filter.all(), durable=f"{name}'s"))
        assert process.nodes[name].from_log.subscriptions.saved.keys() == {f"{name}'s"}


def test_two_nodes_in_one_process_share_nothing() -> None:
    """What each of them does is the same as if it were alone."""
    alone = [Process(Node("paris", SETTINGS, instance="p"))]
    together = Process(Node("paris", SETTINGS, instance="p"), Node("oslo", SETTINGS, instance="o"))
    for process in (*alone, together):
        for name in process.nodes:
            process.ask(name, Attach())
            process.ask(name, Subscribe("1", Filter.parse("n < 9"), durable="mine"))
            process.ask(name, Publish(1, said(1, 9)))
            process.run(5.0)
    assert together.stored["paris"] == alone[0].stored["paris"]
    assert together.heard == [("paris", 1), ("oslo", 1)]
    assert together.logs == {"paris": [1, 2], "oslo": [1, 2]}


def test_an_own_stream_that_is_not_the_latest_epoch_is_noticed() -> None:
    node = pair().nodes["paris"]
    logs = node.from_log.logs
    logs.own["low"].raise_epoch()
    assert not list(logs.audit())
    logs.own["low"].stream = "low"
    assert any("own streams" in problem for problem in logs.audit())
    node.from_log.reached.ways.names.clear()
    assert any("own streams" in problem for problem in node.from_log.reached.audit())
