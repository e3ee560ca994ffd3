"""Ids: which publications are kept, by the ids that their programs have given them.

An id is its principal's: whichever of its clients publishes something under it again is told
where it is kept, and it is not kept a second time. The ids are stored in the commit that stores the
events, in *pages*, of which only the last one grows::

    ids:desk:0     hour 7, streams (paris), 128 × (digest, stream and tick, time)
    ids:desk:1     hour 7, …

A page is forgotten when the node has run for a day since its hour, and when there are a million
younger ids of its principal. An id takes 32 bytes on disk and about 100 in memory: see `bench.ids`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from tidings.protocol.host import Store
from tidings.protocol.parts import Shelf

HOURS: Final = 24
"""An id is remembered for as many hours of the node's running time, unless there are too many."""
MOST: Final = 1_000_000
"""So many ids of a principal are remembered at least, if they are not too old."""
_PAGE: Final = 128
"""Ids on a page: one commit writes 4 KiB anyway."""
_YOUNG: Final = 4_096
"""Ids of a principal that are found by a dictionary at least, before they are sorted."""
_ENTRY: Final = Struct(">16sQd")
"""The digest, the stream's place on the page's list and the tick, and the time."""
_TICKS: Final = 48
"""Bits of a tick."""


class Place(NamedTuple):
    """Where a publication is kept."""

    stream: str
    tick: int
    time: float


class Page(NamedTuple):
    """Ids that came one after another."""

    hour: int
    """Of the node's running time, when they came."""
    streams: tuple[str, ...] = ()
    """Those that have what is kept under them."""
    content: bytes = b""

    def __len__(self) -> int:
        return len(self.content) // _ENTRY.size

    def entry(self, at: int) -> tuple[bytes, Place]:
        """The digest and the place of one of them."""
        digest, where, time = _ENTRY.unpack_from(self.content, at * _ENTRY.size)
        stream = self.streams[where >> _TICKS]
        return digest, Place(stream, where & ((1 << _TICKS) - 1), time)

    def digests(self) -> Iterator[bytes]:
        """Those of all of them, in order."""
        return (digest for digest, _, _ in _ENTRY.iter_unpack(self.content))

    def with_one(self, digest: bytes, place: Place) -> Page:
        """The same with one more."""
        streams = self.streams
        if place.stream not in streams:
            streams = (*streams, place.stream)
        where = streams.index(place.stream) << _TICKS | place.tick
        return Page(self.hour, streams, self.content + _ENTRY.pack(digest, where, place.time))


IDS: Final = Shelf[Page]("ids")


def digest_of(id: str) -> bytes:
    """What is remembered of an id, which may be long: nobody finds two that are alike in this."""
    return blake2b(id.encode(errors="surrogatepass"), digest_size=16).digest()


class Ids:
    """The ids of all principals. What a method returns is to be stored.

    >>> ids, place = Ids(), Place("paris", 17, 5.0)
    >>> changes = ids.keep("desk", [(digest_of("order 7"), place)], hour=0)
    >>> ids.find("desk", digest_of("order 7")), ids.find("shop", digest_of("order 7"))
    (Place(stream='paris', tick=17, time=5.0), None)
    >>> again = Ids()
    >>> again.restore({change.key: change.value for change in changes})
    >>> again.find("desk", digest_of("order 7")) == place
    True
    """

    def __init__(self) -> None:
        self._principals: dict[str, _Principal] = {}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up what was stored."""
        found: dict[str, dict[int, Page]] = {}
        for key, page in IDS.found(stored):
            principal, _, number = key.rpartition(":")
            found.setdefault(principal, {})[int(number)] = Page(*page)
        for principal, pages in found.items():
            known = self._principals[principal] = _Principal()
            for at in sorted(pages):
                known.take(at, pages[at])

    def stored(self) -> dict[str, Any]:
        """All that is stored of them, if what is known is right."""
        return {
            IDS.key(f"{principal}:{number}"): tuple(page)
            for principal, known in self._principals.items()
            for number, page in known.pages.items()
        }

    def find(self, principal: str, digest: bytes) -> Place | None:
        """Where something is kept under an id, or is about to be; None if nothing is."""
        known = self._principals.get(principal)
        return None if known is None else known.find(digest)

    def keep(
        self, principal: str, kept: Iterable[tuple[bytes, Place]], *, hour: int
    ) -> list[Store]:
        """Remember where something is kept under these ids."""
        known = self._principals.setdefault(principal, _Principal())
        touched = {known.add(digest, place, hour): None for digest, place in kept}
        changes = [IDS.put(f"{principal}:{number}", known.pages[number]) for number in touched]
        return changes + self._dropped(principal, known.excess())

    def pass_hour(self, hour: int) -> list[Store]:
        """The node has run for so many hours: forget what is too old."""
        changes = []
        for principal, known in list(self._principals.items()):
            changes += self._dropped(principal, known.outdated(hour - HOURS))
            if not known.pages:
                del self._principals[principal]
        return changes

    def _dropped(self, principal: str, numbers: Iterable[int]) -> list[Store]:
        return [IDS.drop(f"{principal}:{number}") for number in numbers]

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of them."""
        for principal, known in self._principals.items():
            if known.count != sum(map(len, known.pages.values())):
                yield f"{known.count} ids of {principal} are counted, and not those of its pages"
            if known.pages and not known.knows_last():
                yield f"the last id of {principal} is not found"


class _Principal:
    """The ids of one principal. Each has a number: that of its page, and its place there.

    The younger ones are found by a dictionary. Now and then they are sorted in among the others,
    which take 16 bytes each that way: the beginning of the digest, and the number.
    """

    def __init__(self) -> None:
        self.pages: dict[int, Page] = {}
        self.count = 0
        self._next = 0
        """The number of the next page."""
        self._young: dict[bytes, int] = {}
        self._old: tuple[Any, Any] | None = None
        """The beginnings of digests in order, and the number of each."""

    def take(self, number: int, page: Page) -> None:
        """A page as it was stored; they come in order."""
        self.pages[number], self._next = page, number + 1
        self.count += len(page)
        for at, digest in enumerate(page.digests()):
            self._young[digest] = number * _PAGE + at
        self._sort()

    def add(self, digest: bytes, place: Place, hour: int) -> int:
        """One more; the page that it is on."""
        number = self._next - 1
        page = self.pages.get(number)
        if page is None or page.hour != hour or len(page) == _PAGE:
            number, self._next = self._next, self._next + 1
            page = Page(hour)
        self._young[digest] = number * _PAGE + len(page)
        self.pages[number] = page.with_one(digest, place)
        self.count += 1
        self._sort()
        return number

    def find(self, digest: bytes) -> Place | None:
        number = self._young.get(digest)
        if number is not None:
            return self._at(number, digest)
        if self._old is None:
            return None
        beginnings, numbers = self._old
        wanted = np.uint64(int.from_bytes(digest[:8], "big"))
        at = int(beginnings.searchsorted(wanted, side="right")) - 1
        while at >= 0 and beginnings[at] == wanted:
            place = self._at(int(numbers[at]), digest)
            if place is not None:
                return place
            at -= 1
        return None

    def _at(self, number: int, digest: bytes) -> Place | None:
        page = self.pages.get(number // _PAGE)
        if page is None:
            return None
        found, place = page.entry(number % _PAGE)
        return place if found == digest else None

    def excess(self) -> list[int]:
        """Let go of the oldest pages, if there are too many ids."""
        gone = []
        while self.count - len(first := next(iter(self.pages.values()))) >= MOST:
            gone.append(self._drop_first(first))
        return gone

    def outdated(self, hour: int) -> list[int]:
        """Let go of the pages from before an hour."""
        gone = []
        while self.pages and (first := next(iter(self.pages.values()))).hour < hour:
            gone.append(self._drop_first(first))
        return gone

    def _drop_first(self, page: Page) -> int:
        number = next(iter(self.pages))
        del self.pages[number]
        self.count -= len(page)
        for digest in page.digests():
            if self._young.get(digest, -1) // _PAGE == number:
                del self._young[digest]
        return number

    def _sort(self) -> None:
        """Sort the young in among the old, if they are many."""
        count = 0 if self._old is None else len(self._old[1])
        if len(self._young) < max(_YOUNG, count // 8):
            return
        begun = b"".join([digest[:8] for digest in self._young])
        beginnings = np.frombuffer(begun, dtype=">u8").astype(np.uint64)
        numbers = np.fromiter(self._young.values(), dtype=np.int64)
        if self._old is not None:
            beginnings = np.concatenate([self._old[0], beginnings])
            numbers = np.concatenate([self._old[1], numbers])
        is_kept = numbers >= next(iter(self.pages)) * _PAGE
        beginnings, numbers = beginnings[is_kept], numbers[is_kept]
        order = np.argsort(beginnings, kind="stable")  # of two alike, the younger comes last
        self._old = beginnings[order], numbers[order]
        self._young = {}

    def knows_last(self) -> bool:
        """Whether the last id is found."""
        page = self.pages.get(self._next - 1)
        return page is None or not len(page) or self.find(page.entry(len(page) - 1)[0]) is not None
