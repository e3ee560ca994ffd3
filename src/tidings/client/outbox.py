"""The outbox: publications on their way to the disk of a broker. Pure.

A publication gets its number when it is first sent, and keeps it: a broker remembers for each
name the last number it has kept, so what is sent again after a lost connection is not kept twice.
Another broker does not know that: what may have reached one is not sent to the next.
It also tells the epoch of the name: as long as that is the same, the same client has published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tidings.client.errors import PublishRefused
from tidings.events import Notification
from tidings.protocol.records import pack_notification
from tidings.protocol.requests import Publish, Refused

UNKNOWN: Final = "unknown"
"""The id of a refusal that is none: the broker cannot say."""


class OutboxLimits(msgspec.Struct, frozen=True):
    """How much of what is published may be under way."""

    count: int = 16_384
    """Notifications that may wait for the broker's word that they are kept."""
    size: int = 16 << 20
    """Bytes, about, that all of these notifications may have."""
    frames: int = 4
    """Frames that may wait for an answer; what comes meanwhile gathers for a larger frame."""
    most: int = 2_048
    """Notifications in one frame."""
    frame: int = 1 << 18
    """Bytes, about, of one frame."""


class Publication:
    """One notification that is to be published, and who wants to know what became of it.

    `WireError` if it cannot travel.
    """

    __slots__ = ("notification", "number", "receipt", "sent_to", "size")

    def __init__(self, notification: Notification, receipt: Any) -> None:
        self.notification: Final = notification
        self.receipt: Final = receipt
        self.number = 0
        self.sent_to = ""
        """The broker that may have it, if any."""
        self.size: Final = len(pack_notification(notification))


class Outbox:
    """Numbers publications, sends them in frames, and settles each of them once.

    Several methods return what was settled: publications, each with None if it is kept, or with
    the broker's refusal.
    """

    def __init__(self, limits: OutboxLimits) -> None:
        self.limits: Final = limits
        self.kept = 0
        """The last number that the broker has kept of this session."""
        self._broker = ""
        """The last that it was attached to."""
        self._next = 1
        self._waiting: deque[Publication] = deque()
        """Not sent over this connection; those with a number come first."""
        self._sent: deque[Publication] = deque()
        self._frames: deque[int] = deque()
        """The last number of each frame that waits for an answer."""
        self._size = 0
        self.taken = 0
        """Publications that were taken, ever."""
        self.settled = 0
        """Publications of which is known what became of them."""
        self.is_open = False
        """Whether a broker has said what it keeps, so that it can be sent more."""
        self.largest = 1 << 24
        """Bytes of the largest notification that the broker takes."""
        self._epochs: dict[str, int] = {}
        """The epoch that each broker has told of this name."""
        self.refusals: dict[int, str] = {}
        """Why numbers up to `kept` were refused for which no publication waits here."""
        self._early: dict[int, Refused] = {}
        """Refusals by number that a broker has told before it has said what it keeps."""
        self._refused: dict[int, None] = {}
        """Numbers that will not be sent again. The broker may forget that it has refused them, as
        long as it has kept nothing behind them."""
        self._left_out: list[Publish] = []
        """Empty requests, by which the broker is to be told now of numbers that are left out."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    @property
    def is_full(self) -> bool:
        """Whether to wait with further publications."""
        return len(self) >= self.limits.count or self._size >= self.limits.size

    def add(self, notification: Notification, receipt: Any = None) -> Publication:
        """Take something to be published; `PublishRefused` if it is too large.

        It has its number then, too: which one a notification has does not depend on the broker.
        """
        publication = Publication(notification, receipt)
        if publication.size > self.largest:
            self._number_all()
            if self.is_open:  # else `attached` tells of all of them
                self._left_out.append(Publish(self._next, ()))
            self._will_not_send(self._next)
            self._next += 1
            raise PublishRefused(self.too_large(publication))
        self._waiting.append(publication)
        self._size += publication.size
        self.taken += 1
        return publication

    def leave_out(self, number: int) -> None:
        """Give no number up to this one; what waits already keeps those that it would have got."""
        self._number_all()
        self._next = max(self._next, number + 1)

    def _number_all(self) -> None:
        for publication in self._waiting:
            if publication.number == 0:
                publication.number, self._next = self._next, self._next + 1

    def _will_not_send(self, number: int) -> None:
        self._refused[number] = None
        if len(self._refused) > self.limits.frames * self.limits.most:
            del self._refused[next(iter(self._refused))]  # a broker knows no more, either

    def too_large(self, publication: Publication) -> str:
        """What to say of one above the limit."""
        return f"it has {publication.size:,} bytes; the broker takes {self.largest:,} at most"

    # -- connections ---------------------------------------------------------------------------

    def lost(self) -> None:
        """The connection is gone: all that is not settled must be sent again."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()
        self._frames.clear()
        self._early.clear()
        self._left_out.clear()
        self.is_open = False

    def epoch(self, broker: str) -> int:
        """The epoch that a broker has told of this name, or 0."""
        return self._epochs.get(broker, 0)

    def attached(
        self, broker: str, kept: int, epoch: int = 0
    ) -> list[tuple[Publication, Refused | None]]:
        """A broker says what it has kept under this name; from now on it can be sent more.

        It has said before what it has refused of that. With an epoch other than it has given
        before, it no longer knows what became of all that has a number; and no broker knows what
        became of what was sent to another.
        """
        settled: list[tuple[Publication, Refused | None]] = []
        if self._epochs.get(broker, epoch) != epoch:
            reason = f"{broker} no longer knows what was published under this name"
            while self._waiting and self._waiting[0].number:
                settled.append(self._settle(self._waiting.popleft(), Refused(UNKNOWN, reason)))
        elsewhere = [p for p in self._waiting if p.sent_to not in ("", broker)]
        if elsewhere:
            self._waiting = deque(p for p in self._waiting if p.sent_to in ("", broker))
            settled += [self._settle(p, Refused(UNKNOWN, _lost(p, broker))) for p in elsewhere]
        first = self._waiting[0].number if self._waiting else 0
        if broker not in self._epochs and 0 < first <= kept:
            # It was never sent these: the numbers are those of another process of this name.
            for publication in self._waiting:
                publication.number = 0
        while self._waiting and 0 < self._waiting[0].number <= kept:
            publication = self._waiting.popleft()
            settled.append(self._settle(publication, self._early.pop(publication.number, None)))
        self.refusals = {number: refusal.reason for number, refusal in self._early.items()}
        if any(p.size > self.largest for p in self._waiting):  # taken for a more generous broker
            large = [p for p in self._waiting if p.size > self.largest]
            self._waiting = deque(p for p in self._waiting if p.size <= self.largest)
            settled += [self._settle(p, Refused(str(p.number), self.too_large(p))) for p in large]
            self._refused.update((p.number, None) for p in large if p.number)
        self._stored(kept)
        self._left_out = [Publish(number, ()) for number in self._refused]
        self._next = max(self._next, kept + 1)
        self._broker = broker
        self._epochs[broker] = epoch
        self.kept = kept
        self.is_open = True
        return settled

    def give_up(self) -> list[Publication]:
        """Forget all that is not settled, and return it."""
        unsettled = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._frames.clear()
        self._size = 0
        return unsettled

    # -- sending -------------------------------------------------------------------------------

    def frames(self) -> Iterator[list[Publish]]:
        """What to send now: the requests of one frame after another."""
        if self._left_out:  # before anything is kept behind them
            left_out, self._left_out = self._left_out, []
            yield left_out
        while self.is_open and self._waiting and len(self._frames) < self.limits.frames:
            yield list(self._requests())

    def _requests(self) -> Iterator[Publish]:
        """Requests for one frame: one, unless numbers are missing since they were refused."""
        size, count, number = 0, 0, 0
        run: list[Notification] = []
        room = min(self.limits.frame, self.largest)
        while self._waiting and count < self.limits.most:
            if count and size + self._waiting[0].size > room:
                break
            publication = self._waiting.popleft()
            if publication.number == 0:
                publication.number = self._next
                self._next += 1
            if run and publication.number != number + 1:
                yield Publish(number + 1 - len(run), tuple(run))
                run = []
            publication.sent_to = self._broker
            number = publication.number
            run.append(publication.notification)
            self._sent.append(publication)
            size, count = size + publication.size, count + 1
        self._frames.append(number)
        yield Publish(number + 1 - len(run), tuple(run))

    # -- answers -------------------------------------------------------------------------------

    def accepted(self, number: int) -> list[tuple[Publication, Refused | None]]:
        """Everything up to this number is kept."""
        settled = []
        while self._sent and self._sent[0].number <= number:
            settled.append(self._settle(self._sent.popleft()))
        self.kept = max(self.kept, number)
        if number not in self._refused:  # else nothing behind those before it may be kept
            self._stored(number)
        self._count_frames()
        return settled

    def refused(self, number: int, refusal: Refused) -> list[tuple[Publication, Refused | None]]:
        """This one will not be kept."""
        if not self.is_open:
            self._early[number] = refusal
            return []
        for at, publication in enumerate(self._sent):  # they come in order: near the front
            if publication.number == number:
                del self._sent[at]
                self._will_not_send(number)
                self._count_frames()
                return [self._settle(publication, refusal)]
        return []

    def _stored(self, kept: int) -> None:
        """The broker has stored what it refused up to a number, with the number itself."""
        self._refused = {number: None for number in self._refused if number > kept}

    def _settle(
        self, publication: Publication, refusal: Refused | None = None
    ) -> tuple[Publication, Refused | None]:
        self._size -= publication.size
        self.settled += 1
        return publication, refusal

    def _count_frames(self) -> None:
        while self._frames and not (self._sent and self._sent[0].number <= self._frames[0]):
            self._frames.popleft()


def _lost(publication: Publication, broker: str) -> str:
    return (
        f"it was sent to {publication.sent_to}, which may have kept it; {broker}, to which this "
        "client is connected now, cannot say"
    )
