"""Ids are kept once, remembered for their window, and answered with their first place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery import ids as module
from tidings.delivery.ids import HOURS, IDS, Ids, Place, digest_of
from tidings.events import Notification
from tidings.node import Node, Settings
from tidings.protocol.host import Append, Reply, Request, Span, Store
from tidings.protocol.requests import Attach, Publish, Refused

LOGGED = Settings(at_most_once=False)


class Disk:
    """What is stored, and what of it would be found by the next one."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}

    def keep(self, changes: list[Store]) -> None:
        for change in changes:
            if change.value is None:
                del self.content[change.key]
            else:
                self.content[change.key] = tuple(change.value)


WHOSE = st.sampled_from(["desk", "a:b"])
DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("keep"), WHOSE, st.lists(st.integers(0, 60), max_size=9, unique=True)),
        st.tuples(st.just("hours"), st.integers(1, 30), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    max_size=60,
)


@given(DOINGS)
def test_an_id_is_found_for_its_window_and_never_under_another_place(doings: list[Any]) -> None:
    """Against a list of all that was ever kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", 20)
        patch.setattr(module, "_PAGE", 4)
        patch.setattr(module, "_YOUNG", 5)
        ids, disk = Ids(), Disk()
        ever: list[tuple[str, int, Place, int]] = []
        hour = tick = 0
        for what, about, numbers in doings:
            if what == "keep":
                kept = []
                for number in numbers:
                    tick += 1
                    place = Place(("paris", "paris~2")[tick % 2], tick, float(tick))
                    kept.append((digest_of(str(number)), place))
                    ever.append((about, number, place, hour))
                disk.keep(ids.keep(about, kept, hour=hour) if kept else [])
            elif what == "hours":
                hour += about
                disk.keep(ids.pass_hour(hour))
            else:
                ids = Ids()
                ids.restore(disk.content)
            assert ids.stored() == disk.content
            assert list(ids.audit()) == []
            check(ids, ever, hour)


def check(ids: Ids, ever: list[tuple[str, int, Place, int]], hour: int) -> None:
    for whose in ("desk", "a:b"):
        own = [each for each in ever if each[0] == whose]
        for number in range(61):
            places = [(at, p, h) for at, (_, n, p, h) in enumerate(own) if n == number]
            found = ids.find(whose, digest_of(str(number)))
            if not places:
                assert found is None
                continue
            at, place, kept_at = places[-1]
            assert found in (None, place), "the last of several is what counts"
            is_young = len(own) - at <= 20 and hour - kept_at <= HOURS
            is_old = hour - kept_at > HOURS or len(own) - at > 20 + 2 * 4
            assert not (is_young and found is None)
            assert not (is_old and found is not None)


def test_ids_are_their_principals() -> None:
    ids = Ids()
    ids.keep("desk", [(digest_of("7"), Place("paris", 1, 1.0))], hour=0)
    assert ids.find("desk", digest_of("7")) == Place("paris", 1, 1.0)
    assert ids.find("shop", digest_of("7")) is None


# -- a node ------------------------------------------------------------------------------------


class World:
    """A node whose disk keeps all or nothing of what one request leads to, and an oracle."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self.log: list[Any] = []
        self.kept: dict[str, int] = {}
        """The tick of each id."""
        self.now = 0.0
        self.start()

    def start(self) -> None:
        time = self.log[-1].time if self.log else 0.0
        self.node = Node(
            "paris",
            LOGGED,
            stored=self.content,
            logs={"paris": Span(1, len(self.log), time)},
        )
        self.perform(self.node.start(self.now))
        self.attach("desk/a")
        self.attach("desk/b")
        self.attach("shop/a")

    def attach(self, name: str) -> None:
        self.perform(self.node.handle(Request(name, Attach()), self.now))

    def perform(self, effects: list[Any], *, is_lost: bool = False) -> list[Any]:
        for effect in [] if is_lost else effects:
            if isinstance(effect, Store):
                if effect.value is None:
                    self.content.pop(effect.key, None)
                else:
                    self.content[effect.key] = effect.value
            elif isinstance(effect, Append):
                self.log += effect.events
        return [] if is_lost else [e.answer for e in effects if isinstance(e, Reply)]

    def publish(self, name: str, ids: list[str], *, is_whole: bool, is_lost: bool) -> None:
        self.now += 1.0
        before = len(self.log)
        number = self.node.from_log.publishers[name].number + 1
        said = tuple(Notification({"id": id or "none", "n": n}) for n, id in enumerate(ids))
        body = Publish(number, said, is_whole, tuple(ids))
        answers = self.perform(self.node.handle(Request(name, body), self.now), is_lost=is_lost)
        if is_lost:
            assert len(self.log) == before
            self.start()
            return
        assert not any(isinstance(answer, Refused) for answer in answers)
        whose = name.partition("/")[0]
        places = {n: run.tick + n - run.number for run in answers[-1].kept for n in _numbers(run)}
        new = []
        for n, id in enumerate(ids):
            key = f"{whose} {id}"
            if not id or key not in self.kept:
                new.append(n)
                if id:
                    self.kept[key] = before + len(new)
                assert places[number + n] == before + len(new)
            else:
                assert places[number + n] == self.kept[key]
        assert [event.notification["n"] for event in self.log[before:]] == new


def _numbers(run: Any) -> range:
    return range(run.number, run.number + run.count)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["desk/a", "desk/b", "shop/a"]),
            st.lists(st.sampled_from(["", "", "x", "y", "z", "w"]), min_size=1, max_size=5),
            st.booleans(),
            st.sampled_from(["keep", "keep", "lose", "restart"]),
        ),
        max_size=12,
    )
)
def test_what_has_an_id_is_in_the_log_once_and_its_first_place_is_answered(doings: Any) -> None:
    world = World()
    for name, ids, is_whole, what in doings:
        world.publish(name, ids, is_whole=is_whole, is_lost=what == "lose")
        if what == "restart":
            world.start()


def test_ids_are_stored_with_the_events_in_one_go_before_the_answer() -> None:
    world = World()
    body = Publish(1, (Notification({"n": 1}),), ids=("x",))
    effects = world.node.handle(Request("desk/a", body), 1.0)
    kinds = [type(effect).__name__ for effect in effects]
    stored = [e.key for e in effects[: kinds.index("Sync")] if isinstance(e, Store)]
    assert kinds.index("Append") < kinds.index("Sync") < kinds.index("Reply")
    assert any(key.startswith(IDS.kind) for key in stored)


def test_ids_are_forgotten_after_their_window() -> None:
    world = World()
    world.publish("desk/a", ["x"], is_whole=False, is_lost=False)
    for hour in range(HOURS + 2):
        world.perform(world.node.handle(_woken(), world.now + 3600.0 * (hour + 1)))
    world.now += 3600.0 * (HOURS + 3)
    assert not any(key.startswith(IDS.kind) for key in world.content)
    world.kept.clear()
    world.publish("desk/b", ["x"], is_whole=False, is_lost=False)
    assert len(world.log) == 2


def _woken() -> Any:
    from tidings.protocol.host import Woken

    return Woken()
