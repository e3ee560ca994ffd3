"""Absence: why a stretch of a stream cannot be read."""

from __future__ import annotations

from time import monotonic
from typing import Literal, TypeAlias

from tidings.events import TidingsError

OnGap: TypeAlias = Literal["fail", "continue"]
"""What to do where events are no longer kept: fail, or continue behind them."""


class Gone(TidingsError):  # noqa: N818
    """A stream is no longer kept behind the tick `after`, but behind `upto`; that may be before."""

    def __init__(self, message: str, after: int, upto: int) -> None:
        super().__init__(message, after, upto)
        self.after, self.upto = after, upto

    def __str__(self) -> str:
        return str(self.args[0])


class Away(TidingsError):  # noqa: N818
    """A broker is not there, or says nothing; it may come back."""


class Patience:
    """How long nothing may come before a broker is taken for away."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._moved_at = monotonic()

    def moved(self) -> None:
        """Something has come."""
        self._moved_at = monotonic()

    @property
    def is_over(self) -> bool:
        """Whether that was too long ago."""
        return monotonic() - self._moved_at > self.seconds


def gap(stream: str, position: int, place: int) -> str:
    """What to say where events are gone."""
    if place < position:
        return (
            f"stream {stream} ends at tick {place}, before tick {position}, which was read: its "
            "broker has lost what came behind that. To go on with what is left, use the option "
            "onGap = continue, or --skip-gaps of a command"
        )
    return (
        f"stream {stream} is no longer kept from tick {position + 1} on: {place - position:,} "
        "ticks are lost. To go on behind them, use the option onGap = continue, "
        "or --skip-gaps of a command"
    )
