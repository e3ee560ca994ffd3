"""A durable name is at one node, and nothing of it is lost, in whatever order things happen.

Three nodes, of which each seeks the name, has it given, crashes and comes back. Their messages are
delivered in any order, twice, or not at all; of what they store, what was not synced may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidings.delivery.homes import Errand, Homes
from tidings.delivery.names import CURSORS, DURABLES, GONE, Names, Saved
from tidings.events import Filter
from tidings.protocol.host import Reply, Store, Sync
from tidings.protocol.messages import Move, Moved, Seek, Sought
from tidings.protocol.parts import Kernel, Session
from tidings.protocol.requests import Acknowledge, Refused, Subscribe

NAMES = ("a", "b", "c")
DESK = "desk"
Message = Seek | Sought | Move | Moved


class Place:
    """A node, as far as durable names go, with its disk: it is its own kernel and its ways."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.disk: dict[str, Any] = {}
        self.incarnation = 0
        self.is_up = False

    def start(self) -> None:
        """It comes up with what is on its disk."""
        self.is_up = True
        self.incarnation += 1
        self.waiting: list[Any] = []
        """What it wants done, and is not done yet."""
        others = {name: SimpleNamespace(name=name) for name in NAMES if name != self.name}
        self.neighbours, self.known = others, dict.fromkeys(NAMES, 0)
        self.ways = SimpleNamespace(names={self.name: None}, streams=NAMES, via=others.get)
        logs = SimpleNamespace(published=SimpleNamespace(stream=self.name))
        self.names = Names(cast(Kernel, self), cast(Any, logs))
        self.reader: str | None = None
        """Who reads here."""
        self.homes = Homes(cast(Kernel, self), cast(Any, self), self)
        self.names.restore(self.disk)

    # -- the kernel, and the ways --------------------------------------------------------------

    def emit(self, effect: Any) -> None:
        self.waiting.append(effect)

    def send(self, neighbour: Any, body: Message) -> None:
        self.waiting.append((neighbour.name, body))

    def soon(self, what: Callable[[], None]) -> None:
        what()

    def passed_on(self, neighbour: Any, question: Seek | Move) -> bool:
        return False

    def passed_back(self, answer: Sought | Moved) -> bool:
        return False

    # -- the keeper ----------------------------------------------------------------------------

    def admit(self, session: Session, body: Subscribe, time: float) -> None:
        saved = self.names.saved.get(DESK)
        if saved is None:
            epoch = self.names.next_epoch(DESK, is_alone=False)
            saved = Saved(body.filter, {}, time, body.owner, epoch=epoch)
        self.names.take(DESK, saved._replace(owner=body.owner))
        self.reader = body.owner
        self.emit(Reply(session.name, cast(Any, dict(saved.cursor))))

    def carry_out(self, session: Session, body: Acknowledge | Errand) -> None:
        raise NotImplementedError

    def done(self, body: Errand) -> str | None:
        raise NotImplementedError

    def withheld(self, message: Move) -> str | None:
        return None

    def given(self, name: str, to: str) -> None:
        self.reader = None

    # -- what happens --------------------------------------------------------------------------

    def seek(self, owner: str) -> None:
        """A client comes."""
        wish = Subscribe("1", Filter.all(), DESK, owner=owner)
        if self.names.has(DESK):
            self.admit(Session(owner, 0), wish, 0.0)
        else:
            self.homes.seek(Session(owner, 0), wish, 0.0)

    def acknowledge(self, tick: int) -> None:
        """Who reads here has dealt with everything up to a tick, and waits until that is kept."""
        saved = self.names.saved[DESK]
        self.names.save(DESK, saved._replace(cursor={"a": tick}))
        self.emit(Reply("acknowledged", cast(Any, tick)))

    def hear(self, sender: str, message: Message) -> None:
        homes, neighbour = self.homes, self.neighbours[sender]
        match message:
            case Seek():
                homes.asked(neighbour, message)  # type: ignore[arg-type]
            case Sought():
                homes.told(neighbour, message)  # type: ignore[arg-type]
            case Move():
                homes.wanted(neighbour, message)  # type: ignore[arg-type]
            case Moved():
                homes.moved(neighbour, message)  # type: ignore[arg-type]

    def commit(self) -> None:
        """All that waits is done, in order: nothing is said before what it follows is kept."""
        waiting, self.waiting = self.waiting, []
        for effect in waiting:
            match effect:
                case Store(key, None):
                    self.disk.pop(key, None)
                case Store(key, value):
                    self.disk[key] = value
                case Reply(owner, Refused()):
                    self.world.asking.discard(owner)
                case Reply("acknowledged", tick):
                    self.world.acknowledged = max(self.world.acknowledged, cast(int, tick))
                case Reply(owner, cursor):
                    self.world.begun(self.name, owner, cast(dict[str, int], cursor))
                case (to, message):
                    self.world.wire.append((self.name, to, message))

    def crash(self, kept: int) -> None:
        """It is gone, with what waits behind some syncs that have come through."""
        batches: list[list[Any]] = [[]]
        for effect in self.waiting:
            batches[-1].append(effect)
            if isinstance(effect, Sync):
                batches.append([])
        self.waiting = [
            effect
            for number, batch in enumerate(batches[:-1])
            for effect in batch
            if number < kept and isinstance(effect, Store)
        ]
        self.commit()
        self.is_up = False


class World:
    """Three nodes and what is on its way between them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.wire: list[tuple[str, str, Message]] = []
        self.acknowledged = 0
        self.asking: set[str] = set()
        self.is_made = False
        self.count = self.tick = 0
        self.moves = 0
        self.places = {name: Place(self, name) for name in NAMES}
        for place in self.places.values():
            place.start()

    def begun(self, at: str, owner: str, cursor: dict[str, int]) -> None:
        """A client is told that it reads, from here on."""
        self.asking.discard(owner)
        self.is_made = True
        self.moves += 1
        assert cursor.get("a", 0) >= self.acknowledged, f"{at} begins at {cursor}"

    def check(self) -> None:
        """It is at one node, and none begins anew."""
        having = [p for p in self.places.values() if self._has(p)]
        assert len(having) <= 1, f"{DESK} is at {[place.name for place in having]}"
        readers = [p.name for p in self.places.values() if p.is_up and p.reader is not None]
        assert len(readers) <= 1, f"{DESK} is read at {readers}"
        known = [(self._epoch(p), self._cursor(p)) for p in self.places.values()]
        latest = max(known, key=lambda each: (each[0], each[1] or -1))
        assert not self.is_made or (latest[1] or 0) >= self.acknowledged, f"{known} is left"
        for place in self.places.values():
            if place.is_up:
                assert not list(place.homes.audit())

    def _has(self, place: Place) -> bool:
        return DESK in place.names.saved if place.is_up else DURABLES.key(DESK) in place.disk

    def _epoch(self, place: Place) -> int:
        if place.is_up:
            return place.names.epoch(DESK)
        found = place.disk.get(DURABLES.key(DESK))
        return found[4] if found else place.disk.get(GONE.key(DESK), ("", 0))[1]

    def _cursor(self, place: Place) -> int | None:
        """How far the name was acknowledged, as far as is known there."""
        if place.is_up and place.names.epoch(DESK):
            return place.names.known(DESK).cursor.get("a", 0)
        if not place.is_up and self._epoch(place):
            gone = place.disk.get(GONE.key(DESK))
            cursor = gone[3] if gone else place.disk.get(CURSORS.key(DESK), {})
            return int(cursor.get("a", 0))
        return None

    # -- what may happen -----------------------------------------------------------------------

    def step(self) -> None:
        random = self.random
        place = self.places[random.choice(NAMES)]
        what = random.choices(
            ("deliver", "commit", "seek", "acknowledge", "crash", "twice", "lose", "cut"),
            (12, 12, 3, 3, 1, 1, 0.5, 0.5),
        )[0]
        if not place.is_up:
            if random.random() < 0.3:
                place.start()
                self._tell_anew(place.name)
        elif what == "commit":
            place.commit()
        elif what == "seek":
            self.count += 1
            place.seek(f"{place.name}{self.count}")
        elif what == "acknowledge" and place.reader is not None:
            self.tick += 1
            place.acknowledge(self.tick)
        elif what == "crash":
            place.crash(random.randrange(3))
            self._tell_anew(place.name)
        elif what == "cut":
            self._tell_anew(place.name)
        elif self.wire and what in ("deliver", "twice", "lose"):
            number = random.randrange(len(self.wire))
            sender, to, message = self.wire[number]
            if what != "twice":
                del self.wire[number]
            if what != "lose" and self.places[to].is_up:
                self.places[to].hear(sender, message)

    def _tell_anew(self, name: str) -> None:
        """Whoever waits for an answer of a node asks again, and the node asks all others."""
        for place in self.places.values():
            if place.is_up:
                place.homes.anew(NAMES if place.name == name else [name])

    def settle(self) -> None:
        """Nothing fails any more."""
        for place in self.places.values():
            if not place.is_up:
                place.start()
        for name in NAMES:
            self._tell_anew(name)
        for _ in range(200):
            for place in self.places.values():
                place.commit()
            if not self.wire:
                break
            sender, to, message = self.wire.pop(0)
            self.places[to].hear(sender, message)
            self.check()


def run(seed: int, steps: int = 150) -> World:
    """Anything happens, and then nothing fails any more."""
    world = World(Random(seed))
    for _ in range(steps):
        world.step()
        world.check()
    world.settle()
    assert not any(place.homes._searches for place in world.places.values())
    for place in world.places.values():
        before = world.moves
        place.seek("last")
        world.settle()
        assert world.moves > before, f"{place.name} does not get it at rest"
        assert world._has(place)
    return world


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, Any], None]:
    return monkeypatch.setattr


@pytest.mark.parametrize("seeds", range(10))
def test_a_name_is_at_one_node_and_loses_nothing_in_any_order(seeds: int) -> None:
    moves = sum(run(seed).moves for seed in range(seeds * 50, seeds * 50 + 50))
    assert moves > 300


def is_caught(seeds: int = 400) -> bool:
    for seed in range(seeds):
        try:
            run(seed)
        except AssertionError:
            return True
    return False


def test_a_name_served_before_that_is_kept(patch: Callable[[Any, str, Any], None]) -> None:
    commit = Place.commit

    def hasty(self: Place) -> None:
        out = [each for each in self.waiting if isinstance(each, Reply)]
        self.waiting = [each for each in self.waiting if not isinstance(each, Reply)]
        commit(self)
        self.waiting = out
        commit(self)

    def unkept(self: Names, name: str, saved: Saved) -> None:
        self.saved[name] = saved
        self.gone.pop(name, None)

    patch(Place, "commit", hasty)
    patch(Names, "take", unkept)
    assert is_caught()


def test_a_late_answer_taken_for_one_that_is_waited_for(
    patch: Callable[[Any, str, Any], None],
) -> None:
    moved = Homes.moved

    def credulous(self: Homes, neighbour: Any, message: Moved) -> None:
        if message.epoch and message.filter is not None and message.number not in self._asked:
            saved = Saved(message.filter, message.cursor, 0.0, "", epoch=message.epoch)
            self._names.take(DESK, saved)
        else:
            moved(self, neighbour, message)

    patch(Homes, "moved", credulous)
    assert is_caught()


def test_a_name_given_without_comparing(patch: Callable[[Any, str, Any], None]) -> None:
    def careless(self: Names, name: str, epoch: int) -> bool:
        return self.epoch(name) > 0

    patch(Names, "can_give", careless)
    assert is_caught()


def test_a_name_given_before_that_is_kept(patch: Callable[[Any, str, Any], None]) -> None:
    give = Names.give

    def unsynced(self: Names, name: str, to: str) -> tuple[int, Saved]:
        found = give(self, name, to)
        place = cast(Place, self._kernel)
        kept = [each for each in place.waiting if not isinstance(each, Store)]
        place.waiting = kept
        return found

    patch(Names, "give", unsynced)
    assert is_caught()


def test_a_denial_that_was_made_before_the_name_was_given(
    patch: Callable[[Any, str, Any], None],
) -> None:
    """The node said that it does not have it, and was given it then."""
    told = Homes.told

    def timeless(self: Homes, neighbour: Any, message: Sought) -> None:
        found = self._asked.get(message.number)
        if found is not None:
            self._asked[message.number] = (found[0], found[1], 1 << 62)
        told(self, neighbour, message)

    patch(Homes, "told", timeless)
    assert is_caught()


def test_a_denial_while_the_name_is_on_its_way(
    patch: Callable[[Any, str, Any], None],
) -> None:
    patch(Homes, "asked", lambda self, neighbour, message: self._answer(neighbour, message))
    assert is_caught()
