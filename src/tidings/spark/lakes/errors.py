"""Errors of lakes, known also where nobody needs Delta."""

from __future__ import annotations

from tidings.events import TidingsError


class LakeError(TidingsError):
    """The lake cannot take or give what it was asked to."""
