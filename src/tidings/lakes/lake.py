"""The lake: events kept for as long as one likes, as a Delta table that any tool can read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidings.events import Filter
from tidings.lakes import delta, files
from tidings.lakes.delta import CommitFailedError, DeltaError, first_line
from tidings.lakes.errors import LakeError
from tidings.lakes.files import Written
from tidings.lakes.filling import to_table
from tidings.lakes.layout import EVERYTHING, FIXED, Archived, Happened
from tidings.lakes.ledger import (
    COMPLETE,
    GAP,
    STREAM,
    WRITER,
    Ledger,
    Outdated,
    time_number,
)
from tidings.lakes.naming import Naming
from tidings.lakes.search import schema_of
from tidings.lakes.view import Gap, View
from tidings.protocol.cursors import Beginning

__all__ = ["EVERYTHING", "Archived", "Gap", "Lake", "LakeError", "View"]

_ATTEMPTS: Final = 20
"""Tries of a commit that others are always ahead of."""
_KEEP: Final = timedelta(days=7)
_HOUR: Final = timedelta(hours=1)


class Lake:
    """A Delta table of events in a directory, made when it is missing.

    Readers see what was committed, all of it, and nothing else; also while somebody writes, or
    was killed while writing. Several programs and threads may use a lake at the same time. How
    events become rows is said in `tidings.lakes.layout`; a lake's files are by `day`.

    >>> from datetime import UTC, datetime
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

    def __init__(self, path: str | Path, *, filter: Filter | str | None = None) -> None:
        """`filter` is what it is to have: noted when it is made, and the same ever after.

        Without it, it is whatever the lake was made for; `EVERYTHING` if it is new. `LakeError`
        if the lake was made for something else.
        """
        self.path: Final = Path(path).absolute()
        self._ledger = Ledger(self.path)
        self._lock = threading.Lock()
        wanted = None if filter is None else Filter.of(filter)
        table = delta.found_or_made(self.path, FIXED, filter=wanted or EVERYTHING)
        schema_of(table)  # is it one?
        self.name: Final = str(table.metadata().id)
        """What tells it from all other lakes, wherever it is moved to."""
        self.filter: Final = delta.filter_of(table)
        """What it has of each stream, up to the tick that `held` says: all that this matches."""
        if wanted is not None and wanted != self.filter:
            raise LakeError(f"{self.path} {_other(self.filter, wanted)}")

    def snapshot(self) -> View:
        """The lake as it is now: what it holds, how far that is, and with which columns.

        `LakeError` if it was deleted, or another one is in its place: it is not made again.
        """
        for _ in range(_ATTEMPTS):
            with self._lock, suppress(Outdated):
                # A handle is not shared: it would move on under whoever else uses it.
                table = delta.found(self.path)
                if str(table.metadata().id) != self.name:
                    raise LakeError(f"{self.path}: another lake is here now")
                return View(self.path, table, self._ledger.numbers(table.version()))
        raise self._busy()

    def schema(self) -> pa.Schema:
        """The columns that it has now."""
        return self.snapshot().schema()

    def held(self) -> dict[str, int]:
        """How far it is: of each stream, the tick up to which it has all that it is to have."""
        return self.snapshot().held()

    def complete(self) -> dict[str, float]:
        """Of some streams, the time, in seconds since 1970, below which it has all that will come.

        What it has of them lies up to the tick that `held` says.
        """
        return self.snapshot().complete()

    def gaps(self) -> list[Gap]:
        """What it knows to be missing, as it was not kept for long enough."""
        return self.snapshot().gaps()

    # -- writing -------------------------------------------------------------------------------

    def append(
        self,
        events: Sequence[Happened],
        writer: str,
        version: int,
        *,
        held: Mapping[str, int] | None = None,
        gaps: Sequence[Gap] = (),
        complete: Mapping[str, float] | None = None,
    ) -> bool:
        """Add events, exactly once: False if `writer` has appended this version or a later one.

        A writer's versions rise from 1 on. All becomes visible at once or, if the process dies
        before, not at all; then append it again, under the same version. `held` is how far the
        lake is with these events, if that is further than the last of them; and `complete` below
        which time that is all of a stream, where its broker has promised it.

        `LakeError` if an event is from before what the lake holds: it would be there twice.
        """
        place = dict(held or {})
        first: dict[str, int] = {}
        for event in events:
            place[event.stream] = max(place.get(event.stream, 0), event.tick)
            first[event.stream] = min(first.get(event.stream, event.tick), event.tick)
        view = self.snapshot()
        if view.written(writer) >= version:
            return False
        if twice := _twice(first, view.held()):
            raise LakeError(twice)
        written = [self._admitted(events)] if events else []
        return self.commit(written, writer, version, held=place, gaps=gaps, complete=complete)

    def _admitted(self, events: Sequence[Happened]) -> Written:
        for _ in range(_ATTEMPTS):
            written = self._write(events, self.schema())
            if not self.admit([written]):
                return written
            written.discard(self.path)  # somebody else has named a column meanwhile
        raise self._busy()

    def _write(self, events: Sequence[Happened], known: pa.Schema) -> Written:
        try:
            return files.write(self.path, to_table(events, known), known)
        except OSError as problem:
            raise self._failed("nothing was appended", problem) from problem

    def admit(self, written: Sequence[Written]) -> list[Written]:
        """Make the columns that written rows need; returns those whose columns cannot be.

        They have named a column as somebody else has named another one, or made columns in
        another order, and must be written again. All others can be committed from now on.
        """
        if not any(each.columns for each in written):
            return []
        for _ in range(_ATTEMPTS):
            table = self.snapshot().table
            naming = Naming(schema_of(table))
            misfits = [w for w in written if not naming.adopt(w.columns, w.order)]
            if not naming.new:
                return misfits
            try:
                delta.add_columns(table, naming.new)
            except CommitFailedError:
                continue  # somebody else was faster
            except (DeltaError, OSError) as problem:
                raise self._failed("no column can be added", problem) from problem
            return misfits
        raise self._busy()

    def commit(
        self,
        written: Sequence[Written],
        writer: str,
        version: int,
        *,
        held: Mapping[str, int],
        gaps: Sequence[Gap] = (),
        complete: Mapping[str, float] | None = None,
    ) -> bool:
        """Add rows that were written and admitted, as `append` adds events.

        If they are not added, as `writer` has appended this version, they are deleted. `LakeError`
        if one of the files is not here: whoever wrote it sees another disk under the lake's path.
        """
        first: dict[str, int] = {}
        for each in written:
            first |= {s: min(t, first.get(s, t)) for s, t in each.first.items()}
        for _ in range(_ATTEMPTS):
            view = self.snapshot()
            before = view.held()
            if view.written(writer) >= version:
                _discard(written, self.path)
                return False
            if twice := _twice(first, before):
                _discard(written, self.path)
                raise LakeError(twice)
            changes = {WRITER + writer: version}
            changes |= {STREAM + s: t for s, t in held.items() if t > before.get(s, 0)}
            changes |= _later(complete or {}, view.complete())
            changes |= {f"{GAP}{gap.stream}/{gap.after}": gap.upto for gap in gaps}
            try:
                delta.commit(self.path, view.table, written, changes)
            except CommitFailedError:
                continue  # somebody else was faster
            except LakeError:
                _discard(written, self.path)
                raise
            except (DeltaError, OSError) as problem:
                raise self._failed("nothing was appended", problem) from problem
            return True
        raise self._busy()

    def _busy(self) -> LakeError:
        return LakeError(f"{self.path}: others write to the lake all the time; try again")

    def _failed(self, what: str, problem: Exception) -> LakeError:
        return LakeError(f"{self.path}: {what}: {first_line(problem)}")

    def compact(self, *, keep: timedelta = _KEEP) -> dict[str, int]:
        """Join small files, and delete what is not needed; how many of each.

        Which are joined is said in `delta.joints`. Files that were replaced, or
        written by somebody who was killed, stay for as long as `keep`, to the next full hour, so
        that whoever reads them now can do so to the end.
        """
        view = self.snapshot()
        hours = -(-keep // _HOUR)
        try:
            joined = [delta.join(view.table, joint) for joint in view.joints()]
            deleted = view.table.vacuum(
                hours, dry_run=False, enforce_retention_duration=hours >= 168, full=True
            )
        except DeltaError as problem:
            raise self._failed("it could not be compacted", problem) from problem
        return {
            "joined": sum(before for before, _ in joined),
            "made": sum(after for _, after in joined),
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
        yield from self.snapshot().scan(filter, since=since, until=until)

    def events(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> Iterator[Archived]:
        """The events that match, in the order of their times, and so each stream in its own order.

        The arguments are those of `scan`. About as much is in memory as was published at a time,
        but never less than a row group of a file: 32,768 rows.
        """
        yield from self.snapshot().events(filter, since=since, until=until)


def _other(filter: Filter, wanted: Filter) -> str:
    """What a lake was made for, and what to do about it."""
    if filter == EVERYTHING:  # which nobody has written
        return (
            "was made for everything but copies for bulk subscribers, and not for "
            f"{str(wanted)!r}: leave out the filter, or use another lake"
        )
    return (
        f"was made for {str(filter)!r}: of {str(wanted)!r}, it lacks what has passed. Use another "
        "lake"
    )


def _later(complete: Mapping[str, float], before: Mapping[str, float]) -> dict[str, int]:
    """The times that are later than what is known, as numbers."""
    later = {s: t for s, t in complete.items() if t > before.get(s, 0.0)}
    return {COMPLETE + stream: time_number(time) for stream, time in later.items()}


def _twice(first: Mapping[str, int], held: Mapping[str, int]) -> str | None:
    """What to say if something is there already."""
    for stream, tick in first.items():
        if tick <= held.get(stream, 0):
            return (
                f"{stream}:{tick} would be in the lake twice: it holds {stream} up to "
                f"{held[stream]} already"
            )
    return None


def _discard(written: Sequence[Written], folder: Path) -> None:
    for each in written:
        each.discard(folder)
