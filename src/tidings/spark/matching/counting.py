"""Counting: the one inner loop of a match that is not the index's, compiled by numba as that is.

Importing this module imports numba, and loads or compiles the kernel.
"""

from __future__ import annotations

from typing import Final

from numba import types

from tidings.matching.kernels import Array, kernel

COUNT: Final = 0
FIRST: Final = 1
LAST: Final = 2
"""The columns of a tally's table: what is known of a filter is in one line of the cache."""

_TABLE = types.Array(types.int64, 2, "C")
_COUNTS = types.Array(types.int32, 1, "C")
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_I32 = types.Array(types.int32, 1, "C", readonly=True)


@kernel([types.void(_TABLE, _I64, rows, _I32, _COUNTS) for rows in (_I32, _I64)])
def count(table: Array, times: Array, rows: Array, numbers: Array, counts: Array) -> None:
    """Take in pairs of an event's row, of which `times` has the time, and a filter's number.

    How many pairs each row has is added to `counts`.
    """
    for pair in range(len(numbers)):
        row, number = rows[pair], numbers[pair]
        counts[row] += 1
        time = times[row]
        table[number, COUNT] += 1
        if time < table[number, FIRST]:
            table[number, FIRST] = time
        if time > table[number, LAST]:
            table[number, LAST] = time
