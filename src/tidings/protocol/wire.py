"""The wire: what clients, brokers and neighbours say to each other over TCP, as bytes and back.

A frame is a length of four bytes, the highest first, and a payload of MessagePack: an array of
messages, each of them an array of its tag and its fields::

    00 00 00 0d │ 91 │ 93 02 a1 31 a7 …
       length   │    │  tag, id, filter, …
                │ number of messages

A message's tag and the order of its fields never change; new fields come last and have defaults,
and a decoder skips those that it does not know, so fields need no version of their own. A message
with a new tag, or a value where an older decoder refuses it, belongs to a version: it is sent only
to whoever uses that version or a later one.

Whoever connects says in `Hello` which versions it speaks, from `oldest` to `version`; the answer,
`Welcome`, says which one both use, the latest that both speak. So the brokers and clients of a
network can be replaced one by one. Version 1 was never released, and is refused.

Nothing here does any I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder

from tidings.events import Filter, Schema
from tidings.protocol import records
from tidings.protocol.host import Deliver
from tidings.protocol.messages import Body, Event, Fetch, Fetched, Frame, More, Offer
from tidings.protocol.records import UNLIMITED, WireError, WireLimits, pack_value, unpack_value
from tidings.protocol.requests import (
    ACCESS,
    SESSION,
    Adjust,
    Answer,
    Publish,
    RequestBody,
    Subscribe,
    Time,
)
from tidings.protocol.runs import pack, unpack, unpack_rows

__all__ = [
    "ACCESS",
    "LENGTH",
    "OLDEST",
    "SESSION",
    "UNLIMITED",
    "VERSION",
    "Copied",
    "Copy",
    "Delivery",
    "Hello",
    "Message",
    "MessageDecoder",
    "Ping",
    "Pong",
    "Splitter",
    "Welcome",
    "WireError",
    "WireLimits",
    "common",
    "decode",
    "encode",
    "greeting",
    "pack",
    "pack_value",
    "read_hello",
    "unpack",
    "unpack_rows",
    "unpack_value",
]

VERSION: Final = 2
"""The latest version that this program speaks."""
OLDEST: Final = 2
"""The oldest version that it speaks."""
LENGTH: Final = 4
"""Bytes of the length at the beginning of a frame."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=60):
    """The first message of the side that connects; `greeting` makes one."""

    version: int
    """The latest that it speaks."""
    role: Literal["client", "broker"]
    name: str
    """Of the session, or of the broker."""
    token: str | None = None
    options: dict[str, str | int | bool | None] = {}
    oldest: int | None = None
    """The oldest version that it speaks; None if that is the latest, too."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=61):
    """The first message of the other side, unless it is `Refused`."""

    version: int
    """The one that both use from now on."""
    broker: str
    limits: dict[str, int] = {}
    lake: str | None = None
    """Where what it no longer keeps is to be found, as a folder that it sees."""
    principal: str = ""
    """Who it takes a client for."""


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=62):
    """Is somebody there?"""

    number: int = 0


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=63):
    """The answer to a `Ping`, with its number."""

    number: int = 0


class Delivery(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=22):
    """What a client reads where the node said `Deliver`."""

    event: Event
    ids: tuple[str, ...] = ()
    """The subscriptions that want it."""


class Copy(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Hand out what follows on a tick of the broker's own log, as it is stored.

    The broker answers by a `Copied` with about a MiB of it, or less if the log ends there. It is
    `Refused` if the broker is another one, or no longer keeps what follows; then its cursor says
    behind which tick it does.
    """

    id: str
    stream: str
    after: int
    upto: int
    """What lies behind this tick is not wanted, though the last block may hold some of it."""


class Copied(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """The answer to a `Copy`: all up to a tick, in blocks that `unpack` and `unpack_rows` read.

    The first block may begin before what was asked for.
    """

    id: str
    blocks: tuple[bytes, ...]
    upto: int
    last: int
    """The end of the log, which is on disk up to here."""


Message: TypeAlias = (
    RequestBody
    | Answer
    | Deliver
    | Delivery
    | Copy
    | Copied
    | Frame
    | Offer
    | Hello
    | Welcome
    | Ping
    | Pong
)


def encode(messages: Sequence[Message]) -> bytes:
    """One whole frame, with its length; `WireError` if something cannot travel.

    >>> encode([Ping(7)]).hex(" ")
    '00 00 00 04 91 92 3e 07'
    """
    try:
        payload = _ENCODER.encode(
            [Delivery(m.event, m.ids) if m.__class__ is Deliver else m for m in messages]
        )
    except records.UNWRITABLE as problem:
        raise records.unwritten(problem) from None
    return len(payload).to_bytes(LENGTH, "big") + payload


_ENCODER: Final = Encoder(enc_hook=records.hook)


# -- reading -----------------------------------------------------------------------------------

# Messages with notifications are first read as these, which leave the notifications alone: so
# each of them can be decoded by its own decoder, and keep its bytes.


class _Publish(msgspec.Struct, array_like=True, tag=8, gc=False):
    number: int
    notifications: list[Raw]
    is_whole: bool = False
    ids: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    maybe_twice: bool = False


class _Event(msgspec.Struct, array_like=True, tag=40, gc=False):
    stream: str
    tick: int
    notification: Raw
    flood: bool = False
    time: Time = 0.0
    more: More | None = None


class _Fetched(msgspec.Struct, array_like=True, tag=49):
    stream: str
    number: int
    path: tuple[str, ...]
    since: int
    upto: int
    events: list[_Event]
    is_live: bool
    lost: bool = False
    is_damaged: bool = False


class _Delivery(msgspec.Struct, array_like=True, tag=22, gc=False):
    event: _Event
    ids: tuple[str, ...] = ()


def _unread(union: Any) -> Any:
    """A union of messages as they are first read."""
    kinds = (kind for kind in get_args(union) if kind is not Deliver)
    return reduce(or_, (_UNREAD.get(kind, kind) for kind in kinds))


_UNREAD: Final[dict[Any, Any]] = {Event: _Event, Fetched: _Fetched}
"""What stands for a message with notifications while it is first read."""
_HEAD: Final = [(name, int) for name in ("sender", "receiver", "number", "received")]
_Frame: Final = msgspec.defstruct(
    "_Frame", [*_HEAD, ("body", _unread(Body) | None, None)], array_like=True, tag=32, gc=False
)
_UNREAD.update({Publish: _Publish, Delivery: _Delivery, Frame: _Frame})


class MessageDecoder(records.RecordDecoder):
    """Decodes payloads, and all that `records` knows of."""

    def __init__(self, limits: WireLimits | None = None, *, schema: Schema | None = None) -> None:
        super().__init__(limits, schema=schema)
        self._messages = Decoder(cast(Any, list)[_unread(Message)], dec_hook=self._hook).decode
        self._finish: dict[type, Callable[[Any], Message]] = {
            _Publish: self._publish,
            _Delivery: lambda m: Delivery(self._event(m.event), m.ids),
            _Frame: self._frame,
            Subscribe: _with_its_times,
            Adjust: _with_its_time,
            Welcome: _spoken_here,
        }

    def decode(self, payload: bytes | memoryview) -> list[Message]:
        """The messages of a payload; `WireError`, and nothing else, whatever the bytes are."""
        try:
            messages: list[Any] = self._messages(payload)
            for at, message in enumerate(messages):
                finish = self._finish.get(message.__class__)
                if finish is not None:
                    messages[at] = finish(message)
            return messages
        except records.UNREADABLE as problem:
            raise _clearer(records.unread("a message", problem)) from None

    def _hook(self, kind: type, value: object) -> object:
        if kind is Filter:
            return self.filter(value)
        raise TypeError(f"no {kind.__name__} is expected")

    def _publish(self, message: _Publish) -> Publish:
        said = tuple(map(self.notification, message.notifications))
        about = message.is_whole, message.ids, message.elsewhere, message.maybe_twice
        return Publish(message.number, said, *about)

    def _event(self, event: _Event) -> Event:
        notification = self.notification(event.notification)
        return Event(event.stream, event.tick, notification, event.flood, event.time, event.more)

    def _frame(self, message: Any) -> Frame:
        body: Any = message.body
        if body.__class__ is _Event:
            body = self._event(body)
        elif body.__class__ is _Fetched:
            events = tuple(map(self._event, body.events))
            body = Fetched(**msgspec.structs.asdict(body) | {"events": events})
        elif body.__class__ is Fetch and body.after != body.after:
            raise WireError("a time is a number, not NaN")
        return Frame(message.sender, message.receiver, message.number, message.received, body)


def _with_its_times(message: Subscribe) -> Subscribe:
    if message.since != message.since or message.begun != message.begun:
        raise WireError("a time is a number, not NaN")
    return message


def _with_its_time(message: Adjust) -> Adjust:
    if message.since != message.since:
        raise WireError("a time is a number, not NaN")
    return message


def _spoken_here(message: Welcome) -> Welcome:
    if not OLDEST <= message.version <= VERSION:
        raise WireError(_no_common(message.version, message.version))
    return message


_TAG: Final = re.compile(r"Invalid value (-?\d+) - at `\$\[\d+\](\[5\])?\[0\]`")


def _clearer(problem: WireError) -> WireError:
    tag = _TAG.search(str(problem))
    if tag is None:
        return problem
    return WireError(f"a message has the tag {tag[1]}, which version {VERSION} does not know")


_DEFAULT: Final = MessageDecoder()


def decode(payload: bytes | memoryview) -> list[Message]:
    """The messages of a payload; `WireError`, and nothing else, whatever the bytes are."""
    return _DEFAULT.decode(payload)


def greeting(
    role: Literal["client", "broker"],
    name: str,
    token: str | None = None,
    options: dict[str, str | int | bool | None] | None = None,
) -> Hello:
    """How this program greets."""
    return Hello(VERSION, role, name, token, options or {}, OLDEST)


def common(hello: Hello) -> int:
    """The version to use with whoever greets like this; `WireError` if there is none.

    >>> common(Hello(VERSION + 1, "client", "desk", oldest=OLDEST)) == VERSION
    True
    """
    oldest = hello.version if hello.oldest is None else hello.oldest
    version = min(VERSION, hello.version)
    if version < max(OLDEST, oldest):
        raise WireError(_no_common(oldest, hello.version))
    return version


def _no_common(oldest: int, latest: int) -> str:
    theirs, ours = _span(oldest, latest), _span(OLDEST, VERSION)
    older = "the other side" if latest < OLDEST else "this one"
    never = ", which was never released" if latest == 1 else ""
    return f"the other side speaks {theirs}{never}; this one speaks {ours}: upgrade {older}"


def _span(oldest: int, latest: int) -> str:
    if oldest >= latest:
        return f"version {latest} of the wire"
    return f"versions {oldest} to {latest} of the wire"


def read_hello(payload: bytes | bytearray) -> Hello:
    """The one message of the first payload; `WireError` if it is anything but a greeting, or one
    in no version that is spoken here.

    >>> read_hello(encode([Hello(VERSION, "client", "desk")])[LENGTH:]).name
    'desk'
    """
    try:
        (hello,) = _HELLO.decode(payload)
    except records.UNREADABLE as problem:
        why = records.unread("it", problem)
        raise WireError(f"the first frame must be Hello and nothing else: {why}") from None
    common(hello)
    return hello


_HELLO: Final = Decoder(tuple[Hello])


class Splitter:
    """Turns the chunks of a TCP stream into payloads.

    >>> splitter = Splitter(limit=1_000)
    >>> frame = encode([Ping(7)])
    >>> splitter.feed(frame[:5]), [decode(p) for p in splitter.feed(frame[5:])]
    ([], [[Ping(number=7)]])
    """

    __slots__ = ("_held", "_limit", "_wanted")

    def __init__(self, limit: int) -> None:
        """No payload may be longer than `limit` bytes."""
        self._limit = limit
        self._held = bytearray()
        self._wanted = LENGTH

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that are complete with this chunk; `WireError` as soon as a length is
        above the limit."""
        if self._held:
            self._held += chunk
            if len(self._held) < self._wanted:
                return []
            chunk = bytes(self._held)
            self._held = bytearray()
        payloads: list[bytes] = []
        at, end = 0, len(chunk)
        self._wanted = LENGTH
        while end - at >= LENGTH:
            size = int.from_bytes(chunk[at : at + LENGTH], "big")
            if size > self._limit:
                raise WireError(f"a frame of {size} bytes is announced; the limit is {self._limit}")
            stop = at + LENGTH + size
            if stop > end:
                self._wanted = LENGTH + size
                break
            payloads.append(chunk[at + LENGTH : stop])
            at = stop
        if at < end:
            self._held += chunk[at:]
        return payloads
