"""Sifting: the rows of a batch that a filter matches, exactly, by the index.

Rows that were erased are matched by nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidings.delivery.erased import ERASED
from tidings.events import Filter
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import Columns
from tidings.matching import Index


class Sieve:
    """Lets through what a filter matches."""

    def __init__(self, filter: Filter, columns: Columns) -> None:
        self._filter = filter
        self._is_all = filter == Filter.all()
        self._grouping = Grouping(names_in([filter]), columns)
        self._index: Index | None = None
        self._erased = columns.get(ERASED, {}).get("string")

    @property
    def used(self) -> list[str]:
        """The columns that it looks at."""
        mark = [] if self._erased is None else [self._erased]
        return mark if self._is_all else list(dict.fromkeys([*self._grouping.used, *mark]))

    def sift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match, in their order."""
        if self._is_all and (self._erased is None or _is_empty(batch[self._erased])):
            return batch
        wanted = self.mask(batch)
        return batch if wanted.all() else batch.filter(pa.array(wanted))

    def mask(self, batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Of each row, whether it matches."""
        standing = np.ones(batch.num_rows, np.bool_)
        if self._erased is not None and not _is_empty(batch[self._erased]):
            standing = ~np.asarray(batch[self._erased].is_valid())
        if self._is_all:
            return standing
        if self._index is None:
            self._index = Index()
            self._index.add(0, self._filter)
        wanted = np.zeros(batch.num_rows, np.bool_)
        for rows, events in self._grouping.groups(batch):
            found = np.asarray(self._index.match_batch(events, threads=1)[0])
            wanted[found if rows is None else rows[found]] = True
        return wanted & standing


def _is_empty(column: Any) -> bool:
    return bool(column.null_count == len(column))
