"""Messages: what nodes say to each other, inside the frames of a link.

What is said of tables and of ways carries a *view*, the numbers under which sender and receiver
have joined the link to the tree (see `node.ports`), so that what was said before a change of the
tree is not taken for what is said after it.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from tidings.events import Filter, Notification
from tidings.protocol.requests import Adjust, Held, Time, Unsubscribe

SUBSCRIPTIONS: Final = 0
ADVERTISEMENTS: Final = 1

NOW: Final = -1
BEGIN: Final = -2

View: TypeAlias = tuple[int, int]
Path: TypeAlias = tuple[str, ...]
"""The nodes on the way, the stream's own first. Empty: there is no way."""


class Frame(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=32):
    """What travels on a link: perhaps a body, and always an acknowledgement."""

    sender: int
    receiver: int
    """The identities of both ends; 0 is for "I don't know you yet"."""
    number: int
    """Of the body, from 1; 0 if there is none, and -1 if an answer is asked for.

    Question n is -2n, and the answer to it -2n - 1.
    """
    received: int
    """The sender of the frame has received all numbers up to this one."""
    body: Any = None


class Offer(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=33):
    """What a broker tells each neighbour of its place in the tree; numbers rise, so that one that
    was overtaken on its way can be told."""

    number: int
    root: str
    beat: int
    distance: int
    parent: str | None
    instance: str = ""
    """Of the root: two processes of its name would be taken for one."""


class Way(msgspec.Struct, frozen=True, array_like=True):
    """How a stream comes to the node that tells of it."""

    path: Path = ()
    identity: str = ""
    """Drawn when the stream began: another stream of the same name has another one."""
    instance: str = ""
    """Drawn when the stream's own node started."""


class More(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What few events have besides their notifications."""

    id: str = ""
    """The publisher's own, under which it is kept once."""
    expires: Time = 0.0
    """When it is of no more use, in seconds since 1970; 0 if that is never."""
    control: int = 0
    """The version of the policy that held when it was published; 0 while there is none."""
    trace: str | None = None
    """What it is traced under, as a W3C `traceparent`."""
    maybe_twice: bool = False
    """Whether it may be there a second time, as whoever could have known was out of reach."""


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=40):
    """A notification and its place in its publisher's stream."""

    stream: str
    tick: int
    notification: Notification
    flood: bool = False
    """Whether it goes to everybody, because its publisher has not advertised it."""
    time: float = 0.0
    """When it was published, in seconds since 1970; never less than that of the tick before."""
    more: More | None = None
    """What few events have besides."""


class Update(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """What the receiver is to add to and remove from its table for the sender, as one change."""

    table: int
    view: View
    added: dict[Filter, int]
    removed: dict[Filter, int]
    whole: bool = False
    """`added` is the whole table."""


class Member(msgspec.Struct, frozen=True, array_like=True, tag=42):
    """The sender has made the receiver its parent (if odd) or has ceased to (if even)."""

    number: int


class Check(msgspec.Struct, frozen=True, array_like=True, tag=43):
    """The digest of what the receiver should hold for the sender."""

    table: int
    view: View
    digest: int


class Differ(msgspec.Struct, frozen=True, array_like=True, tag=44):
    """The receiver of a check holds something else: the digests of its buckets."""

    table: int
    view: View
    buckets: tuple[int, ...]


class Repair(msgspec.Struct, frozen=True, array_like=True, tag=45):
    """What the buckets that differ should hold."""

    table: int
    view: View
    buckets: int
    which: tuple[int, ...]
    content: dict[Filter, int]


class Streams(msgspec.Struct, frozen=True, array_like=True, tag=46):
    """These streams come by way of the sender, and their flow begins anew: see `delivery`."""

    view: View
    ways: dict[str, Way]
    """How each comes to the sender; its path is empty if it comes no longer."""
    ticks: dict[str, int] = {}
    """How far each of them is, as far as the sender has heard."""


class Silence(msgspec.Struct, frozen=True, array_like=True, tag=47):
    """Whatever the receiver wants of these streams up to these ticks, it has been sent."""

    upto: dict[str, int]
    complete: dict[str, Time] = {}
    """For some of them, a time: whatever is earlier lies up to that tick; see `promises`."""


class Heard(msgspec.Struct, frozen=True, array_like=True, tag=51):
    """The streams have been heard up to these ticks. It goes to each stream's own node."""

    upto: dict[str, int]


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=48):
    """Send again what a filter matches. It goes to the stream's own node, which has the log."""

    stream: str
    since: int
    """The tick behind which to begin; or `NOW` or `BEGIN`."""
    after: float
    """The time at which to begin instead, if it is above 0."""
    filter: Filter | None
    """None stands for what the last node on the way wants."""
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""


class Fetched(msgspec.Struct, frozen=True, array_like=True, tag=49):
    """The answer to a fetch, or the first part of it. It goes back by the same way."""

    stream: str
    number: int
    path: tuple[str, ...]
    since: int
    upto: int
    events: tuple[Event, ...]
    """All that was asked for in (since, upto]."""
    is_live: bool
    """Whether all that comes later in the stream follows on this link."""
    lost: bool = False
    """What was asked for begins before `since`, but is no longer kept; or, if the stream went
    back, behind its end; or it is damaged."""
    is_damaged: bool = False
    """Whether it is kept, but (since, upto] cannot be read."""

    @property
    def place(self) -> int:
        """Where to go on if something is lost."""
        return self.upto if self.is_damaged else self.since


class Account(msgspec.Struct, frozen=True, array_like=True, tag=50):
    """What the sender remembers of this conversation, for the receiver to compare."""

    view: View
    said: int
    """Messages that were sent before this one."""
    ways: int | None = None
    """The digest of the ways that were told, if any are: see `Ways`."""


class Seek(msgspec.Struct, frozen=True, array_like=True, tag=52):
    """What do you know of this durable subscription? It goes to the stream's own node."""

    stream: str
    durable: str
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""


class Sought(msgspec.Struct, frozen=True, array_like=True, tag=53):
    """The answer to a `Seek`. It goes back by the same way."""

    number: int
    path: tuple[str, ...]
    epoch: int = 0
    """The latest epoch of the name that the node knows of; 0 if it has never had it."""
    home: str = ""
    """Where the name has lived since that epoch began, as far as the node knows: with itself, or
    with the node that it was given to. Empty if it was forgotten."""
    is_proved: bool = True
    """Whether the node knows that it has not given the name away since."""
    is_sought: bool = False
    """A client of the node looks for it, too, and makes it if it lives nowhere."""


class Inquire(msgspec.Struct, frozen=True, array_like=True, tag=70):
    """Have you kept what a principal has published under these ids? The sender is about to, and
    what is not kept the receiver keeps only after it has asked back. It goes to the stream's own
    node."""

    stream: str
    principal: str
    digests: tuple[bytes, ...]
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""


class Inquired(msgspec.Struct, frozen=True, array_like=True, tag=71):
    """The answer to an `Inquire`. It goes back by the same way."""

    number: int
    path: tuple[str, ...]
    kept: dict[int, tuple[str, int, float]]
    """By place in the question: the stream, the tick and the time of what is kept."""
    undecided: tuple[int, ...] = ()
    """Which of them the sender may be about to keep: ask again."""


class EraseAt(msgspec.Struct, frozen=True, array_like=True, tag=72):
    """Erase what a filter matches in all logs of a stream's own node. It goes there."""

    stream: str
    id: str
    filter: Filter
    is_dry: bool
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""
    is_barrier: bool = False
    """All logs are done: only answer, behind what was on its way."""


class ErasedAt(msgspec.Struct, frozen=True, array_like=True, tag=73):
    """The answer to an `EraseAt`. It goes back by the same way."""

    number: int
    path: tuple[str, ...]
    erased: dict[str, int]
    """Of each stream of the node, how many events were erased, or would be."""
    upto: dict[str, int]
    """Of each stream of the node, the last tick where something is erased."""
    problem: str = ""
    """Why something may be left there, if so."""


class Doubt(msgspec.Struct, frozen=True, array_like=True, tag=54):
    """What readers were told may be wrong: see `Doubtful`."""

    found: dict[str, int]
    """How often each node has found something damaged."""


class Move(msgspec.Struct, frozen=True, array_like=True, tag=64):
    """Give this durable subscription to the asking node. It goes to the stream's own node."""

    stream: str
    durable: str
    epoch: int
    """It is given only if this is its epoch still."""
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""
    filter: Filter | None = None
    """It is given only if it has this one."""
    owner: str | None = None
    """It is given only if this reader took it last."""


class Moved(msgspec.Struct, frozen=True, array_like=True, tag=65):
    """The answer to a `Move`. It goes back by the same way."""

    number: int
    path: tuple[str, ...]
    epoch: int = 0
    """From now on it lives at the asking node, under this epoch. 0: it is not given."""
    refusal: str = ""
    """Why not; empty if it is not what the asking node took it for: then seek it again."""
    filter: Filter | None = None
    cursor: dict[str, int] = {}
    """What was acknowledged."""
    begun: float = 0.0
    owner: str = ""
    doubts: int = 0
    is_paused: bool = False


class Survey(msgspec.Struct, frozen=True, array_like=True, tag=66):
    """Which durable subscriptions of a principal do you have? It goes to the stream's own node."""

    stream: str
    principal: str
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""


class Surveyed(msgspec.Struct, frozen=True, array_like=True, tag=67):
    """The answer to an `Survey`. It goes back by the same way."""

    number: int
    path: tuple[str, ...]
    found: tuple[Held, ...]


class Charge(msgspec.Struct, frozen=True, array_like=True, tag=68):
    """Do this with a durable subscription of yours. It goes to the stream's own node."""

    stream: str
    epoch: int
    """It is done only if this is its epoch still."""
    number: int
    """The asking node's number for this question, which the answer repeats."""
    path: tuple[str, ...]
    """The nodes it came by, the asking one first."""
    body: Unsubscribe | Adjust


class Charged(msgspec.Struct, frozen=True, array_like=True, tag=69):
    """The answer to a `Charge`. It goes back by the same way."""

    number: int
    path: tuple[str, ...]
    is_there: bool
    """Whether it was in that epoch still; else seek it again."""
    refusal: str = ""
    """Why it was not done; empty if it was."""


Body: TypeAlias = (
    Event
    | Update
    | Member
    | Check
    | Differ
    | Repair
    | Streams
    | Silence
    | Heard
    | Fetch
    | Fetched
    | Account
    | Seek
    | Sought
    | Inquire
    | Inquired
    | Move
    | Moved
    | Survey
    | Surveyed
    | Charge
    | Charged
    | EraseAt
    | ErasedAt
    | Doubt
)
