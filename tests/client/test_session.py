"""A session against the model of a broker, over connections that break at any moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.client.model import FAR, OWN, Broker, Line
from tidings.client.event import Event
from tidings.client.outbox import UNKNOWN, OutboxLimits, Publication
from tidings.client.reading import Reading, Told
from tidings.client.receipts import Receipts
from tidings.client.session import Session
from tidings.client.state import SubscriptionState
from tidings.events import Filter, Notification
from tidings.protocol.messages import Event as NodeEvent
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Attach,
    Interest,
    Missed,
    Progress,
    Publish,
    Refused,
    Since,
    Subscribe,
    Unsubscribe,
    Watch,
)
from tidings.protocol.wire import Delivery, Ping, Pong

EVEN = Filter.parse("even = TRUE")
FORBIDDEN = Filter.parse("n IN (3, 4, 11, 12, 13)")
SMALL = OutboxLimits(count=12, frames=2, most=3)


def said(n: int) -> Notification:
    return Notification({"n": n, "even": n % 2 == 0})


@dataclass
class Program:
    """A program with one subscription: publishes, reads, acknowledges, and may be killed."""

    broker: Broker
    durable: str | None
    since: Since
    most: int
    name: str = "program"
    heard: list[Event] = field(default_factory=list)
    settled: list[tuple[Publication, Refused | None]] = field(default_factory=list)
    started_at: dict[str, int] | None = None
    published: int = 0
    lives: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.session = Session(SMALL)
        # What begins anew at every start would never end.
        since = None if self.started_at is not None else self.since
        self.lives += 1
        self.reading = Reading(
            EVEN,
            durable=self.durable,
            since=since,
            most=self.most,
            told=Told(owner=f"{self.lives}"),
        )
        self.session.subscribe(self.reading)
        self.line = Line(self.session, self.broker, self.name)
        self.acknowledged = len(self.heard)

    def kill(self) -> None:
        """All that it did not acknowledge is to be told again."""
        self.line.lose()
        del self.heard[self.safe :]
        self.start()

    @property
    def safe(self) -> int:
        """How many events the broker knows to be acknowledged."""
        assert self.durable is not None
        known = self.broker.durable.get(self.durable, {})
        return sum(1 for e in self.heard if e.tick <= known.get(e.stream, 0))

    def publish(self) -> None:
        if not self.session.outbox.is_full:
            self.published += 1
            self.session.outbox.add(said(self.published))

    def publish_many(self) -> None:
        if not self.session.outbox.is_full:
            count = 1 + self.published % 3
            together = [said(self.published + n) for n in range(1, count + 1)]
            self.published += count
            self.session.outbox.add(*together)

    def do(self, action: str) -> None:
        line, session = self.line, self.session
        match action:
            case "publish":
                self.publish()
            case "publish many":
                self.publish_many()
            case "elsewhere":
                self.broker.streams[FAR].append(said(len(self.broker.streams[FAR])))
            case "connect":
                line.connect()
            case "lose":
                line.lose()
            case "send":
                line.send()
            case "handle":
                line.handle()
            case "tell own":
                line.say(self.broker.step(OWN))
            case "tell far":
                line.say(self.broker.step(FAR))
            case "skip own":
                line.say(self.broker.skip(OWN))
            case "progress":
                line.say(self.broker.progress())
            case "beat":
                line.say(self.broker.beat())
            case "receive":
                line.receive()
            case "read":
                if self.reading.inbox:
                    self.heard.append(self.reading.inbox.popleft())
                    session.taken(self.reading)
            case "acknowledge":
                if len(self.heard) > self.acknowledged:
                    self.heard[-1].ack()
            case "say it":
                session.say_acknowledgements()
            case "talk":
                for each in ("send", *["handle"] * 4, "tell own", "tell far", *["receive"] * 6):
                    self.do(each)
            case "break":
                line.lose()
                line.connect()
            case "kill":
                if self.durable is not None and self.started_at is not None:
                    self.kill()
        self.settled += session.settled
        session.settled.clear()
        if self.durable is not None:
            known = self.broker.durable.get(self.durable, {})
            for event in self.reading.inbox:
                assert event.tick > known.get(event.stream, 0), "acknowledged what was not read"
        if self.started_at is None and self.reading.is_started:
            self.started_at = self.broker.now()

    def finish(self) -> None:
        """No more trouble: whatever is to happen, happens."""
        for _ in range(1_000):
            told = ("tell own", "tell far", "progress")
            for action in ("connect", "send", *["handle"] * 40, *told, *["receive"] * 40):
                self.do(action)
            for action in (*["read"] * 4, "acknowledge", "say it"):
                self.do(action)
            is_told = self.broker.now() == self.reading.position and not self.reading.inbox
            if self.reading.id and is_told and not self.session.outbox and self.line.is_quiet:
                break
        else:
            raise AssertionError("it never comes to rest")
        for action in ("send", *["handle"] * 40, *["receive"] * 40):
            self.do(action)


WHATEVER = (
    *["publish", "send", "handle", "tell own", "receive", "read", "talk"] * 2,
    *["elsewhere", "tell far", "progress", "acknowledge", "say it", "publish", "read"],
    *["progress", "beat", "beat"],
    *["connect", "lose", "break", "kill"],
)
ACTIONS = st.lists(st.sampled_from(WHATEVER), min_size=20, max_size=120)


@given(ACTIONS)
def test_each_publication_is_kept_once_and_in_order(actions: list[str]) -> None:
    broker = Broker(refuses=FORBIDDEN)
    program = Program(broker, durable=None, since=None, most=100)
    for action in actions:
        if action != "kill":
            program.do(action)
    program.finish()
    wanted = [said(n) for n in range(1, program.published + 1)]
    assert broker.streams[OWN] == [n for n in wanted if not FORBIDDEN.matches(n)]
    check_settled(program)


@given(st.lists(st.sampled_from([*WHATEVER, *["publish many", "break"] * 6]), min_size=20))
def test_what_is_published_together_is_kept_together_or_not_at_all(actions: list[str]) -> None:
    broker = Broker(refuses=FORBIDDEN)
    program = Program(broker, durable=None, since=None, most=100)
    for action in actions:
        if action != "kill":
            program.do(action)
    program.finish()
    check_settled(program)
    for publication, refusal in program.settled:
        is_out = any(map(FORBIDDEN.matches, publication.notifications))
        assert (refusal is not None) is is_out
        receipts = Receipts(publication.number, publication.count, publication.where)
        if refusal is None and receipts.first.tick:
            begin = receipts.first.tick - 1
            kept = broker.streams[OWN][begin : begin + publication.count]
            assert kept == list(publication.notifications)
            assert [r.tick - 1 for r in receipts] == [*range(begin, begin + publication.count)]


PUBLISHING = st.lists(
    st.sampled_from(
        ["publish", "publish", "send", "handle", "receive", "talk", "break", "forbid", "allow"]
    ),
    min_size=20,
    max_size=120,
)


@given(PUBLISHING)
def test_what_is_refused_at_times_is_known_to_be_kept_or_not(actions: list[str]) -> None:
    broker = Broker()
    program = Program(broker, durable=None, since=None, most=100)
    for action in actions:
        match action:
            case "forbid":
                broker.refuses = EVEN
            case "allow":
                broker.refuses = Filter.none()
            case _:
                program.do(action)
        # Should the program be killed, this is all that the next one knows.
        kept, refused = broker.numbers.get(program.name, []), broker.refused.get(program.name, {})
        assert {*kept, *refused} >= {*range(1, broker.kept.get(program.name, 0) + 1)}
        assert not refused.keys() & {*kept}
    program.finish()
    check_settled(program)


def check_settled(program: Program) -> None:
    """Of each publication it was said once whether it is kept, and that is so."""
    settled = [
        each["n"] for publication, _ in program.settled for each in publication.notifications
    ]
    assert sorted(settled) == [*range(1, program.published + 1)]
    kept = [n for p, refusal in program.settled if refusal is None for n in p.notifications]
    assert kept == program.broker.streams[OWN]
    assert len(program.session.outbox) == 0


@given(ACTIONS, st.sampled_from([None, "begin"]), st.sampled_from([2, 100]))
def test_a_durable_subscription_hears_each_event_once_though_its_program_is_killed(
    actions: list[str], since: Since, most: int
) -> None:
    program = Program(Broker(), durable="desk", since=since, most=most)
    check_hearing(program, actions)
    assert program.reading.missed == 0
    assert program.safe == len(program.heard)
    assert program.reading.kept == program.reading._acknowledged, "somebody may wait for it"
    # Silence is acknowledged too, so nothing has to be looked at again.
    assert program.broker.durable["desk"] == program.broker.now()


@given(ACTIONS)
def test_a_subscription_that_is_not_durable_hears_each_event_once_over_all_connections(
    actions: list[str],
) -> None:
    program = Program(Broker(), durable=None, since=None, most=1_000)
    check_hearing(program, actions)
    assert program.reading.missed == 0


SLOW = st.lists(st.sampled_from([*WHATEVER, *["skip own", "break"] * 3]), min_size=20, max_size=120)


@given(SLOW, st.sampled_from([None, "begin"]))
def test_what_a_slow_live_subscription_does_not_hear_is_counted(
    actions: list[str], since: Since
) -> None:
    program = Program(Broker(), durable=None, since=since, most=2)
    for action in actions:
        program.do(action)
    program.finish()
    wanted = 0
    for stream, notifications in program.broker.streams.items():
        first = 0 if since == "begin" else (program.started_at or {})[stream]
        ticks = [e.tick for e in program.heard if e.stream == stream]
        assert ticks == sorted(set(ticks))
        wanted += sum(map(EVEN.matches, notifications[first:]))
    counted = len(program.heard) + program.reading.missed
    # What it is told before it was accepted may lie before where it must have begun.
    assert counted == wanted if since == "begin" else counted >= wanted


def check_hearing(program: Program, actions: list[str]) -> None:
    for action in actions:
        program.do(action)
    program.finish()
    assert program.started_at is not None
    for stream, notifications in program.broker.streams.items():
        ticks = [e.tick for e in program.heard if e.stream == stream]
        must = 0 if program.since == "begin" else program.started_at[stream]
        first = min([must, *(t - 1 for t in ticks)])
        assert ticks == [
            tick
            for tick, notification in enumerate(notifications, 1)
            if tick > first and EVEN.matches(notification)
        ]


# -- single steps ------------------------------------------------------------------------------


def delivery(id: str, tick: int, stream: str = OWN) -> Delivery:
    return Delivery(NodeEvent(stream, tick, said(2 * tick)), (id,))


def started(
    durable: str | None = None, most: int = 10, since: Since = None
) -> tuple[Session, Reading]:
    session = Session(SMALL)
    reading = Reading(EVEN, durable=durable, most=most, since=since)
    session.subscribe(reading)
    session.connected("paris")
    session.outgoing()
    session.receive([Accepted("attach"), Accepted(reading.id)])
    return session, reading


def test_a_new_connection_is_asked_for_everything_at_once() -> None:
    session = Session()
    session.advertise(EVEN)
    session.watch(EVEN)
    session.subscribe(Reading(EVEN, durable="desk", since="begin"))
    session.outbox.add(said(1))
    assert session.outgoing() == []
    session.connected("paris")
    (frame,) = session.outgoing()
    assert [type(m).__name__ for m in frame] == ["Attach", "Advertise", "Watch", "Subscribe"]
    assert frame[0] == Attach(attempt=1)
    session.receive([Accepted("attach", 41)])
    assert session.outgoing() == [[Publish(42, (said(1),))]]


def test_the_cursor_of_an_event_is_the_position_it_was_told_at() -> None:
    session, reading = started()
    id = reading.id
    session.receive([Progress(id, {"rome": 7}, is_live=True), delivery(id, 1), delivery(id, 3)])
    session.receive([delivery(id, 2, FAR), delivery(id, 4), Progress(id, {"rome": 9}, True)])
    session.receive([delivery(id, 6)])
    assert [e.cursor for e in reading.inbox] == [
        "own:1,rome:7",
        "own:3,rome:7",
        "far:2,own:3,rome:7",
        "far:2,own:4,rome:7",
        "far:2,own:6,rome:9",
    ]


def test_a_subscription_goes_on_at_its_position_under_a_new_id() -> None:
    session, reading = started(since="begin")
    before = reading.id
    session.receive([delivery(before, 1), delivery(before, 2, FAR)])
    session.lost()
    assert not reading.is_live
    session.connected("paris")
    (frame,) = session.outgoing()
    assert frame[1] == Subscribe(reading.id, EVEN, heard={OWN: 1, FAR: 2})
    assert reading.id != before
    session.receive([delivery(before, 2)])
    assert len(reading.inbox) == 2


def test_where_it_was_told_nothing_it_begins_again_as_it_began() -> None:
    session, reading = started(since=12.5)
    session.lost()
    session.connected("paris")
    assert session.outgoing()[0][1] == Subscribe(reading.id, EVEN, None, 12.5)


def test_where_a_durable_subscription_may_live_is_said_until_it_has_begun() -> None:
    session, reading = Session(), Reading(EVEN, durable="desk", home="here")
    session.subscribe(reading)
    session.connected("paris")
    assert session.outgoing()[0][1] == Subscribe(reading.id, EVEN, "desk", home="here")
    session.receive([Accepted(reading.id, cursor={OWN: 1}, begun=1.0)])
    session.lost()
    session.connected("london")
    again = Subscribe(reading.id, EVEN, "desk", heard={OWN: 1}, begun=1.0, doubts=0)
    assert session.outgoing()[0][1] == again


def test_what_has_begun_is_asked_for_as_long_as_it_is_refused_for_now() -> None:
    session, reading = started(durable="desk")
    session.receive([Accepted(reading.id, cursor={OWN: 1}, begun=1.0)])
    for _ in range(50):
        session.lost()
        session.connected("london")
        session.outgoing()
        session.receive([Refused(reading.id, "it may live at paris", is_passing=True)])
        assert session.waiting.keys() == {reading}
        assert session.outgoing() == []
        session.try_again()
        asked = Subscribe(reading.id, EVEN, "desk", heard={OWN: 1}, begun=1.0, doubts=0)
        assert session.outgoing() == [[asked]]


def test_what_has_not_begun_is_refused_for_now_only_for_some_time() -> None:
    session, reading = Session(), Reading(EVEN, durable="desk")
    session.subscribe(reading)
    session.connected("london")
    tries = 0
    while reading.ending is None:
        tries += 1
        session.outgoing()
        session.receive([Refused(reading.id, "it may live at paris", is_passing=True)])
        session.try_again()
    assert (tries, session.waiting) == (10, {})


def test_an_acknowledgement_that_is_refused_for_now_is_said_again() -> None:
    session, reading = started(durable="desk", most=2)
    session.receive([delivery(reading.id, tick) for tick in (1, 2, 3)])
    assert reading.is_held
    reading.inbox[0].ack()
    session.lost()
    session.connected("london")
    for _ in range(3):
        (said,) = session.outgoing()[-1][-1:]
        assert said == Acknowledge("durable desk", {OWN: 1}, "desk", "", 1)
        refusal = "it may live at paris"
        session.receive([Refused("acknowledge durable desk", refusal, is_passing=True)])
        assert reading.ending is None
        session.try_again()


def test_the_broker_says_when_a_subscription_began_and_its_client_says_it_again() -> None:
    session = Session()
    reading = Reading(EVEN)
    session.subscribe(reading)
    session.connected("paris")
    session.receive([Accepted(reading.id, cursor={OWN: 3}, begun=1_000.0)])
    session.lost()
    session.connected("paris")
    again = Subscribe(reading.id, EVEN, begun=1_000.0, heard={OWN: 3}, doubts=0)
    assert session.outgoing()[0][1] == again


def test_a_time_below_which_all_was_read_is_never_above_an_event_that_waits() -> None:
    session = Session()
    reading, other = Reading(EVEN, times=True), Reading(EVEN)
    both = SubscriptionState(reading), SubscriptionState(other)
    for each in (reading, other):
        session.subscribe(each)
    session.connected("paris")
    assert [r.times for r in session.outgoing()[0] if isinstance(r, Subscribe)] == [True, False]
    for each in (reading, other):
        live = Progress(each.id, {OWN: 0}, True)
        session.receive([Accepted(each.id), live])
    first, second = (NodeEvent(OWN, n, said(2 * n), False, 500.0 + n) for n in (1, 2))
    session.receive([Delivery(first, (reading.id,)), Delivery(second, (reading.id,))])
    assert both[0].complete == {}
    session.receive([Progress("", {OWN: 2}, True, {OWN: 600.0, "rome": 700.0})])
    assert both[0].complete == {OWN: 501.0, "rome": 700.0}
    reading.inbox.popleft()
    assert both[0].complete == {OWN: 502.0, "rome": 700.0}
    reading.inbox.popleft()
    session.receive([Progress("", {}, True, {OWN: 601.0})])
    assert both[0].complete == {OWN: 601.0, "rome": 700.0}
    session.lost()
    session.connected("paris")
    assert both[0].complete == {OWN: 601.0, "rome": 700.0}
    assert both[1].complete == {}


def test_what_was_to_begin_now_and_is_not_accepted_begins_now_in_what_it_was_not_told_of() -> None:
    session = Session()
    reading = Reading(EVEN)
    session.subscribe(reading)
    session.connected("paris")
    session.receive([delivery(reading.id, 1)])
    session.lost()
    session.connected("paris")
    assert session.outgoing()[0][1] == Subscribe(reading.id, EVEN, begun=-1.0, heard={OWN: 1})


def test_progress_without_an_id_is_for_all_that_are_live() -> None:
    session, reading = started()
    late = Reading(EVEN, since="begin")
    session.subscribe(late)
    session.receive([Progress(reading.id, {OWN: 1}, is_live=True), Accepted(late.id)])
    session.receive([Progress("", {OWN: 8}, is_live=True)])
    assert (reading.position, late.position) == ({OWN: 8}, {})


def test_acknowledgements_are_merged_and_silence_behind_them_is_acknowledged() -> None:
    session, reading = started(durable="desk")
    id = reading.id
    session.receive([delivery(id, tick) for tick in (1, 2, 5)])
    events = list(reading.inbox)
    events[1].ack()
    events[0].ack()
    session.say_acknowledgements()
    session.receive([Progress(id, {OWN: 9}, is_live=True)])
    session.say_acknowledgements()
    assert session.outgoing() == [[Acknowledge(id, {OWN: 2}, number=2)]]
    events[2].ack()
    session.say_acknowledgements()
    session.receive([Progress(id, {OWN: 12}, is_live=True)])
    session.say_acknowledgements()
    session.say_acknowledgements()
    said = [Acknowledge(id, {OWN: 9}, number=3), Acknowledge(id, {OWN: 12}, number=3)]
    assert session.outgoing() == [said]


def test_an_acknowledgement_that_may_be_lost_is_said_again() -> None:
    session, reading = started(durable="desk")
    session.receive([delivery(reading.id, 1), delivery(reading.id, 2)])
    reading.inbox[0].ack()
    session.say_acknowledgements()
    session.outgoing()
    session.lost()
    session.connected("paris")
    session.say_acknowledgements()
    assert session.outgoing()[0][-1] == Acknowledge(reading.id, {OWN: 1}, number=1)


def test_a_full_durable_subscription_is_given_up_until_half_of_it_is_read() -> None:
    session, reading = started(durable="desk", most=4)
    id = reading.id
    session.receive([delivery(id, tick) for tick in range(1, 6)])
    assert session.outgoing() == [[Unsubscribe(id)]]
    session.receive([delivery(id, 6), Accepted(id), delivery(id, 7)])
    assert [e.tick for e in reading.inbox] == [1, 2, 3, 4, 5, 6], "what was on its way is taken"
    while len(reading.inbox) > 3:
        reading.inbox.popleft()
        session.taken(reading)
        assert session.outgoing() == []
    reading.inbox.popleft()
    session.taken(reading)
    (again,) = session.outgoing()[0]
    assert (again.durable, again.since, again.heard) == ("desk", None, {OWN: 6})


def test_a_full_subscription_that_was_read_waits_for_what_is_on_its_way() -> None:
    session, reading = started(durable="desk", most=2)
    id = reading.id
    session.receive([delivery(id, tick) for tick in range(1, 4)])
    reading.inbox.clear()
    session.taken(reading)
    assert session.outgoing() == [[Unsubscribe(id)]]
    session.receive([delivery(id, 4), Accepted(id)])
    assert [e.tick for e in reading.inbox] == [4]
    (again,) = session.outgoing()[0]
    assert (again.durable, again.since, again.heard) == ("desk", None, {OWN: 4})


def test_a_subscription_that_is_given_up_before_it_is_accepted_hears_of_its_acknowledgements() -> (
    None
):
    session, reading = started(durable="desk", since="begin", most=1)
    id = reading.id
    session.receive([delivery(id, 1)])
    reading.acknowledge_soon(reading.inbox.popleft())
    session.hurry(reading)
    session.outgoing()
    answers = [Accepted(id, cursor={OWN: 3}), Accepted(f"acknowledge {id}", 1), Accepted(id)]
    session.receive([delivery(id, 2), delivery(id, 3), *answers[:2]])
    assert (reading.is_held, reading.kept, reading.position) == (True, 1, {OWN: 3})
    reading.inbox.clear()
    session.taken(reading)
    assert not any(isinstance(m, Subscribe) for frame in session.outgoing() for m in frame)
    session.receive(answers[2:])
    again = Subscribe(reading.id, EVEN, "desk", heard={OWN: 3}, doubts=0)
    assert session.outgoing()[0][0] == again


def test_a_full_live_subscription_misses_events_and_counts_them() -> None:
    session, reading = started(most=2)
    id = reading.id
    session.receive([Progress(id, {OWN: 0}, is_live=True)])
    session.receive([delivery(id, tick) for tick in range(1, 6)])
    assert [e.tick for e in reading.inbox] == [1, 2]
    assert reading.missed == 3
    session.receive([Missed(id, 4, {OWN: 12}, 3)])
    assert (reading.missed, reading.lost_ticks) == (7, 3)
    assert reading.position == {OWN: 12}
    assert session.outgoing() == []


def test_what_was_told_as_missed_is_not_asked_for_again() -> None:
    session, reading = started(since="begin")
    session.receive([delivery(reading.id, 1), Missed(reading.id, 4, {OWN: 9})])
    session.lost()
    session.connected("paris")
    (frame,) = session.outgoing()
    assert frame[1] == Subscribe(reading.id, EVEN, heard={OWN: 9})


def test_what_is_missed_while_a_full_subscription_is_given_up_is_counted() -> None:
    session, reading = started(most=2, since="begin")
    id = reading.id
    session.receive([delivery(id, tick) for tick in range(1, 4)])
    assert session.outgoing() == [[Unsubscribe(id)]]
    session.receive([Missed(id, 4, {OWN: 9}), Accepted(id)])
    assert reading.missed == 4
    assert reading.position == {OWN: 9}


def test_a_subscription_that_begins_at_a_cursor_never_asks_for_what_lies_before() -> None:
    session, reading = started(since={OWN: 4, FAR: 40})
    session.receive([delivery(reading.id, 5)])  # and nothing was said of the other stream yet
    assert reading.inbox[0].position == reading.position == {OWN: 5, FAR: 40}
    session.lost()
    session.connected("paris")
    assert session.outgoing() == [
        [Attach(attempt=2), Subscribe(reading.id, EVEN, heard=reading.position)]
    ]


def test_silence_is_not_acknowledged_before_what_came_from_elsewhere() -> None:
    session = Session(SMALL)
    reading = Reading(EVEN, durable="desk", since={OWN: 4}, told=Told(events=3))
    session.subscribe(reading)
    session.connected("paris")
    session.outgoing()
    session.receive([Accepted("attach"), Accepted(reading.id)])
    session.receive([Progress(reading.id, {OWN: 9}, is_live=True), delivery(reading.id, 10)])
    session.say_acknowledgements()
    assert session.outgoing() == []
    (event,) = reading.inbox
    assert event.sequence == 4
    event.ack()
    session.say_acknowledgements()
    assert session.outgoing() == [[Acknowledge(reading.id, {OWN: 10}, number=4)]]


def test_a_subscription_can_be_refused_and_ended() -> None:
    session, reading = started()
    session.receive([delivery(reading.id, 1)])
    session.receive([Refused(reading.id, "too old", {OWN: 7})])
    assert reading.ending is not None
    assert len(reading.inbox) == 1
    session.lost()
    session.connected("paris")
    assert session.outgoing() == [[Attach(attempt=2)]]


def test_while_frames_wait_for_an_answer_publications_gather() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    session.outgoing()
    sizes = []
    for n in range(1, 9):
        session.outbox.add(said(n))
        sizes.append([len(m.notifications) for f in session.outgoing() for m in f])
    assert sizes == [[1], [1], [], [], [], [], [], []]
    session.receive([Accepted("publish", 1)])
    assert session.outgoing() == [[Publish(3, (said(3), said(4), said(5)))]]


def test_numbers_of_an_earlier_process_are_not_used_again() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach", 10)])
    session.outbox.add(said(1))
    session.outbox.leave_out(0)  # it has a number now, and was not sent
    session.lost()
    session.connected("rome")  # which an earlier process of this name has told more
    session.receive([Accepted("attach", 300)])
    assert session.settled == []
    assert session.outgoing()[-1] == [Publish(301, (said(1),))]


def test_what_was_refused_leaves_a_gap_when_the_rest_is_sent_again() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    for n in (1, 2, 3):
        session.outbox.add(said(n))
    session.outgoing()
    session.receive([Refused("2", "no")])
    assert [(p.number, r) for p, r in session.settled] == [(2, Refused("2", "no"))]
    session.lost()
    session.connected("paris")
    session.receive([Accepted("attach", 0)])
    assert session.outgoing()[-1] == [Publish(1, (said(1),)), Publish(3, (said(3),))]


def test_a_watch_is_asked_for_again_and_told_of_changes() -> None:
    session = Session()
    session.connected("paris")
    watch = session.watch(EVEN)
    session.receive([Interest(watch.id, True)])
    assert watch.is_wanted is True
    assert session.changed == {watch}
    session.lost()
    session.connected("paris")
    assert session.outgoing() == [[Attach(attempt=2), Watch(watch.id, EVEN)]]
    session.unwatch(watch)
    assert session.outgoing() == [[Unsubscribe(watch.id)]]


def test_signs_of_life_are_given_and_asked_for() -> None:
    session = Session()
    session.connected("paris")
    session.outgoing()
    number = session.ping()
    session.receive([Ping(5), Pong(number)])
    assert session.outgoing() == [[Ping(number), Pong(5)]]
    assert session.pongs == number


def test_a_refusal_that_was_lost_is_heard_before_the_rest_is_taken_for_kept() -> None:
    session = Session()
    session.connected("paris")
    session.receive([Accepted("attach")])
    for n in range(3):
        session.outbox.add(Notification({"n": n}), receipt=n)
    session.outgoing()
    session.lost()
    session.connected("paris")
    session.receive([Refused("2", "too large"), Accepted("attach", 3)])
    assert [(p.receipt, r is None) for p, r in session.settled] == [
        (0, True),
        (1, False),
        (2, True),
    ]


def test_a_refusal_that_an_earlier_session_may_have_missed_is_known() -> None:
    session = Session(SMALL)
    session.connected(OWN)
    session.receive([Refused("3", "too wide"), Accepted("attach", 5)])
    assert (session.outbox.kept, session.outbox.refusals) == (5, {3: "too wide"})
    assert session.settled == []
    session.lost()  # what is known of both stays together
    assert (session.outbox.kept, session.outbox.refusals) == (5, {3: "too wide"})
    session.connected(OWN)
    session.receive([Refused("4", "too wide"), Accepted("attach", 6)])
    assert (session.outbox.kept, session.outbox.refusals) == (6, {4: "too wide"})


def test_what_a_broker_has_refused_to_an_earlier_process_is_not_what_waits_here() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    session.outbox.add(said(1))
    session.outbox.leave_out(0)  # it has a number now, and was not sent
    session.lost()
    session.connected("rome")  # which knows another process of this name
    session.receive([Refused("1", "too wide"), Accepted("attach", 2)])
    assert session.settled == []
    assert session.outgoing()[-1] == [Publish(3, (said(1),))]


def outcomes(session: Session) -> list[tuple[int, str | None]]:
    """What was said of publications since the last look; the id of a refusal, if it is one."""
    found = [(p.notification["n"], r and r.id) for p, r in session.settled]
    session.settled.clear()
    return found


def test_what_was_sent_to_one_broker_and_not_answered_is_not_sent_to_another() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    for n in range(1, 8):
        session.outbox.add(said(n))
    session.outgoing()  # one of two frames was answered when the connection breaks; 7 was not sent
    session.receive([Accepted("publish", 3)])
    assert outcomes(session) == [(1, None), (2, None), (3, None)]
    session.lost()
    session.connected("rome")
    session.receive([Accepted("attach", 0)])
    assert outcomes(session) == [(n, UNKNOWN) for n in (4, 5, 6)]
    assert session.outgoing()[-1] == [Publish(7, (said(7),))]
    session.receive([Accepted("publish", 7)])
    assert outcomes(session) == [(7, None)]
    session.outbox.add(said(8))
    session.outgoing()
    session.lost()
    session.connected("paris")
    session.receive([Accepted("attach", 5)])
    assert outcomes(session) == [(8, UNKNOWN)], "also if it comes back to one that it knows"
    session.outbox.add(said(9))
    assert session.outgoing()[-1] == [Publish(9, (said(9),))]


def test_what_was_sent_to_a_broker_that_was_away_is_sent_to_it_again() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    session.outbox.add(said(1))
    session.outgoing()
    session.lost()
    session.connected("rome")  # which is gone before it has answered
    session.lost()
    session.connected("paris")
    session.receive([Accepted("attach", 0)])
    assert outcomes(session) == []
    assert session.outgoing()[-1] == [Publish(1, (said(1),))]


def test_what_was_heard_to_be_refused_is_left_out_until_something_is_kept_behind_it() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    for n in (1, 2):
        session.outbox.add(said(n))
    session.outgoing()
    session.receive([Refused("1", "no"), Refused("2", "no"), Accepted("publish", 2)])
    for kept, left_out in ((0, [1, 2]), (1, [2]), (1, [2])):
        session.lost()
        session.connected("paris")
        session.receive([Accepted("attach", kept)])
        assert session.outgoing()[1:] == [[Publish(n, ()) for n in left_out]]
    session.outbox.add(said(3))
    session.outgoing()
    session.receive([Accepted("publish", 3)])
    session.lost()
    session.connected("paris")
    session.receive([Accepted("attach", 3)])
    assert session.outgoing() == [[Attach(attempt=5)]]


def test_what_was_refused_behind_what_is_kept_is_sent_again() -> None:
    session = Session(SMALL)
    session.connected("paris")
    session.receive([Accepted("attach")])
    session.outbox.add(said(1))
    session.outgoing()
    session.lost()
    session.connected("paris")
    session.receive([Refused("1", "too wide"), Accepted("attach", 0)])
    assert session.settled == []
    assert session.outgoing()[-1] == [Publish(1, (said(1),))]
