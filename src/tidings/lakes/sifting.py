"""Sifting: the rows of a batch that a filter matches, exactly, by the index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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

    @property
    def used(self) -> list[str]:
        """The columns that it looks at."""
        return [] if self._is_all else self._grouping.used

    def sift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match, in their order."""
        if self._is_all:
            return batch
        if self._index is None:
            self._index = Index()
            self._index.add(0, self._filter)
        wanted = np.zeros(batch.num_rows, np.bool_)
        for rows, events in self._grouping.groups(batch):
            found = np.asarray(self._index.match_batch(events, threads=1)[0])
            wanted[found if rows is None else rows[found]] = True
        return batch if wanted.all() else batch.filter(pa.array(wanted))
