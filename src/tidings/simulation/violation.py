"""What a check says of a run in which something has happened that must not."""

from __future__ import annotations

from tidings.events import TidingsError


class Violation(TidingsError):  # noqa: N818 - it is the run that is wrong, not a call
    """Something that must never happen has happened."""
