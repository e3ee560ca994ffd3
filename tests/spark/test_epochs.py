"""A broker that has lost the end of its log: lakes and offsets that are ahead of it, and behind."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess
from tests.spark.brokers import log_of, running
from tests.spark.test_reader import ahead, reader, ticks
from tidings.broker.store import SQLiteStore
from tidings.events import TidingsError
from tidings.lakes.history import History
from tidings.lakes.lake import Lake, LakeError
from tidings.spark.archiving.archive import GapError, archive

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "broker") as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def publish(broker: BrokerProcess, *numbers: int) -> None:
    """Each in a batch of its own, since whole batches are let go of."""
    with tidings.connect_sync(broker.url) as client:
        for n in numbers:
            client.publish({"n": n})


def keep(broker: BrokerProcess) -> None:
    """Put a copy of its store aside."""
    broker.stop()
    shutil.copytree(broker.folder / "store", broker.folder / "copy")
    broker.start()


def restore(broker: BrokerProcess) -> None:
    """Put the copy in the place of what it has now."""
    broker.stop()
    shutil.rmtree(broker.folder / "store")
    shutil.copytree(broker.folder / "copy", broker.folder / "store")
    broker.start()


def ids(lake: Lake) -> list[str]:
    return [event.id for event in lake.events()]


def numbers(broker: BrokerProcess, lake: Lake, **where: Any) -> list[int]:
    with (
        tidings.connect_sync(broker.url) as client,
        History(client, lake, "TRUE", **where) as events,
    ):
        return [event["n"] for event in events.until_live()]


def test_a_lake_that_is_ahead_of_a_closed_stream_is_told_and_goes_on_with_the_next(
    broker: BrokerProcess, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    publish(broker, 1, 2, 3)
    keep(broker)
    publish(broker, 4, 5)
    archive(broker.url, lake, until="live")
    restore(broker)
    publish(broker, 100, 101)
    with pytest.raises(
        LakeError, match=r"was closed at 3: its broker has lost .*on_gap='continue'"
    ):
        archive(broker.url, lake, until="live")
    assert lake.held() == {"paris": 5}
    caplog.set_level(logging.WARNING, "tidings")
    archive(broker.url, lake, until="live", on_gap="continue")
    assert "the lake keeps what it has" in caplog.text
    assert lake.held() == {"paris": 5, "paris~2": 2}
    assert ids(lake) == [*(f"paris:{n}" for n in range(1, 6)), "paris~2:1", "paris~2:2"]
    publish(broker, 102)
    assert numbers(broker, lake, since="begin") == [1, 2, 3, 4, 5, 100, 101, 102]
    assert numbers(broker, lake, since="paris:4") == [5, 100, 101, 102]


def test_a_lake_that_is_behind_reads_a_closed_stream_to_its_end(
    broker: BrokerProcess, lake: Lake
) -> None:
    publish(broker, 1, 2)
    archive(broker.url, lake, until="live")
    publish(broker, 3)
    keep(broker)
    publish(broker, 4)
    restore(broker)
    publish(broker, 100)
    archive(broker.url, lake, until="live")
    assert ids(lake) == ["paris:1", "paris:2", "paris:3", "paris~2:1"]


def test_what_a_lake_lacks_at_the_start_of_the_next_stream_is_a_gap(
    broker: BrokerProcess, lake: Lake
) -> None:
    publish(broker, 1, 2)
    archive(broker.url, lake, until="live")
    keep(broker)
    restore(broker)
    publish(broker, 100, 101, 102)
    broker.stop()
    with closing(SQLiteStore(broker.folder / "store", broker.name)) as store:
        assert store.trim(before=1e12) == 3
    broker.start()
    with pytest.raises(GapError, match="holds paris~2 up to 0, but it is kept from 3 on"):
        archive(broker.url, lake, until="live")


def test_an_offset_beyond_the_end_fails_and_may_go_on_without_repeating_anything(
    broker: BrokerProcess,
) -> None:
    publish(broker, 1, 2, 3)
    keep(broker)
    publish(broker, 4, 5)
    first = reader(broker, since="begin")
    start = ahead(first, first.initialOffset())
    restore(broker)
    publish(broker, 100, 101)
    with pytest.raises(
        TidingsError, match=r"paris ends at tick 3, before tick 5.*onGap = continue"
    ):
        ahead(reader(broker, since="begin"), start)
    going_on = reader(broker, since="begin", onGap="continue")
    end = ahead(going_on, start)
    assert end["cursor"] == {"paris": 3, "paris~2": 2}
    assert ticks(going_on, start, end) == [1, 2]


@pytest.mark.parametrize("since", ["begin", None])
def test_an_offset_in_a_closed_stream_goes_on_to_its_end_and_with_all_of_the_next(
    broker: BrokerProcess, since: str | None
) -> None:
    publish(broker, 1, 2)
    options = {} if since is None else {"since": since}
    first = reader(broker, **options)
    start = ahead(first, first.initialOffset())
    publish(broker, 3)
    keep(broker)
    restore(broker)
    publish(broker, 100, 101)
    again = reader(broker, **options)
    end = ahead(again, start)
    assert end["cursor"] == {"paris": 3, "paris~2": 2}
    assert ticks(again, start, end) == [3, 1, 2]
    assert [f"{e.stream}:{e.tick}" for e in log_of(broker)][-2:] == ["paris~2:1", "paris~2:2"]
