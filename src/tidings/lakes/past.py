"""The past: what a lake has of a filter from some place on, and the cursor right behind that."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.delivery.copies import FOR
from tidings.events import Filter
from tidings.events.values import MICROSECOND
from tidings.lakes.grouping import names_in
from tidings.lakes.lake import EVERYTHING, Lake, LakeError, View
from tidings.lakes.layout import Archived
from tidings.lakes.pruning import exactly
from tidings.protocol.cursors import Beginning
from tidings.protocol.requests import Cursor


def read(
    view: View, wanted: Filter, start: Cursor, earliest: datetime | None, until: datetime | None
) -> tuple[Iterator[Archived], Cursor]:
    """What a lake has of a filter, in the order of time, and the cursor right behind that.

    Both are as of the view: `subscribe` with this filter (see `served`) since that cursor tells
    what follows. It begins behind a cursor or, if that is empty, at a time; what is later than
    `until` is left out.
    """
    end = None if until is None else until + MICROSECOND
    ahead = {s: t for s, t in view.held().items() if t > start.get(s, 0)}
    return view.events(wanted, since=start or earliest, until=end), {**start, **ahead}


def served(lake: Lake, filter: Filter | str) -> Filter:
    """The filter to ask a lake and brokers for; `LakeError` if the lake has not all of it.

    It is the given one, but for a lake without the copies that bulk subscribers get: a filter that
    does not ask for them hears the events themselves, from brokers as from the lake.
    """
    wanted = Filter.of(filter)
    held = lake.filter
    if held.covers(wanted):
        return wanted
    if FOR not in names_in([wanted]) and held.covers(without := wanted.intersect(EVERYTHING)):
        return without
    raise LakeError(f"the lake {lake.path} holds only {held}, and so not all of {wanted}")


def start_of(since: Beginning) -> tuple[Cursor, datetime | None]:
    """A cursor or, if that is empty, a time; neither is the beginning."""
    where = exactly(since)
    return ({}, where) if isinstance(where, datetime) else (where or {}, None)


def places(view: View, earliest: datetime | None) -> Cursor:
    """Where a time lies in the streams of a lake: the last tick before it."""
    found = view.held()
    if earliest is None:
        return dict.fromkeys(found, 0)
    for path in view.files(since=earliest):
        with pq.ParquetFile(view.path / path) as file:
            for batch in file.iter_batches(columns=["stream", "tick", "time"]):
                late = batch.filter(pc.greater_equal(batch["time"], pa.scalar(earliest)))
                least = pa.table(late).group_by("stream").aggregate([("tick", "min")])
                for stream, tick in zip(
                    *map(pa.ChunkedArray.to_pylist, least.columns), strict=True
                ):
                    found[stream] = min(found[stream], tick - 1)
    return found
