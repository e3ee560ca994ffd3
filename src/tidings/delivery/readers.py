"""Readers: subscriptions with their positions, and the flows that they follow.

A *flow* is what comes of a stream to a node by itself, event after event. It is *live* when
nothing that anybody here wants can be missing in it: since a fetch that was sent up the way
behind everything that this node wants has come back. A reader *follows* a flow once it has
caught up with it; before that, what it wants is fetched for it alone.

    log     ───────────────●━━━━━━━━━━━━━━━●───────────────▶
    reader          is here│    fetched    │follows the flow
"""

from __future__ import annotations

from typing import Final

from tidings.delivery.stages import AWAY, FOLLOWING, Stage
from tidings.events import Filter
from tidings.protocol.parts import UNTOLD, Session

UNKNOWN: Final = -1
"""Nothing is known of a flow yet."""


class Flow:
    """One stream as it comes to this node."""

    __slots__ = (
        "complete",
        "fetch",
        "identity",
        "is_live",
        "probe",
        "probing",
        "stream",
        "told",
        "upto",
        "waiting",
    )

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.is_live = False
        self.upto = UNKNOWN
        """Everything up to this tick that is wanted here has come."""
        self.complete = 0.0
        """All that is earlier than this, and wanted here, has come."""
        self.identity = ""
        """Of the stream that it was when it came last; see `Way`."""
        self.told = UNTOLD
        """What the neighbour it comes by had been told when the flow became live."""
        self.fetch = 0
        """The number under which the gap of an interrupted flow is being fetched."""
        self.probe = 0
        """The number under which the stream was asked where it is."""
        self.probing: dict[Reader, None] = {}
        """The readers for whom it was: those that are `PROBING`."""
        self.waiting: dict[Reader, None] = {}
        """The readers for whom it will be when that is answered: those that are `WAITING`."""


class Reader:
    """A subscription of a session, and its position in each stream."""

    __slots__ = (
        "addressee",
        "begins_now",
        "begun",
        "durable",
        "fetches",
        "filter",
        "id",
        "is_live",
        "is_paused",
        "lost",
        "missed",
        "positions",
        "session",
        "stages",
        "starts",
        "timed",
        "unreached",
        "wants_times",
    )

    def __init__(self, session: str, id: str, filter: Filter) -> None:
        self.session, self.id, self.filter = session, id, filter
        self.durable: str | None = None
        self.addressee = ""
        """The bulk subscription whose copies it is told; empty if it is an ordinary one."""
        self.positions: dict[str, int] = {}
        """All up to this tick has been delivered, or was silence."""
        self.stages: dict[str, Stage] = {}
        """Where it stands in each stream that it was brought into."""
        self.fetches: dict[str, int] = {}
        """Where it is `FETCHING`, under which number."""
        self.wants_times = False
        """Whether it is told below which times streams are complete."""
        self.begun = 0.0
        """The time from which it wants all of a stream that turns up later."""
        self.begins_now = False
        """In streams in which it has no position it begins now, as it has not been accepted yet."""
        self.timed: set[str] = set()
        """The streams of later epochs in which that holds, or in which it has begun now."""
        self.unreached: set[str] = set()
        """Streams that could not be reached when it began, nor since."""
        self.is_live: bool | None = None
        """Whether it follows all streams that can be reached; None until it was told so."""
        self.is_paused = False
        """It is told nothing until somebody says that it goes on."""
        self.missed = 0
        """Events that it was not sent since its client did not read; told soon."""
        self.lost = 0
        """Ticks that were no longer kept when they were fetched for it; told soon."""
        self.starts: dict[str, int] | None = None
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


class Client:
    """A session, as far as it reads and publishes."""

    __slots__ = (
        "attempt",
        "complete",
        "instance",
        "is_full",
        "progress",
        "publisher",
        "readers",
        "session",
        "wants_times",
    )

    def __init__(self, session: Session) -> None:
        self.session = session
        self.publisher = session.name
        """The name under which it publishes, which no other session has."""
        self.instance = ""
        """Which process of that name it is."""
        self.attempt = 0
        """The number that the process gave to its attempt to attach."""
        self.readers: dict[str, Reader] = {}
        """By the client's own ids."""
        self.is_full = False
        """It does not read."""
        self.progress: dict[str, int] = {}
        """What it was told last of how far the flows are."""
        self.wants_times = False
        """Whether one of its readers has asked below which times streams are complete."""
        self.complete: dict[str, float] = {}
        """What it was told last of that."""
