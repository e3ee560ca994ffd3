"""While a broker's disk is full, rows and deliveries wait for the next try: none is a letter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.brokers import Here, log_of
from tests.spark.delivered import published
from tests.spark.test_publishing import Served
from tests.spark.test_refusals import COLUMNS, rows, staged
from tidings.broker.host import Host
from tidings.events import TidingsError
from tidings.spark.format.options import writing
from tidings.spark.format.sink import BatchWriter, StreamWriter

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Here]:
    here = Here(tmp_path)
    yield here
    here.stop()


def fill(patch: pytest.MonkeyPatch, *, at: int) -> None:
    """The disk is full when this many events are kept."""
    patch.setattr(Host, "trouble", property(lambda h: "the disk is full" if h.last >= at else None))


def test_rows_are_published_once_there_is_room(broker: Here, tmp_path: Path) -> None:
    said = {"url": broker.url, "staging": str(tmp_path / "s"), "deadLetters": str(tmp_path / "d")}
    writer = StreamWriter(writing(said), COLUMNS, overwrite=False)
    messages = staged(writer, "." * 10, tmp_path / "s", tmp_path.name, 7)
    for at in (0, 3, 6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidings.spark.format.sink._AT_ONCE", 3)
            fill(patch, at=at)
            with pytest.raises(TidingsError, match=rf"disk is full; batch 7 .* behind {at} of 10"):
                writer.commit([*messages], 7)
    writer.commit([*messages], 7)
    assert [e.notification["number"] for e in log_of(broker)] == [*range(10)]
    assert not (tmp_path / "d").exists()


def test_rows_of_a_job_that_cannot_go_on_are_letters(broker: Here, tmp_path: Path) -> None:
    said = {"url": broker.url, "staging": str(tmp_path / "s"), "deadLetters": str(tmp_path / "d")}
    writer = BatchWriter(writing(said), COLUMNS, overwrite=False)
    with pytest.MonkeyPatch.context() as patch:
        fill(patch, at=0)
        writer.commit([writer.write(iter([rows("...")]))])
    (file,) = (tmp_path / "d").iterdir()
    assert file.read_text().count("the disk is full") == 3
    assert not log_of(broker)


def test_deliveries_are_made_once_there_is_room(broker: Here, tmp_path: Path) -> None:
    served = Served(broker, tmp_path, events=300, names=20)
    for more in (0, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidings.spark.bulk.publishing._AT_ONCE", 50)
            fill(patch, at=served.end + more)
            with pytest.raises(TidingsError, match=r"disk is full; deliveries will go on behind"):
                served.run(served.task())
        assert more <= len(log_of(broker)) - served.end < 300
    served.run(served.task())
    assert published(broker) == served.wanted
    assert not served.letters.exists()
