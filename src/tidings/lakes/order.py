"""Order: events of a lake by their times, few of which are in memory at a time.

It is known of each file, and then of each of its row groups, what the earliest time in it is. They
are read in this order; what is earlier than all that was not read yet can be told. Rows are never
put together in one table: their texts may be more than a column of Arrow's can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.lakes.layout import KINDS, Archived, to_events
from tidings.lakes.search import Search

_ORDER: Final = [("time", "ascending"), ("stream", "ascending"), ("tick", "ascending")]
_AT_ONCE: Final = 1_000
"""Events made of rows at once."""


def in_order(search: Search) -> Iterator[Archived]:
    """The events that are wanted, by time and, where that is the same, by stream and tick."""
    numbers = count()  # so that nothing else is compared
    ahead: list[tuple[int, int, Any]] = [(t, next(numbers), path) for path, t in search.files]
    heapify(ahead)
    waiting: list[pa.RecordBatch] = []
    while ahead:
        _, _, piece = heappop(ahead)
        if isinstance(piece, str):
            for earliest, group in search.groups(piece):
                heappush(ahead, (earliest, next(numbers), group))
        else:
            waiting += search.read(piece)
        early, waiting = _parted(waiting, ahead[0][0]) if ahead else (waiting, [])
        yield from _sorted(early)


def _parted(
    batches: list[pa.RecordBatch], edge: int
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """The rows before a time, and the others."""
    early, late = [], []
    for batch in batches:
        is_early = pc.less(batch["time"], pa.scalar(edge, KINDS["time"]))
        number = is_early.true_count
        if number:
            early.append(batch if number == batch.num_rows else batch.filter(is_early))
        if number < batch.num_rows:
            late.append(batch if number == 0 else batch.filter(pc.invert(is_early)))
    return early, late


def _sorted(batches: list[pa.RecordBatch]) -> Iterator[Archived]:
    if not batches:
        return
    keys = pa.Table.from_batches([b.select([name for name, _ in _ORDER]) for b in batches])
    order = pc.sort_indices(keys, sort_keys=_ORDER).to_numpy().astype(np.int64)
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    for first in range(0, len(order), _AT_ONCE):
        rows = order[first : first + _AT_ONCE]
        owners = np.searchsorted(starts, rows, side="right") - 1
        events: dict[int, Archived] = {}
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            chosen = batches[owner].take(pa.array(rows[places] - starts[owner]))
            events.update(zip(places.tolist(), to_events(chosen), strict=True))
        yield from (events[place] for place in range(len(rows)))
