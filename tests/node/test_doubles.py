"""Two nodes of one name, in virtual time: who notices, and whose readers stay whose."""

from __future__ import annotations

from collections import deque
from typing import Any

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import (
    Deliver,
    Effect,
    Input,
    LinkDown,
    Received,
    Reply,
    Request,
    Send,
    Woken,
)
from tidings.protocol.requests import Attach, Publish, Refused, Subscribe


class Row:
    """Nodes in a row, which nothing is lost between."""

    def __init__(self, *names: str) -> None:
        self.now = 0.0
        self.names = names
        self.heard: list[Any] = []
        self._queue: deque[tuple[int, Input]] = deque()
        self.nodes: list[Node | None] = []
        for at, name in enumerate(names):
            beside = {names[b]: "peer" for b in (at - 1, at + 1) if 0 <= b < len(names)}
            self.nodes.append(
                Node(
                    name,
                    Settings(grace="strawman"),
                    neighbours=beside,
                    instance=f"process {at}",
                )
            )
        for at, node in enumerate(self.nodes):
            assert node is not None
            self._perform(at, node.start(0.0))
        self.run(2.0)

    def __getitem__(self, at: int) -> Node:
        node = self.nodes[at]
        assert node is not None
        return node

    def tell(self, at: int, input: Input) -> None:
        node = self.nodes[at]
        if node is not None:
            self._perform(at, node.handle(input, self.now))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            while self._queue:
                self.tell(*self._queue.popleft())
            self.now += 0.25
            for at in range(len(self.nodes)):
                self.tell(at, Woken())

    def kill(self, at: int) -> None:
        self.nodes[at] = None
        for beside in (at - 1, at + 1):
            if 0 <= beside < len(self.nodes):
                self.tell(beside, LinkDown(self.names[at]))

    def publish(self, at: int, *numbers: int) -> None:
        session = f"writer {at}"
        self.tell(at, Request(session, Attach()))
        said = tuple(Notification({"n": n}) for n in numbers)
        self.tell(at, Request(session, Publish(1, said), self.now))
        self.run(1.0)

    def subscribe(self, at: int, **where: Any) -> None:
        self.tell(at, Request("reader", Attach()))
        self.tell(at, Request("reader", Subscribe("s", Filter.all(), **where), self.now))
        self.run(1.0)

    @property
    def numbers(self) -> list[Any]:
        return [e.event.notification["n"] for e in self.heard if isinstance(e, Deliver)]

    def _perform(self, at: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                beside = at - 1 if self._is_before(at, effect.neighbour) else at + 1
                self._queue.append((beside, Received(self.names[at], effect.packet)))
            elif isinstance(effect, Deliver | Reply) and effect.session == "reader":
                self.heard.append(effect)

    def _is_before(self, at: int, name: str) -> bool:
        return at > 0 and self.names[at - 1] == name


ROW = ("paris", "rome", "oslo", "paris")


def test_whoever_is_between_two_nodes_of_one_name_notices_and_names_the_ways() -> None:
    row = Row(*ROW)
    assert not any(node and node.from_log.reached.doubles for node in row.nodes)
    row.run(6.0)
    rome = row[1].from_log.reached
    assert rome is not None
    assert rome.doubles["paris"] == {
        "process 0": ("paris", "rome"),
        "process 3": ("paris", "oslo", "rome"),
    }


def test_nobody_is_taken_for_two_in_a_network_whose_names_differ() -> None:
    row = Row("paris", "rome", "oslo", "bern")
    row.run(10.0)
    assert not any(node and node.from_log.reached.doubles for node in row.nodes)


def test_readers_of_one_never_go_on_with_the_other_unless_they_are_told() -> None:
    row = Row(*ROW)
    row.subscribe(1)
    row.publish(3, *range(100, 110))
    row.publish(0, 1, 2)
    assert row.numbers == [1, 2]
    row.kill(0)
    row.run(3.0)
    assert row.numbers == [1, 2]
    (refusal,) = [
        e.answer for e in row.heard if isinstance(e, Reply) and isinstance(e.answer, Refused)
    ]
    assert (refusal.stream, refusal.position) == ("paris", 2)
    assert "another one has its name" in refusal.reason
    row.subscribe(1, since=refusal.cursor)
    assert row.numbers == [1, 2, *range(100, 110)]
    assert row[3].from_log.stream == "paris", "it did not go back"
