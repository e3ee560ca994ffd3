"""Copies of the log: what is committed, and no more at a time than a client takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tidings.broker import copying
from tidings.broker.copying import blanked
from tidings.broker.server import Broker
from tidings.delivery.copies import FOR
from tidings.events import Filter, Notification
from tidings.protocol.messages import Event, More
from tidings.protocol.requests import Erase, Erasure, Refused
from tidings.protocol.wire import Copied, Copy, Ping, Pong, pack, unpack, unpack_rows

TEXT = "x" * 1_000


def broken_off(folder: Path) -> Any:
    return configured(folder, name="paris")


async def copied(peer: Peer, after: int, upto: int, *, stream: str = "paris") -> Copied | Refused:
    peer.say(Copy("c", stream, after, upto))
    while True:
        message = await peer.hear()
        if isinstance(message, Copied | Refused):
            return message


def ticks(answer: Copied | Refused) -> list[int]:
    assert isinstance(answer, Copied)
    return [t for block in answer.blocks for t in unpack_rows(block).ticks]


@on_loop
async def test_a_copy_is_the_log_block_by_block(tmp_path: Path) -> None:
    async with Broker(broken_off(tmp_path)) as broker, connected(broker) as peer:
        await peer.attach("reader")
        assert await copied(peer, 0, 100) == Copied("c", (), 0, 0)
        await peer.published(1, *({"n": n} for n in range(1, 11)))
        await peer.published(11, *({"n": n} for n in range(11, 21)))
        assert ticks(await copied(peer, 0, 100)) == list(range(1, 21))
        whole = await copied(peer, 12, 13)
        assert ticks(whole) == list(range(11, 21))  # whole blocks
        assert isinstance(whole, Copied)
        assert (whole.upto, whole.last) == (20, 20)
        assert ticks(await copied(peer, 3, 5)) == list(range(1, 11))
        assert await copied(peer, 20, 100) == Copied("c", (), 20, 20)
        rows = unpack_rows(whole.blocks[0])
        assert rows.records == [{"n": n} for n in range(11, 21)]


@on_loop
async def test_what_cannot_be_copied_is_refused_and_why(tmp_path: Path) -> None:
    async with Broker(broken_off(tmp_path)) as broker, connected(broker) as peer:
        await peer.attach("reader")
        await peer.published(1, {"n": 1}, {"n": 2})
        await peer.published(3, {"n": 3})
        other = await copied(peer, 0, 1, stream="rome")
        assert isinstance(other, Refused)
        assert "this is the broker paris, which has no log of 'rome'" in other.reason
        assert isinstance(await copied(peer, -1, 1), Refused)
        beyond = await copied(peer, 2**64 - 1, 2**64 - 1)
        assert isinstance(beyond, Refused)
        assert (beyond.cursor, beyond.stream) == ({"paris": 3}, "paris")
        await broker.host.trim(before=1e12, size=None)
        first = broker.host.first
        assert first > 1
        gone = await copied(peer, 0, 3)
        assert isinstance(gone, Refused)
        assert (gone.cursor, gone.stream, gone.position) == ({"paris": first - 1}, "paris", 0)
        assert ticks(await copied(peer, first - 1, 3)) == list(range(first, 4))


@pytest.mark.slow
@on_loop
async def test_who_does_not_read_is_sent_no_more_than_the_limit(tmp_path: Path) -> None:
    small = configured(tmp_path, "[limits]\nmemory = 65536\n", name="paris")
    async with (
        Broker(small) as broker,
        connected(broker) as slow,
        connected(broker) as other,
    ):
        await slow.attach("slow")
        await other.attach("other")
        for first in range(1, 5_001, 100):
            await other.published(first, *({"n": n, "text": TEXT} for n in range(100)))
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        count = copying._MOST
        for number in range(count):
            slow.say(Copy(f"c{number}", "paris", 0, 5_000))

        def waiting() -> int:
            return max(c.waiting for c in broker.gate.connections)

        await eventually(lambda: waiting() > 65_536)
        for number in range(20):  # others are served meanwhile
            other.say(Ping(number))
            await other.until(Pong)
            assert waiting() < 65_536 + (3 << 20)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answers = [await slow.until(Copied) for _ in range(count)]
        assert [a.id for a in answers] == [f"c{number}" for number in range(count)]
        assert sum(map(len, answers[0].blocks)) > copying._PIECE / 2
        for number in range(2 * count + 10):
            slow.say(Copy(f"d{number}", "paris", 0, 5_000))
        assert "at most 64" in (await slow.until(Refused)).reason


class Slow:
    """Somebody who does not take what is sent, until it does."""

    def __init__(self) -> None:
        self.is_full = self.is_closing = False
        self.sent: list[Any] = []

    def send(self, messages: list[Any]) -> None:
        self.sent += messages

    def close(self) -> None:
        """Nothing more is sent."""

    def cut_off(self, why: str) -> None:
        """Nothing more is sent."""


@on_loop
async def test_a_piece_that_waits_while_something_is_erased_is_read_again(tmp_path: Path) -> None:
    async with Broker(broken_off(tmp_path)) as broker, connected(broker) as peer:
        await peer.attach("reader")
        await peer.published(1, *({"n": n} for n in range(1, 21)))
        slow = Slow()
        copies = copying.Copies(slow, broker.host.copier)
        assert copies.ask(Copy("c", "paris", 0, 20)) is None
        slow.is_full = True
        await eventually(lambda: copies._answer is not None)
        peer.say(Erase("erase-1", Filter.parse("n = 7")))
        while not (isinstance(answer := await peer.hear(), Erasure) and answer.is_done):
            pass
        slow.is_full = False
        copies.go_on()
        await eventually(lambda: bool(slow.sent))
        (found,) = slow.sent
        records = [record for block in found.blocks for record in unpack_rows(block).records]
        assert records[6] == {"tidings.erased": "erase-1"}


def test_a_store_gives_what_it_was_given_undecoded(tmp_path: Path) -> None:
    from tidings.broker.store import SQLiteStore, StoreError

    store = SQLiteStore(tmp_path, "paris", ballast=0)
    try:
        assert store.copy("paris", 0, upto=10, size=1) == (0, 0, ())
        events = [Event("paris", t, Notification({"n": t}), time=float(t)) for t in range(1, 601)]
        store.commit({}, events)
        since, upto, blocks = store.copy("paris", 0, upto=1_000, size=1 << 20)
        assert (since, upto) == (0, 600)
        assert [t for b in blocks for t in unpack_rows(b).ticks] == list(range(1, 601))
        since, upto, (only,) = store.copy("paris", 300, upto=301, size=1)
        assert (since, upto) == (300, 512)
        assert unpack_rows(only).ticks == list(range(257, 513))
        store.trim(before=400.0)
        assert store.copy("paris", 0, upto=600, size=1)[0] == 256
        connection = store._writer._connection
        connection.execute("UPDATE log SET events = zeroblob(100) WHERE place & 0xffff = 513")
        with pytest.raises(StoreError, match="damaged"):
            store.copy("paris", 512, upto=600, size=1)
    finally:
        store.close()


def test_of_a_copy_for_a_bulk_subscriber_only_its_tick_is_told() -> None:
    rows = [{"n": 1}, {"n": 2, FOR: ["desk"]}, {"n": 3}, {"n": 4, FOR: ["desk"]}]
    events = [
        Event("paris", tick, Notification(row), tick > 2, 5.0, More(id=f"id-{tick}"))
        for tick, row in enumerate(rows, 7)
    ]
    found = unpack(blanked(pack(events, ["ann"] * 4), "paris"), "paris")
    blank = Notification({FOR: True})
    assert found == (
        events[0],
        Event("paris", 8, blank, time=5.0),
        events[2],
        Event("paris", 10, blank, time=5.0),
    )
    plain = pack([events[0], events[2]])
    assert blanked(plain, "paris") is plain
