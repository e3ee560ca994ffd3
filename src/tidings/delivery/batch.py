"""A batch: what one request wants published, sorted by what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tidings.delivery.ids import Ids, Place, digest_of
from tidings.delivery.inquiries import Findings
from tidings.delivery.log import Said
from tidings.events import Notification
from tidings.protocol.messages import Event
from tidings.protocol.requests import Kept, Publish


class Batch:
    """The publications of a request: kept before, to be kept now, or refused.

    Without ids, all above the last number that is kept are new. One with an id is kept if something
    was under this id before, here or elsewhere; it is not said again.
    """

    def __init__(
        self, body: Publish, last: int, ids: Ids, principal: str, findings: Findings
    ) -> None:
        """Up to `last`, all is kept."""
        self._body, self._findings = body, findings
        self.said: list[Said] = []
        """What is to be kept."""
        self._numbers: list[int] = []
        """Of what is said."""
        self._refused: dict[int, str] = {}
        self._unsure: list[int] = []
        """Refused for now, since another node may have kept them."""
        self._again: list[Kept] = []
        """What is kept under an id already."""
        self._twice: list[tuple[int, bytes]] = []
        """What comes twice in this very request."""
        self._digests: dict[int, bytes] = {}
        """Of what is said, by number, if it has an id."""
        self._places: dict[bytes, int] = {}
        """Where in `said` something with this digest is."""
        self._elsewhere: dict[bytes, Place] = {}
        skipped = max(0, last + 1 - body.number)
        self.new: list[tuple[int, Notification]] = list(
            enumerate(body.notifications[skipped:], body.number + skipped)
        )
        """What is published now, with its number: refuse or say each."""
        self._is_cut = body.is_whole and 0 < skipped < len(body.notifications)
        if body.ids:
            self.new = list(self._without_known(ids, principal))

    def _without_known(self, ids: Ids, principal: str) -> Iterator[tuple[int, Notification]]:
        seen: set[bytes] = set()
        for number, notification in self.new:
            id = self._body.ids[number - self._body.number]
            digest = digest_of(id) if id else b""
            if digest and self._is_known(number, digest, ids.find(principal, digest)):
                continue
            if digest in seen:
                self._twice.append((number, digest))
                continue
            if digest:
                seen.add(digest)
                self._digests[number] = digest
            yield number, notification

    def _is_known(self, number: int, digest: bytes, place: Place | None) -> bool:
        """Whether it need not be said, or may not be."""
        if place is None:
            place = self._findings.found.get(digest)
            if place is not None:
                self._elsewhere[digest] = place
        if place is not None:
            # What is known here was not asked for elsewhere, where it may be kept, too.
            is_unasked = digest not in self._findings.found and bool(self._body.elsewhere)
            is_marked = (is_unasked and self._body.maybe_twice) or digest in self._findings.twice
            self._again.append(Kept(number, 1, *place, is_marked))
        elif digest in self._findings.unsure and not self._findings.may_be_twice:
            self._unsure.append(number)
        else:
            return False
        return True

    def refuse(self, number: int, reason: str) -> None:
        """One of the new ones may not be published."""
        self._refused[number] = reason

    def say(self, number: int, notification: Notification, flood: bool) -> None:
        """One of the new ones may be."""
        id = ""
        if self._digests:
            digest = self._digests.get(number)
            if digest is not None:
                self._places[digest] = len(self.said)
                id = self._body.ids[number - self._body.number]
        self._numbers.append(number)
        self.said.append((notification, flood, id))

    def refusals(self) -> Iterator[tuple[int, str, bool]]:
        """The numbers that are refused, why, and whether only for now.

        If what is to be kept as a whole cannot be, all of it is, and nothing is said.
        """
        unsure = _unsure(self._findings)
        refused = {n: (reason, False) for n, reason in self._refused.items()}
        refused |= dict.fromkeys(self._unsure, (unsure, True))
        for number, digest in self._twice:
            first = next((n for n, other in self._digests.items() if other == digest), 0)
            if first in refused:
                refused[number] = refused[first]
        if self._body.is_whole and (refused or self._is_cut):
            refused = dict.fromkeys(self._all_new(), self._why_none(refused))
            self.said, self._numbers, self._twice = [], [], []
            self._digests, self._places = {}, {}
        for number in sorted(refused):
            yield number, *refused[number]

    def _all_new(self) -> list[int]:
        numbers = [number for number, _ in self.new]
        return [*numbers, *self._unsure, *(number for number, _ in self._twice)]

    def _why_none(self, refused: dict[int, tuple[str, bool]]) -> tuple[str, bool]:
        count = len(self._body.notifications)
        if not refused:
            return "some of what is to be kept together was kept before; number it anew", False
        first = min(refused, key=lambda number: (refused[number][1], number))  # the worst, first
        reason, is_passing = refused[first]
        return together(count, first - self._body.number, reason), is_passing

    def kept(self, events: Sequence[Event]) -> list[Kept]:
        """Where all is kept that is, by number, now that this is what was said."""
        runs = _runs(self._numbers, events)
        if not self._body.ids:
            return runs
        if self._findings.unsure:
            runs = self._marked(events)
        for number, digest in self._twice:
            if digest in self._places:
                event = events[self._places[digest]]
                runs.append(Kept(number, 1, event.stream, event.tick, event.time))
        return _joined(sorted([*self._again, *runs], key=lambda run: run.number))

    def _marked(self, events: Sequence[Event]) -> list[Kept]:
        unsure = self._findings.unsure
        return [
            Kept(n, 1, e.stream, e.tick, e.time, self._digests.get(n) in unsure)
            for n, e in zip(self._numbers, events, strict=True)
        ]

    def ids(self, events: Sequence[Event]) -> list[tuple[bytes, Place]]:
        """Where something is kept under an id, as far as that is new here."""
        fresh = [
            (digest, Place(events[at].stream, events[at].tick, events[at].time))
            for digest, at in self._places.items()
        ]
        return [*self._elsewhere.items(), *fresh]


def together(count: int, index: int, reason: str) -> str:
    """What to say of all that are to be kept together when one of them is refused."""
    return f"all {count} of them are kept together or none, and event {index} is refused: {reason}"


def _unsure(findings: Findings) -> str:
    return (
        f"{' and '.join(findings.unasked)} may have kept it, and cannot be asked now; publish it "
        "again later, under the same id"
    )


def _runs(numbers: Sequence[int], events: Sequence[Event]) -> list[Kept]:
    """Where publications of these numbers are kept, as these events."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        event = events[0]
        return [Kept(numbers[0], len(numbers), event.stream, event.tick, event.time)]
    runs: list[Kept] = []
    begin = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            event = events[begin]
            runs.append(Kept(numbers[begin], end - begin, event.stream, event.tick, event.time))
            begin = end
    return runs


def _joined(runs: Sequence[Kept]) -> list[Kept]:
    """The same in as few runs as possible."""
    found: list[Kept] = []
    for run in runs:
        before = found[-1] if found else None
        if before is not None and run == replace(
            before, number=before.last + 1, tick=before.tick + before.count, count=run.count
        ):
            found[-1] = replace(before, count=before.count + run.count)
        else:
            found.append(run)
    return found
