"""Errors of lakes; to import them needs no Delta."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from tidings.events import TidingsError


class LakeError(TidingsError):
    """The lake cannot take or give what it was asked to."""


@contextmanager
def reading(file: str | Path) -> Iterator[None]:
    """While a file of a lake is read: `LakeError` names it if it is missing or damaged."""
    try:
        yield
    except FileNotFoundError:  # of which Arrow may say no more than the name
        raise LakeError(f"{file}: it cannot be read: No such file") from None
    except (OSError, pa.ArrowException) as problem:
        reason = " ".join(str(getattr(problem, "strerror", None) or problem).split())
        raise LakeError(f"{file}: it cannot be read: {reason}") from None
