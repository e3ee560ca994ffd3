"""A named index: filters under names, for batches of events.

It is an index whose keys are numbers, and the names that the numbers stand for as an Arrow array,
so that lists of names are made without a string of Python's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidings.events import Filter, Notification, TidingsError
from tidings.matching import Index, warm
from tidings.matching.lines import Lines
from tidings.matching.source import Source

if TYPE_CHECKING:
    import numpy.typing as npt

Events: TypeAlias = pa.RecordBatch | Sequence[Notification]
"""Events to ask about: a column for each attribute (see `Index.match_batch`), or as they are."""
Names: TypeAlias = pa.Array
"""The names by number: strings, or whole numbers if all of them are."""
_MOST: Final = 2**31 - 1
"""Arrow counts the elements of all lists of an array with 32 bits."""


class NamedIndex:
    """Filters under names, for batches of events.

    Any thread may ask at any time.

    >>> wanted = NamedIndex(
    ...     {"low": Filter.parse("price < 10"), "dis": Filter.parse("symbol = 'DIS'")}
    ... )
    >>> wanted.of([Notification({"symbol": "DIS", "price": 50})]).to_pylist()
    [['dis']]
    """

    def __init__(self, filters: Mapping[Any, Filter]) -> None:
        warm.wait()  # so that the filters are laid out once, not tried one by one before
        self._index = Index()
        self._index.add_many(enumerate(filters.values()))
        self._names: Names = names_of(list(filters))

    @classmethod
    def laid_out(cls, source: Source, lines: Lines, names: Names) -> NamedIndex:
        """Of filters that are arrays already; a filter's key is the number of its name."""
        made = cls({})
        made._index, made._names = Index.laid_out(source, lines), names
        return made

    def __len__(self) -> int:
        return len(self._index)

    def pairs(self, events: Events) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Names]:
        """Numbers of events and, of those they match, numbers of names; in the events' order."""
        # Every core has a process of its own.
        rows, numbers = self._index.match_batch(events, threads=1)
        return np.asarray(rows), np.asarray(numbers.cast(pa.int32())), self._names

    def of(self, events: Events) -> pa.ListArray:
        """For each event the names that match, each once, as an array of lists."""
        length = events.num_rows if isinstance(events, pa.RecordBatch) else len(events)
        rows, numbers, names = self.pairs(events)
        return lists(np.bincount(rows, minlength=length), numbers, names)


def lists(counts: npt.NDArray[Any], numbers: npt.NDArray[Any], names: Names) -> pa.ListArray:
    """Lists of names, by their numbers, with as many in each as `counts` says."""
    return pa.ListArray.from_arrays(ends(counts), names.take(pa.array(numbers)))


def ends(counts: npt.NDArray[Any]) -> pa.Array:
    """Where lists of these lengths begin and end; `TidingsError` if an array can't hold them.

    >>> ends(np.array([2, 0, 1])).to_pylist()
    [0, 2, 2, 3]
    """
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    if found[-1] > _MOST:
        raise TidingsError(
            f"{found[-1]:,} matches of {len(counts):,} events are too many to hold at a time: "
            "match with fewer filters, or narrower ones"
        )
    return pa.array(found.astype(np.int32))


def names_of(held: list[Any]) -> Names:
    """Names as an array: of strings, or of whole numbers if all of them are."""
    are_numbers = bool(held) and all(name.__class__ is int for name in held)
    return pa.array(held, pa.int64() if are_numbers else pa.string())
