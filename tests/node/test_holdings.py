"""Holdings: what nobody uses is forgotten, after as many days as the node has run since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidings.broker.operations.unused import Unused
from tidings.delivery import FromLog
from tidings.delivery.ages import DAY, FORGOTTEN, HOUR, IDLE
from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import Append, Effect, Request, Span, Store, Sync, Woken
from tidings.protocol.requests import Acknowledge, Attach, Detach, Publish, Subscribe, Unsubscribe


class Host:
    """A node and what it has stored, which can be started again."""

    def __init__(self) -> None:
        self.disk: dict[str, Any] = {}
        self.span = Span()
        self.now = 0.0
        self.start()

    def start(self, time: float = 0.0) -> None:
        self.node = Node("paris", Settings(), stored=self.disk, logs={"paris": self.span})
        self.perform(self.node.start(self.now, time))

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self.disk[effect.key] = effect.value
                if effect.value is None:
                    del self.disk[effect.key]
            elif isinstance(effect, Append):
                last = effect.events[-1]
                self.span = Span(1, last.tick, last.time)

    def ask(self, session: str, *bodies: Any, time: float = 0.0) -> None:
        for body in bodies:
            self.perform(self.node.handle(Request(session, body, time), self.now))

    def days(self, count: int) -> Iterator[int]:
        """Run for so many days, and give each when it is over."""
        for day in range(count):
            for _ in range(DAY):
                self.now += HOUR
                self.perform(self.node.handle(Woken(), self.now))
            yield day + 1

    def run(self, days: int) -> None:
        for _ in self.days(days):
            pass

    @property
    def delivery(self) -> FromLog:
        return self.node.from_log

    @property
    def durables(self) -> set[str]:
        stored = {k.removeprefix("durable:") for k in self.disk if k.startswith("durable:")}
        assert stored == self.delivery.subscriptions.saved.keys()
        return stored

    @property
    def idle(self) -> set[str]:
        return set(self.delivery.subscriptions.names.holdings.idle())


def subscribed(id: str, name: str) -> Subscribe:
    return Subscribe(id, Filter.all(), durable=name, owner="me")


def left(host: Host, *names: str) -> None:
    """Durable subscriptions whose client has gone."""
    host.ask("c", Attach(), *(subscribed(name, name) for name in names), Detach())


def test_what_nobody_uses_is_warned_about_and_then_forgotten() -> None:
    host = Host()
    left(host, "desk/a")
    unused = Unused(host.delivery.subscriptions.names.holdings)
    for day in host.days(FORGOTTEN):
        assert host.idle == ({"desk/a"} if day >= IDLE else set())
        said = unused.look()
        assert ["desk/a" in each for each in said] == [True] * (day == IDLE)
    assert host.durables == {"desk/a"}
    host.run(1)
    assert host.durables == host.idle == set()
    assert not [key for key in host.disk if "desk/a" in key]
    assert [each.startswith("forgot") for each in unused.look()] == [True]
    assert unused.look() == []


def test_to_have_it_open_to_acknowledge_or_to_subscribe_is_to_use_it() -> None:
    host = Host()
    left(host, "desk/acked", "desk/taken", "desk/none")
    host.ask("reader", Attach(), subscribed("1", "desk/open"))
    host.ask("c", Attach())
    for day in host.days(2 * FORGOTTEN):
        if day % 50 == 0:
            host.ask("c", Acknowledge("x", {"paris": 0}, "desk/acked", "me"))
            host.ask("c", subscribed("2", "desk/taken"), Unsubscribe("2"))
    assert host.durables == {"desk/acked", "desk/taken", "desk/open"}


def test_a_restart_makes_nothing_younger_or_older_whatever_the_clock_says() -> None:
    host = Host()
    left(host, "desk/a")
    for _ in range(FORGOTTEN):
        host.run(1)
        host.start(time=1e12)  # some thirty thousand years ahead
        assert host.durables == {"desk/a"}
    assert host.idle == {"desk/a"}
    host.run(1)
    assert host.durables == set()


def test_a_node_that_slept_for_a_year_counts_an_hour() -> None:
    host = Host()
    left(host, "desk/a")
    host.now += 366 * DAY * HOUR
    host.perform(host.node.handle(Woken(), host.now))
    assert host.delivery.subscriptions.names.holdings.hours == 1
    assert host.durables == {"desk/a"}


def test_publishers_are_forgotten_likewise() -> None:
    host = Host()
    said = Publish(1, (Notification({"n": 1}),))
    for name in ("desk/gone", "desk/there"):
        host.ask(name, Attach(instance="i"), said)
    host.ask("desk/gone", Detach())
    host.run(FORGOTTEN)
    assert "publisher:desk/gone" in host.disk
    host.run(1)
    assert "publisher:desk/gone" not in host.disk
    assert host.delivery.publishers.ages.counts == {"desk": 1}
    host.start()
    assert host.delivery.publishers["desk/there"].number == 1


def test_what_is_used_every_day_costs_no_sync() -> None:
    host = Host()
    host.ask("reader", Attach(), subscribed("1", "desk/open"))
    effects = []
    for _ in range(3 * DAY):
        host.now += HOUR
        effects += host.node.handle(Woken(), host.now)
    stored = [e.key for e in effects if isinstance(e, Store) and e.key.startswith("used:")]
    assert stored == ["used:desk/open"] * 3
    assert not [e for e in effects if isinstance(e, Sync)]


def test_one_that_is_forgotten_by_its_name_ends_for_whoever_reads_it() -> None:
    host = Host()
    host.ask("reader", Attach(), subscribed("1", "desk/a"))
    host.ask("other", Attach(), Unsubscribe("k1", forget=True, durable="desk/a"))
    assert host.durables == set()
    assert host.delivery.clients["reader"].readers == {}
    assert host.delivery.subscriptions.names.holdings.durables.counts == {}
