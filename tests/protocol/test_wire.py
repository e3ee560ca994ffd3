"""The wire: everything survives the trip exactly, and no bytes can do harm."""

from __future__ import annotations

import inspect
import math
import pickle
import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from tests.matching import strategies as matching
from tidings.events import Filter, Limits, Notification, TidingsError
from tidings.events.values import register_domain
from tidings.protocol import host, messages, requests, wire
from tidings.protocol.messages import Event, Frame, More, Offer, Way
from tidings.protocol.requests import Kept
from tidings.protocol.wire import (
    OLDEST,
    UNLIMITED,
    VERSION,
    Copied,
    Copy,
    Delivery,
    Hello,
    MessageDecoder,
    Ping,
    Pong,
    Splitter,
    Welcome,
    WireError,
    WireLimits,
    common,
    decode,
    encode,
    greeting,
    pack,
    pack_value,
    unpack_value,
)

DECODER = MessageDecoder(schema=matching.SCHEMA)


def sent(*them):
    """What arrives when these are sent."""
    return DECODER.decode(encode(them)[4:])


def plain(*them):
    """The payload of messages that are written by hand."""
    return msgspec.msgpack.encode(them)


def published(attributes):
    """The payload of a publication that is written by hand."""
    return plain([8, 1, [attributes]])


def bodied(attributes, present, kind, content):
    """The payload of a publication with a body, written by hand."""
    parts = msgspec.msgpack.encode([attributes, present, kind, content])
    return published(Ext(9, parts))


# -- strategies --------------------------------------------------------------------------------

texts = st.text(max_size=5)
ids = st.sampled_from(["", "1", "seven", "é"])
numbers = st.integers(-(2**63), 2**64 - 1)
times = st.floats(-1e12, 1e12)
cursors = st.dictionaries(ids, numbers, max_size=3)
filters = matching.filters
tables = st.lists(st.tuples(filters, numbers), max_size=3).map(dict)
views = st.tuples(numbers, numbers)
paths = st.lists(ids, max_size=3).map(tuple)

scalars = st.one_of(
    matching.scalars,
    st.datetimes(timezones=st.just(UTC)).map(lambda when: when.replace(fold=0)),
    st.binary(max_size=40),
    st.integers(-(2**200), 2**200),
)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(-1e30, 1e30), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
values = st.one_of(
    scalars,
    scalars,
    st.lists(scalars, max_size=4),
    st.lists(_json, max_size=3).map(lambda items: [[], *items]),
)
notifications = st.one_of(
    matching.notifications,
    st.builds(Notification, st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=6)),
)
mores = st.builds(More, texts, times, numbers, st.none() | texts, st.booleans())
events = st.builds(Event, ids, numbers, notifications, st.booleans(), times, st.none() | mores)

since = st.one_of(st.none(), st.just("begin"), times, cursors)
held = st.builds(
    *(requests.Held, ids, ids, filters, cursors, cursors),
    *(st.booleans(), st.booleans(), numbers),
)
adjusts = st.builds(requests.Adjust, ids, ids, since, st.none() | st.booleans())
BODIES = {
    messages.Event: events,
    messages.Update: st.builds(
        messages.Update, st.integers(0, 1), views, tables, tables, st.booleans()
    ),
    messages.Member: st.builds(messages.Member, numbers),
    messages.Check: st.builds(messages.Check, st.integers(0, 1), views, numbers),
    messages.Differ: st.builds(
        messages.Differ, st.integers(0, 1), views, st.lists(numbers, max_size=3).map(tuple)
    ),
    messages.Repair: st.builds(
        messages.Repair,
        st.integers(0, 1),
        views,
        numbers,
        st.lists(numbers, max_size=3).map(tuple),
        tables,
    ),
    messages.Streams: st.builds(
        messages.Streams,
        views,
        st.dictionaries(ids, st.builds(Way, paths, texts, texts), max_size=3),
        cursors,
    ),
    messages.Silence: st.builds(messages.Silence, cursors, st.dictionaries(ids, times)),
    messages.Heard: st.builds(messages.Heard, cursors),
    messages.Fetch: st.builds(
        messages.Fetch, ids, numbers, times, st.none() | filters, numbers, paths
    ),
    messages.Fetched: st.builds(
        messages.Fetched,
        *(ids, numbers, paths, numbers, numbers, st.lists(events, max_size=3).map(tuple)),
        *(st.booleans(), st.booleans(), st.booleans()),
    ),
    messages.Doubt: st.builds(messages.Doubt, cursors),
    messages.Survey: st.builds(messages.Survey, ids, texts, numbers, paths),
    messages.Surveyed: st.builds(
        messages.Surveyed, numbers, paths, st.lists(held, max_size=3).map(tuple)
    ),
    messages.Charge: st.builds(messages.Charge, ids, numbers, numbers, paths, adjusts),
    messages.Charged: st.builds(messages.Charged, numbers, paths, st.booleans(), texts),
    messages.Account: st.builds(messages.Account, views, numbers, st.none() | numbers),
    messages.Seek: st.builds(messages.Seek, ids, texts, numbers, paths),
    messages.Sought: st.builds(
        messages.Sought, numbers, paths, numbers, texts, st.booleans(), st.booleans()
    ),
    messages.EraseAt: st.builds(
        messages.EraseAt, ids, ids, filters, st.booleans(), numbers, paths, st.booleans()
    ),
    messages.ErasedAt: st.builds(messages.ErasedAt, numbers, paths, cursors, cursors, texts),
    messages.Inquire: st.builds(
        messages.Inquire, ids, texts, st.lists(st.binary(max_size=16)).map(tuple), numbers, paths
    ),
    messages.Inquired: st.builds(
        messages.Inquired,
        *(numbers, paths, st.dictionaries(numbers, st.tuples(ids, numbers, times), max_size=3)),
        st.lists(numbers, max_size=3).map(tuple),
    ),
    messages.Move: st.builds(
        *(messages.Move, ids, texts, numbers, numbers, paths),
        *(st.none() | filters, st.none() | texts),
    ),
    messages.Moved: st.builds(
        *(messages.Moved, numbers, paths, numbers, texts, st.none() | filters, cursors),
        *(times, texts, numbers, st.booleans()),
    ),
}
runs = st.builds(Kept, numbers, numbers, ids, numbers, times, st.booleans())
named = st.dictionaries(ids, filters, max_size=3)
MESSAGES = {
    requests.Attach: st.builds(requests.Attach, named, named, cursors),
    requests.Subscribe: st.builds(requests.Subscribe, ids, filters, st.none() | ids, since, times),
    requests.Unsubscribe: st.builds(requests.Unsubscribe, ids, st.booleans()),
    requests.Acknowledge: st.builds(requests.Acknowledge, ids, cursors, st.none() | ids),
    requests.Watch: st.builds(requests.Watch, ids, filters),
    requests.Advertise: st.builds(requests.Advertise, ids, filters),
    requests.Unadvertise: st.builds(requests.Unadvertise, ids),
    requests.Publish: st.builds(
        requests.Publish,
        *(numbers, st.lists(notifications, max_size=4).map(tuple), st.booleans(), paths, paths),
        st.booleans(),
    ),
    requests.Renew: st.builds(requests.Renew, numbers),
    requests.Detach: st.builds(requests.Detach, st.booleans()),
    requests.Erase: st.builds(requests.Erase, ids, filters, texts, st.booleans()),
    requests.Erasure: st.builds(
        requests.Erasure,
        *(ids, cursors, cursors, paths, st.dictionaries(ids, texts, max_size=2), texts),
        st.booleans(),
    ),
    requests.ListDurables: st.builds(requests.ListDurables, ids, texts),
    requests.Adjust: adjusts,
    requests.Durables: st.builds(
        requests.Durables, ids, st.lists(held, max_size=3).map(tuple), paths
    ),
    requests.Accepted: st.builds(
        requests.Accepted, ids, numbers, kept=st.lists(runs, max_size=3).map(tuple)
    ),
    requests.Refused: st.builds(
        requests.Refused,
        ids,
        texts,
        st.none() | cursors,
        texts,
        st.integers(0, 2**60),
        st.booleans(),
    ),
    requests.Resend: st.builds(requests.Resend),
    requests.Progress: st.builds(
        requests.Progress, ids, cursors, st.booleans(), st.dictionaries(ids, times)
    ),
    requests.Missed: st.builds(requests.Missed, ids, numbers, cursors, numbers),
    requests.Doubtful: st.builds(requests.Doubtful, ids, numbers),
    requests.Warned: st.builds(requests.Warned, ids, ids),
    requests.Interest: st.builds(requests.Interest, ids, st.booleans()),
    Delivery: st.builds(Delivery, events, paths),
    Copy: st.builds(Copy, ids, ids, numbers, numbers),
    Copied: st.builds(
        Copied, ids, st.lists(st.binary(max_size=40), max_size=3).map(tuple), numbers, numbers
    ),
    Frame: st.builds(
        Frame, numbers, numbers, numbers, numbers, st.one_of(st.none(), *BODIES.values())
    ),
    Offer: st.builds(Offer, numbers, ids, numbers, numbers, st.none() | ids),
    Hello: st.builds(
        Hello,
        st.just(VERSION),
        st.sampled_from(["client", "broker"]),
        ids,
        st.none() | texts,
        st.dictionaries(ids, st.none() | texts | st.booleans() | numbers, max_size=2),
        st.none() | numbers,
    ),
    Welcome: st.builds(Welcome, st.just(VERSION), ids, cursors, st.none() | texts),
    Ping: st.builds(Ping, numbers),
    Pong: st.builds(Pong, numbers),
}
anything = st.one_of(*MESSAGES.values())


def hashes(found):
    """The hashes of all filters within a message."""
    if isinstance(found, Filter):
        return [hash(found)]
    if isinstance(found, dict):
        return [h for item in found.items() for each in item for h in hashes(each)]
    if isinstance(found, msgspec.Struct):
        return [h for each in msgspec.structs.astuple(found) for h in hashes(each)]
    return []


# -- what is said is heard ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_message_arrives_as_it_was_sent(kind, data):
    message = data.draw(MESSAGES[kind])
    (found,) = sent(message)
    assert type(found) is kind
    assert found == message
    assert hashes(found) == hashes(message)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_body_arrives_within_a_frame(kind, data):
    message = Frame(1, 2, 3, 4, data.draw(BODIES[kind]))
    (found,) = sent(message)
    assert type(found.body) is kind
    assert found == message
    assert hashes(found.body) == hashes(message.body)


def test_no_message_was_forgotten():
    def structs(module):
        return {
            found
            for _, found in inspect.getmembers(module, inspect.isclass)
            if issubclass(found, msgspec.Struct) and found.__module__ == module.__name__
        }

    assert structs(requests) - {requests.Held, Kept} <= MESSAGES.keys()
    assert structs(messages) - MESSAGES.keys() - {More, Way} == BODIES.keys()


@given(st.lists(anything, max_size=5))
def test_many_messages_travel_in_one_frame_in_order(several):
    assert sent(*several) == several


@given(notifications)
def test_every_value_keeps_its_type(notification):
    (found,) = sent(requests.Publish(1, (notification,)))
    (again,) = found.notifications
    assert again == notification
    for name, value in notification.attributes.items():
        assert type(again.attributes[name]) is type(value)
        assert again.attributes[name] == value
        assert repr(again.attributes[name]) == repr(value) or type(value) is frozenset
    assert list(again.body) == list(notification.body)


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, 1, 1.0, -0.0, math.inf, -math.inf, 5e-324, "", "é\0", b"", b"\xff"),
        *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400, -(10**400)),
        *(datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001, DTZ901
        *([], [True, 1], [False, "a", b"a", 2**70, -math.inf], [datetime(2026, 1, 1, tzinfo=UTC)]),
        *([[]], [{"a": [None, 1.5]}], [[10**30]], [{"a": {"$time": "noon"}}]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_values_at_the_edges_survive(value):
    if isinstance(value, datetime):
        value = value.replace(tzinfo=UTC)
    notification = Notification({"x": value, "y": 1})
    (found,) = sent(requests.Publish(1, (notification,)))
    assert found.notifications == (notification,)
    held = found.notifications[0].attributes["x"]
    assert type(held) is type(notification.attributes["x"])
    assert str(held) == str(notification.attributes["x"]) or isinstance(held, frozenset)


@given(notifications)
def test_a_notification_is_written_once(notification):
    first = encode([requests.Publish(1, (notification,))])
    packed = notification.packed
    assert packed is not None
    assert encode([requests.Publish(1, (notification,))]) == first
    assert notification.packed is packed
    (found,) = decode(first[4:])
    assert bytes(found.notifications[0].packed) == bytes(packed)
    assert pickle.loads(pickle.dumps(found.notifications[0])) == notification


def test_a_client_is_not_told_the_name_of_its_session():
    event = Event("paris", 7, Notification({"a": 1}), time=5.0)
    frame = encode([host.Deliver("a secret", event, ("1", "2"))])
    assert b"secret" not in frame
    assert decode(frame[4:]) == [Delivery(event, ("1", "2"))]


def test_a_filter_that_was_read_before_is_the_same_object():
    found = Filter.parse("symbol = 'DIS' AND change < 0")
    (one,), (other,) = sent(requests.Watch("1", found)), sent(requests.Watch("2", found))
    assert one.filter is other.filter


def test_a_long_filter_survives_too():
    found = Filter.parse(f"x IN ({', '.join(map(str, range(0, 4000, 2)))})")
    (one,), (other,) = sent(requests.Watch("1", found)), sent(requests.Watch("2", found))
    assert one.filter == other.filter == found


def test_is_a_means_the_types_of_the_readers_schema():
    wanted = Filter.parse("kind IS A 'priced'", schema=matching.SCHEMA)
    (found,) = sent(requests.Subscribe("1", wanted))
    assert found.filter == wanted
    assert found.filter.matches(Notification({"kind": "bond"}))
    (bare,) = decode(encode([requests.Subscribe("1", wanted)])[4:])
    assert not bare.filter.matches(Notification({"kind": "bond"}))


# -- what never changes ------------------------------------------------------------------------


def test_tags_and_the_order_of_fields_are_fixed():
    """Other programs have been written against these."""
    kinds = {kind.__struct_config__.tag: kind for kind in (*MESSAGES, *BODIES)}
    found = {
        tag: f"{kind.__name__} {' '.join(kind.__struct_fields__)}" for tag, kind in kinds.items()
    }
    assert found == {
        1: "Attach subscriptions advertisements cursor instance epoch attempt name",
        2: "Subscribe id filter durable since begun heard replace owner is_noted home doubts bulk "
        "times",
        3: "Unsubscribe id forget durable owner",
        4: "Acknowledge id cursor durable owner number",
        5: "Watch id filter",
        6: "Advertise id filter",
        7: "Unadvertise id",
        8: "Publish number notifications is_whole ids elsewhere maybe_twice",
        9: "Renew digest",
        10: "Detach forget",
        11: "Copy id stream after upto",
        12: "ListDurables id principal",
        13: "Adjust id durable since is_paused",
        16: "Accepted id number epoch cursor begun doubts kept",
        17: "Refused id reason cursor stream position is_passing",
        18: "Resend ",
        19: "Progress id cursor is_live complete",
        20: "Missed id count cursor lost",
        21: "Interest id is_wanted",
        22: "Delivery event ids",
        23: "Copied id blocks upto last",
        24: "Doubtful id doubts",
        26: "Durables id found unasked",
        30: "Warned id reason",
        32: "Frame sender receiver number received body",
        33: "Offer number root beat distance parent instance",
        36: "Erasure id erased upto unreached problems record is_done",
        40: "Event stream tick notification flood time more",
        41: "Update table view added removed whole",
        42: "Member number",
        43: "Check table view digest",
        44: "Differ table view buckets",
        45: "Repair table view buckets which content",
        46: "Streams view ways ticks",
        47: "Silence upto complete",
        48: "Fetch stream since after filter number path",
        49: "Fetched stream number path since upto events is_live lost is_damaged",
        50: "Account view said ways",
        51: "Heard upto",
        52: "Seek stream durable number path",
        53: "Sought number path epoch home is_proved is_sought",
        54: "Doubt found",
        72: "EraseAt stream id filter is_dry number path is_barrier",
        73: "ErasedAt number path erased upto problem",
        75: "Erase id filter reason is_dry",
        60: "Hello version role name token options oldest",
        61: "Welcome version broker limits lake principal",
        62: "Ping number",
        63: "Pong number",
        64: "Move stream durable epoch number path filter owner",
        66: "Survey stream principal number path",
        67: "Surveyed number path found",
        68: "Charge stream epoch number path body",
        69: "Charged number path is_there refusal",
        65: "Moved number path epoch refusal filter cursor begun owner doubts is_paused",
        70: "Inquire stream principal digests number path",
        71: "Inquired number path kept undecided",
    }


def test_what_a_reader_decodes_first_has_the_fields_of_the_message():
    """Notifications are left for later: see `wire`."""
    for kind in (*MESSAGES, *BODIES):
        first = getattr(wire, f"_{kind.__name__}", None)
        if first is not None:
            assert first.__struct_fields__ == kind.__struct_fields__
            assert first.__struct_defaults__ == kind.__struct_defaults__
            assert first.__struct_config__.tag == kind.__struct_config__.tag


def test_the_bytes_of_a_publication_are_these():
    notification = Notification({"symbol": "DIS", "price": 2**64, "up": True})
    frame = encode([requests.Publish(3, (notification,))])
    inner = msgspec.msgpack.encode(
        {"symbol": "DIS", "price": Ext(1, b"\x01" + 8 * b"\0"), "up": True}
    )
    payload = plain([8, 3, [Ext(3, inner)], False, [], [], False])
    assert frame == len(payload).to_bytes(4, "big") + payload


def test_an_unusual_value_needs_no_extension_around_the_notification():
    now = datetime(2026, 11, 15, tzinfo=UTC)
    (found,) = decode(published({"when": now, "low": -math.inf, "tags": ["a", True]}))
    assert found.notifications == (
        Notification({"when": now, "low": -math.inf, "tags": {"a", True}}),
    )


def test_fields_that_a_later_version_adds_are_skipped():
    assert decode(plain([62, 7, "new", {"very": "new"}])) == [Ping(7)]


def test_fields_with_a_default_may_be_left_out():
    assert decode(plain([16, "1"], [62])) == [requests.Accepted("1"), Ping()]


# -- what cannot be written --------------------------------------------------------------------


class Place(NamedTuple):
    x: float
    y: float


def test_a_value_of_a_domain_of_ones_own_cannot_travel():
    register_domain("place on the wire", Place)
    notification = Notification({"where": Place(1.0, 2.0)})
    with pytest.raises(WireError, match="attribute 'where': a Place is of a domain that cannot"):
        encode([requests.Publish(1, (notification,))])
    with pytest.raises(WireError, match="attribute 'where': a Place"):
        pack([Event("paris", 1, notification)])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Ping(2**64), "cannot be written"),
        (Frame(1, 1, 1, 1, object()), "a object cannot be written"),
        (Ping("\ud800"), "cannot be written"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_is_refused(message, reason):
    with pytest.raises(WireError, match=reason):
        encode([message])


def test_what_is_nested_without_end_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(WireError, match="nested too deeply"):
        encode([Frame(1, 1, 1, 1, endless)])
    with pytest.raises(WireError, match="nested too deeply"):
        pack_value(endless)


# -- what cannot be read -----------------------------------------------------------------------

_ALL = '{"any":[{}]}'
_DEEP = 100_000


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "a message ends in the middle"),
        (encode([Ping(70_000)])[4:-1], "a message ends in the middle"),
        (plain([62, 1]) + b"\0", "trailing characters"),
        (b"\xc1", "invalid opcode"),
        (b"\xdd\xff\xff\xff\xff", "ends in the middle"),
        (b"\x91\xdd\xff\xff\xff\xff\x08", "ends in the middle"),
        (b"\x91\x93\x08\x01\xdd\xff\xff\xff\xff", "ends in the middle"),
        (b"\x91\x93\x08\x01\x91\xdf\xff\xff\xff\xff", "ends in the middle"),
        (b"\x91\x92\x07\xdb\xff\xff\xff\xffabc", "ends in the middle"),
        (b"\x91\x92\x07\xa1\xff", "text that is not UTF-8"),
        (b"\x91\x93\x08\x01\x91\x81\xa1\xff\x01", "text that is not UTF-8"),
        (b"\x91\x93\x08\x01\x91\x81\xa1a\xa1\xff", "text that is not UTF-8"),
        (msgspec.msgpack.encode({}), "Expected `array`, got `object`"),
        (plain(5), "Expected `array`, got `int`"),
        (plain([]), "at least length 1"),
        (plain([99, 1]), "tag 99, which version 2 does not know"),
        (plain([32, 1, 1, 1, 1, [77]]), "tag 77, which version 2 does not know"),
        (plain([32, 1, 1, 1, 1, [8, 1, []]]), "tag 8, which"),
        (plain(["Publish", 1, []]), "Expected `int`, got `str`"),
        (plain([2, "1"]), "at least length 3"),
        (plain([2, 1, _ALL]), "Expected `str`, got `int`"),
        (plain([16, "1", 2.5]), "Expected `int`, got `float`"),
        (plain([61, 7, "paris"]), "speaks version 7 of the wire; this one"),
        (plain([60, 1, "king", "carol"]), "Invalid enum value 'king'"),
        (plain([60, 1, "client", "carol", None, {"a": Ext(5, b"")}]), "got `ext`"),
        (plain([60, 1, "client", "carol", None, {"a": math.nan}]), "got `float`"),
        (plain([2, "1", Ext(5, b"")]), "a filter is a string, not an extension"),
        (published({"x": math.nan}), "attribute 'x': NaN cannot be compared"),
        (published({"x": [1, math.nan]}), "attribute 'x': NaN"),
        (published({"": 1}), "an attribute's name is a non-empty string"),
        (published({"": b"1"}), "an attribute's name is a non-empty string"),
        (published({1: 1}), "Expected `str`, got `int`"),
        (published({"x": None}), "attribute 'x': nil is no value"),
        (published({"x": {"y": 1}}), "attribute 'x': a map is no value; names are flat"),
        (published({"x": [[1]]}), "attribute 'x': a set holds scalars only"),
        (published({"x": [None]}), "attribute 'x': a set holds scalars only"),
        (published({"x": Ext(9, b"")}), "attribute 'x': extension 9 is no value"),
        (published({"x": Ext(2, b"[]")}), "attribute 'x': extension 2 is no value"),
        (bodied({}, [], None, b"[]"), "cannot be read"),
        (bodied({}, [], None, b'{"a": 1e}'), "cannot be read"),
        (bodied({}, [], None, b'{"a": "\xff"}'), "text that is not UTF-8"),
        (bodied({}, [], None, b'{"a": [1'), "ends in the middle"),
        (bodied({}, [], None, b'{"a": ' + b"[" * _DEEP), "nested too deeply"),
        (bodied({}, [], None, '{"a": 1}'), "cannot be read"),
        (bodied({}, [5], None, b"{}"), "cannot be read"),
        (bodied({}, ["x"], "a/b", b""), "has a content type, and no objects beside it"),
        (bodied({}, [], "", b""), "has a content type, and no objects beside it"),
        (bodied({"x": 1}, ["x"], None, b"{}"), "attribute 'x' has a value, and has none"),
        (bodied({"x": None}, [], None, b"{}"), "attribute 'x': nil is no value"),
        (bodied(Ext(9, b"\x90"), [], None, b"{}"), "beside a body is a map, not extension 9"),
        (bodied({"": 1}, [], None, b"{}"), "non-empty string"),
        (bodied({}, [""], None, b"{}"), "non-empty string"),
        (published({"x": Ext(-1, b"\xff" * 12)}), "Invalid MessagePack timestamp"),
        (published(Ext(10, b"")), "a notification is a map, not extension 10"),
        (published(Ext(9, b"")), "ends in the middle"),
        (published(Ext(3, b"\x90")), "Expected `object`, got `array`"),
        (published(Ext(3, b"")), "ends in the middle"),
        (published(7), "Expected `object`, got `int`"),
        (plain([22, [40, "paris", 1, {}, False, math.nan], []]), "Expected `float`"),
        (plain([22, [40, "paris", 1, {}, False, math.inf], []]), "Expected `float`"),
        (plain([2, "1", _ALL, None, math.nan]), "a time is a number, not NaN"),
        (plain([2, "1", _ALL, None, None, math.nan]), "a time is a number, not NaN"),
        (plain([32, 1, 1, 1, 1, [48, "p", 1, math.nan, None, 1, []]]), "not NaN"),
        (plain([2, "1", 5]), "a filter is a string, not a number"),
        (plain([2, "1", {"any": []}]), "a filter is a string, not a map"),
        (plain([2, "1", "price > 5"]), "not valid JSON"),
        (plain([2, "1", "5"]), "not a filter in JSON"),
        (plain([2, "1", "{}"]), "not a filter in JSON"),
        (plain([2, "1", '{"any":[{"":{}}]}']), "an attribute's name is not empty"),
        (plain([2, "1", '{"any":[{"x":{"colour":[]}}]}']), "not a filter in JSON"),
        (plain([2, "1", '{"any":' + "[" * _DEEP]), "nested too deeply"),
        (plain([32, 1, 1, 1, 1, [41, 0, [1, 2], {5: 1}, {}]]), "a filter is a string"),
        (b"\x91\x93\x08\x01\x91" + b"\x91" * _DEEP, "nested too deeply"),
        (b"\x91\x93\x08\x01\x91\x81\xa1a" + b"\x91" * _DEEP + b"\x90", "nested too deeply"),
        (b"\x91\x93\x02\xa11" + b"\x91" * _DEEP + b"\x90", "nested too deeply"),
        (b"\x91\x93\x3e\x01" + b"\x91" * _DEEP + b"\x90", "nested too deeply"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)}:{value[:30].hex()}",
)
def test_what_cannot_be_read_is_refused_with_a_reason(payload, reason):
    for form in (bytes, memoryview):
        with pytest.raises(WireError) as caught:
            decode(form(payload))
        assert reason in str(caught.value)
        assert isinstance(caught.value, TidingsError)


_THREE = '{"any":[{"a":{"number":[{"eq":1},{"ge":4,"lt":9}]}}]}'
_PAIR = '{"any":[{"a":{"number":[{"eq":1}]}},{"b":{"number":[{"eq":1}]}}]}'


@pytest.mark.parametrize(
    ("limits", "payload", "reason"),
    [
        (
            WireLimits(attributes=2),
            published({"a": 1, "b": 2, "c": 3}),
            "a notification has 3 attributes; the limit is 2",
        ),
        (
            WireLimits(filters=Limits(characters=11)),
            plain([2, "1", _ALL]),
            "a filter has 12 characters; the limit is 11",
        ),
        (
            WireLimits(filters=Limits(conjunctions=1)),
            plain([2, "1", '{"any":[{},{}]}']),
            "a filter has 2 conjunctions; the limit is 1",
        ),
        (
            WireLimits(values=2),
            plain([2, "1", _THREE]),
            "a filter has 3 values; the limit is 2, so make several of it",
        ),
        (
            WireLimits(work=2),
            plain([2, "1", _PAIR]),
            "a filter is too much work: its parts are compared with each other, and that takes "
            "more than 2 steps; make several of it",
        ),
    ],
    ids=["attributes", "characters", "conjunctions", "values", "work"],
)
def test_what_is_beyond_a_limit_is_refused_and_the_limit_is_said(limits, payload, reason):
    assert MessageDecoder(UNLIMITED).decode(payload)
    with pytest.raises(WireError) as caught:
        MessageDecoder(limits).decode(payload)
    assert str(caught.value) == reason


def test_what_is_just_within_the_limits_is_read():
    limits = WireLimits(attributes=2, filters=Limits(characters=len(_ALL), conjunctions=1))
    assert MessageDecoder(WireLimits(values=3)).decode(plain([2, "1", _THREE]))
    assert MessageDecoder(WireLimits(work=20)).decode(plain([2, "1", _PAIR]))
    decoder = MessageDecoder(limits)
    assert decoder.decode(published({"a": 1, "b": 2}))
    assert decoder.decode(plain([2, "1", _ALL]))


@given(notifications, st.integers(0, 3))
def test_a_sender_can_know_what_a_reader_will_refuse(notification, attributes):
    limits = WireLimits(attributes=attributes)
    payload = encode([requests.Publish(1, (notification,))])[4:]
    foreseen, found = None, None
    try:
        limits.check(notification)
    except WireError as problem:
        foreseen = str(problem)
    try:
        MessageDecoder(limits).decode(payload)
    except WireError as problem:
        found = str(problem)
    assert foreseen == found


# -- hostile bytes -----------------------------------------------------------------------------


def understood_or_refused(payload):
    """Nothing but a `WireError` comes out; what is understood can be written and read again."""
    try:
        found = DECODER.decode(payload)
    except WireError:
        return
    assert sent(*found) == found


def damaged(payload, chance):
    """One mutation of bytes: some flipped, cut out, doubled, or overwritten."""
    data = bytearray(payload)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        upto = min(len(data), at + chance.choice((1, 1, 2, 4, 30)))
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:upto]
            case 2:
                del data[at:]
            case 3:
                data[at:at] = data[at:upto]
            case 4:
                data[at:upto] = chance.choice(_NASTY)
            case 5:
                data[at:at] = chance.randbytes(upto - at)
    return bytes(data)


_NASTY = [
    *(b"\xc0", b"\xc1", b"\xc2", b"\x80", b"\x90", b"\xa0", b"\xff", b"\x91", b"\x81"),
    *(b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xcb\xff\xf0\0\0\0\0\0\0", b"\xcf" + b"\xff" * 8),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"),
    *(b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x01\0", b"\xd4\x02\0", b"\xd4\x03\x80", b"\xd6\xff"),
    *(b"\x91" * 2_000, b"\x81\xa1a" * 2_000),
]


@given(st.lists(anything, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_damaged_messages_do_no_harm(several, chance):
    payload = encode(several)[4:]
    for _ in range(20):
        understood_or_refused(damaged(payload, chance))


@given(anything, anything, st.data())
def test_spliced_messages_do_no_harm(one, other, data):
    one, other = encode([one])[4:], encode([other])[4:]
    head = data.draw(st.integers(0, len(one)))
    tail = data.draw(st.integers(0, len(other)))
    understood_or_refused(one[:head] + other[tail:])


@given(st.binary(max_size=200))
def test_random_bytes_do_no_harm(payload):
    understood_or_refused(payload)
    for tag in range(64):
        understood_or_refused(b"\x91\x95" + bytes([tag]) + payload)


_leaves = st.one_of(scalars.filter(lambda v: not isinstance(v, int) or abs(v) < 2**63), st.none())
_shapes = st.recursive(
    st.one_of(_leaves, st.builds(Ext, st.integers(-1, 9), st.binary(max_size=20))),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=10,
)


@given(st.integers(0, 64), st.lists(_shapes, max_size=8))
def test_messages_with_fields_of_any_shape_do_no_harm(tag, fields):
    understood_or_refused(plain([tag, *fields]))
    understood_or_refused(plain([32, 1, 1, 1, 1, [tag, *fields]]))
    understood_or_refused(plain([8, 1, fields]))


# -- stored values -----------------------------------------------------------------


_keys = st.one_of(texts, st.integers(), filters)


def _nested(inner):
    return st.one_of(
        inner,
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(st.tuples(_keys, inner), max_size=3).map(dict),
        st.lists(_keys, max_size=3).map(frozenset),
    )


storable = _nested(_nested(st.one_of(st.none(), scalars, filters, notifications)))


def same(one, other):
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(v, other[k]) for k, v in one.items())
    return one == other


@given(storable)
def test_a_stored_value_comes_back_as_it_was(value):
    assert same(DECODER.unpack_value(pack_value(value)), value)


@pytest.mark.parametrize(
    "value", [object(), 1j, {"a": [object()]}, Ping(1)], ids=["object", "1j", "within", "ping"]
)
def test_what_cannot_be_stored_is_refused(value):
    with pytest.raises(WireError, match="cannot be stored"):
        pack_value(value)


@given(storable, st.randoms(use_true_random=False))
def test_a_damaged_value_is_read_or_refused(value, chance):
    stored = pack_value(value)
    for _ in range(20):
        with suppress(WireError):
            unpack_value(damaged(stored, chance))


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"\xd4\x04\x01", "a stored tuple, set or mapping is an array"),
        (b"\xc7\x02\x08\x91\x01", "cannot be read"),
        (b"\xd4\x09\x01", "extension 9 is no stored value"),
        (b"\xd4\x06\xff", "not UTF-8"),
        (b"\x91" * _DEEP, "nested too deeply"),
        (b"", "a stored value ends in the middle"),
    ],
)
def test_a_damaged_value_is_refused_with_a_reason(blob, reason):
    with pytest.raises(WireError, match=reason):
        unpack_value(blob)


# -- the stream --------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_frames_come_out_however_the_stream_is_cut(payloads, data):
    stream = b"".join(len(p).to_bytes(4, "big") + p for p in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    splitter = Splitter(limit=50)
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[start:stop])
        whole = sum(4 + len(p) for p in found)
        assert len(splitter._held) == stop - whole  # nothing that is complete is kept back
    assert found == payloads
    assert len(splitter._held) == 0


def test_a_stream_may_come_byte_by_byte():
    frame = encode([Ping(7)])
    splitter = Splitter(limit=100)
    found = [p for byte in frame * 3 for p in splitter.feed(bytes([byte]))]
    assert [decode(p) for p in found] == [[Ping(7)]] * 3


@pytest.mark.parametrize("before", [b"", b"\0\0\0\x01x", b"\0"])
def test_a_length_above_the_limit_is_refused_before_the_bytes_come(before):
    announced = (101).to_bytes(4, "big")
    splitter = Splitter(limit=100)
    if before == b"\0":
        assert splitter.feed(announced[:1]) == []
        announced = announced[1:]
    elif before:
        assert splitter.feed(before) == [b"x"]
    with pytest.raises(WireError, match="a frame of 101 bytes is announced; the limit is 100"):
        splitter.feed(announced)


def test_a_payload_of_just_the_limit_is_accepted():
    assert Splitter(limit=3).feed(b"\0\0\0\x03abc") == [b"abc"]


def test_a_large_frame_in_small_chunks_is_not_copied_again_and_again():
    """A megabyte in chunks of ten bytes: a copy for each chunk would be 50 gigabytes."""
    payload = random.Random(1).randbytes(1_000_000)
    stream = len(payload).to_bytes(4, "big") + payload
    splitter = Splitter(limit=len(payload))
    found = [p for at in range(0, len(stream), 10) for p in splitter.feed(stream[at : at + 10])]
    assert found == [payload]


# -- versions ----------------------------------------------------------------------------------


@given(*[st.integers(1, 6)] * 4)
def test_the_version_that_both_use_is_the_latest_that_both_speak(a, b, c, d):
    ours, theirs = range(min(a, b), max(a, b) + 1), range(min(c, d), max(c, d) + 1)
    both = set(ours) & set(theirs)
    with pytest.MonkeyPatch.context() as build:
        build.setattr(wire, "OLDEST", ours[0])
        build.setattr(wire, "VERSION", ours[-1])
        said = Hello(theirs[-1], "client", "ann", oldest=theirs[0])
        if both:
            assert common(said) == max(both)
            assert decode(encode([Welcome(max(both), "paris")])[4:])
        else:
            with pytest.raises(WireError, match=r"the other side speaks .*: upgrade"):
                common(said)
        for version in set(theirs) - set(ours):
            with pytest.raises(WireError, match=f"speaks version {version} of the wire"):
                decode(encode([Welcome(version, "paris")])[4:])


def test_a_greeting_says_all_versions_that_are_spoken():
    hello = greeting("broker", "paris", "secret", {"tree": True})
    assert hello == Hello(VERSION, "broker", "paris", "secret", {"tree": True}, OLDEST)
    assert common(hello) == VERSION


def test_version_1_is_refused_in_a_sentence():
    with pytest.raises(
        WireError,
        match=r"^the other side speaks version 1 of the wire, which was never released; "
        r"this one speaks version 2 of the wire: upgrade the other side$",
    ):
        common(Hello(1, "client", "ann"))
