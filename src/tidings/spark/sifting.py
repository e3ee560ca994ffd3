"""Sifting: the rows of a batch that a filter matches, exactly, by the index."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.events import Filter
from tidings.matching import Index
from tidings.spark.layout import REST, Columns, to_notifications

_MANY: Final = 16
"""A batch with more combinations of columns than this is looked through row by row."""


class Sieve:
    """Lets through what a filter matches.

    An attribute may have several columns, of which a row uses one at most. The index wants one, so
    rows are sorted by which columns they use, and each group is asked for by itself. Rows with
    something in `rest` are made notifications again; there should be few.
    """

    def __init__(self, filter: Filter, columns: Columns) -> None:
        self._filter = filter
        self._is_all = filter == Filter.all()
        names = {name for c in filter.conjunctions for name in c.constraints}
        self._columns = {name: list(columns.get(name, {}).values()) for name in sorted(names)}
        self._index: Index | None = None

    def sift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match, in their order."""
        if self._is_all:
            return batch
        wanted = np.zeros(batch.num_rows, np.bool_)
        has_rest = _has_value(batch[REST])
        codes, combinations = self._combinations(batch)
        is_odd = has_rest if len(combinations) <= _MANY else np.ones(batch.num_rows, np.bool_)
        plain = ~is_odd
        for code, columns in combinations if len(combinations) <= _MANY else ():
            rows = np.flatnonzero(plain & (codes == code))
            if len(rows):
                chosen = _picked(batch.select(list(columns.values())), rows)
                wanted[rows[self._matching(chosen, list(columns))]] = True
        if is_odd.any():
            rows = np.flatnonzero(is_odd)
            used = [c for columns in self._columns.values() for c in columns]
            found = to_notifications(_picked(batch.select([*used, REST]), rows))
            matches = self._filter.matches
            wanted[rows] = np.fromiter(map(matches, found), np.bool_, len(rows))
        return batch if wanted.all() else batch.filter(pa.array(wanted))

    def _combinations(self, batch: pa.RecordBatch) -> tuple[Any, list[tuple[int, dict[str, str]]]]:
        """For each row the code of the columns it uses; and what the codes are."""
        codes = np.zeros(batch.num_rows, np.int64)
        combinations: list[tuple[int, dict[str, str]]] = [(0, {})]
        scale = 1
        for name, columns in self._columns.items():
            used = [c for c in columns if batch[c].null_count < batch.num_rows]
            for number, column in enumerate(used[1:], start=1):
                codes[_has_value(batch[column])] += number * scale
            if used and len(combinations) <= _MANY:
                combinations = [
                    (code + number * scale, {**chosen, name: column})
                    for code, chosen in combinations
                    for number, column in enumerate(used)
                ]
            scale *= max(1, len(used))
        return codes, combinations

    def _matching(self, rows: pa.RecordBatch, names: list[str]) -> Any:
        if not names:  # nothing is known of any attribute that matters
            return np.arange(rows.num_rows) if self._matches_nothing() else []
        if self._index is None:
            self._index = Index()
            self._index.add(0, self._filter)
        table = pa.RecordBatch.from_arrays(rows.columns, names=names)
        return np.asarray(self._index.match_batch(table)[0])

    def _matches_nothing(self) -> bool:
        return self._filter.matches(to_notifications(pa.record_batch({"tick": [0]}))[0])


def _has_value(column: Any) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _picked(batch: pa.RecordBatch, rows: Any) -> pa.RecordBatch:
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
