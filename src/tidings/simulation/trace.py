"""Traces: all that was published, carried and heard in simulations, as the rows of a file.

Counts (`traffic`) answer what was thought of beforehand; a trace answers what one thinks of later.
Whoever measures need not know that somebody traces: simulations that begin within `traced` write
to its file, as programs write to a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from tidings.protocol.messages import Event, Frame, Offer, Update

COLUMNS: Final = {
    "simulation": "int32",
    "time": "double",
    "what": "string",
    "source": "string",
    "target": "string",
    "stream": "string",
    "tick": "int64",
    "filters": "int32",
}
"""Which simulation of the file; when it arrived; what: `publish` (from a client to its broker),
`event`, `update` of a table, `other` (between brokers), or `hear` (from a broker to its client); of
an event, its place in its stream; of an update, how many filters it adds and removes."""

_ROWS: Final = 100_000


class Trace:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        self._schema = pa.schema([(n, pa.type_for_alias(kind)) for n, kind in COLUMNS.items()])
        self._file = parquet.ParquetWriter(path, self._schema)
        self._rows: list[tuple[Any, ...]] = []
        self._simulations = 0

    def begin(self) -> int:
        """A simulation begins: its number."""
        self._simulations += 1
        return self._simulations

    def published(self, simulation: int, now: float, client: str, at: str, event: Event) -> None:
        """A client has told its broker of something new."""
        self._add(simulation, now, "publish", client, at, event.stream, event.tick, 0)

    def carried(
        self, simulation: int, now: float, source: str, target: str, packet: Frame | Offer
    ) -> None:
        """Something has come from one broker to another; an empty frame or an offer is left out."""
        body = packet.body if packet.__class__ is Frame else None
        if body is None:
            return
        if body.__class__ is Event:
            self._add(simulation, now, "event", source, target, body.stream, body.tick, 0)
        elif body.__class__ is Update:
            filters = len(body.added) + len(body.removed)
            self._add(simulation, now, "update", source, target, None, None, filters)
        else:
            self._add(simulation, now, "other", source, target, None, None, 0)

    def heard(self, simulation: int, now: float, at: str, client: str, event: Event) -> None:
        self._add(simulation, now, "hear", at, client, event.stream, event.tick, 0)

    def _add(self, *row: Any) -> None:
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa

        columns = zip(*self._rows, strict=True) if self._rows else [[] for _ in self._schema]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        self._file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        self._write()
        self._file.close()


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


def current() -> Trace | None:
    """Where a simulation that begins now is to write to."""
    return _current.get()


@contextmanager
def traced(path: Path) -> Iterator[None]:
    """Have all simulations that begin in this context traced, in a Parquet file."""
    trace = Trace(path)
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)
        trace.close()
