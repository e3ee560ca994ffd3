"""Requests: what clients ask of a node, and what it answers."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from tidings.events import Filter, Notification
from tidings.protocol.epochs import broker_of

ACCESS: Final = "access"
"""The id of a refusal to let a client or broker in, which need not try again as it is."""
SESSION: Final = "session"
"""The id of a refusal to go on, since another session has the name."""

FOR: Final = "tidings.for"
"""The attribute of a copy for bulk subscribers that says for whom it is: see `delivery.copies`."""
LONGEST_ID: Final = 4_096
"""Characters that the id of a publication may have."""

Time = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""Seconds since 1970: neither NaN nor infinite."""

Cursor: TypeAlias = dict[str, int]
"""A position: of each stream, the last tick that lies behind it."""
Since: TypeAlias = Cursor | float | Literal["begin"] | None
"""Where to begin: behind a cursor, at a time, with the first event kept, or now."""

Home: TypeAlias = Literal["", "here"]
"""Where a durable subscription is to go on: wherever it is now, or anew at this node."""


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Open a session, or resume it: all that it wants and advertises, and what it has heard.

    The cursor is the last tick heard of each stream: nothing up to it is delivered again. A name
    that another session has is taken over: see `delivery.publishers`.
    """

    subscriptions: dict[str, Filter] = {}
    advertisements: dict[str, Filter] = {}
    cursor: dict[str, int] = {}
    instance: str = ""
    """The process that attaches; empty if no other one can have its name."""
    epoch: int = 0
    """The epoch that it was given when it was last attached here, or 0."""
    attempt: int = 0
    """How often it has attached: an earlier attempt that arrives late takes nothing over."""
    name: str = ""
    """The name under which it publishes, as the broker says; empty for the session's own name."""


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Hear what the filter matches, until `Unsubscribe` with the same id.

    A node with a log accepts it once the subscription has started in every stream that can be
    reached. A durable subscription that is known goes on behind what was acknowledged; with
    `since` it begins there anew, and what was acknowledged behind that is no longer. One that is
    not known comes from the node where it lives, or is made: see `homes`.
    """

    id: str
    filter: Filter
    durable: str | None = None
    """The name under which the node keeps its filter and its cursor."""
    since: Since = None
    begun: float = 0.0
    """When it began, if it is made again: nothing older of what `heard` lacks. Below 0 if it was
    to begin now, and that was not accepted yet."""
    heard: Cursor | None = None
    """Where the client is, if it was told something before: that is not told again, and does not
    count as acknowledged."""
    replace: bool = False
    """Whether a durable subscription with another filter hears this one from now on."""
    owner: str = ""
    """The reader that takes a durable subscription. To be told on from `heard`, it must still have
    it."""
    is_noted: bool = False
    """`since` was noted elsewhere, by a lake for example, and may name some streams that the node
    has never heard of, as `heard` may. Else a cursor that names one is refused."""
    home: Home = ""
    """Of a durable name that the node does not know. It comes from the node where it lives, and is
    refused for now if one that may have it cannot be asked; with `here`, nobody is asked."""
    doubts: int | None = None
    """With `heard`: the last number of doubts that it was told; see `Doubtful`."""
    bulk: str | None = None
    """The bulk subscription whose copies are wanted. Else no copy is heard: see
    `delivery.copies`."""
    times: bool = False
    """Whether to be told, also while nothing happens, below which time each stream is complete:
    see `Progress.complete`."""


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Hear it no longer; an unknown id is no error. Also ends a `Watch`."""

    id: str
    forget: bool = False
    """Forget the cursor of a durable subscription, too."""
    durable: str | None = None
    """The name of a durable subscription to forget, even if another client reads it. Then `id` is
    only the id of the answer."""
    owner: str = ""
    """The only reader that may have the subscription named in `durable`, if it is to be forgotten;
    see `Subscribe.owner`."""


class Acknowledge(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A durable subscription need never again be told of what lies up to this cursor."""

    id: str
    cursor: Cursor
    durable: str | None = None
    """The name of a durable subscription that nobody reads now: its events come from elsewhere."""
    owner: str = ""
    """The reader that has the subscription named in `durable`; see `Subscribe.owner`."""
    number: int = 0
    """Comes back with the answer."""


class Watch(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Say whether somebody wants something that this filter matches, now and when it changes.

    Where brokers route by advertisements, it is refused while no advertisement of the session
    overlaps the filter, and only what was advertised of it counts.
    """

    id: str
    filter: Filter


class Advertise(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Say what will be published, until `Unadvertise` with the same id."""

    id: str
    filter: Filter


class Unadvertise(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Take an advertisement back; an unknown id is no error."""

    id: str


class Publish(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=8):
    """Say what happened.

    A client numbers its notifications; `number` is that of the first, and the others follow on
    it. One that is not above the last is taken for a repetition. Without any notifications, it
    says that the number is left out, since it was refused before the session was attached again.
    """

    number: int
    notifications: tuple[Notification, ...]
    is_whole: bool = False
    """Whether all of them are kept, on ticks that follow on each other, or none."""
    ids: tuple[str, ...] = ()
    """The id of each, or nothing for one that has none: see `delivery.ids`."""
    elsewhere: tuple[str, ...] = ()
    """Other nodes that may have kept what has an id: they are asked before it is kept here."""
    maybe_twice: bool = False
    """Whether it is kept though one of them cannot be asked. Else it is refused for now."""


class Renew(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The client is still there, and this is the digest of what it wants and advertises."""

    digest: int


class Detach(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Close the session, with all that it wanted."""

    forget: bool = False
    """Whether to forget the name, since the client does not come back to send something again."""


class ListDurables(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Say which durable subscriptions there are, at all nodes that can be asked."""

    id: str
    principal: str = ""
    """Whose. A broker puts in who its client is."""


class Adjust(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Change a durable subscription, wherever it lives."""

    id: str
    durable: str
    since: Since = None
    """Where it is to go on. Whoever reads it now reads no further."""
    is_paused: bool | None = None
    """Whether it is told nothing from now on, until it is told otherwise."""


class Erase(msgspec.Struct, frozen=True, array_like=True, tag=75):
    """Erase what the filter matches and was published before this, at every broker that is reached.

    It is answered by `Erasure`, at first for those that have answered so far. To ask again under
    the same id is to ask once.
    """

    id: str
    filter: Filter
    reason: str = ""
    """What the record of the erasure says of it, if anything."""
    is_dry: bool = False
    """Erase nothing: only count."""


RequestBody: TypeAlias = (
    Attach
    | Subscribe
    | Unsubscribe
    | Acknowledge
    | Watch
    | Advertise
    | Unadvertise
    | Publish
    | Renew
    | Detach
    | ListDurables
    | Adjust
    | Erase
)


class Kept(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where publications are kept whose numbers and ticks follow on each other.

    >>> Kept(7, 3, "paris", 40).place(9)
    ('paris', 42)
    """

    number: int
    """Of the first of them."""
    count: int
    stream: str
    tick: int
    """Of the first of them."""
    time: float = 0.0
    """When they were kept, in seconds since 1970 by the clock of the stream's node."""
    is_maybe_twice: bool = False
    """Whether another node, which could not be asked, may have kept them, too."""

    @property
    def last(self) -> int:
        """The number of the last of them."""
        return self.number + self.count - 1

    def place(self, number: int) -> tuple[str, int]:
        """The stream and the tick of one of them."""
        return self.stream, self.tick + number - self.number


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The request was carried out; what is promised to last is on disk."""

    id: str
    number: int = 0
    """For publications: the last one that is kept under the session's name. For an acknowledgement:
    its own number. For what was to be forgotten by its name: 1 if there was such a thing."""
    epoch: int = 0
    """For an attached session: the epoch to tell when it attaches again."""
    cursor: Cursor | None = None
    """Where a subscription has started, in each stream that is known."""
    begun: float = 0.0
    """When a subscription has started; the client tells it again as `Subscribe.begun`."""
    doubts: int = 0
    """The number of doubts so far; the client tells it again as `Subscribe.doubts`."""
    kept: tuple[Kept, ...] = ()
    """For publications: where those are kept that have become so since the answer before, as far
    as is known, by number. Some of them may have been told before."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """The request was not carried out, or what it began has ended."""

    id: str
    reason: str
    cursor: Cursor | None = None
    """Where to go on, if the reason is that events are no longer kept."""
    stream: str = ""
    """The stream whose events are no longer kept."""
    position: int = 0
    """The tick of that stream at which the subscription is."""
    is_passing: bool = False
    """Whether it may be carried out when it is asked for again later."""


class Resend(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """The session is unknown or differs from what the client says: attach again."""


class Progress(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """A subscription has been told of everything up to this cursor: the rest was silence."""

    id: str
    """The subscription; empty for all of the session that were last said to be live."""
    cursor: Cursor
    is_live: bool
    """Whether it has caught up in every stream that can be reached."""
    complete: dict[str, Time] = {}
    """For some streams, the time below which it has been told everything, for good; told only if
    it is live, and to whoever has asked for `Subscribe.times`."""


class Missed(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """Events of a live subscription were not sent and will not be: it goes on behind them."""

    id: str
    count: int
    """Events that were not sent because the client did not read."""
    cursor: Cursor
    """Where the subscription is now: what it has missed lies before that."""
    lost: int = 0
    """Ticks that a broker no longer kept when they were wanted. It is not known how many of them
    held an event for this subscription."""


class Interest(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """The answer to `Watch`."""

    id: str
    is_wanted: bool


class Doubtful(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """The memory of some node was damaged: what a subscription was told before this may lack
    events or repeat some, and its position may be wrong."""

    id: str
    doubts: int
    """The number of doubts so far; the client tells it again as `Subscribe.doubts`."""


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A durable subscription as it is at its home."""

    name: str
    home: str
    """The node where it lives."""
    filter: Filter
    cursor: Cursor
    """What was acknowledged."""
    ends: Cursor
    """How far the streams are, as far as its home has heard."""
    is_read: bool
    is_paused: bool
    idle: int
    """For how many days nobody has used it, as its home counts the days that it runs."""


class Durables(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """The answer to `ListDurables`."""

    id: str
    found: tuple[Held, ...]
    unasked: tuple[str, ...] = ()
    """Nodes that may have more, and cannot be asked."""


class Warned(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """Something about a request is odd, though it is carried out; said before it is answered."""

    id: str
    reason: str


class Erasure(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """The answer to `Erase`: what was erased, and who could not be reached.

    >>> report = Erasure("erase-1", {"paris": 3, "paris~2": 1, "rome": 0}, unreached=("oslo",))
    >>> report.count, report.reached, report.is_complete
    (4, ['paris', 'rome'], False)
    """

    id: str
    erased: dict[str, int] = {}
    """Of each stream, how many events were erased, or would be."""
    upto: Cursor = {}
    """Of each stream, the last tick where something is erased, by whatever erasure; or 0."""
    unreached: tuple[str, ...] = ()
    """The brokers that may have events of the sort, and could not be asked."""
    problems: dict[str, str] = {}
    """Of a broker, why something may be left there."""
    record: str = ""
    """The id of the event that tells of the erasure, once it is published."""
    is_done: bool = True
    """Whether all who can be reached have answered."""

    @property
    def count(self) -> int:
        """How many events were erased, or would be."""
        return sum(self.erased.values())

    @property
    def reached(self) -> list[str]:
        """The brokers that have answered."""
        return sorted({*map(broker_of, self.erased)})

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left at any broker that is known."""
        return self.is_done and not self.unreached and not self.problems


Answer: TypeAlias = (
    Accepted
    | Refused
    | Resend
    | Progress
    | Missed
    | Interest
    | Doubtful
    | Durables
    | Warned
    | Erasure
)
