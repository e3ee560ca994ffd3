"""A link keeps its word, whatever happens to its frames."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay import Link
from tidings.protocol.messages import Frame


class Wire:
    """Two ends, and frames between them that are lost, doubled and overtaken by chance."""

    def __init__(self, seed: int, *, trouble: float) -> None:
        self.random = Random(seed)
        self.trouble = trouble
        self.now = 0.0
        self.ends = [Link(1, pause=1.0, delay=0.2), Link(1, pause=1.0, delay=0.2)]
        self.under_way: list[tuple[int, Frame]] = []
        self.heard: list[list[object]] = [[], []]
        self.sessions = [0, 0]
        for end in self.ends:
            end.greet(self.now)
        self.collect()

    def collect(self) -> None:
        for number, end in enumerate(self.ends):
            for frame in end.frames():
                copies = self.random.choices((1, 0, 2), (1, self.trouble, self.trouble))[0]
                self.under_way += [(1 - number, frame)] * copies

    def step(self) -> None:
        """A frame arrives, in any order, or time passes."""
        if self.under_way and self.random.random() < 0.8:
            number, frame = self.under_way.pop(self.random.randrange(len(self.under_way)))
            end = self.ends[number]
            bodies = end.receive(frame, self.now)
            if end.opened:
                end.opened = False
                self.sessions[number] += 1
                self.heard[number] = []
            self.heard[number] += bodies
        else:
            self.now += 0.3
            for end in self.ends:
                end.wake(self.now)
        self.collect()

    def rest(self) -> None:
        """From now on frames arrive; long enough for everything to be said."""
        self.trouble = 0.0
        for _ in range(1000):
            self.step()


@given(st.integers(0, 10**9), st.lists(st.integers(0, 1), max_size=60))
def test_everything_arrives_once_and_in_order(seed: int, speakers: list[int]) -> None:
    wire = Wire(seed, trouble=0.0)
    while not all(end.peer for end in wire.ends):
        wire.step()
    for _ in range(50):
        wire.step()
    wire.trouble = 0.5
    said: list[list[int]] = [[], []]
    wire.heard = [[], []]
    for number, speaker in enumerate(speakers):
        wire.ends[speaker].send(number, wire.now)
        said[1 - speaker].append(number)
        wire.collect()
        for _ in range(wire.random.randrange(4)):
            wire.step()
    wire.rest()
    assert wire.heard == said
    assert not any(end.queue for end in wire.ends)
    assert max(wire.sessions) == 1


@given(st.integers(0, 10**9), st.integers(0, 20), st.booleans())
def test_an_end_that_begins_anew_hears_nothing_of_before(
    seed: int, before: int, by_reset: bool
) -> None:
    wire = Wire(seed, trouble=0.3)
    for number in range(before):
        wire.ends[0].send(("old", number), wire.now)
        wire.ends[1].send(("old", number), wire.now)
        wire.step()
    if by_reset:
        wire.ends[1].reset(2)
    else:
        wire.ends[1] = Link(2, pause=1.0, delay=0.2)
    wire.heard[1] = []
    wire.ends[1].greet(wire.now)
    one, other = wire.ends
    while (one.peer, other.peer) != (other.identity, one.identity):
        wire.step()
    for end in wire.ends:
        end.send("new", wire.now)
    wire.rest()
    assert [body for body in wire.heard[1] if body != "new"] == []
    assert wire.heard[0][-1:] == wire.heard[1][-1:] == ["new"]


def test_what_is_sent_before_the_link_is_open_is_dropped() -> None:
    link = Link(1, pause=1.0, delay=0.2)
    link.send("too early", now=0.0)
    assert link.frames() == []
    assert not link.queue


def talk(one: Link, other: Link, now: float) -> None:
    """All that both have to say is heard at once."""
    while frames := [(other, f) for f in one.frames()] + [(one, f) for f in other.frames()]:
        for end, frame in frames:
            end.receive(frame, now)


def opened() -> tuple[Link, Link]:
    one, other = Link(7, pause=1.0, delay=0.2), Link(9, pause=1.0, delay=0.2)
    one.greet(0.0)
    talk(one, other, 0.0)
    return one, other


def test_a_smaller_identity_is_believed_if_the_larger_one_does_not_answer() -> None:
    one, other = opened()
    one.peer = 1 << 40
    for now in (1.0, 2.0, 3.0):
        assert not one.fault
        other.greet(now)
        talk(one, other, now)
    assert "1099511627776 does not answer" in one.fault
    one.reset(8)
    one.greet(4.0)
    talk(one, other, 4.0)
    assert (one.peer, other.peer) == (9, 8)


def test_a_smaller_identity_is_not_believed_while_the_larger_one_answers() -> None:
    one, other = opened()
    before = Link(3, pause=1.0, delay=0.2)
    for now in range(1, 20):
        before.greet(float(now))
        for frame in before.frames():
            one.receive(frame, float(now))
        talk(one, other, float(now))
    assert not one.fault
    assert one.peer == 9


def test_what_is_asked_about_an_undamaged_conversation_is_no_fault() -> None:
    wire = Wire(5, trouble=0.0)
    while not all(end.peer for end in wire.ends):
        wire.step()
    wire.trouble = 0.5
    for number in range(500):
        wire.ends[number % 2].send(number, wire.now)
        if number % 5 == 0:
            wire.ends[number % 2].ask(wire.now)
        wire.collect()
        for _ in range(4):
            wire.step()
        assert not any(end.fault for end in wire.ends)
    wire.rest()
    assert max(wire.sessions) == 1
