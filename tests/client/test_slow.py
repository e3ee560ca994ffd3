"""A client that does not read at all for a while: the broker must neither grow nor wait for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidings
from tests.client.brokers import BrokerProcess

pytestmark = pytest.mark.slow

COUNT = 20_000
TEXT = "x" * 1_000  # so that all of them are more than the buffers of two sockets hold


@pytest.mark.parametrize("durable", [None, "desk"])
def test_who_does_not_read_misses_events_and_is_told_unless_durable(
    tmp_path: Path, durable: str | None
) -> None:
    broker = BrokerProcess(tmp_path, config="[limits]\nmemory = 65_536\n")
    broker.start()
    may_read, at_end = threading.Event(), threading.Event()
    heard: list[int] = []

    def hear(event: tidings.Event) -> None:
        may_read.wait()  # in the thread of the client's event loop: nothing is read meanwhile
        heard.append(event["n"])
        event.ack()
        if event["n"] == COUNT:
            at_end.set()

    try:
        with (
            tidings.connect_sync(broker.url) as reader,
            tidings.connect_sync(broker.url) as writer,
        ):
            events = reader.subscribe("n >= 0", durable=durable, callback=hear, queue=10 * COUNT)
            writer.publish_each({"n": n, "text": TEXT} for n in range(COUNT))
            may_read.set()
            while not at_end.wait(0.05):  # it may be that what comes right now is missed, too
                writer.publish({"n": COUNT})
            numbers = [n for n in heard if n < COUNT]
            assert numbers == sorted(set(numbers))
            if durable is None:
                assert events.missed > 0
                assert len(numbers) + events.missed >= COUNT
            else:
                assert events.missed == 0
                assert numbers == list(range(COUNT))
    finally:
        may_read.set()
        broker.stop()
