"""What a broker's log holds, to compare with what came by Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.client.brokers import BrokerProcess
from tidings.broker.batch import batch_of
from tidings.node import Event


@contextmanager
def running(folder: Path, *, config: str = "") -> Iterator[BrokerProcess]:
    """A broker that is up, and can be killed and started again."""
    folder.mkdir(exist_ok=True)
    broker = BrokerProcess(folder, config=config)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def log_of(broker: BrokerProcess) -> list[Event]:
    """All that it keeps, read from its disk."""
    path = f"file:{broker.folder / 'store' / 'broker.db'}?mode=ro"
    with closing(sqlite3.connect(path, uri=True, timeout=30)) as connection:
        rows = connection.execute(
            "SELECT first, last, first_time, last_time, until, events FROM log ORDER BY first"
        ).fetchall()
    return [event for row in rows for event in batch_of(row).events(broker.name)]
