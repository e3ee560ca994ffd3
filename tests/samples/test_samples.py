"""Samples of format 2, written when it was new, are read exactly, whatever has been changed since.

A test that fails here says that what is out there cannot be read any more, or means something
else. The samples are never made anew for that: a change that needs it is another format.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.broker.peers import configured, connected, eventually, on_loop
from tests.broker.store.logs import log_in
from tests.samples.said import FILTER, FIRST, SAID, events, still, told
from tidings.broker.configuration import Configuration
from tidings.broker.server import Broker
from tidings.broker.store.check import check
from tidings.broker.store.log_table import row_of, rows_behind
from tidings.events import Filter
from tidings.lakes.lake import EVERYTHING, Gap, Lake
from tidings.lakes.layout import Archived
from tidings.protocol.requests import Accepted, Acknowledge, Attach
from tidings.protocol.runs import unpack_runs
from tidings.protocol.wire import LENGTH, UNLIMITED, MessageDecoder, Pong, Welcome, encode

SAMPLES = Path(__file__).with_name("format-2")
CONVERSATIONS = ["client", "link"]


def frames(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((SAMPLES / f"{name}.json").read_text())
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy of the store, which may be written."""
    shutil.copytree(SAMPLES / "store", tmp_path / "paris")
    return tmp_path / "paris"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    shutil.copytree(SAMPLES / "lake", tmp_path / "lake")
    return Lake(tmp_path / "lake")


# -- the wire ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_says_what_it_said(name: str) -> None:
    decoder = MessageDecoder(UNLIMITED)
    for frame in frames(name):
        payload = bytes.fromhex(frame["bytes"])[LENGTH:]
        messages = decoder.decode(payload)
        assert still(frame["says"], [told(message) for message in messages])


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_what_is_said_now_is_what_was_said_and_perhaps_new_fields_behind_it(name: str) -> None:
    decoder = MessageDecoder(UNLIMITED)
    for frame in frames(name):
        payload = bytes.fromhex(frame["bytes"])[LENGTH:]
        now = msgspec.msgpack.decode(encode(decoder.decode(payload))[LENGTH:])
        for message, before in zip(now, msgspec.msgpack.decode(payload), strict=True):
            assert begins_like(message, before)


def begins_like(now: Any, before: Any) -> bool:
    """Whether arrays have at least what they had, at every depth."""
    if isinstance(before, list) and isinstance(now, list):
        return len(now) >= len(before) and all(map(begins_like, now, before))
    return bool(now == before)


def test_the_conversations_are_between_clients_and_brokers_of_all_sorts() -> None:
    said = {name: {m["kind"] for f in frames(name) for m in f["says"]} for name in CONVERSATIONS}
    assert said["client"] >= {
        *("Hello", "Welcome", "Attach", "Accepted", "Subscribe", "Publish", "Delivery", "Progress"),
        *("Acknowledge", "Copy", "Copied", "Unsubscribe", "Ping", "Pong", "Renew", "Detach"),
    }
    bodies = [m.get("body") or {} for f in frames("link") for m in f["says"]]
    assert said["link"] >= {"Hello", "Welcome", "Frame", "Offer"}
    assert {body.get("kind") for body in bodies} >= {
        *("Event", "Update", "Streams", "Silence", "Fetch", "Fetched"),
    }
    times = [m["complete"] for f in frames("client") for m in f["says"] if m["kind"] == "Progress"]
    assert any("paris" in complete for complete in times)
    assert any(body.get("complete") for body in bodies if body.get("kind") == "Silence")


@on_loop
async def test_a_broker_still_answers_what_a_client_said_then(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path, name="paris")) as broker, connected(broker) as peer:
        for frame in frames("client"):
            if frame["by"] == "listener":
                continue
            peer.writer.write(bytes.fromhex(frame["bytes"]))
            for said in frame["says"]:
                if said["kind"] == "Publish":
                    assert await peer.deliveries(5) == [dict(e) for e in events()[1:FIRST]]
                elif said["kind"] == "Subscribe" and said["since"] == "begin":
                    assert await peer.deliveries(FIRST) == [dict(e) for e in events()[:FIRST]]
                elif said["kind"] == "Ping":
                    assert (await peer.until(Pong)).number == said["number"]
    answers = [told(message) for message in peer.heard]
    for before in (said for frame in frames("client") for said in frame["says"]):
        if before["kind"] in ("Welcome", "Accepted", "Pong"):
            same = [before["kind"], before.get("id"), before.get("number")]
            assert same in [[a["kind"], a.get("id"), a.get("number")] for a in answers]


# -- the store ---------------------------------------------------------------------------------


def test_the_store_is_sound_and_says_what_it_said(store: Path) -> None:
    report = check(store)
    assert (report.broker, report.problems) == ("paris", ())
    assert {s: (span.first, span.last) for s, span in report.spans.items()} == {
        "paris": (1, len(SAID)),
        "paris~2": (1, 1),
    }
    found = log_in(store, "paris")
    assert [e.notification for e in found[:-1]] == events()
    assert [(e.stream, e.tick) for e in found] == [
        *(("paris", tick) for tick in range(1, len(SAID) + 1)),
        ("paris~2", 1),
    ]
    times = [event.time for event in found]
    assert times == sorted(times)
    assert 1.7e9 < times[0] < times[-1] < 1.9e9


def test_the_store_says_who_has_published_what(store: Path) -> None:
    with closing(sqlite3.connect(store / "broker.db")) as connection:
        rows = [row_of(row) for _, row in rows_behind(connection, 1, 0, 1_000)]
    runs = [run for row in rows for run in unpack_runs(row.block())]
    assert {run.publisher for run in runs if run.first <= FIRST} == {"local/ann"}
    assert {run.publisher for run in runs if run.first > FIRST} == {"local/cleo"}


def neighbour_of(paris: Broker, folder: Path) -> Configuration:
    return configured(folder, f'[neighbours]\nparis = "{paris.address}"', name="rome")


@on_loop
async def test_a_broker_goes_on_where_the_store_ends(store: Path) -> None:
    """The folder is a copy, so another epoch begins, and others may have its durable names now;
    all else goes on.
    """
    async with (
        Broker(configured(store.parent, "[neighbours]\nrome = {}", name="paris")) as broker,
        Broker(neighbour_of(broker, store.parent)) as rome,
        connected(broker) as ann,
        connected(broker) as cleo,
    ):
        assert isinstance(await cleo.greet("cleo"), Welcome)
        cleo.say(Attach())
        assert (await cleo.until(Accepted)).number == len(SAID) - FIRST + 1
        await ann.attach("ann")
        streams = broker.host.node.from_log.reached.ways.streams
        await eventually(lambda: rome.host.node.from_log.stream in streams)
        await ann.subscribe(FILTER, id="mine", durable="orders")  # acknowledged up to tick 4
        expected = [dict(event) for event in events() if Filter.parse(FILTER).matches(event)]
        assert await ann.deliveries(5) == expected[3:]
        ann.say(Acknowledge("mine", {"paris": 10, "paris~2": 1}, number=9))
        await ann.published(FIRST + 1, {"n": 5, "is": "new"})
        assert await ann.deliveries(1) == [{"n": 5, "is": "new"}]
    assert check(store).problems == ()
    assert log_in(store, "paris")[-1].stream == "paris~3"


# -- the lake ----------------------------------------------------------------------------------


def test_the_lake_holds_what_it_held(lake: Lake) -> None:
    found = list(lake.events())
    assert [event.notification for event in found] == events()
    assert [event.id for event in found] == [f"paris:{n}" for n in range(1, len(SAID) + 1)]
    assert lake.held() == {"paris": len(SAID), "rome": 9}
    assert lake.gaps() == [Gap("rome", 3, 5)]
    assert lake.filter == EVERYTHING
    assert lake.snapshot().written("archiver") == 2


def test_the_lake_is_found_in_by_columns_and_by_the_rest(lake: Lake) -> None:
    for text in (FILTER, "symbol = 'DIS'", "price > 1e18", "tags CONTAINS 'hot'", "EXISTS large"):
        expected = [e for e in events() if Filter.parse(text).matches(e)]
        assert expected
        assert [event.notification for event in lake.events(text)] == expected


def test_the_lake_goes_on(lake: Lake) -> None:
    later = Archived("paris~2", 1, datetime(2026, 11, 20, tzinfo=UTC), events()[4])
    assert not lake.append([later], "archiver", 2)
    assert lake.append([later], "archiver", 3)
    assert lake.held() == {"paris": len(SAID), "rome": 9, "paris~2": 1}
    lake.compact()
    assert [event.notification for event in lake.events()] == [*events(), events()[4]]
