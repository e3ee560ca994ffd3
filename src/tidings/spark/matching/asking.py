"""Asking: which keys rows of a lake match, some rows at a time. Nothing here knows of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.events import TidingsError
from tidings.lakes.grouping import Grouping
from tidings.lakes.portions import ROWS
from tidings.matching.named import NamedIndex, lists

_PAIRS: Final = 4_000_000
"""Matches held at a time, about; however many an event has."""
_GROWTH: Final = 8
"""How many times the rows of the step before a step has, at most: what comes may match more."""
KINDS: Final[Mapping[str, Any]] = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
"""What keys may be."""


class Asking:
    """Asks a set of filters about rows of a lake, some at a time."""

    def __init__(self, index: NamedIndex, grouping: Grouping, kind: str) -> None:
        self._index, self._grouping = index, grouping
        self._names: Any = None
        self._kind = KINDS[kind]
        # Rows that can't match more, whatever they are: nothing is known of them yet.
        self._step = _bounded(_PAIRS // max(1, len(index)))

    def answers(
        self, batch: pa.RecordBatch, columns: list[str], *, keep: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, pa.ListArray]]:
        """Of rows that match a filter, or with `keep` all, these columns and the keys of those."""
        for events, found, numbers, names in self.pieces(batch):
            rows = events.select(columns)
            counts = np.bincount(found, minlength=rows.num_rows)
            wanted = None if keep else np.flatnonzero(counts)
            if wanted is None or len(wanted) == rows.num_rows:
                yield rows, lists(counts, numbers, names)
            elif len(wanted):
                yield rows.take(wanted), lists(counts[wanted], numbers, names)

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Any, Any, pa.Array]]:
        """The rows, some at a time, with pairs of their numbers and those of names; the names."""
        at = 0
        while at < batch.num_rows:
            rows = batch.slice(at, self._step)
            at += rows.num_rows
            found, numbers = self.pairs(rows)
            # Memory is for `_PAIRS` matches, however many there are.
            likely = _PAIRS * rows.num_rows // max(1, len(found))
            self._step = _bounded(min(likely, _GROWTH * self._step))
            yield rows, found, numbers, self._names

    def pairs(self, rows: pa.RecordBatch) -> tuple[Any, Any]:
        """Numbers of rows and numbers of the keys that match, in the order of the rows."""
        found: list[Any] = []
        numbers: list[Any] = []
        for members, events in self._grouping.groups(rows):
            at, which, names = self._index.pairs(events)
            if self._names is None:
                self._names = names.cast(self._kind)
            found.append(at if members is None else members[at])
            numbers.append(which)
        if len(found) == 1:
            return found[0], numbers[0]
        together = np.concatenate([np.zeros(0, np.int64), *found])
        order = np.argsort(together, kind="stable")
        return together[order], np.concatenate([np.zeros(0, np.int32), *numbers])[order]


def _bounded(rows: int) -> int:
    return min(max(rows, 1), ROWS)


def kind_of(keys: Sequence[Any]) -> str:
    """What keys are: strings, or whole numbers if all of them are; `TidingsError` if neither."""
    if all(key.__class__ is str for key in keys):
        return "string"
    if all(key.__class__ is int and -(2**63) <= key < 2**63 for key in keys):
        return "int" if all(-(2**31) <= key < 2**31 for key in keys) else "bigint"
    wrong = next((k for k in keys if k.__class__ is not str), None)
    raise TidingsError(f"keys are strings, or all whole numbers of 64 bits; {wrong!r} does not fit")
