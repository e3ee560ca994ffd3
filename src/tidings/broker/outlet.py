"""Outlets: where messages go, which is a connection of a client or a neighbour."""

from __future__ import annotations

from typing import Any, Protocol


class Outlet(Protocol):
    """The other end of a connection, as its senders see it."""

    is_full: bool
    """Whether the other end has more to take than it should."""
    is_closing: bool
    """Whether what is sent now is lost."""

    def send(self, messages: list[Any]) -> None:
        """Send these, in one frame if they fit; they may be lost with the connection."""

    def close(self) -> None:
        """Close, once the other end has taken what it was sent."""

    def cut_off(self, why: str) -> None:
        """Close at once, with nothing more said."""
