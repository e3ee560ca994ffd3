"""Readers: subscriptions with their positions, and the flows that they follow.

A *flow* is what comes of a stream to a node by itself, event after event. It is *live* when
nothing that anybody here wants can be missing in it: since a fetch that was sent up the way
behind everything that this node wants has come back. A reader *follows* a flow once it has
caught up with it; before that, what it wants is fetched for it alone.

    log     ───────────────●━━━━━━━━━━━━━━━●───────────────▶
    reader          is here│    fetched    │follows the flow
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidings.delivery.stages import AWAY, FOLLOWING, Stage
from tidings.events import Filter
from tidings.protocol.parts import UNTOLD, Session, Version

UNKNOWN: Final = -1
"""Nothing is known of a flow yet."""


@dataclass(slots=True, eq=False)
class Flow:
    """One stream as it comes to this node."""

    stream: str
    is_live: bool = False
    upto: int = UNKNOWN
    """Everything up to this tick that is wanted here has come."""
    complete: float = 0.0
    """All that is earlier than this, and wanted here, has come."""
    identity: str = ""
    """Of the stream that it was when it came last; see `Way`."""
    told: Version = UNTOLD
    """What the neighbour it comes by had been told when the flow became live."""
    fetch: int = 0
    """The number under which the gap of an interrupted flow is being fetched."""
    probe: int = 0
    """The number under which the stream was asked where it is."""
    probing: dict[Reader, None] = field(default_factory=dict)
    """The readers for whom it was: those that are `PROBING`."""
    waiting: dict[Reader, None] = field(default_factory=dict)
    """The readers for whom it will be when that is answered: those that are `WAITING`."""


@dataclass(slots=True, eq=False)
class Reader:
    """A subscription of a session, and its position in each stream."""

    session: str
    id: str
    filter: Filter
    durable: str | None = None
    addressee: str = ""
    """The bulk subscription whose copies it is told; empty if it is an ordinary one."""
    positions: dict[str, int] = field(default_factory=dict)
    """All up to this tick has been delivered, or was silence."""
    stages: dict[str, Stage] = field(default_factory=dict)
    """Where it stands in each stream that it was brought into."""
    fetches: dict[str, int] = field(default_factory=dict)
    """Where it is `FETCHING`, under which number."""
    wants_times: bool = False
    """Whether it is told below which times streams are complete."""
    begun: float = 0.0
    """The time from which it wants all of a stream that turns up later."""
    begins_now: bool = False
    """In streams in which it has no position it begins now, as it has not been accepted yet."""
    timed: set[str] = field(default_factory=set)
    """The streams of later epochs in which that holds, or in which it has begun now."""
    unreached: set[str] = field(default_factory=set)
    """Streams that could not be reached when it began, nor since."""
    is_live: bool | None = None
    """Whether it follows all streams that can be reached; None until it was told so."""
    is_paused: bool = False
    """It is told nothing until somebody says that it goes on."""
    missed: int = 0
    """Events that it was not sent since its client did not read; told soon."""
    lost: int = 0
    """Ticks that were no longer kept when they were fetched for it; told soon."""
    starts: dict[str, int] | None = None
    """Where it began, for a durable one of which nothing is saved yet. Its positions won't
    do: they are past what was delivered, but not acknowledged."""

    def stage(self, stream: str) -> Stage:
        """Where it stands in a stream."""
        return self.stages.get(stream, AWAY)

    def follows(self, stream: str) -> bool:
        """Whether its position is that of the flow, or ahead of it."""
        return self.stages.get(stream) is FOLLOWING

    def begins(self, stream: str, tick: int) -> None:
        """It has come into a stream behind this tick; if it was there already, no matter."""
        if self.starts is not None:
            self.starts.setdefault(stream, tick)


@dataclass(slots=True, eq=False)
class Client:
    """A session, as far as it reads and publishes."""

    session: Session
    publisher: str = ""
    """The name under which it publishes, which no other session has."""
    instance: str = ""
    """Which process of that name it is."""
    attempt: int = 0
    """The number that the process gave to its attempt to attach."""
    readers: dict[str, Reader] = field(default_factory=dict)
    """By the client's own ids."""
    is_full: bool = False
    """It does not read."""
    progress: dict[str, int] = field(default_factory=dict)
    """What it was told last of how far the flows are."""
    wants_times: bool = False
    """Whether one of its readers has asked below which times streams are complete."""
    complete: dict[str, float] = field(default_factory=dict)
    """What it was told last of that."""

    def __post_init__(self) -> None:
        self.publisher = self.publisher or self.session.name
