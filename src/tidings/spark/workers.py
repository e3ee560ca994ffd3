"""Workers: the Python processes of Spark's, which do one task after another.

After each task, Spark has Python look through all that the process holds for garbage: with Arrow,
numba and an index loaded that takes 50 ms, and finds nothing. And for arrays of more than 128 kB
the C library asks the system for new pages and gives them back at once, and the system clears each
page anew. Together, that was a third of what it took to match a lake.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache
from typing import Final

_TRIM, _MAP = -1, -3
"""The names of glibc's parameters: above how much free memory it gives some back, and from which
size on it asks for pages of their own."""
_KEPT: Final = 256 << 20
_LARGE: Final = 32 << 20
"""The most that glibc takes for it."""


@cache
def settle() -> None:
    """What this process holds by now will stay: to be called at the end of a task."""
    gc.freeze()
    with suppress(OSError, AttributeError):  # another C library has its own ways
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MAP, _LARGE)
        mallopt(_TRIM, _KEPT)
