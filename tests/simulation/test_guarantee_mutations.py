"""The checks are worth something: each way to lose or repeat an event is caught by some trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.test_guarantees import stale, unadvertised
from tests.simulation.trials import trial
from tidings.node import Append, Node, Store, Sync
from tidings.node.archive import Archive
from tidings.node.deliveries import Deliveries
from tidings.simulation.properties import Violation
from tidings.simulation.trials import play

pytestmark = pytest.mark.slow

Patch = Callable[[type, str, Any], None]


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Patch:
    return monkeypatch.setattr


def is_caught(*args: Any, seeds: range = range(40), part: str = "") -> bool:
    """Whether one of a number of trials fails, and says so with these words."""
    for seed in seeds:
        try:
            play(trial(seed, *args))
        except Violation as violation:
            if part in str(violation):
                return True
    return False


def test_events_delivered_before_they_are_kept(patch: Patch) -> None:
    finish = Node._finish

    def hasty(self: Node) -> list[Any]:
        effects = finish(self)
        kept = [e for e in effects if isinstance(e, Append | Store | Sync)]
        return [e for e in effects if not isinstance(e, Append | Store | Sync)] + kept

    patch(Node, "_finish", hasty)
    assert is_caught("acyclic", "covering", "subscriptions", "crashes")


def test_ways_that_are_not_told_anew_after_the_tree_has_changed(patch: Patch) -> None:
    def silent(self: Deliveries, streams: list[str]) -> None:
        for stream in streams:
            self._resume(self._flow(stream))
        for reader in list(self.readers):
            self._tell_state(reader)

    patch(Deliveries, "_anew", silent)
    assert is_caught("ring", "covering", "subscriptions", "links")


def test_an_interrupted_flow_that_goes_on_as_if_nothing_was(patch: Patch) -> None:
    patch(Deliveries, "_resume", lambda self, flow: self._probe(flow))
    assert is_caught("acyclic", "covering", "subscriptions", "crashes")


def test_readers_that_follow_a_flow_before_it_holds_what_they_want(patch: Patch) -> None:
    patch(Deliveries, "_is_covered", lambda self, flow, filter: flow.is_live)
    assert is_caught("line", "simple", "subscriptions", "none")


def test_silence_believed_while_a_flow_is_broken(patch: Patch) -> None:
    def credulous(self: Deliveries, neighbour: Any, message: Any) -> None:
        for stream, tick in message.upto.items():
            flow = self._flow(stream)
            flow.upto = max(flow.upto, tick)
        self._tell_silence(dict(message.upto), besides=neighbour)

    patch(Deliveries, "silence", credulous)
    assert is_caught("acyclic", "covering", "subscriptions", "crashes", seeds=range(150))


def test_numbers_of_publications_that_are_not_remembered(patch: Patch) -> None:
    patch(Deliveries, "published", lambda self, session: 0)
    assert is_caught("single", "covering", "subscriptions", "links", part="logged")


def test_a_position_that_passes_over_what_was_not_sent_in_one_part(patch: Patch) -> None:
    send_back = Archive._send_back

    def whole(self: Deliveries, fetch: Any, since: int, upto: int, events: Any, **how: Any) -> None:
        send_back(self, fetch, since, self.log.last, events, **how)

    patch(Archive, "_send_back", whole)
    assert is_caught("line", "covering", "subscriptions", "none")


def test_answers_to_what_an_earlier_node_of_the_same_name_asked(patch: Patch) -> None:
    init = Deliveries.__init__

    def from_zero(self: Deliveries, node: Node, span: Any) -> None:
        init(self, node, span)
        self._number = 0

    patch(Deliveries, "__init__", from_zero)
    with pytest.raises(Violation):
        stale()


def test_advertisements_after_which_nothing_is_fetched(patch: Patch) -> None:
    patch(Deliveries, "renew", lambda self, neighbour: None)
    with pytest.raises(Violation):
        unadvertised()


def test_events_no_longer_advertised_that_are_not_fetched(patch: Patch) -> None:
    chooser = Archive._chooser

    def by_tables_alone(self: Deliveries, fetch: Any) -> Any:
        ads, self._node.advertisements = self._node.advertisements, None
        try:
            return chooser(self, fetch)
        finally:
            self._node.advertisements = ads

    patch(Archive, "_chooser", by_tables_alone)
    assert is_caught("star", "covering", "advertisements", "crashes")


def test_positions_saved_that_nobody_has_acknowledged(patch: Patch) -> None:
    tell_state = Deliveries._tell_state

    def hasty(self: Deliveries, reader: Any) -> None:
        is_starting = reader in self._starting
        tell_state(self, reader)
        if is_starting and reader not in self._starting and reader.durable is not None:
            self._save(reader.durable, reader.filter, dict(reader.positions), reader.begun)

    patch(Deliveries, "_tell_state", hasty)
    assert is_caught("single", "covering", "subscriptions", "crashes", part="saved")


def test_progress_told_before_what_was_missed(patch: Patch) -> None:
    patch(Deliveries, "_tell_missed", lambda self, reader: None)
    assert is_caught("single", "covering", "subscriptions", "packets")


def test_a_slow_reader_that_is_forgotten(patch: Patch) -> None:
    def careless(self: Deliveries, session: Any) -> None:
        session.is_full = False

    patch(Deliveries, "drained", careless)
    assert is_caught("line", "covering", "subscriptions", "packets")


def test_stragglers_taken_for_the_flow(patch: Patch) -> None:
    def any_way(self: Deliveries, neighbour: Any, event: Any) -> None:
        filters = self._node.subscriptions.filters(event.notification)
        self._pass_on(event, neighbour, self._flow(event.stream), filters)

    patch(Deliveries, "event", any_way)
    assert is_caught("graph", "flooding", "subscriptions", "links")
