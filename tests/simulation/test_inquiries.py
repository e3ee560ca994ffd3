"""What is sent to one broker and then to another one, step by step, in every order that matters."""

from __future__ import annotations

import pytest

from tests.simulation.runs import Patch
from tests.simulation.test_wanderers import Trial
from tidings.delivery.batch import Batch
from tidings.delivery.ids import Ids
from tidings.delivery.inquiries import PATIENCE, Inquiries
from tidings.events import Notification
from tidings.node import Settings
from tidings.protocol.host import Deliver, Reply, Request
from tidings.protocol.requests import Accepted, Answer, Attach, Publish, Refused
from tidings.simulation.guarantees import Violation
from tidings.simulation.simulation import Simulation
from tidings.simulation.store import MemoryStore
from tidings.simulation.topology import line


class Client:
    """A connection of a program that says what it is told to, and remembers the answers."""

    is_known, is_full = True, False

    def __init__(self, world: World, at: str, name: str) -> None:
        self.world, self.at, self.session = world, at, f"{name}@{at}"
        self.answers: list[Answer] = []
        world.sim.lines[self.session] = self  # type: ignore[assignment]
        world.sim.hear(at, Request(self.session, Attach(name=name)))
        self.number = 0

    def publish(self, *ids: str, elsewhere: tuple[str, ...] = (), bold: bool = False) -> None:
        said = tuple(Notification({"id": id}) for id in ids)
        body = Publish(self.number + 1, said, False, ids, elsewhere, bold)
        self.number += len(ids)
        self.world.sim.hear(self.at, Request(self.session, body, self.world.sim.now))

    def meant(self, _: Deliver | Reply) -> None:
        pass

    def told(self, effect: Deliver | Reply) -> None:
        if isinstance(effect, Reply):
            self.answers.append(effect.answer)

    def broken(self) -> None:
        self.world.sim.lines.pop(self.session, None)

    @property
    def refused(self) -> list[str]:
        return [each.reason for each in self.answers if isinstance(each, Refused)]

    @property
    def places(self) -> list[tuple[str, int, bool]]:
        """Where what it has published is, and whether perhaps twice."""
        told = [each for each in self.answers if isinstance(each, Accepted)]
        runs = {run.number: run for each in told for run in each.kept}
        return [
            (run.stream, run.tick + n, run.is_maybe_twice)
            for number in sorted(runs)
            for run in (runs[number],)
            for n in range(run.count)
        ]


class World:
    """Three brokers in a row, and the programs of one principal."""

    def __init__(self) -> None:
        self.sim = Simulation(line(3), Settings(), seed=1)
        self.sim.guarantees.watch(thorough=False)
        self.wait(3.0)
        self.a, self.b, self.c = (Client(self, f"b{n}", "desk/x") for n in range(3))
        self.wait()

    def wait(self, seconds: float = 1.5) -> None:
        self.sim.run(self.sim.now + seconds)

    def logs(self) -> list[list[str]]:
        stores = self.sim.stores.values()
        return [[event.notification["id"] for event in store.log] for store in stores]


def test_what_the_first_has_kept_the_second_does_not_and_says_where_it_is() -> None:
    world = World()
    world.a.publish("x")
    world.wait()
    world.c.publish("x", elsewhere=("b0",))
    world.wait()
    assert (world.logs(), world.c.places) == ([["x"], [], []], [("b0", 1, False)])


def test_what_is_being_written_counts_as_kept() -> None:
    world = World()
    world.sim.committing = 3.0
    world.a.publish("x")
    world.c.publish("x", elsewhere=("b0",))
    world.wait(4.0)
    assert (world.logs(), world.c.places) == ([["x"], [], []], [("b0", 1, False)])


def test_what_the_first_has_not_kept_it_does_not_keep_when_it_arrives_late() -> None:
    world = World()
    world.c.publish("x", elsewhere=("b0",))
    world.wait()
    world.a.publish("x")  # it was in the buffers of its connection
    world.wait()
    assert world.logs() == [[], [], ["x"]]
    assert world.a.places == world.c.places == [("b2", 1, False)]


def test_who_was_told_that_it_is_elsewhere_remembers_that_over_a_crash() -> None:
    world = World()
    world.a.publish("x")
    world.wait()
    world.c.publish("x", elsewhere=("b0",))
    world.wait()
    world.sim.crash("b2")
    world.sim.restart("b2")
    world.sim.fail_link("b0", "b1")
    again = Client(world, "b2", "desk/y")
    again.publish("x")
    world.wait()
    assert (world.logs(), again.places) == ([["x"], [], []], [("b0", 1, False)])


def test_what_cannot_be_asked_for_is_refused_for_now_and_kept_later() -> None:
    world = World()
    world.sim.fail_link("b0", "b1")
    world.c.publish("x", elsewhere=("b0",))
    world.c.publish("y")  # waits behind it, and is kept
    world.wait(PATIENCE / 2)
    assert (world.logs(), world.c.answers[1:]) == ([[], [], []], [])
    world.wait(PATIENCE)
    assert ["b0 may have kept it" in reason for reason in world.c.refused] == [True]
    assert world.logs() == [[], [], ["y"]]
    world.sim.restore_link("b0", "b1")
    world.wait()
    world.c.publish("x", elsewhere=("b0",))
    world.wait()
    assert world.logs() == [[], [], ["y", "x"]]


def test_what_may_be_kept_twice_is_kept_and_marked() -> None:
    world = World()
    world.a.publish("x")
    world.wait()
    world.sim.fail_link("b0", "b1")
    world.c.publish("x", "y", elsewhere=("b0",), bold=True)
    world.wait(PATIENCE + 1.0)
    assert world.logs() == [["x"], [], ["x", "y"]]
    assert world.c.places == [("b2", 1, True), ("b2", 2, True)]


def test_what_was_said_not_to_be_kept_is_not_however_bold_one_is() -> None:
    world = World()
    world.c.publish("x", elsewhere=("b0",))
    world.wait()
    world.sim.fail_link("b0", "b1")
    world.a.publish("x", bold=True)
    world.wait(PATIENCE + 1.0)
    assert (world.logs(), len(world.a.refused)) == ([[], [], ["x"]], 1)


def test_of_two_that_ask_each_other_one_keeps_it() -> None:
    world = World()
    world.a.publish("x", elsewhere=("b2",))
    world.c.publish("x", elsewhere=("b0",))
    world.wait(PATIENCE)
    assert sorted(map(len, world.logs())) == [0, 0, 1]
    assert world.a.places == world.c.places
    assert world.a.refused == world.c.refused == []


@pytest.mark.parametrize("crashed", ["b0", "b2"])
def test_a_crash_forgets_who_has_asked_and_all_that_could_arrive_late(crashed: str) -> None:
    world = World()
    world.c.publish("x", elsewhere=("b0",))
    world.wait()
    world.sim.crash(crashed)
    world.sim.restart(crashed)
    world.wait(5.0)
    back = Client(world, "b0", "desk/x")
    back.publish("x", elsewhere=("b2",))  # as its client says when it comes back
    world.wait()
    assert (world.logs(), back.places) == ([[], [], ["x"]], [("b2", 1, False)])


def test_another_principals_id_is_another_id() -> None:
    world = World()
    world.a.publish("x")
    world.wait()
    other = Client(world, "b2", "shop/x")
    other.publish("x", elsewhere=("b0",))
    world.wait()
    assert world.logs() == [["x"], [], ["x"]]


# -- the tests are worth something -------------------------------------------------------------


def no_notes(patch: Patch) -> None:
    patch(Inquiries, "_note", lambda self, principal, digest, asker: None)


def unstored(patch: Patch) -> None:
    keep = Ids.keep
    patch(Ids, "keep", lambda self, *a, **k: keep(self, *a, **k)[:0])


def forgetful(patch: Patch) -> None:
    patch(Batch, "ids", lambda self, events: [])


def unasked(patch: Patch) -> None:
    patch(Inquiries, "begin", lambda self, *a, **k: False)


def undecided_is_ignored(patch: Patch) -> None:
    asked = Inquiries.asked

    def heedless(self: Inquiries, *about: object) -> None:
        known, self._by_id = self._by_id, {}
        asked(self, *about)  # type: ignore[arg-type]
        self._by_id = known

    patch(Inquiries, "asked", heedless)


def unwritten_is_not_kept(patch: Patch) -> None:
    """It says that it has not kept what it is just writing."""
    asked, find, start = Inquiries.asked, Ids.find, Simulation.__init__
    stores: dict[str, MemoryStore] = {}

    def begin(self: Simulation, *about: object, **more: object) -> None:
        start(self, *about, **more)  # type: ignore[arg-type]
        stores.update(self.stores)

    def hasty(self: Inquiries, *about: object) -> None:
        store = stores[self._kernel.name]

        def written(ids: Ids, principal: str, digest: bytes) -> object:
            place = find(ids, principal, digest)
            is_here = place is not None and place.stream == store.stream
            return None if is_here and place.tick > len(store.log) else place  # type: ignore[union-attr]

        Ids.find = written  # type: ignore[method-assign, assignment]
        try:
            asked(self, *about)  # type: ignore[arg-type]
        finally:
            Ids.find = find  # type: ignore[method-assign]

    patch(Simulation, "__init__", begin)
    patch(Inquiries, "asked", hasty)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (no_notes, test_what_the_first_has_not_kept_it_does_not_keep_when_it_arrives_late),
        (unstored, test_who_was_told_that_it_is_elsewhere_remembers_that_over_a_crash),
        (undecided_is_ignored, test_of_two_that_ask_each_other_one_keeps_it),
        (unwritten_is_not_kept, test_what_is_being_written_counts_as_kept),
        (forgetful, test_what_is_being_written_counts_as_kept),
        (unasked, test_what_the_first_has_kept_the_second_does_not_and_says_where_it_is),
    ],
)
def test_what_is_broken_is_seen(patch: Patch, broken, test) -> None:  # type: ignore[no-untyped-def]
    broken(patch)
    with pytest.raises((AssertionError, Violation)):
        test()


@pytest.mark.slow
@pytest.mark.parametrize("broken", [unwritten_is_not_kept, unasked, unstored])
def test_random_trials_see_what_is_broken(patch, broken) -> None:  # type: ignore[no-untyped-def]
    broken(patch)
    with pytest.raises((AssertionError, Violation)):
        _trials(40)


def _trials(count: int) -> None:
    for seed in range(count):
        Trial(seed, "line").run()
