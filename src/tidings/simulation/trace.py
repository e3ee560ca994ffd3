"""Traces: all that was published, carried and heard in simulations, counted or as rows of a file.

Counts (`Traffic`) answer what was thought of beforehand; a trace answers what one thinks of later.
Whoever measures need not know that somebody traces: simulations that begin within `traced` write
to its file, as programs write to a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidings.protocol.messages import (
    Charge,
    Charged,
    Doubt,
    Event,
    Fetch,
    Fetched,
    Frame,
    Move,
    Moved,
    Offer,
    Seek,
    Silence,
    Sought,
    Streams,
    Survey,
    Surveyed,
    Update,
)

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


_READING: Final = (
    Charge,
    Charged,
    Doubt,
    Fetch,
    Fetched,
    Surveyed,
    Survey,
    Move,
    Moved,
    Seek,
    Silence,
    Sought,
    Streams,
)
"""What only brokers with logs say to each other."""


@dataclass
class Traffic:
    """Counts of what brokers have received from each other.

    `control` counts messages that change tables and `filters` what is in them; `reading` counts
    those that tell how far streams are, or fetch from logs what is lacking. `cost` is the sum of
    the costs of the links travelled. `lost` never arrived.
    """

    packets: int = 0
    control: int = 0
    filters: int = 0
    events: int = 0
    reading: int = 0
    cost: float = 0.0
    lost: int = 0
    by_link: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages with a body, from the first to the second."""
    by_node: Counter[str] = field(default_factory=Counter)
    """Messages with a body that each node received."""

    def count(self, source: str, target: str, packet: Frame | Offer, cost: float) -> None:
        self.packets += 1
        self.cost += cost
        body = packet.body if packet.__class__ is Frame else None
        if body is None:
            return
        self.by_link[source, target] += 1
        self.by_node[target] += 1
        if body.__class__ is Event:
            self.events += 1
        elif body.__class__ is Update:
            self.control += 1
            self.filters += len(body.added) + len(body.removed)
        elif isinstance(body, _READING):
            self.reading += 1

    def reset(self) -> None:
        """Count from zero again."""
        self.__init__()  # type: ignore[misc]
