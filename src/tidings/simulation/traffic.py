"""Traffic: what travelled between brokers, and what it cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tidings.protocol.messages import (
    Doubt,
    Event,
    Fetch,
    Fetched,
    Frame,
    Offer,
    Seek,
    Silence,
    Sought,
    Streams,
    Update,
)

_READING: Final = (Doubt, Fetch, Fetched, Seek, Silence, Sought, Streams)
"""What only brokers with logs say to each other."""


@dataclass
class Traffic:
    """Counts of what brokers have received from each other.

    `control` counts messages that change tables and `filters` what is in them; `reading` counts
    those that tell how far streams are, or fetch from logs what is lacking. `cost` is the sum of
    the costs of the links travelled. `lost` never arrived.
    """

    packets: int = 0
    control: int = 0
    filters: int = 0
    events: int = 0
    reading: int = 0
    cost: float = 0.0
    lost: int = 0
    by_link: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages with a body, from the first to the second."""
    by_node: Counter[str] = field(default_factory=Counter)
    """Messages with a body that each node received."""

    def count(self, source: str, target: str, packet: Frame | Offer, cost: float) -> None:
        self.packets += 1
        self.cost += cost
        body = packet.body if packet.__class__ is Frame else None
        if body is None:
            return
        self.by_link[source, target] += 1
        self.by_node[target] += 1
        if body.__class__ is Event:
            self.events += 1
        elif body.__class__ is Update:
            self.control += 1
            self.filters += len(body.added) + len(body.removed)
        elif isinstance(body, _READING):
            self.reading += 1

    def reset(self) -> None:
        """Count from zero again."""
        self.__init__()  # type: ignore[misc]
