"""The lake: events kept for as long as one likes, as a Delta table that any tool can read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidings.client.positions import Beginning
from tidings.events import Filter, TidingsError
from tidings.spark.filling import to_table
from tidings.spark.layout import FIXED, KINDS, Archived, Happened, to_events
from tidings.spark.ledger import GAP, STREAM, WRITER, Ledger
from tidings.spark.pruning import Window
from tidings.spark.search import ROWS, Search, schema_of

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
except ImportError as problem:
    raise TidingsError(
        f"The lake needs Delta ({problem}). Try: pip install 'tidings[spark]'"
    ) from None

_ATTEMPTS: Final = 20
"""So often a commit is tried again that somebody else's has preceded."""
_CONFIGURATION: Final = {
    "delta.dataSkippingNumIndexedCols": "100",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}
_KEEP: Final = timedelta(days=7)
_ORDER: Final = [("time", "ascending"), ("stream", "ascending"), ("tick", "ascending")]
_END: Final = pa.scalar(datetime.max.replace(tzinfo=UTC), KINDS["time"])


class LakeError(TidingsError):
    """The lake cannot take or give what it was asked to."""


class Gap(NamedTuple):
    """Events that the lake lacks: those of `stream` behind `after`, up to and with `upto`."""

    stream: str
    after: int
    upto: int


class Lake:
    """A Delta table of events in a directory, made when it is missing.

    Readers see what was committed, all of it, and nothing else; also while somebody writes, or
    was killed while writing. Several programs and threads may use a lake at the same time. How
    events become rows is said in `tidings.spark.layout`; a lake's files are by `day`.

    >>> from tempfile import TemporaryDirectory
    >>> from tidings.events import Notification
    >>> noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    >>> with TemporaryDirectory() as folder:
    ...     lake = Lake(folder)
    ...     said = Notification({"symbol": "DIS", "price": 101.25})
    ...     lake.append([Archived("paris", 1, noon, said)], writer="me", version=1)
    ...     [event.id for event in lake.events("symbol = 'DIS'", since="2026-11-01")], lake.held()
    True
    (['paris:1'], {'paris': 1})
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Final = Path(path).absolute()
        self._ledger = Ledger(self.path)
        self._lock = threading.Lock()
        self._table = _opened(self.path)

    @property
    def name(self) -> str:
        """What tells it from all other lakes, wherever it is moved to."""
        return str(self._table.metadata().id)

    def schema(self) -> pa.Schema:
        """The columns that it has now."""
        return schema_of(self._newest()[0])

    def held(self) -> dict[str, int]:
        """How far it is: of each stream, the tick up to which it has all that it is to have."""
        return _named(STREAM, self._newest()[1])

    def gaps(self) -> list[Gap]:
        """What it knows to be missing, since nobody kept it for long enough."""
        found = _named(GAP, self._newest()[1])
        places = ((*place.rpartition("/")[::2], upto) for place, upto in found.items())
        return sorted(Gap(stream, int(after), upto) for stream, after, upto in places)

    def written(self, writer: str) -> int:
        """The last version that was appended under this name; 0 if none was."""
        return self._newest()[1].get(WRITER + writer, 0)

    # -- writing -------------------------------------------------------------------------------

    def append(
        self,
        events: Sequence[Happened],
        writer: str,
        version: int,
        *,
        held: Mapping[str, int] | None = None,
        gaps: Sequence[Gap] = (),
    ) -> bool:
        """Add events, exactly once: False if `writer` has appended this version or a later one.

        A writer's versions rise from 1 on. All becomes visible at once or, if the process dies
        before, not at all; then append it again, under the same version. `held` is how far the
        lake is with these events, if that is further than the last of them.

        `LakeError` if an event is from before what the lake holds: it would be there twice.
        """
        place = dict(held or {})
        for event in events:
            place[event.stream] = max(place.get(event.stream, 0), event.tick)
        for _ in range(_ATTEMPTS):
            table, numbers = self._newest()
            if numbers.get(WRITER + writer, 0) >= version:
                return False
            before = _named(STREAM, numbers)
            _check(events, before)
            changes = {WRITER + writer: version}
            changes |= {STREAM + s: t for s, t in place.items() if t > before.get(s, 0)}
            changes |= {f"{GAP}{gap.stream}/{gap.after}": gap.upto for gap in gaps}
            try:
                _commit(table, events, changes)
            except CommitFailedError:
                continue  # somebody else was faster
            except (DeltaError, OSError) as problem:
                raise LakeError(f"{self.path}: nothing was appended: {problem}") from problem
            return True
        raise LakeError(f"{self.path}: others write to the lake all the time; try again")

    def compact(self, *, keep: timedelta = _KEEP) -> dict[str, int]:
        """Join small files, and delete what is not needed; how many of each.

        Files that were replaced, or written by somebody who was killed, stay for as long as
        `keep`, so that whoever reads them now can do so to the end.
        """
        table = _opened(self.path)
        joined = table.optimize.compact()
        hours = keep // timedelta(hours=1)
        deleted = table.vacuum(
            hours, dry_run=False, enforce_retention_duration=hours >= 168, full=True
        )
        return {
            "joined": joined["numFilesRemoved"],
            "made": joined["numFilesAdded"],
            "deleted": len(deleted),
        }

    # -- reading -------------------------------------------------------------------------------

    def scan(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that match, as Arrow batches of the lake's columns, in no particular order.

        `since` and `until` are a time or a cursor. What happened at the time `until` is left out;
        a cursor as `until` leaves out all streams that it does not name. What comes is as of the
        moment when the first batch is asked for.
        """
        search = self._search(filter, since, until)
        for path, _ in search.files:
            yield from search.rows(path)

    def events(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> Iterator[Archived]:
        """The events that match, in the order of their times, and so each stream in its own order.

        The arguments are those of `scan`. About as much is in memory as was published at a time.
        """
        search = self._search(filter, since, until)
        waiting: list[pa.RecordBatch] = []
        for number, (path, _) in enumerate(search.files, start=1):
            waiting += search.rows(path)
            if not waiting:
                continue
            rows = pa.Table.from_batches(waiting).sort_by(_ORDER)
            # What is in the files to come is not earlier than the earliest of the next one.
            edge = search.files[number][1] if number < len(search.files) else _END
            early = 0 if edge is None else pc.sum(pc.less(rows["time"], edge)).as_py()
            for batch in rows.slice(0, early).to_batches(ROWS):
                yield from to_events(batch)
            waiting = rows.slice(early).to_batches()

    def files(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> list[str]:
        """The files that `scan` would read; the others cannot hold what matches."""
        return [path for path, _ in self._search(filter, since, until).files]

    def _search(self, filter: Filter | str | None, since: Beginning, until: Beginning) -> Search:
        wanted = Filter.parse(filter) if isinstance(filter, str) else filter
        table, _ = self._newest()
        return Search(self.path, table, wanted or Filter.all(), Window.of(since, until))

    def _newest(self) -> tuple[DeltaTable, dict[str, int]]:
        """The table as of now, and its numbers."""
        with self._lock:
            # A handle is not shared: it would move on under whoever else uses it.
            table = _opened(self.path)
            return table, self._ledger.numbers(table.version())


def _opened(path: Path) -> DeltaTable:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        pass
    if path.exists() and any(path.iterdir()) and not (path / "_delta_log").exists():
        raise LakeError(f"{path}: there is something else here, which is no lake")
    with suppress(Exception):  # somebody else may be making it at this moment
        DeltaTable.create(path, FIXED, partition_by=["day"], configuration=dict(_CONFIGURATION))
    try:
        return DeltaTable(path)
    except Exception as problem:
        raise LakeError(f"{path}: no lake can be made here: {problem}") from None


def _named(beginning: str, numbers: Mapping[str, int]) -> dict[str, int]:
    found = sorted(numbers.items())
    return {n.removeprefix(beginning): number for n, number in found if n.startswith(beginning)}


def _check(events: Sequence[Happened], held: Mapping[str, int]) -> None:
    for event in events:
        if event.tick <= held.get(event.stream, 0):
            raise LakeError(
                f"{event.stream}:{event.tick} would be in the lake twice: it holds "
                f"{event.stream} up to {held[event.stream]} already"
            )


def _commit(table: DeltaTable, events: Sequence[Happened], numbers: Mapping[str, int]) -> None:
    properties = CommitProperties(
        app_transactions=[Transaction(name, number) for name, number in numbers.items()]
    )
    schema = schema_of(table)
    if not events:
        table.create_write_transaction(
            [], "append", table.schema(), ["day"], commit_properties=properties
        )
        return
    rows = to_table(events, schema)
    is_wider = len(rows.schema) > len(schema)
    write_deltalake(
        table,
        rows,
        mode="append",
        schema_mode="merge" if is_wider else None,
        commit_properties=properties,
    )
