"""The broker to read from or publish at, and what to do about what it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidings.client.tls import Tls
from tidings.protocol.addresses import DEFAULT_URL

OnGap: TypeAlias = Literal["fail", "continue"]
"""What to do where events are no longer kept: fail, or continue behind them."""


@dataclass(frozen=True)
class Broker:
    """Where the broker is, and how long it may be away before a task fails."""

    url: str = DEFAULT_URL
    token: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    authority: Tls = None
    """The file of the authority that has signed the broker's certificate; each reader sees it."""
