"""The checks are worth something: each way to lose or repeat an event is caught by some trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.runs import Patch, scenario
from tests.simulation.shrinking import play
from tests.simulation.test_guarantees import (
    PAIR,
    SINGLE,
    failing,
    join,
    publish,
    restarted,
    script,
    spoilt,
    stale,
    straggling,
    subscribe,
    trimmed,
    unadvertised,
    unreached,
)
from tests.simulation.test_homes import made_at_once
from tidings.delivery import FromLog, subscriptions
from tidings.delivery.fetching import Fetching
from tidings.delivery.homes import Homes
from tidings.delivery.logs import Logs
from tidings.delivery.names import Names
from tidings.delivery.publishers import Publisher, Publishers
from tidings.delivery.publishing import Publishing
from tidings.delivery.reading import Reading
from tidings.delivery.refusals import Refusals
from tidings.delivery.streams import Known
from tidings.delivery.subscriptions import Subscriptions
from tidings.delivery.telling import Telling
from tidings.node import Node
from tidings.protocol.host import Damaged, Deliver, Recall, Recalled, Reply, Send, Sync
from tidings.protocol.requests import Accepted, Kept, Missed
from tidings.routing.exchange import Exchange
from tidings.routing.watches import Watches
from tidings.simulation.commits import Commits
from tidings.simulation.guarantees import Violation
from tidings.simulation.scenario import Step

pytestmark = pytest.mark.slow


def is_caught(*args: Any, seeds: range = range(40), part: str = "") -> bool:
    """Whether one of a number of trials fails, and says so with these words."""
    for seed in seeds:
        try:
            play(scenario(seed, *args))
        except Violation as violation:
            if part in str(violation):
                return True
    return False


def hasty(*kinds: type) -> Callable[[Commits, list[Any]], None]:
    """A host that does at once what is to wait for a commit."""
    gather = Commits.gather

    def gather_and_do(self: Commits, effects: list[Any]) -> None:
        gather(self, effects)
        for row in (self._batch.out, self._batch.reads):
            self._carry_out([effect for effect in row if isinstance(effect, kinds)])
            row[:] = [effect for effect in row if not isinstance(effect, kinds)]

    return gather_and_do


def test_events_delivered_before_they_are_kept(patch: Patch) -> None:
    patch(Commits, "gather", hasty(Deliver, Send))
    assert is_caught("acyclic", "covering", "subscriptions", "crashes", part="not in the log")


def test_answers_given_before_what_they_promise_is_kept(patch: Patch) -> None:
    patch(Commits, "gather", hasty(Reply))
    assert is_caught("single", "covering", "subscriptions", "none", part="and logged")


def test_a_disk_compared_with_a_node_before_it_holds_what_that_knows(patch: Patch) -> None:
    patch(Commits, "gather", hasty(Recall))
    assert is_caught("single", "covering", "subscriptions", "none", part="in the store")


def test_a_node_that_does_not_say_what_is_to_be_kept_first(patch: Patch) -> None:
    """What is published is committed all the same, but nothing else."""
    finish = Node._finish
    patch(Node, "_finish", lambda self: [e for e in finish(self) if not isinstance(e, Sync)])
    seeds = range(150)
    assert is_caught(
        "single", "covering", "subscriptions", "crashes", seeds=seeds, part="is refused"
    )


def test_a_commit_that_has_failed_taken_for_one_that_has_not(patch: Patch) -> None:
    patch(Commits, "_failed", Commits._committed)
    assert is_caught("single", "covering", "subscriptions", "crashes", part="and logged")


def test_a_commit_that_is_tried_again_as_if_nothing_of_it_were_kept(patch: Patch) -> None:
    def forgetful(self: Commits) -> None:
        assert self._committing is not None
        for transaction in self._committing.transactions:
            try:
                transaction.write(self._store)
            except Damaged as problem:
                self._distrust(problem)

    patch(Commits, "_write", forgetful)
    assert is_caught("single", "covering", "subscriptions", "crashes", part="cannot follow")


def test_an_earlier_answer_of_a_slow_disk_compared_with_what_is_known_later(patch: Patch) -> None:
    recalled = Node._recalled

    def credulous(self: Node, input: Recalled) -> None:
        recalled(self, replace(input, number=self._recalls))

    patch(Node, "_recalled", credulous)
    with pytest.raises(Violation, match="in the store"):
        failing()


def test_ways_that_are_not_told_anew_after_the_tree_has_changed(patch: Patch) -> None:
    def silent(self: Reading, streams: list[str]) -> None:
        for stream in streams:
            self.resume(self.flow(stream))
        for reader in list(self.readers):
            self.telling.state(reader)

    patch(Reading, "anew", silent)
    assert is_caught("ring", "covering", "subscriptions", "links")


def test_an_interrupted_flow_that_goes_on_as_if_nothing_was(patch: Patch) -> None:
    patch(Reading, "resume", lambda self, flow: self._probe(flow))
    assert is_caught("acyclic", "covering", "subscriptions", "crashes")


def test_readers_that_follow_a_flow_before_it_holds_what_they_want(patch: Patch) -> None:
    patch(Reading, "_is_covered", lambda self, flow, filter: flow.is_live)
    assert is_caught("line", "simple", "subscriptions", "none")


def test_silence_believed_while_a_flow_is_broken(patch: Patch) -> None:
    def credulous(self: FromLog, neighbour: Any, message: Any) -> None:
        for stream, tick in message.upto.items():
            flow = self.reading.flow(stream)
            flow.upto = max(flow.upto, tick)
        self._tell_silence(dict(message.upto), {}, besides=neighbour)

    patch(FromLog, "_silence", credulous)
    assert is_caught("acyclic", "covering", "subscriptions", "crashes", seeds=range(150))


def test_numbers_of_publications_that_are_not_remembered(patch: Patch) -> None:
    def forgetful(
        self: Publishers, name: str, number: int, kept: Iterable[Kept] = (), *, day: int
    ) -> Publisher:
        return keep(self, name, 0, kept, day=day)

    keep = Publishers.keep
    patch(Publishers, "keep", forgetful)
    assert is_caught("single", "covering", "subscriptions", "links", part="logged")


def test_a_zombie_that_is_told_what_is_kept_of_its_successor(patch: Patch) -> None:
    def hospitable(self: Publishers, name: str, instance: str, epoch: int, *, day: int) -> int:
        return epoch or 1

    patch(Publishers, "claim", hospitable)
    assert is_caught("single", "covering", "subscriptions", "links", part="accepted")


def test_a_successor_that_a_crash_makes_unknown(patch: Patch) -> None:
    def careless(self: Publishing, name: str, body: Any) -> int | None:
        return self.publishers.claim(name, body.instance, body.epoch, day=0)

    patch(Publishing, "claim", careless)
    assert is_caught("single", "covering", "subscriptions", "crashes", part="epoch")


def test_a_position_that_passes_over_what_was_not_sent_in_one_part(patch: Patch) -> None:
    send_back = Logs._send_back

    def whole(self: Logs, fetch: Any, since: int, upto: int, events: Any, **how: Any) -> None:
        send_back(self, fetch, since, self.log.last, events, **how)

    patch(Logs, "_send_back", whole)
    assert is_caught("line", "covering", "subscriptions", "none")


def test_answers_to_what_an_earlier_node_of_the_same_name_asked(patch: Patch) -> None:
    init = Fetching.__init__

    def from_zero(self: Fetching, *everything: Any) -> None:
        init(self, *everything)
        self._number = 0

    patch(Fetching, "__init__", from_zero)
    with pytest.raises(Violation):
        stale()


def test_advertisements_after_which_nothing_is_fetched(patch: Patch) -> None:
    patch(FromLog, "advertised", lambda self, neighbour, has_grown: None)
    with pytest.raises(Violation):
        unadvertised()


def moved_on(seed: int) -> None:
    """Somebody publishes at a broker that cannot be heard, and has moved away when it can."""
    script(
        {"nodes": ["b0", "b1", "b2"], "links": [["b0", "b1", 0.01, 1.0], ["b0", "b2", 0.01, 1.0]]},
        join("c0", "b0"),
        join("c2", "b2"),
        Step(0.5, "advertise", client="c0", id="a", filter="TRUE"),
        subscribe(3.0, "c2", "x = 1"),
        Step(14.0, "mute", node="b0", to="b1"),
        Step(16.0, "hop", client="c0", node="b1"),
        publish(17.0, "c0", x=1),
        Step(17.4, "hop", client="c0", node="b0"),
        seed=seed,
        advertisements="covering",
        tree=True,
    )


def test_events_no_longer_advertised_that_are_not_fetched(patch: Patch) -> None:
    moved_on(0)
    patch(Exchange, "told_advertised", lambda self, neighbour: None)
    with pytest.raises(Violation, match="has not heard"):
        moved_on(0)


def test_positions_saved_that_nobody_has_acknowledged(patch: Patch) -> None:
    def hasty(self: Subscriptions, reader: Any) -> None:
        if reader.durable is not None:
            saved = self.saved[reader.durable]
            self.names.save(reader.durable, saved._replace(cursor=dict(reader.positions)))

    patch(Subscriptions, "started", hasty)
    assert is_caught("single", "covering", "subscriptions", "crashes", part="saved")


def test_progress_told_before_what_was_missed(patch: Patch) -> None:
    patch(Telling, "missed", lambda self, reader: None)
    assert is_caught("single", "covering", "subscriptions", "packets")


@pytest.mark.parametrize(
    ("count", "lost", "filter"),
    [(1, 0, "x = 2"), (0, 0, "x = 1")],
    ids=["ticks counted as events", "lost ticks left unsaid"],
)
def test_a_wrong_account_of_what_is_no_longer_kept(
    patch: Patch, count: int, lost: int, filter: str
) -> None:
    patch(Telling, "missed", telling(count=count, lost=lost))
    with pytest.raises(Violation):
        trimmed(filter)


def test_one_event_too_many_told_as_missed(patch: Patch) -> None:
    patch(Telling, "missed", telling(count=0, lost=1, more=1))
    assert is_caught("line", "covering", "subscriptions", "packets", part="told Missed")


def test_a_reader_of_what_is_damaged_that_is_told_nothing(patch: Patch) -> None:
    patch(Logs, "unreadable", lambda self, input: None)
    with pytest.raises(Violation):
        spoilt()


def test_a_reader_that_is_sent_on_too_far_behind_what_is_damaged(patch: Patch) -> None:
    unreadable = Logs.unreadable

    def generous(self: Logs, input: Any) -> None:
        unreadable(self, replace(input, upto=self.log.last))

    patch(Logs, "unreadable", generous)
    with pytest.raises(Violation, match="is to go on at"):
        spoilt()


def telling(*, count: int, lost: int, more: int = 0) -> Callable[[Telling, Any], None]:
    """Tell a reader what it has missed: lost ticks as events, or not at all, or more than that."""

    def tell(self: Telling, reader: Any) -> None:
        if reader.missed or reader.lost:
            said = reader.missed + count * reader.lost + more
            self.reply(reader, Missed(reader.id, said, self.cursor(reader), lost * reader.lost))
            reader.missed = reader.lost = 0

    return tell


def test_a_slow_reader_that_is_forgotten(patch: Patch) -> None:
    def careless(self: Reading, client: Any) -> None:
        client.is_full = False

    patch(Reading, "drained", careless)
    assert is_caught("line", "covering", "subscriptions", "packets")


def test_stragglers_taken_for_the_flow(patch: Patch) -> None:
    def any_way(self: FromLog, neighbour: Any, event: Any) -> None:
        filters = self._wants.filters(event.notification)
        self._pass_on(event, neighbour, self.reading.flow(event.stream), filters)

    patch(FromLog, "_event", any_way)
    assert any(fails_with(straggling, seed) for seed in range(4))


def test_durable_names_that_nobody_else_is_asked_for(patch: Patch) -> None:
    patch(Homes, "_go_on", lambda self, search: self._let_in(search))
    assert is_caught("line", "covering", "subscriptions", "none", part="is let in at")


def test_two_that_make_a_durable_name_at_once(patch: Patch) -> None:
    make = Homes._make

    def rash(self: Homes, search: Any, latest: int) -> None:
        search.first = ""
        make(self, search, latest)

    patch(Homes, "_make", rash)
    with pytest.raises(Violation, match="s1 is let in at"):
        made_at_once()


def test_a_durable_name_that_is_not_asked_for_again_when_the_way_changes(patch: Patch) -> None:
    patch(Homes, "anew", lambda self, streams: None)
    assert is_caught("line", "covering", "subscriptions", "links")


def fails_with(script: Callable[[int], None], seed: int) -> bool:
    try:
        script(seed)
    except Violation:
        return True
    return False


def test_clocks_that_decide_where_a_subscription_begins(patch: Patch) -> None:
    patch(Telling, "_begin_out_of_reach", lambda self, reader: None)
    assert any(fails_with(unreached, seed) for seed in range(6))


def test_a_node_that_forgets_how_far_streams_are(patch: Patch) -> None:
    patch(Known, "restore", lambda self, stream, stored: None)
    assert any(fails_with(restarted, seed) for seed in range(12))


def begun(seed: int) -> None:
    """Events are published far away while a subscription begins."""
    script(
        {"nodes": ["b0", "b1", "b2"], "links": [["b0", "b1", 0.3, 1.0], ["b1", "b2", 0.3, 1.0]]},
        join("c0", "b0"),
        join("c2", "b2"),
        subscribe(5.0, "c0", "TRUE"),
        *(publish(4.9 + n / 10, "c2", x=n) for n in range(20)),
        seed=seed,
    )


def test_a_subscription_accepted_before_it_has_begun_everywhere(patch: Patch) -> None:
    def rash(self: Telling, reader: Any) -> None:
        if reader in self.starting:
            del self.starting[reader]
            self.reply(reader, Accepted(reader.id, cursor=self.cursor(reader), begun=reader.begun))
        state(self, reader)

    state = Telling.state
    begun(0)
    patch(Telling, "state", rash)
    assert any(fails_with(begun, seed) for seed in range(4))


# -- what publishers are told ------------------------------------------------------------------


def test_refusals_that_are_not_told_to_who_may_not_have_heard_of_them(patch: Patch) -> None:
    patch(Refusals, "of", lambda self, name: [])
    seeds = range(200)
    assert is_caught(
        "single", "covering", "advertisements", "crashes", seeds=seeds, part="for kept, which"
    )


def test_refusals_that_a_crash_makes_unknown(patch: Patch) -> None:
    patch(Refusals, "kept", lambda self, name, number: [])
    seeds = range(200)
    assert is_caught(
        "single", "covering", "advertisements", "crashes", seeds=seeds, part="for kept, which"
    )


def test_publications_kept_that_were_not_advertised(patch: Patch) -> None:
    is_for_all = Exchange.is_for_all

    def lax(self: Exchange, session: Any, notification: Any, *, enforce: bool) -> bool | None:
        return is_for_all(self, session, notification, enforce=False)

    patch(Exchange, "is_for_all", lax)
    assert is_caught("single", "covering", "advertisements", "none", part="not advertised")


# -- what is no longer there -------------------------------------------------------------------


def test_more_told_as_lost_than_is(patch: Patch) -> None:
    def tell(self: Telling, reader: Any) -> None:
        if reader.missed or reader.lost:
            said = Missed(reader.id, reader.missed, self.cursor(reader), reader.lost + 1)
            self.reply(reader, said)
            reader.missed = reader.lost = 0

    patch(Telling, "missed", tell)
    assert is_caught("line", "covering", "subscriptions", "packets", part="no longer kept")


def test_a_watch_that_is_not_told_of_the_last_who_leaves(patch: Patch) -> None:
    def grow(self: Watches, change: Any) -> None:
        for key, filter_ in self._all():
            if any(added.overlaps(filter_) for added in change.added):
                self._set(key, True)

    patch(Watches, "wants_changed", grow)
    seeds = range(150)
    assert is_caught(
        "single", "covering", "subscriptions", "links", seeds=seeds, part="is wanted: True"
    )


def test_a_watch_that_goes_on_after_its_end(patch: Patch) -> None:
    patch(Watches, "_unwatch", lambda self, session, body, time: None)
    assert is_caught("single", "covering", "subscriptions", "none", part="which is over")


# -- durable names -----------------------------------------------------------------------------


def test_a_durable_name_that_is_not_forgotten(patch: Patch) -> None:
    patch(Subscriptions, "_forget", lambda self, name: None)
    assert is_caught("single", "covering", "subscriptions", "none", part="says that")


def forgotten(seed: int) -> None:
    """A durable name is forgotten, its broker crashes, and somebody makes it anew."""
    script(
        SINGLE,
        join("c0", "b0"),
        join("c1", "b0"),
        subscribe(1.0, "c0", "TRUE", durable="d"),
        Step(3.0, "unsubscribe", client="c0", id="s1", forget=True),
        Step(3.1, "crash", node="b0"),
        Step(3.2, "restart", node="b0"),
        subscribe(6.0, "c1", "TRUE", durable="d"),
        seed=seed,
    )


def test_a_durable_name_that_a_crash_brings_back(patch: Patch) -> None:
    unsubscribe = Subscriptions.unsubscribe

    def unsynced(node: Node, effect: Any) -> None:
        if not isinstance(effect, Sync):
            emit(node, effect)

    def hasty(self: Subscriptions, session: Any, body: Any, time: float) -> None:
        patch(Node, "emit", unsynced)
        unsubscribe(self, session, body, time)
        patch(Node, "emit", emit)

    emit = Node.emit
    forgotten(0)
    patch(Subscriptions, "unsubscribe", hasty)
    assert any(fails_with(forgotten, seed) for seed in range(12))


def resurrected(seed: int) -> None:
    """A durable name is taken and forgotten while the connection of who had it is down."""
    script(
        SINGLE,
        join("c0", "b0"),
        join("c1", "b0"),
        subscribe(1.0, "c0", "TRUE", durable="d"),
        Step(3.0, "hang", client="c0"),
        subscribe(3.01, "c1", "TRUE", durable="d"),
        Step(3.02, "unsubscribe", client="c1", id="s1", forget=True),
        seed=seed,
    )


def test_a_durable_name_that_goes_on_though_it_was_forgotten(patch: Patch) -> None:
    def hospitable(saved: Any, body: Any) -> str | None:
        return None if saved is None else unlike(saved, body)

    unlike = subscriptions._unlike
    for seed in range(6):
        resurrected(seed)
    patch(subscriptions, "_unlike", hospitable)
    assert any(fails_with(resurrected, seed) for seed in range(6))


def acknowledged_again(seed: int) -> None:
    """What was acknowledged before comes once more, after something later."""
    script(
        SINGLE,
        join("c0", "b0"),
        join("c1", "b0"),
        subscribe(1.0, "c0", "x = 1", durable="d", since="begin"),
        Step(2.0, "ack", client="c0", number=1),
        publish(3.0, "c1", x=1),
        Step(4.0, "ack", client="c0"),
        Step(5.0, "ack", client="c0", number=1),
        subscribe(6.0, "c1", "x = 1", durable="d"),
        seed=seed,
    )


def test_acknowledgements_that_set_a_cursor_back(patch: Patch) -> None:
    acknowledged_again(0)
    patch(subscriptions, "_later", lambda one, other: {**one, **other})
    with pytest.raises(Violation, match="has forgotten"):
        acknowledged_again(0)


def test_a_durable_name_made_though_somebody_may_have_it_who_cannot_be_asked(patch: Patch) -> None:
    patch(Homes, "_unasked", lambda self, search: [])
    assert is_caught("line", "covering", "subscriptions", "links", part="is let in at")


def test_a_durable_name_given_whatever_its_epoch_is(patch: Patch) -> None:
    patch(Names, "can_give", lambda self, name, epoch: self.epoch(name) > 0)
    assert is_caught("ring", "covering", "subscriptions", "all", seeds=range(100))


def moved_and_crashed(node: str, seed: int) -> None:
    """A durable name has just moved when a broker crashes: the one that gave it, or has it."""
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        subscribe(6.0, "c1", "TRUE", durable="s1"),
        Step(6.05 + 0.01 * seed, "crash", node=node),
        Step(7.0, "restart", node=node),
        seed=seed,
    )


@pytest.mark.parametrize(
    ("what", "where", "node"),
    [("_give", Homes, "b0"), ("take", Names, "b1")],
    ids=["given", "served"],
)
def test_a_durable_name_given_or_served_before_that_is_on_disk(
    patch: Patch, what: str, where: type, node: str
) -> None:
    act, emit = getattr(where, what), Node.emit

    def unsynced(node: Node, effect: Any) -> None:
        if not isinstance(effect, Sync):
            emit(node, effect)

    def hasty(self: Any, *arguments: Any) -> Any:
        patch(Node, "emit", unsynced)
        found = act(self, *arguments)
        patch(Node, "emit", emit)
        return found

    crashed = partial(moved_and_crashed, node)
    for seed in range(25):
        crashed(seed)
    patch(where, what, hasty)
    assert any(fails_with(crashed, seed) for seed in range(25))


def test_a_reader_that_goes_on_where_its_name_was_given_away(patch: Patch) -> None:
    patch(Subscriptions, "given", lambda self, name, to: None)
    assert is_caught("line", "covering", "subscriptions", "none")


def test_a_position_that_does_not_travel(patch: Patch) -> None:
    give = Names.give

    def forgetful(self: Names, name: str, to: str) -> Any:
        epoch, saved = give(self, name, to)
        return epoch, saved._replace(cursor={})

    patch(Names, "give", forgetful)
    assert is_caught("line", "covering", "subscriptions", "none", part="has forgotten")
