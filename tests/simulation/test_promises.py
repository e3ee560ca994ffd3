"""Promised times: below them nothing more comes, and they go on, whatever fails and clocks say."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.simulation.runs import Patch
from tidings.delivery.from_log import FromLog
from tidings.delivery.logs import Logs
from tidings.delivery.promises import FOREVER, Promises
from tidings.node import Node, Settings
from tidings.protocol.epochs import epoch_of
from tidings.protocol.host import Sync
from tidings.protocol.messages import Event, Silence
from tidings.simulation.guarantees import Violation
from tidings.simulation.simulation import Conditions, Simulation
from tidings.simulation.topology import line, ring

pytestmark = pytest.mark.slow

NOON = 1_000.0


class Trial:
    """A network in which all that can happen to promises happens, at random."""

    def __init__(self, seed: int, *, has_faults: bool = True) -> None:
        self.random = random = Random(f"promises {seed}")
        has_tree = random.random() < 0.5
        settings = Settings(tree=has_tree, check=2.0, progress=0.5, margin=300.0)
        topology = ring(4) if has_tree else line(3)
        lossy = Conditions(loss=0.05, duplication=0.05, jitter=0.05)
        self.sim = Simulation(topology, settings, seed=seed, conditions=lossy, has_pulse=True)
        self.sim.guarantees.watch(thorough=False)
        # Nodes come back as if they had been damaged, which makes them doubt what they told.
        self.sim.guarantees.doubted = lambda client: None  # type: ignore[method-assign]
        self.names = list(topology.nodes)
        self.sim.clocks.update({name: NOON + random.uniform(-50, 50) for name in self.names})
        self.readers = [self.sim.client(f"reader at {name}", at=name) for name in self.names]
        self.writers = [self.sim.client(f"writer at {name}", at=name) for name in self.names]
        for reader in self.readers:
            reader.subscribe("n > 3")
            reader.subscribe("TRUE", durable="all")
        self.sim.run(3.0)
        for _ in range(60):
            self.step(has_faults=has_faults)
        self.calm()

    def step(self, *, has_faults: bool) -> None:
        random, sim = self.random, self.sim
        name = random.choice(self.names)
        match random.randrange(9 if has_faults else 3):
            case 0 | 1:
                writer = random.choice(self.writers)
                writer.publish(*[{"n": random.randrange(9)} for _ in range(random.randint(1, 4))])
            case 2:  # a clock is set, forwards or back
                sim.clocks[name] = NOON + random.uniform(-60, 60)
            case 3:
                sim.crash(name)
            case 4 | 5:
                sim.crash_within(name, random.randint(1, 6))
            case 6:
                sim.stores[name].failures.append(random.random() < 0.5)
            case 7:
                at = random.choice(sorted(sim.channels))
                sim.fail_link(*at, silently=random.random() < 0.3)
            case 8:
                reader = random.choice(self.readers)
                reader.acknowledge(late=False)
                reader.hang_up()
        if random.random() < 0.5:
            self.mend()
        sim.run(sim.now + random.choice((0.1, 0.7, 2.0)))

    def mend(self) -> None:
        for name in self.names:
            self.sim.restart(name, was_damaged=self.random.random() < 0.3)
        for one, other in sorted(self.sim.channels):
            self.sim.restore_link(one, other)

    def calm(self) -> None:
        """All faults are over; clocks are right, and no earlier than any was."""
        self.sim.spare()
        self.mend()
        self.sim.set_conditions(Conditions())
        self.sim.clocks.update(dict.fromkeys(self.names, NOON + 200.0))
        self.sim.run(self.sim.now + 30.0)

    def check_liveness(self) -> None:
        """All streams go on, though nothing is published: a few beats and hops behind."""
        self.sim.run(self.sim.now + 1.0)
        for reader in self.readers:
            for reading in reader.readings.values():
                assert reading.is_live
                for stream in self.sim.streams:
                    node = stream.partition("~")[0]
                    is_closed = stream != self.sim.stores[node].stream
                    least = FOREVER if is_closed else self.sim.time(node) - 3.0
                    assert reading.complete.get(stream, 0.0) >= least, (stream, reading.complete)


@pytest.mark.parametrize("seed", range(25))
def test_a_stream_is_complete_below_the_time_that_was_told(seed: int) -> None:
    Trial(seed).check_liveness()


def crash_as_promised() -> None:
    """A broker crashes as soon as somebody has heard what it promises, and its clock goes back."""
    sim = Simulation(line(2), Settings(check=2.0, margin=300.0), has_pulse=True)
    sim.guarantees.watch(thorough=False)
    sim.clocks.update(b0=NOON, b1=NOON)
    readers = [sim.client(f"reader at {name}", at=name) for name in ("b0", "b1")]
    writer = sim.client("writer", at="b0")
    readings = [reader.readings[reader.subscribe("TRUE")] for reader in readers]
    for number in range(20):
        sim.run(sim.now + 5.0)
        reading = readings[number % 2]
        told = reading.complete["b0"]
        while reading.complete["b0"] == told:
            sim.step()
        sim.crash("b0")
        sim.clocks["b0"] -= 100.0
        sim.run(sim.now + 0.2)
        sim.restart("b0", was_damaged=False)
        writer.publish({"n": number})
        sim.run(sim.now + 5.0)
        assert [reader.heard[-1].notification["n"] for reader in readers] == [number, number]
        sim.clocks["b0"] += 110.0


def test_a_promise_outlives_a_crash_at_the_moment_it_is_heard() -> None:
    crash_as_promised()


def test_an_epoch_that_begins_closes_the_one_before_for_ever() -> None:
    trial = Trial(0, has_faults=False)
    trial.sim.crash("b1")
    trial.sim.go_back("b1", 3)
    trial.sim.restart("b1")
    trial.sim.run(trial.sim.now + 15.0)
    assert any(epoch_of(stream) == 2 for stream in trial.sim.streams)
    trial.check_liveness()


# -- each way to break a promise is found out --------------------------------------------------


def is_caught(part: str = "though the stream was complete") -> bool:
    for seed in range(-1, 80):
        try:
            crash_as_promised() if seed < 0 else Trial(seed).check_liveness()
        except Violation as violation:
            if part in str(violation):
                return True
    return False


def test_a_reservation_that_is_not_synced(patch: Patch) -> None:
    def unsynced(self: FromLog) -> dict[str, float]:
        emitted = self._kernel._effects  # type: ignore[attr-defined]
        before = len(emitted)
        told = promise(self)
        emitted[before:] = [effect for effect in emitted[before:] if not isinstance(effect, Sync)]
        return told

    promise = FromLog._promise
    patch(FromLog, "_promise", unsynced)
    assert is_caught("less of") or is_caught()


def test_a_promise_told_before_it_is_reserved(patch: Patch) -> None:
    def hasty(self: FromLog) -> dict[str, float]:
        below = self.logs.promises
        time = max(below.below, self._kernel.time)
        told = {self.stream: time} if time else {}
        for stream in told:
            self.reading.flows[stream].complete = time
        self._kernel.at(self._kernel.now + 0.3, lambda: promise(self) and None)
        return told

    promise = FromLog._promise
    patch(FromLog, "_promise", hasty)
    assert is_caught()


def test_a_node_that_begins_below_what_was_reserved(patch: Patch) -> None:
    def forgetful(self: Promises, reserved: float) -> None:
        self.reserved, self.below = reserved, 0.0

    patch(Promises, "__init__", forgetful)
    assert is_caught()


def test_events_said_below_what_was_promised(patch: Patch) -> None:
    def careless(self: Logs, own: Any, said: Any, time: float, publisher: str = "") -> list[Event]:
        before, self.promises.below = self.promises.below, 0.0
        try:
            return keep(self, own, said, time, publisher)
        finally:
            self.promises.below = before

    keep = Logs.keep
    patch(Logs, "keep", careless)
    assert is_caught()


def passed_on() -> None:
    """Events and promises pass a node that has neither of its own."""
    sim = Simulation(line(3), Settings(check=2.0), has_pulse=True)
    sim.guarantees.watch(thorough=False)
    sim.clocks.update(dict.fromkeys(("b0", "b1", "b2"), NOON))
    reader, writer = sim.client("reader", at="b2"), sim.client("writer", at="b0")
    [reading] = [reader.readings[reader.subscribe("TRUE")]]
    for number in range(40):
        sim.run(sim.now + 0.3)
        writer.publish({"n": number})
    sim.run(sim.now + 3.0)
    assert [event.notification["n"] for event in reader.heard] == list(range(40))
    assert reading.complete["b0"] > sim.time("b0") - 4.0


def test_a_promise_is_passed_on_behind_the_events_it_speaks_of() -> None:
    passed_on()


def test_a_promise_passed_on_before_the_events_it_speaks_of(patch: Patch) -> None:
    """The ticks that are told are right, but the times are those of what waits behind them."""
    sent: dict[str, int] = {}
    held: list[list[tuple[Any, Event]]] = [[], []]

    def late(self: Node, neighbour: Any, event: Event) -> None:
        if self.name == "b1":
            held[-1].append((neighbour, event))
        else:
            pass_on(self, neighbour, event)

    def early(self: Node, neighbour: Any, body: Any) -> None:
        if self.name != "b1" or not isinstance(body, Silence) or "b0" not in body.upto:
            send(self, neighbour, body)
            return
        send(self, neighbour, Silence({s: sent.get(s, 0) for s in body.upto}, body.complete))
        for each, event in held.pop(0):  # what came before the silence before this one
            sent[event.stream] = event.tick
            pass_on(self, each, event)
        held.append([])

    pass_on, send = Node.pass_on, Node.send
    patch(Node, "pass_on", late)
    patch(Node, "send", early)
    with pytest.raises(Violation, match="though the stream was complete"):
        passed_on()


def test_a_promise_that_goes_back_with_the_clock(patch: Patch) -> None:
    def swayed(self: Promises, time: float) -> Any:
        self.below = 0.0
        return move(self, time)

    move = Promises.move
    patch(Promises, "move", swayed)
    assert is_caught("less of") or is_caught()
