"""Formats: which lakes this tidings reads and writes. A table says in a property which it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FORMAT: Final = 2
"""The format of a lake: what its columns and its numbers mean."""
KEY: Final = "tidings.format"
"""The property in which a lake says it."""


def objection(configuration: Mapping[str, str | None]) -> str | None:
    """Why a lake cannot be read or written by this tidings, if it is of another format."""
    said = configuration.get(KEY)
    if said == str(FORMAT):
        return None
    if said is None:
        return (
            "this lake is of format 1, which was never released; this tidings reads format "
            f"{FORMAT}: archive into a new folder"
        )
    return (
        f"this lake was made by a newer tidings, in format {said}; this one reads format "
        f"{FORMAT}: use that tidings, or a later one"
    )
