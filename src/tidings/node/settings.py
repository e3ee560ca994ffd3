"""Settings: how a node routes, and how patient it is. All nodes of a network share them."""

from __future__ import annotations

from math import inf

import msgspec

from tidings.events import TidingsError
from tidings.routing import reduction


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times are in seconds.

    Without advertisements a publisher may publish anything, and its events go wherever somebody
    has subscribed (Siena's subscription-based semantics). With them, subscriptions travel only
    towards publishers that may publish something they match; an event that its publisher has not
    advertised is refused (advertisement-based semantics), or, unless `enforce`, goes to all.
    """

    subscriptions: str = "covering"
    advertisements: str | None = None
    enforce: bool = True

    tree: bool = False
    """The links form a graph, and the nodes are to agree on a tree; else they are a tree."""
    beat: float = 1.0
    """The period in which the root of the tree says that it is there."""
    silence: float = 4.5
    """How long a neighbour or a root is silent before it is taken for dead."""

    pause: float = 0.5
    """How long what is not acknowledged waits before it is sent again."""
    delay: float = 0.2
    """How long an acknowledgement waits for something to travel with."""

    check: float = inf
    """The period in which digests are compared. While they agree it doubles, up to `check_most`."""
    check_most: float = 0.0
    lease: float = inf
    """How long a session lasts that is not renewed, where delivery is at most once."""
    grace: str = "static:10"
    """What to do for a neighbour that can't be reached: `static:T` keeps its table for T seconds,
    `adaptive:N` until N events were kept for it, `strawman` drops it at once."""
    memory: float = 600.0
    """How long the last tick of a stream is remembered at least, where delivery is at most once."""

    at_most_once: bool = False
    """Events are kept nowhere, and what a crash or a broken link has cost is lost, as in the
    systems of the papers; else publications are kept in a log, and fetched from it again."""
    backlog: float = inf
    """Unread messages with which a neighbour begins anew, and fetches what it lacks."""
    progress: float = 1.0
    """How often neighbours and clients are told how far the streams are."""
    margin: float = 3600.0
    """Seconds by which the clocks of two nodes may differ. A subscription that begins now begins
    earlier by this in a stream that its node has never heard of."""

    def __post_init__(self) -> None:
        reduction(self.subscriptions)
        if self.advertisements is not None:
            reduction(self.advertisements)
        self.patience()
        for name in ("beat", "pause", "check", "lease", "memory", "progress", "margin"):
            if not getattr(self, name) > 0:
                raise TidingsError(f"{name} is a time above 0, not {getattr(self, name)}")
        if self.silence <= 2 * self.beat:
            raise TidingsError("silence must be more than two beats, or no tree would last")

    def patience(self) -> tuple[float, float]:
        """How long, and for how many events, the table of a lost neighbour is kept."""
        kind, _, amount = self.grace.partition(":")
        try:
            match kind:
                case "strawman" if not amount:
                    return 0.0, 0.0
                case "static":
                    return float(amount), inf
                case "adaptive":
                    return inf, float(amount)
        except ValueError:
            pass
        raise TidingsError(
            f"grace is 'strawman', 'static:SECONDS' or 'adaptive:EVENTS', not {self.grace!r}"
        )
