"""Draws: uniform random numbers that are the same everywhere.

NumPy keeps the raw output of PCG64 and of its seeding for ever, but not what `Generator` makes
of it; and functions such as `log` may differ in the last digit between machines. So everything
is drawn from the raw output, with nothing but +, ×, ÷, floor and comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Uniforms = NDArray[np.float64]

BLOCK: Final = 4096
"""Rows are drawn in blocks of this many."""


def uniform_blocks(seed: int, purpose: str, columns: int) -> Iterator[Uniforms]:
    """Endless blocks of rows of numbers in [0, 1); each block is seeded by its own number.

    >>> next(uniform_blocks(0, "an example", 2))[0].tolist()
    [0.7059691105492626, 0.4352132097117112]
    """
    stream = crc32(purpose.encode())
    block = 0
    while True:
        raw = np.random.PCG64([seed, stream, block]).random_raw(BLOCK * columns)
        mantissas = (raw >> np.uint64(11)).astype(np.float64)
        yield (mantissas * 2.0**-53).reshape(BLOCK, columns)
        block += 1


def choices(uniforms: Uniforms, count: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number as a choice among `count`, all as likely."""
    return (uniforms * count).astype(np.int64)


def ranks(uniforms: Uniforms) -> NDArray[np.int64]:
    """Each row as a random order of its columns: the rank of each column."""
    return uniforms.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")


def zipf(uniforms: Uniforms, count: int, skew: float) -> NDArray[np.int64]:
    """Each number as a choice among `count`, the k-th of them with weight 1 / k ** skew."""
    if skew == 0:
        return choices(uniforms, count)
    reached = np.cumsum([float(k) ** -skew for k in range(1, count + 1)])
    found = np.searchsorted(reached / reached[-1], uniforms, side="right")
    return np.minimum(found, count - 1)
