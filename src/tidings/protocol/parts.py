"""Parts: what a node is made of, and what a part may ask of the kernel that holds it.

A part is one ability of a node. It says which inputs, messages and requests it handles and what
it keeps on disk, and it is told what happens to ports and tables. Delivery asks for what anybody
wants through a small protocol, `Wants`; the parts of routing share the tables themselves.

No effect re-enters: what a part wants sent, stored or done `soon` waits in a queue until whatever
happens now has been dealt with. That includes answers of the node's own log, and giving a
neighbour up. Only what a part is told of ports and tables is said at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NewType, Protocol, TypeAlias, TypeVar

from tidings.events import Filter, Notification
from tidings.protocol.host import Deliver, Effect, Recalled, Reply, Store
from tidings.protocol.messages import Event, View
from tidings.protocol.requests import Attach, Refused, RequestBody

V = TypeVar("V")

Version = NewType("Version", int)
"""How often a neighbour was told what is wanted: it grows with each `Update` about that."""
UNTOLD = Version(-1)
"""No neighbour was ever told so little."""
Table: TypeAlias = Mapping[Filter, int]
"""Filters, and how often each is wanted or advertised."""


@dataclass(slots=True, eq=False)
class Session:
    """A client, or a part of the node that subscribes and publishes like one."""

    name: str
    order: int
    is_own: bool = False
    advertisements: dict[str, Filter] = field(default_factory=dict)
    """By the client's own ids."""


class Neighbour(Protocol):
    """Another node on one lane of the overlay: whatever is kept for it is kept for this object."""

    name: str
    lane: int
    order: int
    role: str
    """`peer`, or `parent` or `child` in a hierarchy."""
    is_up: bool
    is_linked: bool
    """Whether tables are open: the overlay uses the link to it."""
    told: Version
    """How often it was told what is wanted."""
    checks: int
    """Checks sent since the last that failed."""
    check_at: float

    @property
    def is_open(self) -> bool:
        """Whether it hears what it is sent, from the beginning of a conversation on."""

    @property
    def view(self) -> View:
        """Under which of the overlay's decisions something is said to it."""

    def sees(self, view: View) -> bool:
        """Whether it said something under the decisions that hold now."""

    def __hash__(self) -> int: ...


Port: TypeAlias = Session | Neighbour
"""A client's session or a neighbour: what may want something."""


class Kernel(Protocol):
    """What a part may ask of its node."""

    @property
    def name(self) -> str: ...
    @property
    def now(self) -> float:
        """Seconds since some moment; never less than before."""

    @property
    def time(self) -> float:
        """The time of day when the node was last woken, in seconds since 1970; may jump."""

    @property
    def incarnation(self) -> int:
        """Larger than that of any earlier node of this name."""

    @property
    def parts(self) -> Part:
        """All parts, to be told something."""

    @property
    def neighbours(self) -> Mapping[str, Neighbour]:
        """By name; all are on lane 0 so far."""

    @property
    def sessions(self) -> Mapping[str, Session]: ...

    def emit(self, effect: Effect) -> None:
        """Have the host do something, after all that was emitted before."""

    def send(self, neighbour: Neighbour, body: Any) -> None:
        """Say something in the conversation with a neighbour; nothing if there is none."""

    def pass_on(self, neighbour: Neighbour, event: Event) -> None:
        """Send it an event, which waits while it cannot be reached, but not for ever."""

    def soon(self, what: Callable[[], None]) -> None:
        """Do something when what happens now has been dealt with."""

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something at a time; it may be forgotten, so be sure to look again."""

    def every(self, period: float, what: Callable[[], None]) -> None:
        """Do something regularly, whatever becomes of timers."""

    def open_session(self, name: str) -> Session:
        """Somebody is there from now on, or still is."""

    def open_own(self, name: str, hear: Callable[[Deliver | Reply], None]) -> Session:
        """A session of the node itself, which hears what a client would."""

    def close_session(self, session: Session) -> None:
        """It is gone: all parts are told."""

    def ask(self, session: Session, body: Any, time: float) -> None:
        """Serve a request as if a client had sent it."""


class Wants(Protocol):
    """What anybody wants and advertises, as the tables of a node have it."""

    @property
    def is_advertised(self) -> bool:
        """Whether subscriptions travel only towards those that advertise what they match."""

    def filters(self, notification: Notification) -> list[Filter]:
        """The filters that match it."""

    def match(self, notification: Notification) -> set[Port]:
        """The ports that want it."""

    def filters_of(self, notifications: Sequence[Notification]) -> list[list[Filter]]:
        """For each of several notifications the filters that match it, at a lower price."""

    def holders(self, filters: Iterable[Filter]) -> Collection[Port]:
        """The ports that want what one of these filters matches."""

    def is_told(self, neighbour: Neighbour) -> bool:
        """Whether a neighbour is told what is wanted, and tells it."""

    def told(self, neighbour: Neighbour) -> Table:
        """All that a neighbour was told to be wanted."""

    def told_advertised(self, neighbour: Neighbour) -> Table | None:
        """All that a neighbour was told to be advertised; None if nobody is."""

    def wanted(self, port: Port) -> Table:
        """All that a port wants."""

    def advertised_by(self, session: Session) -> Table | None:
        """All that a session advertises; None if nobody does."""

    def is_for_all(
        self, session: Session, notification: Notification, *, enforce: bool
    ) -> bool | None:
        """Whether it goes to everybody since it was not advertised; None if it may not go at all.

        Where advertisements don't steer subscriptions, everything may go wherever it is wanted.
        """

    def want(self, session: Session, added: Table, removed: Table) -> None:
        """A session wants more or less."""

    def advertise(self, session: Session, added: Table, removed: Table) -> None:
        """A session advertises more or less."""

    def become(self, session: Session, wanted: Table, advertised: Table) -> None:
        """A session wants and advertises exactly this."""


class Change(Protocol):
    """How a table has changed."""

    @property
    def added(self) -> Table: ...
    @property
    def removed(self) -> Table: ...


class Shelf(Generic[V]):
    """The keys under which a part keeps values of one kind in the store, one for each name.

    >>> cursors = Shelf[dict[str, int]]("cursor")
    >>> cursors.put("desk", {"paris": 7})
    Store(key='cursor:desk', value={'paris': 7})
    >>> dict(cursors.found({"cursor:desk": {"paris": 7}, "hours": 3}))
    {'desk': {'paris': 7}}
    """

    __slots__ = ("_prefix", "is_exact", "kind")

    def __init__(self, kind: str, *, is_exact: bool = True) -> None:
        """Exact: whatever is known is stored, so that the two can be compared."""
        self.kind, self.is_exact = kind, is_exact
        self._prefix = f"{kind}:"

    def key(self, name: str) -> str:
        """Under which a value is kept."""
        return self._prefix + name

    def put(self, name: str, value: V) -> Store:
        return Store(self._prefix + name, value)

    def drop(self, name: str) -> Store:
        return Store(self._prefix + name, None)

    def found(self, stored: Mapping[str, Any]) -> Iterator[tuple[str, V]]:
        """All that a store holds of this kind."""
        for key, value in stored.items():
            if key.startswith(self._prefix):
                yield key.removeprefix(self._prefix), value


class Single(Generic[V]):
    """The key under which a part keeps one value.

    >>> Single[int]("hours").put(3), Single[int]("hours").found({"hours": 3}, 0)
    (Store(key='hours', value=3), 3)
    """

    __slots__ = ("is_exact", "kind")

    def __init__(self, kind: str, *, is_exact: bool = True) -> None:
        """Exact: whatever is known is stored, so that the two can be compared."""
        self.kind, self.is_exact = kind, is_exact

    def put(self, value: V) -> Store:
        return Store(self.kind, value)

    def found(self, stored: Mapping[str, Any], otherwise: V) -> V:
        """What a store holds; something else if there is nothing."""
        found: V = stored.get(self.kind, otherwise)
        return found


Step: TypeAlias = Callable[[str, RequestBody], RequestBody | Refused]
"""What becomes of a session's request before it is served."""


class Part:
    """One ability of a node. Whatever it does not handle, it need not say."""

    def inputs(self) -> Mapping[type, Callable[[Any], None]]:
        """By the type of an input from the host: what handles it."""
        return {}

    def messages(self) -> Mapping[type, Callable[[Any, Any], None]]:
        """By the type of a message: what handles it, with the neighbour that said it."""
        return {}

    def requests(self) -> Mapping[type, Callable[[Session, Any, float], None]]:
        """By the type of a client's request: what serves it, with the time of day."""
        return {}

    def steps(self) -> Sequence[Step]:
        """What each request passes before it is served, in this order."""
        return ()

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        """Under which keys it keeps something in the store."""
        return ()

    def start(self, stored: Mapping[str, Any], time: float) -> None:
        """The node starts, with what an earlier one has stored."""

    def came(self, session: Session) -> None:
        """There is another session."""

    def asked(self, session: Session) -> None:
        """A client is about to be served."""

    def standing(self, session: Session, *, besides: str) -> int:
        """How much of what a client has asked for lasts, besides what has this id."""
        return 0

    def attached(self, session: Session) -> None:
        """A client says anew all that it wants."""

    def left(self, session: Session) -> None:
        """A client is gone. Its rows in the tables go when all parts have been told."""

    def linked(self, neighbour: Neighbour) -> None:
        """The overlay uses the link to a neighbour: what is wanted goes both ways."""

    def unlinked(self, neighbour: Neighbour) -> None:
        """The overlay does not use it any longer."""

    def begun(self, neighbour: Neighbour) -> None:
        """A conversation has begun, or the overlay's view of it has changed."""

    def given_up(self, neighbour: Neighbour) -> None:
        """It cannot be reached for long; the overlay has no other way."""

    def opened(self, neighbour: Neighbour) -> None:
        """It was told anew what is wanted; all else that matters is to be said to it anew."""

    def closed(self, neighbour: Neighbour) -> None:
        """What came by a neighbour comes no longer."""

    def wants_changed(self, change: Change) -> None:
        """What somebody wants has changed."""

    def advertised(self, neighbour: Neighbour, *, has_grown: bool) -> None:
        """More is advertised by a neighbour; whether more is wanted of it, therefore."""

    def repaired(self, neighbour: Neighbour) -> None:
        """What a neighbour wants was not known rightly."""

    def doubted(self) -> None:
        """What readers anywhere were told may be wrong."""

    def settle(self) -> bool:
        """Everything that happened has been dealt with; whether that led to something more."""
        return False

    def mend(self) -> bool:
        """Compute anew what does not fit what it is computed from; whether all did."""
        return True

    def look_after(self, patience: float) -> None:
        """The audit has found nothing. Who waits for longer than `patience` asks again."""

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        """Whatever cannot be true between two inputs; of clients, only for some sessions."""
        return iter(())

    def kept(self) -> Mapping[str, Any]:
        """All that is stored of it, if what is known is right."""
        return {}

    def recall(self) -> None:
        """The host is about to say what is there: note what to hold against that."""

    def recalled(self, found: Recalled) -> None:
        """The host says what is there; both may have moved on since `recall`."""


class Delivery(Part):
    """The part that serves clients: a node has one."""

    def size(self, session: Session) -> int:
        """How much there is of a client, to audit only as much at once as nobody notices."""
        return 1

    def digest_told(self, neighbour: Neighbour) -> int | None:
        """Of what a neighbour was told of streams, to hold against what it was told."""
        return None

    def digest_held(self, neighbour: Neighbour) -> int | None:
        """Of what a neighbour has told of streams."""
        return None

    def attach(self, key: str, body: Attach) -> None:
        """Somebody opens a session, or resumes it."""
        raise NotImplementedError
