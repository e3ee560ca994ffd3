"""Bulk subscriptions: the last word under each name, as of any cursor, against a plain dict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.delivery.copies import copies_for
from tidings.events import Filter, Notification, TidingsError
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived
from tidings.protocol.cursors import is_behind
from tidings.protocol.records import RecordDecoder, pack_notification
from tidings.spark.bulk.bulk import Bulk, Keeper, Position, bulk, write_snapshot
from tidings.spark.bulk.registrations import (
    Registrations,
    cancellation,
    deliveries,
    is_our_own,
    original,
    read,
    registration,
)

BEGIN = datetime(2026, 11, 16, 12, tzinfo=UTC)
NAMES = ("a", "b", "c", "it's")
BAD = (
    {"tidings.bulk": "a"},
    {"tidings.bulk": "a", "filter": "n = = 1"},
    {"tidings.bulk": "a", "filter": "n = " + "1" * 100_000},
    {"tidings.bulk": 7, "filter": "n = 1"},
    {"tidings.bulk": "x" * 500, "filter": "n = 1"},
    {"tidings.bulk": "", "filter": "n = 1"},
)


@st.composite
def histories(draw: Any) -> list[Archived]:
    """Registrations, cancellations and nonsense in two streams, with times that may be equal."""
    events, ticks, moment = [], {"paris": 0, "rome": 0}, BEGIN
    for _ in range(draw(st.integers(1, 12))):
        moment += timedelta(microseconds=draw(st.sampled_from([0, 1, 1_000_000])))
        stream = draw(st.sampled_from(sorted(ticks)))
        ticks[stream] += draw(st.integers(1, 3))
        name = draw(st.sampled_from(NAMES))
        said = draw(
            st.sampled_from(
                [
                    registration(name, f"n < {draw(st.integers(0, 9))}"),
                    registration(name, "FALSE"),
                    cancellation(name),
                    Notification(draw(st.sampled_from(BAD))),
                ]
            )
        )
        events.append(Archived(stream, ticks[stream], moment, said))
    return events


def oracle(events: list[Archived], cursor: dict[str, int] | None = None) -> dict[str, str]:
    """What is in force, said as plainly as can be."""
    found: dict[str, str] = {}
    for event in sorted(events, key=lambda e: (e.time, e.stream, e.tick)):
        if cursor is not None and event.tick > cursor.get(event.stream, 0):
            continue
        said = event.notification
        if dict(said) in [dict(Notification(b)) for b in BAD]:
            continue
        if said.get("cancelled"):
            found.pop(said["tidings.bulk"], None)
        else:
            found[said["tidings.bulk"]] = said["filter"]
    return found


def filters(known: Registrations) -> dict[str, Filter]:
    return {name: e.filter for name, e in known.entries.items() if e.filter is not None}


@given(histories(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_the_last_word_counts_in_whichever_order_they_come(
    events: list[Archived], chance: Any, split: int
) -> None:
    shuffled = chance.sample(events, len(events))
    known, in_force = Registrations(), {}
    for part in (shuffled[:split], shuffled[split:]):
        change = known.hear(part)
        for name in change.removed:
            del in_force[name]
        assert in_force.keys().isdisjoint(change.added)
        in_force |= change.added
    assert {n: str(f) for n, f in filters(known).items()} == oracle(events)
    assert in_force == filters(known)
    assert known.count == len(in_force)
    bad = [e.id for e in events if dict(e.notification) in [dict(Notification(b)) for b in BAD]]
    assert sorted(known.refused) == sorted(bad)
    assert known.refusals == len(bad)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(histories(), st.data())
def test_an_index_can_be_moved_to_any_cursor(events: list[Archived], data: Any) -> None:
    with TemporaryDirectory() as folder:
        lake, cursors = Lake(folder), [{}]
        cuts = sorted(data.draw(st.sets(st.integers(1, len(events)), max_size=3)))
        for version, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True), 1):
            lake.append(events[a:b], writer="archive", version=version)
            cursors.append(lake.held())
            if data.draw(st.booleans()):
                known = Registrations()
                known.hear(e for e in events if e.tick <= lake.held().get(e.stream, 0))
                write_snapshot(lake.path, lake.held(), known)
        moving = Bulk(folder)
        for cursor in data.draw(st.lists(st.sampled_from(cursors), min_size=1, max_size=6)):
            wanted = oracle(events, cursor)
            for index in (moving.move(cursor), Bulk(folder).move(cursor)):
                for n in (-1, 4, 8):
                    said = Notification({"n": n})
                    matching = {k for k, f in wanted.items() if Filter.parse(f).matches(said)}
                    assert set(index.match(said)) == matching
                assert len(index) == len(wanted)


def test_a_keeper_counts_and_leaves_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.spark.bulk.bulk._OFTEN", 5)
    lake = Lake(tmp_path)
    keeper, position = Keeper(tmp_path), Position(tmp_path)
    for version in range(1, 9):
        said = [registration(f"{version}-{n}", f"n > {n}") for n in range(3)]
        said += [cancellation(f"{version - 1}-0"), Notification(BAD[1])]
        lake.append(
            [Archived("paris", 5 * version + n, BEGIN, s) for n, s in enumerate(said)],
            writer="archive",
            version=version,
        )
        keeper.follow()
        assert keeper.cursor == position.cursor() == lake.held()
    assert keeper.known.count == 17
    assert keeper.known.refusals == 8
    assert "expected a constant" in keeper.known.refused["paris:44"]
    assert len(list((tmp_path / "_snapshots").iterdir())) == 3
    again = Keeper(tmp_path)
    again.follow()
    assert again.known.entries == keeper.known.entries
    assert len(bulk(str(tmp_path)).move(lake.held())) == 17
    assert bulk(str(tmp_path)) is bulk(str(tmp_path))


@pytest.mark.parametrize("left", [0, 1, 1_000])
def test_a_snapshot_that_is_damaged_is_passed_over(tmp_path: Path, left: int) -> None:
    lake, known = Lake(tmp_path), Registrations()
    said = [registration(f"{n}", f"n > {n}") for n in range(99)]
    events = [Archived("paris", 1 + n, BEGIN, s) for n, s in enumerate(said)]
    lake.append(events, writer="archive", version=1)
    known.hear(iter(events))
    path = write_snapshot(lake.path, lake.held(), known)
    header, _, content = path.read_bytes().partition(b"\n")
    path.write_bytes(header + b"\n" + content[:left] if left else b"")
    assert len(Bulk(tmp_path).move(lake.held())) == 99
    keeper = Keeper(tmp_path)
    keeper.follow()
    assert keeper.known.count == 99


def test_a_failure_on_the_way_loses_no_subscription(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for n in range(3):
        said = registration(f"d{n}", f"n = {n}")
        lake.append([Archived("paris", n + 1, BEGIN + timedelta(days=n), said)], "test", n + 1)
    moving, keeper = Bulk(tmp_path), Keeper(tmp_path)
    moving.move({"paris": 1})
    last = tmp_path / max(lake.snapshot().files())
    hidden = last.rename(tmp_path / "hidden")
    for go in (lambda: moving.move(lake.held()), keeper.follow):
        with pytest.raises((TidingsError, OSError)):
            go()
    hidden.rename(last)
    index = moving.move(lake.held())
    assert [index.match(Notification({"n": n})) for n in range(3)] == [["d0"], ["d1"], ["d2"]]
    keeper.follow()
    assert keeper.known.count == 3


def test_where_there_is_no_lake_there_are_no_registrations(tmp_path: Path) -> None:
    for ask in (lambda: Position(tmp_path).cursor(), lambda: Bulk(tmp_path)):
        with pytest.raises(TidingsError, match="there are no registrations here"):
            ask()
    assert list(tmp_path.iterdir()) == []


def test_cursors_are_compared_stream_by_stream() -> None:
    assert is_behind({}, {})
    assert is_behind({"a": 1}, {"a": 1, "b": 2})
    assert not is_behind({"a": 1, "b": 3}, {"a": 9, "b": 2})


# -- words ---------------------------------------------------------------------------------------


def test_a_delivery_is_the_event_for_up_to_a_thousand_names() -> None:
    said = Notification({"symbol": "DIS", "tags": ["us", 1], "order": {"size": 2}})
    names = [f"desk-{n:04}" for n in range(2_500)]
    found = list(deliveries(said, set(names), id="paris:17", time=BEGIN))
    assert [len(d["tidings.for"]) for d in found] == [1_000, 1_000, 500]
    assert sorted(name for d in found for name in d["tidings.for"]) == names
    for delivery in found:
        assert delivery.body == said.body
        assert delivery["order"] == {"size": 2}
        own = {n: v for n, v in delivery.attributes.items() if not n.startswith("order")}
        assert Notification(own).attributes == own  # its values are canonical
        assert (delivery["tidings.id"], delivery["tidings.time"]) == ("paris:17", BEGIN)
        assert original(delivery) == said
        assert is_our_own(delivery)
    assert copies_for("desk-1500").matches(found[1])
    assert not copies_for("desk-1500").matches(found[2])
    assert not is_our_own(said)


def test_what_is_registered_can_be_read() -> None:
    assert read(registration("it's", "n < 5")) == ("it's", Filter.parse("n < 5"))
    assert read(cancellation("a")) == ("a", None)
    assert is_our_own(registration("a", "TRUE"))
    for bad in BAD:
        with pytest.raises(TidingsError):
            read(Notification(bad))
    with pytest.raises(TidingsError, match="expected a constant"):
        registration("a", "n = ")
    with pytest.raises(TidingsError, match="no name of a bulk subscription"):
        registration("", "n = 1")


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5).filter(lambda n: "." not in n),
        st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.booleans()
        | st.binary()
        | st.datetimes(timezones=st.just(UTC))
        | st.lists(st.integers() | st.text() | st.booleans()),
        max_size=5,
    ),
    st.sets(st.text(min_size=1, max_size=5), min_size=1),
)
def test_a_delivery_is_packed_as_any_notification_is(said: Any, names: set[str]) -> None:
    event = Notification(said)
    (delivery,) = deliveries(event, names, id="paris:1", time=BEGIN)
    raw, delivery.packed = delivery.packed, None
    assert raw is not None
    assert RecordDecoder().notification(raw) == RecordDecoder().notification(
        pack_notification(delivery)
    )
    assert original(RecordDecoder().notification(raw)) == event
