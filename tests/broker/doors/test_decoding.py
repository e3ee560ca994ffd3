"""Filters that are a lot of work: nobody else waits for them, and no request overtakes another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import msgspec
import pytest

from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tidings.broker.server import Broker
from tidings.events import Filter
from tidings.protocol.requests import (
    Accepted,
    Advertise,
    Attach,
    Refused,
    Subscribe,
    Unsubscribe,
    Watch,
)
from tidings.protocol.wire import VERSION, Hello, Ping, Pong, Welcome, encode


def listed(numbers: Iterable[int]) -> str:
    """The JSON of a filter for these numbers."""
    return json.dumps({"any": [{"n": {"number": [{"eq": n} for n in numbers]}}]})


MANY = Filter.from_json(listed(range(0, 12_000, 2)))
"""Too much for the loop, but not for a thread."""
LONG = listed(range(0, 100_002, 2))
"""One value too many."""
COSTLY = json.dumps(
    {
        "any": [
            {"a": {"string": {"within": [{}], "passing": [{"like": "%a" * 300 + f"%{n}"}]}}}
            for n in range(150)
        ]
    }
)
"""Few characters, and hundreds of millions of steps to compare them with each other."""


class Workshop:
    """Holds up the threads that decode, until it is told to go on."""

    def __init__(self, broker: Broker, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_end = Flag(), Flag()
        submit = broker.gate._threads.submit
        patch.setattr(broker.gate._threads, "submit", lambda f, *a: submit(self._work, f, *a))

    def _work(self, function: Any, *arguments: Any) -> Any:
        self.begun.set()
        assert self.may_end.wait(30)
        return function(*arguments)


def say(peer: Peer, tag: int, *fields: object) -> None:
    """A message whose filter would not come as far as this through `encode`."""
    payload = msgspec.msgpack.encode([[tag, *fields]])
    peer.writer.write(len(payload).to_bytes(4, "big") + payload)


@on_loop
async def test_while_a_filter_is_read_others_are_served_and_its_client_waits_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Broker(configured(tmp_path)) as broker,
        connected(broker) as slow,
        connected(broker) as other,
    ):
        workshop = Workshop(broker, monkeypatch)
        await slow.attach("slow")
        await other.attach("other")
        slow.say(Subscribe("s", MANY))
        slow.say(Ping(1))
        slow.say(Unsubscribe("s"))
        slow.say(Subscribe("s", Filter.parse("n = 1")), Ping(2))
        slow.publish(1, {"n": 0}, {"n": 1})
        await eventually(workshop.begun.is_set)
        await other.published(1, {"n": 0})
        other.say(Ping(7))
        assert await other.until(Pong) == Pong(7)
        workshop.may_end.set()
        answers = [await slow.until((Accepted, Pong)) for _ in range(5)]  # type: ignore[arg-type]
        assert [m.id if isinstance(m, Accepted) else m.number for m in answers][:2] == ["s", 1]
        assert await slow.deliveries(1) == [{"n": 1}]
        assert broker.host.last == 3


@on_loop
async def test_a_filter_that_is_a_lot_of_work_is_heard_like_any_other(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        peer.writer.write(
            encode([Hello(VERSION, "client", "ann")])
            + encode([Attach({"a": MANY}, {"b": MANY})])
            + encode([Subscribe("s", MANY), Watch("w", MANY), Advertise("x", MANY)])
            + encode([Ping(1)])
        )
        assert isinstance(await peer.hear(), Welcome)
        assert await peer.until(Pong) == Pong(1)
        assert not [m for m in peer.heard if isinstance(m, Refused)]
        await peer.published(1, {"n": 1}, {"n": 8_000})
        assert await peer.deliveries(1) == [{"n": 8_000}]


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        (LONG, "a filter has 50001 values; the limit is 50000"),
        (COSTLY, "a filter is too much work"),
        ("{", "not valid JSON"),
        (7, "a filter is a string"),
    ],
    ids=["long", "costly", "damaged", "no-text"],
)
@on_loop
async def test_a_filter_above_a_limit_is_refused_alone(
    tmp_path: Path, filter: object, reason: str
) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        decoder = broker.gate._clients._decoder
        decoder.limits = replace(decoder.limits, work=100_000)
        await peer.greet("ann")
        say(peer, 1, {"good": '{"any":[{}]}', "bad": filter}, {"worse": filter})
        for id in ("bad", "worse"):
            refused = await peer.until(Refused)
            assert refused.id == id
            assert reason in refused.reason
        assert (await peer.until(Accepted)).id == "attach"
        for tag in (2, 5, 6):
            say(peer, tag, f"id-{tag}", filter)
            refused = await peer.until(Refused)
            assert refused.id == f"id-{tag}"
            assert reason in refused.reason
        await peer.published(1, {"n": 1})
        assert await peer.deliveries(1) == [{"n": 1}]
        assert len(broker.gate.connections) == 1


@on_loop
async def test_whoever_leaves_while_their_filter_is_read_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(configured(tmp_path)) as broker:
        workshop = Workshop(broker, monkeypatch)
        async with connected(broker) as peer:
            await peer.attach("ann")
            peer.say(Subscribe("s", MANY))
            await eventually(workshop.begun.is_set)
        workshop.may_end.set()
        await eventually(lambda: not broker.gate.connections and not broker.host.sessions)
        assert not broker.host.node.sessions


@on_loop
async def test_a_broker_stops_while_a_filter_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        workshop = Workshop(broker, monkeypatch)
        await peer.attach("ann")
        peer.say(Subscribe("s", MANY), Ping(1))
        await eventually(workshop.begun.is_set)
        await broker.stop()
        workshop.may_end.set()


@pytest.mark.slow
@on_loop
async def test_neighbours_may_want_more_than_a_client_may_ask_for(tmp_path: Path) -> None:
    """Filters of several clients are merged on the way; the link would break for ever."""
    merging = '[routing]\nsubscriptions = "merging"\nbeat = 0.1\nprogress = 0.1\n'
    text = f"{merging}[neighbours]\nlondon = {{}}\n"
    async with Broker(configured(tmp_path, text, name="paris")) as paris:
        text = f'{merging}[neighbours]\nparis = "{paris.address}"\n'
        async with (
            Broker(configured(tmp_path, text, name="london")) as london,
            connected(london) as reader,
            connected(paris) as writer,
        ):
            await eventually(lambda: paris.links.is_up("london"))
            await reader.attach("reader")
            await writer.attach("writer")
            for part in range(2):
                numbers = range(2 * part, 120_000, 4)
                reader.say(Subscribe(f"s{part}", Filter.from_json(listed(numbers))))
                while (await reader.until(Accepted)).id != f"s{part}":
                    pass
            await writer.published(1, {"n": 3}, {"n": 4}, {"n": 6})
            assert await reader.deliveries(2) == [{"n": 4}, {"n": 6}]
            assert london.links.is_up("paris")
