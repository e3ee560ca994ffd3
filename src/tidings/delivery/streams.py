"""Streams: which there are in the network, by which way they come, and how far they are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from tidings.delivery.log import OwnStream
from tidings.delivery.logs import Logs
from tidings.delivery.ways import Ways
from tidings.protocol.epochs import broker_of, epoch_of
from tidings.protocol.host import Sync
from tidings.protocol.messages import (
    Charge,
    Charged,
    EraseAt,
    ErasedAt,
    Fetch,
    Fetched,
    Heard,
    Inquire,
    Inquired,
    Move,
    Moved,
    Path,
    Seek,
    Sought,
    Streams,
    Survey,
    Surveyed,
)
from tidings.protocol.parts import Kernel, Neighbour, Shelf, Single, Wants
from tidings.protocol.requests import Cursor

Question: TypeAlias = EraseAt | Fetch | Inquire | Seek | Move | Survey | Charge
Reply: TypeAlias = ErasedAt | Fetched | Inquired | Sought | Moved | Surveyed | Charged

REMEMBERED: Final = 90 * 24 * 3600.0
"""Seconds without a way to a stream after which it is forgotten, while this node is up."""
_COUNTED: Final = 3600.0
"""Seconds without a way to a stream that are stored together."""

Stored: TypeAlias = tuple[int, float]
"""The last tick of a stream, and for how many seconds there has been no way to it."""


class Known(dict[str, int]):
    """The highest tick heard of each stream but this node's own.

    A subscription that begins now begins there in a stream that cannot be reached: what is
    published later has a higher tick, whatever the clocks of the brokers say.

    >>> known = Known()
    >>> known.hear("paris", 7), known.hear("paris", 9), known.hear("paris", 8), known
    (True, False, False, {'paris': 9})
    >>> known.changes()
    {'paris': (9, 0.0)}
    >>> known.passed(REMEMBERED, reachable=[])
    >>> known.changes(), known
    ({'paris': None}, {})
    """

    def __init__(self) -> None:
        super().__init__()
        self._away: dict[str, float] = {}
        self._stored: dict[str, Stored] = {}

    def restore(self, stream: str, stored: Stored) -> None:
        self._stored[stream] = (tick, away) = stored
        self[stream], self._away[stream] = tick, away

    def hear(self, stream: str, tick: int) -> bool:
        """A stream has got at least so far; whether that is the first that is heard of it."""
        before = self.get(stream)
        if before is None or tick > before:
            self[stream] = tick
        return before is None

    def passed(self, seconds: float, *, reachable: Collection[str]) -> None:
        """Time has passed, in seconds; a stream that was out of reach for too long is forgotten."""
        for stream in list(self):
            if stream in reachable:
                self._away[stream] = 0.0
                continue
            self._away[stream] = self._away.get(stream, 0.0) + seconds
            if self._away[stream] >= REMEMBERED:
                del self[stream], self._away[stream]

    def changes(self) -> dict[str, Stored | None]:
        """What is to be stored of each stream for which something else was; None forgets it."""
        changed: dict[str, Stored | None] = {s: None for s in self._stored if s not in self}
        for stream, tick in self.items():
            now = (tick, self._away.get(stream, 0.0) // _COUNTED * _COUNTED)
            if self._stored.get(stream) != now:
                changed[stream] = now
        self._stored = {s: t for s, t in {**self._stored, **changed}.items() if t is not None}
        return changed


IDENTITIES: Final = Single[dict[str, str]]("identities", is_exact=False)
HEARD: Final = Shelf[Stored]("stream", is_exact=False)

_LONGEST: Final = 128
"""Characters of a stream's name that a cursor may invent; those of brokers are shorter."""
_DOUBTED: Final = 5
"""Beats for which several nodes of one name must be told of: one may just have moved."""


class Reached:
    """The streams that a node has, hears, or has heard of."""

    def __init__(
        self, kernel: Kernel, wants: Wants, logs: Logs, stored: Mapping[str, Any], *, instance: str
    ) -> None:
        self._kernel, self._wants, self._logs = kernel, wants, logs
        before = IDENTITIES.found(stored, {})
        self._identities = {stream: before.get(stream, instance) for stream in logs.logs}
        self._is_new = self._identities != before
        self.ways: Ways[Neighbour] = Ways(kernel.name, self._identities, instance=instance)
        self.known = Known()
        self.doubles: dict[str, dict[str, Path]] = {}
        """The names that several nodes have, and by instance the way to each."""
        self._suspected: dict[str, int] = {}
        """Beats for which it has looked so."""
        for stream, heard in HEARD.found(stored):
            self.known.restore(stream, heard)

    def start(self) -> None:
        """Store what is new of the node's own streams."""
        if self._is_new:
            self._kernel.emit(IDENTITIES.put(self._identities))
            self._kernel.emit(Sync())

    def is_own(self, stream: str) -> bool:
        """Whether the node has the log of a stream."""
        return stream in self._logs.logs

    @property
    def own(self) -> Collection[str]:
        """The streams of which the node has the logs."""
        return self._logs.logs

    def begin(self, own: OwnStream) -> None:
        """The next epoch of one of the node's own streams begins."""
        own.raise_epoch()
        self._identities[own.stream] = self.ways.instance
        self._kernel.emit(IDENTITIES.put(dict(self._identities)))
        self._kernel.emit(Sync())
        self.ways.begin(own.stream, self.ways.instance)

    # -- ways ----------------------------------------------------------------------------------

    def tell(self, neighbour: Neighbour, streams: list[str] | None = None) -> None:
        """Tell a neighbour that streams come by this node, or come anew, or no longer."""
        if self._wants.is_told(neighbour) and neighbour.is_open:
            ways = self.ways.to_tell(neighbour, streams)
            ticks = {s: self.length(s) for s, way in ways.items() if way.path}
            self._kernel.send(neighbour, Streams(neighbour.view, ways, ticks))

    def tell_all(self, streams: list[str]) -> None:
        for neighbour in self._kernel.neighbours.values():
            self.tell(neighbour, streams)

    def length(self, stream: str) -> int:
        """How far a stream is, as far as was heard here."""
        own = self._logs.logs.get(stream)
        return self.known.get(stream, 0) if own is None else own.last

    # -- questions to the node of a stream, hop by hop -----------------------------------------

    def passed_on(self, neighbour: Neighbour, question: Question) -> bool:
        """Pass a question on, unless it is for this node to answer."""
        is_from_there = question.path[-1:] == (neighbour.name,)  # else there is no way back
        if is_from_there and self.is_own(question.stream):
            return False
        via = self.ways.via(question.stream)
        if is_from_there and via is not None and via is not neighbour:
            path = (*question.path, self._kernel.name)
            self._kernel.send(via, msgspec.structs.replace(question, path=path))
        return True

    def passed_back(self, answer: Reply) -> bool:
        """Pass an answer back on the way that the question came by, unless it is for this node."""
        path = answer.path[:-1]
        neighbour = self._kernel.neighbours.get(path[-1]) if path else None
        if neighbour is not None:
            self._kernel.send(neighbour, msgspec.structs.replace(answer, path=path))
        return bool(path)

    # -- how far they are ----------------------------------------------------------------------

    def hear(self, stream: str, tick: int) -> None:
        """Another stream has got so far. That there is one is on disk before anything is done."""
        if not self.is_own(stream) and self.known.hear(stream, tick):
            self._note()
            self._kernel.emit(Sync())

    def _note(self) -> None:
        """Store how far all streams are, if that has changed; it may be lost in a crash."""
        for stream, heard in self.known.changes().items():
            self._kernel.emit(HEARD.drop(stream) if heard is None else HEARD.put(stream, heard))

    def tell_heard(self, upto: Cursor, besides: Neighbour | None = None) -> None:
        """Let the nodes of these streams know how far they were heard."""
        by_way: dict[Neighbour, dict[str, int]] = {}
        for stream, tick in upto.items():
            via = self.ways.via(stream)
            if via is not None and via is not besides and tick > 0:
                by_way.setdefault(via, {})[stream] = tick
        for via, heard in by_way.items():
            self._kernel.send(via, Heard(heard))

    def beat(self, seconds: float) -> None:
        """This many seconds have passed."""
        self.known.passed(seconds, reachable=self.ways.streams)
        self._note()
        found = self.ways.doubles()
        self._suspected = {name: self._suspected.get(name, 0) + 1 for name in found}
        self.doubles = {n: ways for n, ways in found.items() if self._suspected[n] > _DOUBTED}

    # -- cursors -------------------------------------------------------------------------------

    def invented(
        self, cursor: Cursor, before: Cursor, *, besides: Iterable[str], most: int
    ) -> str | None:
        """Why a cursor cannot be, which names streams that nobody has heard of; if so.

        With what was saved before, it may name this many of them, but none if `most` is 0.
        """
        # Streams of earlier epochs may have ended before anybody here heard of their node.
        latest: dict[str, int] = {}
        for stream in (*self.known, *besides, *self.ways.streams):
            broker = broker_of(stream)
            latest[broker] = max(epoch_of(stream), latest.get(broker, 0))
        strange = [s for s in {**before, **cursor} if epoch_of(s) > latest.get(broker_of(s), 0)]
        new = [s for s in strange if s not in before]
        is_long = any(len(stream) > _LONGEST for stream in new)
        return _strange(new) if new and (len(strange) > most or is_long) else None

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of them."""
        return self.ways.audit()


def _strange(streams: Iterable[str]) -> str:
    return (
        f"this broker has never heard of {some(streams)}: a cursor names streams, which are "
        "called as their brokers are. Leave out what is wrong or gone for good; if a broker is "
        "new, wait until there is a way from it"
    )


def some(streams: Iterable[str]) -> str:
    """Some names, shortened, and how many more there are.

    >>> some(["d", "a", "c", "b" * 40])
    "'a', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…', 'c' and 1 more"
    """
    found = sorted(streams)
    named = ", ".join(repr(s if len(s) <= 32 else f"{s[:32]}…") for s in found[:3])
    return f"{named} and {len(found) - 3} more" if len(found) > 3 else named
