"""Grouping: rows of a lake as events that an index can be asked about, exactly.

An attribute may have several columns, of which a row uses one at most. The index wants one, so
rows are sorted by which columns they use, and each group is asked about by itself. Rows with
something in `rest` are made notifications again; there should be few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidings.events import Filter, Notification
from tidings.lakes.layout import REST, Columns, is_presence, to_notifications
from tidings.matching.batch import presences

_MANY: Final = 16
"""A batch with more combinations of columns than this is looked through row by row."""
_ROW: Final = ""
"""A name that no attribute has: there are rows even where no column is wanted."""

Group: TypeAlias = tuple[Any, pa.RecordBatch | list[Notification]]
"""Numbers of rows (None: all of them, in order), and these rows as events."""


def names_in(filters: Iterable[Filter]) -> set[str]:
    """The attributes that filters speak of."""
    return {name for f in filters for c in f.conjunctions for name in c.constraints}


class Grouping:
    """Groups the rows of batches, looking at some attributes only."""

    def __init__(self, names: Iterable[str], columns: Columns) -> None:
        self._columns = {name: list(columns.get(name, {}).values()) for name in sorted(set(names))}

    @property
    def used(self) -> list[str]:
        """The columns of the lake that it looks at."""
        return [*(c for columns in self._columns.values() for c in columns), REST]

    def groups(self, batch: pa.RecordBatch) -> Iterator[Group]:
        """The rows of a batch, each in one group; what matters of them are the used columns."""
        combinations = self._combinations(batch)
        has_rest = batch[REST].null_count < batch.num_rows
        if len(combinations) == 1 and not has_rest:
            yield None, _renamed(batch, combinations[0][1])
            return
        is_odd = _has_value(batch[REST])
        if len(combinations) > _MANY:
            is_odd[:] = True
            combinations = []
        codes = self._codes(batch) if len(combinations) > 1 else np.zeros(batch.num_rows, np.int64)
        for code, columns in combinations:
            rows = np.flatnonzero(~is_odd & (codes == code))
            if len(rows):
                yield rows, _renamed(batch.select([*columns.values(), REST]).take(rows), columns)
        rows = np.flatnonzero(is_odd)
        if len(rows):
            yield rows, to_notifications(_plain(batch.select(self.used).take(rows)))

    def _filled(self, batch: pa.RecordBatch) -> Iterator[tuple[str, list[str]]]:
        for name, columns in self._columns.items():
            used = [c for c in columns if batch[c].null_count < batch.num_rows]
            if used:
                yield name, used

    def _combinations(self, batch: pa.RecordBatch) -> list[tuple[int, dict[str, str]]]:
        """What the codes of `_codes` mean: which column holds an attribute."""
        combinations: list[tuple[int, dict[str, str]]] = [(0, {})]
        scale = 1
        for name, used in self._filled(batch):
            combinations = [
                (code + number * scale, {**chosen, name: column})
                for code, chosen in combinations
                for number, column in enumerate(used)
            ]
            if len(combinations) > _MANY:
                break
            scale *= len(used)
        return combinations

    def _codes(self, batch: pa.RecordBatch) -> Any:
        """For each row, which columns it uses. A row that has no value uses the first one."""
        codes = np.zeros(batch.num_rows, np.int64)
        scale = 1
        for _, used in self._filled(batch):
            for number, column in enumerate(used[1:], start=1):
                codes[_has_value(batch[column])] += number * scale
            scale *= len(used)
        return codes


def _renamed(batch: pa.RecordBatch, columns: dict[str, str]) -> pa.RecordBatch:
    """The columns under the names of their attributes; nothing but rows if there are none."""
    arrays = [presences(batch[c]) if is_presence(c) else batch[c] for c in columns.values()]
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=[_ROW])
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries."""
    arrays = [
        c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _has_value(column: Any) -> Any:
    return np.array(column.is_valid())
