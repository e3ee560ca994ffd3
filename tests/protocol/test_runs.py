"""Runs: a record gives back what was put into it, however it is cut, and leaves bytes alone."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.protocol.test_wire import damaged, notifications, texts
from tidings.events import Notification
from tidings.protocol.messages import Event, More
from tidings.protocol.records import WireError, pack_notification
from tidings.protocol.runs import (
    Besides,
    Run,
    pack,
    repack,
    unpack,
    unpack_rows,
    unpack_runs,
)

mores = st.builds(
    More,
    id=st.sampled_from(["", "order-7", "ü" * 40]),
    expires=st.sampled_from([0.0, 0.0, 1.8e9]),
    control=st.sampled_from([0, 0, 0, 3]),
    trace=st.sampled_from([None, None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]),
    maybe_twice=st.booleans(),
).filter(lambda more: more != More())


@st.composite
def said(draw: st.DrawFn) -> tuple[list[Event], list[str]]:
    """Events of a stream, in its order but with holes, and who has published each."""
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 1, 5]), max_size=12))
    waits = draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.25]), min_size=12, max_size=12))
    names = st.sampled_from(["", "desk-7/ann", "desk-7/bob"])
    found, time = [], 1.7e9
    for tick, wait in zip(accumulate(steps, initial=0), waits, strict=False):
        time += wait
        more = draw(st.one_of(st.none(), st.none(), mores))
        flood = draw(st.sampled_from([False, False, True]))
        found.append(Event("paris", tick + 1, draw(notifications), flood, time, more))
    return found, draw(st.lists(names, min_size=len(found), max_size=len(found)))


def told(runs: list[Run]) -> list[tuple[Event, str]]:
    """What runs say, a row at a time."""
    return [(event, run.publisher) for run in runs for event in run.each("paris")]


@given(said())
def test_a_record_gives_back_what_was_put_into_it(both: tuple[list[Event], list[str]]) -> None:
    events, publishers = both
    record = pack(events, publishers)
    assert list(unpack(record, "paris")) == events
    assert told(unpack_runs(record)) == list(zip(events, publishers, strict=True))
    rows = unpack_rows(record)
    assert (rows.ticks, rows.times) == ([e.tick for e in events], [e.time for e in events])
    for found, event in zip(rows.records, events, strict=True):
        attributes = event.notification.attributes
        assert found == attributes
        assert all(type(v) is type(attributes[name]) for name, v in found.items())
        if event.notification.content is None:
            assert list(found) == list(attributes)  # their order is that of the body
    said = [body and (body.kind, body.content) for body in rows.bodies]
    kept = [event.notification for event in events]
    assert said == [n.content and (n.bytes_type, n.content) for n in kept]


@given(said())
def test_there_are_as_few_runs_as_there_can_be(both: tuple[list[Event], list[str]]) -> None:
    events, publishers = both
    mores = [event.more or More() for event in events]
    shared = [
        (event.tick - at, event.time, name, more.control, more.trace)
        for at, (event, name, more) in enumerate(zip(events, publishers, mores, strict=True))
    ]
    changes = sum(one != other for one, other in pairwise(shared))
    assert len(unpack_runs(pack(events, publishers))) == bool(events) + changes


@given(said())
def test_the_bytes_of_a_row_are_those_that_came(both: tuple[list[Event], list[str]]) -> None:
    events, publishers = both
    runs = unpack_runs(pack(events, publishers))
    rows = [bytes(row) for run in runs for row in run.rows]
    assert rows == [bytes(pack_notification(event.notification)) for event in events]


@given(said(), st.data())
def test_a_run_may_be_cut_anywhere(both: tuple[list[Event], list[str]], data: Any) -> None:
    pieces = []
    for run in unpack_runs(pack(*both)):
        at = data.draw(st.integers(0, len(run.rows)))
        more = run.more or [None] * len(run.rows)
        pieces.append(replace(run, rows=run.rows[:at], more=more[:at]))
        pieces.append(replace(run, first=run.first + at, rows=run.rows[at:], more=more[at:]))
    assert told(unpack_runs(repack(pieces))) == list(zip(*both, strict=True))


def test_what_is_one_for_all_is_said_once() -> None:
    events = [Event("paris", tick, Notification({"n": tick}), time=1.7e9) for tick in range(1, 251)]
    alone = sum(len(bytes(pack_notification(event.notification))) for event in events)
    assert len(pack(events, ["desk-7/ann"] * 250)) - alone < 40


@pytest.mark.parametrize(
    ("more", "written"),
    [
        (More(id="order-7"), ["order-7"]),
        (More(maybe_twice=True), ["", False, True]),
        (More(id="a", expires=9.0), ["a", False, False, 9.0]),
    ],
)
def test_only_what_a_row_has_is_written(more: More, written: list[object]) -> None:
    events = [Event("paris", 1, Notification({})), Event("paris", 2, Notification({}), more=more)]
    _, [run] = msgspec.msgpack.decode(pack(events))
    assert run == [1, 0.0, "", 0, None, [{}, {}], [None, written]]


def test_rows_are_read_though_their_writer_has_not_marked_them() -> None:
    when = datetime(2026, 11, 15, tzinfo=UTC)
    record = msgspec.msgpack.encode((2, [(7, 5.0, "", 0, None, [{"t": when, "s": ["a", 1]}])]))
    assert unpack_rows(record)[:3] == ([7], [5.0], [{"t": when, "s": frozenset({"a", 1})}])


def test_rows_between_two_ticks_are_cut_out() -> None:
    rows = unpack_rows(pack([Event("paris", t, Notification({"n": t})) for t in range(5, 10)]))
    assert rows.between(4, 9) is rows
    assert rows.between(5, 7)[:3] == ([6, 7], [0.0, 0.0], [{"n": 6}, {"n": 7}])
    assert rows.between(9, 20).ticks == rows.between(0, 4).ticks == []


@pytest.mark.parametrize("read", [unpack_rows, unpack_runs, lambda blob: unpack(blob, "paris")])
def test_a_record_of_another_format_is_refused(read: Any) -> None:
    for format, rows in ((1, [(7, {"n": 1}, False, 5.0)]), (3, []), (3, {"runs": 7})):
        with pytest.raises(WireError, match=f"of format {format}; this tidings reads format 2"):
            read(msgspec.msgpack.encode((format, rows)))


def test_fields_that_a_later_version_adds_are_skipped() -> None:
    run = (7, 5.0, "ann", 0, None, [{}], [("a", False, False, 0.0, "later")], {"later": 1})
    record = msgspec.msgpack.encode((2, [run]))
    (event,) = unpack(record, "paris")
    assert (event.tick, event.more) == (7, More(id="a"))
    assert unpack_rows(record).ticks == [7]


def test_a_run_that_does_not_tell_more_of_each_row_is_damaged() -> None:
    rows = [pack_notification(Notification({}))] * 2
    with pytest.raises(WireError, match="2 rows, and tells more of 1"):
        unpack(repack([Run(1, 0.0, rows=rows, more=[Besides(id="a")])]), "paris")


def test_the_log_has_no_limits_of_its_own() -> None:
    many = Notification({f"a{i}": i for i in range(5_000)})
    (found,) = unpack(pack([Event("paris", 1, many)]), "paris")
    assert found.notification == many


@given(said(), st.randoms(use_true_random=False))
def test_damaged_records_are_read_or_refused(
    both: tuple[list[Event], list[str]], chance: Any
) -> None:
    record = pack(*both)
    for _ in range(20):
        blob = damaged(record, chance)
        for read in (unpack_rows, unpack_runs, lambda b: unpack(b, "paris")):
            with suppress(WireError):
                read(blob)


@given(st.binary(max_size=60), texts)
def test_random_bytes_do_no_harm(blob: bytes, stream: str) -> None:
    for read in (unpack_rows, lambda b: unpack(b, stream)):
        with suppress(WireError):
            read(blob)
