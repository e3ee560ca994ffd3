"""The commits of the simulator: in the order of a broker's, which are tried beside them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest

from tests.broker.peers import on_loop
from tidings.broker import commits as brokers
from tidings.broker.operations.metrics import Metrics
from tidings.broker.store import StoreError
from tidings.events import Notification
from tidings.protocol.epochs import stream_name
from tidings.protocol.host import Append, Effect, Raise, Read, Recall, Reply, Store, Sync
from tidings.protocol.messages import Event
from tidings.protocol.requests import Accepted
from tidings.simulation.commits import Commits
from tidings.simulation.store import MemoryStore


class Recorder(MemoryStore):
    """A store that remembers in what order it was written, and what was said in between."""

    def __init__(self) -> None:
        super().__init__("b0")
        self.done: list[Any] = []

    def commit(self, values: Any, events: Any, publishers: Any = ()) -> None:
        super().commit(values, events)
        if values or events:
            self.done.append(("kept", dict(values), list(events)))

    def raise_epoch(self, stream: str = "", **_: Any) -> str:
        stream = stream_name("b0", len(self.logs) + 1)
        super().raise_epoch(stream)
        self.done.append(("raised", stream))
        return stream

    def say(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self.done.append(("said", [effect]))
            else:
                self.done.append(("read", effect))


class Simulated:
    """Commits that take a second, in virtual time."""

    def __init__(self, random: Random | None = None) -> None:
        self.store = Recorder()
        self.now = 0.0
        self.crashes = 0
        self.problems: list[Exception] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._entered = 0
        self.commits = Commits(
            self.store,
            random or Random(1),
            seconds=lambda: 1.0,
            later=self._later,
            carry_out=self.store.say,
            distrust=self.problems.append,
            crash=self.crash,
        )

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._entered += 1
        heappush(self._queue, (self.now + seconds, self._entered, what))

    def crash(self) -> None:
        self.crashes += 1
        self.commits.stop()

    def run(self, until: float) -> list[Any]:
        """Let time pass; what was done."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, what = heappop(self._queue)
            what()
        self.now = until
        done, self.store.done = self.store.done, []
        return done

    def end(self) -> list[Any]:
        """The commit that is under way is over; one that has failed has just begun again."""
        before = self.commits._committing
        done = self.run(self.now + 0.5)
        if before is not None and self.commits._committing is before:
            done += self.run(self.now + 1.0)
        return done

    def turn(self, *effects: Effect) -> list[Any]:
        """The node wants this done, and nothing else happens at the same time."""
        self.commits.gather(list(effects))
        return self.run(self.now)


def say(number: int, session: str = "ann") -> Reply:
    return Reply(session, Accepted(str(number)))


def event(tick: int, stream: str = "b0") -> Event:
    return Event(stream, tick, Notification({"n": tick}))


def test_what_follows_a_sync_is_said_once_it_is_kept() -> None:
    sim = Simulated()
    assert sim.turn(say(1)) == [("said", [say(1)])]
    assert sim.turn(Append((event(1),)), Store("k", 1), Sync(), say(2)) == []
    assert sim.turn(say(3)) == [], "nothing overtakes"
    kept, second, third = sim.run(2.0)
    assert kept == ("kept", {"k": 1}, [event(1)])
    assert (second, third) == (("said", [say(2)]), ("said", [say(3)]))


def test_one_commit_is_under_way_at_a_time_and_the_next_is_for_all_that_came_meanwhile() -> None:
    sim = Simulated()
    sim.turn(Store("a", 1), Sync())
    sim.turn(Store("b", 1), Sync())
    sim.turn(Store("b", 2), Sync())
    assert sim.commits.versions("b") == [None, 2]
    assert sim.run(9.0) == [("kept", {"a": 1}, []), ("kept", {"b": 2}, [])]
    assert sim.commits.is_settled


def test_what_nobody_waits_for_is_kept_a_little_later() -> None:
    sim = Simulated()
    assert sim.turn(Store("a", 1), say(1)) == [("said", [say(1)])]
    assert sim.run(0.05) == []
    assert sim.run(2.0) == [("kept", {"a": 1}, [])]


def test_a_commit_that_fails_is_tried_again_and_nobody_is_told_before() -> None:
    for is_kept in (False, True):
        sim = Simulated()
        sim.store.failures = [is_kept]
        sim.turn(Append((event(1),)), say(1))
        done = sim.run(1.0)
        assert [what for what, _ in [d[:2] for d in done]] == ["kept"] * is_kept
        done += sim.run(9.0)
        assert done == [("kept", {}, [event(1)]), ("said", [say(1)])]


def test_a_crash_keeps_all_of_a_commit_or_nothing_and_says_nothing() -> None:
    kept = set()
    for seed in range(20):
        sim = Simulated(Random(seed))
        sim.commits.crash_within(1)
        sim.turn(say(0))
        sim.turn(Append((event(1),)), Store("k", 1), say(1))
        sim.run(9.0)
        assert sim.crashes == 1
        kept.add((len(sim.store.log), sim.store.content.get("k")))
        assert not any(what == "said" for what, *_ in sim.store.done)
    assert kept == {(0, None), (1, 1)}


def test_a_crash_while_a_batch_is_let_go_leaves_the_rest_of_it_unsaid() -> None:
    sim = Simulated()
    sim.commits.crash_within(3)
    sim.turn(Store("k", 1), Sync(), say(1), say(2))
    assert sim.run(9.0) == [("kept", {"k": 1}, []), ("said", [say(1)])]
    assert sim.crashes == 1


def test_events_that_do_not_follow_on_the_log_are_found_when_they_are_to_be_kept() -> None:
    sim = Simulated()
    sim.turn(Append((event(2),)))
    assert not sim.problems
    sim.run(2.0)
    assert len(sim.problems) == 1


# -- beside a broker ---------------------------------------------------------------------------


class Held(brokers.Commits):
    """Commits that are over when they are told so."""

    failures: deque[bool]

    def __init__(self, store: Recorder, outlets: dict[str, Any]) -> None:
        self.failures = deque()
        self.is_held = threading.Event()
        self.may_end = threading.Semaphore(0)
        self.ended = 0
        read = lambda effect: store.say([effect])  # noqa: E731
        super().__init__(store, Metrics(), read=read, distrust=lambda problem: None)  # type: ignore[arg-type]
        self.outlets = outlets

    def _write(self, batch: brokers.Bundle) -> None:
        fails = bool(self.failures) and self.failures.popleft()
        self.is_held.set()
        self.may_end.acquire()
        if fails:
            raise StoreError("the disk is on fire")
        super()._write(batch)

    def _committed(self, *about: Any) -> None:
        super()._committed(*about)
        self.ended += 1

    def perform(self, effects: list[Effect]) -> None:
        """As the host does."""
        performers = {
            Store: self.store,
            Append: self.append,
            Raise: self.raise_epoch,
            Sync: self.sync,
            Read: self.read,
            Recall: self.read,
            Reply: lambda effect: self.out(self.outlets[effect.session], effect),
        }
        for effect in effects:
            performers[effect.__class__](effect)  # type: ignore[operator]
        self.gathered(len(effects))

    async def rest(self) -> None:
        """Until nothing happens without being told so."""
        for _ in range(3):
            await asyncio.sleep(0)
        while self.is_committing and not self.is_held.is_set():
            await asyncio.sleep(0.0005)

    async def end(self) -> None:
        """The commit that is under way is over."""
        ended = self.ended
        self.is_held.clear()
        self.may_end.release()
        while self.ended == ended:
            await asyncio.sleep(0.0005)
        await self.rest()


class Outlet:
    def __init__(self, store: Recorder) -> None:
        self._store = store

    def send(self, messages: list[Any]) -> None:
        self._store.say(messages)


class Even(Random):
    """Every commit takes half a second, and one that fails writes nothing."""

    def random(self) -> float:
        return 0.5

    def randrange(self, *_: Any, **__: Any) -> int:
        return 0


def draw(random: Random, spans: dict[str, int], count: int) -> list[Effect]:
    """What a node may want done for one input."""
    effects: list[Effect] = []
    for _ in range(random.randint(1, 4)):
        stream = list(spans)[-1]
        match random.choice(("store", "append", "raise", "sync", "read", "recall", "say", "say")):
            case "store":
                effects.append(Store(random.choice("abc"), random.choice((None, count))))
            case "append":
                spans[stream] += 1
                effects.append(Append((event(spans[stream], stream),)))
            case "raise":
                spans[stream_name("b0", len(spans) + 1)] = 0
                effects.append(Raise(list(spans)[-1], "test"))
            case "sync":
                effects.append(Sync())
            case "read":
                effects.append(Read(count, "b0", 0, 0.0, 3))
            case "recall":
                effects.append(Recall(count))
            case _:
                effects.append(say(count, random.choice(("ann", "bob"))))
    return effects


@pytest.mark.parametrize("seed", range(10))
@on_loop
async def test_everything_is_done_in_the_order_in_which_a_broker_does_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.broker.commits._RETRY", 0.0)
    for module in ("broker.commits", "simulation.commits"):
        monkeypatch.setattr(f"tidings.{module}._LAZY", 1e6)
    random, spans = Random(seed), {"b0": 0}
    simulated, store = Simulated(Even()), Recorder()
    real = Held(store, {"ann": Outlet(store), "bob": Outlet(store)})
    done: list[Any] = []
    for count in range(80):
        match random.choice(("turn", "turn", "turn", "end", "end", "fail")):
            case "turn":
                effects = draw(random, spans, count)
                real.perform(effects)
                await real.rest()
                done += simulated.turn(*effects)
            case "end":
                if real.is_committing:
                    await real.end()
                    done += simulated.end()
            case _:
                real.failures.append(True)
                simulated.store.failures.append(False)
        assert by_session(done) == by_session(store.done), f"step {count}"
        assert real.is_committing is (simulated.commits._committing is not None)
    real.may_end.release(100)
    await real.close()
    assert {what for what, *_ in done} >= {"kept", "said", "read", "raised"}


def by_session(done: list[Any]) -> list[Any]:
    """The same, without the order in which several sessions were told something at once."""
    found: list[Any] = []
    for what, *about in done:
        if what != "said":
            found.append((what, *about))
            continue
        if not found or found[-1][0] != "said":
            found.append(("said", {}))
        for effect in about[0]:
            found[-1][1].setdefault(effect.session, []).append(effect)
    return found
