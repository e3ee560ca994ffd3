"""What a broker has kept, read from its disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tidings.broker.store.log_table import row_of, rows_behind
from tidings.protocol.epochs import stream_name
from tidings.protocol.messages import Event


def log_in(store: Path, broker: str, *, timeout: float = 30.0) -> list[Event]:
    """All events of a store, in order of epochs and ticks; its broker may be running."""
    path = f"file:{store / 'broker.db'}?mode=ro"
    with closing(sqlite3.connect(path, uri=True, timeout=timeout)) as connection:
        epochs = connection.execute("SELECT DISTINCT place >> 48 FROM log ORDER BY 1").fetchall()
        rows = [row for (epoch,) in epochs for _, row in rows_behind(connection, epoch, 0, 1 << 30)]
    found = map(row_of, rows)
    return [event for row in found for event in row.events(stream_name(broker, row.epoch))]
