"""The outbox: publications on their way to the disk of a broker. Pure.

A publication gets its number when it is first sent, and keeps it: a broker remembers for each
name the last number it has kept, so what is sent again after a lost connection is not kept twice.
It also tells the epoch of the name: as long as that is the same, the same client has published.
Another broker knows nothing of this. What may have reached one is sent to the next only if it has
an id, together with the names of those that may have kept it, which are asked before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from tidings.client.errors import PublishRefused
from tidings.events import Notification
from tidings.protocol.records import pack_notification
from tidings.protocol.requests import Kept, Publish, Refused

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
    """What is to be published as a whole, and who wants to know what became of it.

    That is one notification, or several which are kept together. `WireError` if it cannot travel.
    """

    __slots__ = (
        *("count", "ids", "is_unsure", "maybe_twice", "notifications", "number", "receipt"),
        *("sent_to", "size", "where"),
    )

    def __init__(
        self,
        notifications: tuple[Notification, ...],
        receipt: Any,
        ids: tuple[str, ...] = (),
        *,
        maybe_twice: bool = False,
    ) -> None:
        self.notifications: Final = notifications
        self.receipt: Final = receipt
        self.ids: Final = ids
        """That of each, by which any broker knows it again; empty where there is none."""
        self.maybe_twice: Final = maybe_twice
        """Whether it is kept though a broker that may have kept it cannot be asked."""
        self.number = 0
        """That of the first notification, and the others follow on it; 0 if they have none yet."""
        self.where: tuple[Kept, ...] = ()
        """Where they are kept, as far as the broker has told."""
        self.is_unsure = False
        """Whether they may be kept twice, whatever is said of where."""
        self.sent_to: tuple[str, ...] = ()
        """The brokers that may have it."""
        self.count: Final = len(notifications)
        """How many they are."""
        size = len(pack_notification(notifications[0]))
        if self.count > 1:
            size += sum([len(pack_notification(each)) for each in notifications[1:]])
        self.size: Final = size
        """In bytes, about."""

    def elsewhere(self, broker: str) -> tuple[str, ...]:
        """The brokers besides one that may have it."""
        return tuple(each for each in self.sent_to if each != broker)

    @property
    def is_known_anywhere(self) -> bool:
        """Whether any broker can find out what has become of it."""
        return bool(self.ids) and all(self.ids)

    @property
    def notification(self) -> Notification:
        """The first of them."""
        return self.notifications[0]

    @property
    def last(self) -> int:
        """The number of the last of them."""
        return self.number + self.count - 1

    @property
    def numbers(self) -> range:
        """Those of all of them."""
        return range(self.number, self.number + self.count)


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
        self._size = self._count = 0
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
        self._doubts: dict[str, tuple[str, ...]] = {}
        """By id of what was refused: the brokers that may have kept it all the same."""
        self._left_out: list[Publish] = []
        """Empty requests, by which the broker is to be told now of numbers that are left out."""

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether to wait with further publications."""
        return self._count >= self.limits.count or self._size >= self.limits.size

    def add(
        self,
        *notifications: Notification,
        receipt: Any = None,
        ids: tuple[str, ...] = (),
        maybe_twice: bool = False,
    ) -> Publication:
        """Take something to be published as a whole; `PublishRefused` if it is too large.

        It has its number then, too: which one a notification has does not depend on the broker.
        """
        publication = Publication(notifications, receipt, ids, maybe_twice=maybe_twice)
        if self._doubts and ids:
            brokers = [broker for id in ids for broker in self._doubts.get(id, ())]
            publication.sent_to = tuple(dict.fromkeys(brokers))
        if publication.size > self.largest:
            self._number_all()
            self._number(publication)
            if self.is_open:  # else `attached` tells of all of them
                self._left_out += [Publish(number, ()) for number in publication.numbers]
            self._will_not_send(publication)
            raise PublishRefused(self.too_large(publication))
        self._waiting.append(publication)
        self._size += publication.size
        self._count += publication.count
        self.taken += 1
        return publication

    def leave_out(self, number: int) -> None:
        """Give no number up to this one; what waits already keeps those that it would have got."""
        self._number_all()
        self._next = max(self._next, number + 1)

    def _number_all(self) -> None:
        for publication in self._waiting:
            if publication.number == 0:
                self._number(publication)

    def _number(self, publication: Publication) -> None:
        publication.number = self._next
        self._next += publication.count

    def _will_not_send(self, publication: Publication) -> None:
        self._refused.update(dict.fromkeys(publication.numbers))
        while len(self._refused) > self.limits.frames * self.limits.most:
            del self._refused[next(iter(self._refused))]  # a broker knows no more, either

    def too_large(self, publication: Publication) -> str:
        """What to say of one above the limit."""
        largest = f"the broker takes {self.largest:,} at most"
        if publication.count == 1:
            return f"it has {publication.size:,} bytes; {largest}"
        return f"these {publication.count:,} events have {publication.size:,} bytes; {largest}"

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
        self, broker: str, kept: int, epoch: int = 0, where: Sequence[Kept] = ()
    ) -> list[tuple[Publication, Refused | None]]:
        """A broker says what it has kept under this name; from now on it can be sent more.

        It has said before what it has refused of that. With an epoch other than it has given
        before, it no longer knows what became of all that has a number; and no broker knows what
        became of what was sent to another.
        """
        settled: list[tuple[Publication, Refused | None]] = []
        if self._epochs.get(broker, epoch) != epoch:
            reason = f"{broker} no longer knows what was published under this name"
            settled += self._give_up_if(lambda p: p.number > 0, lambda _: reason)
            for publication in self._waiting:
                publication.number = 0
        settled += self._give_up_if(lambda p: bool(p.elsewhere(broker)), lambda p: _lost(p, broker))
        first = self._waiting[0].number if self._waiting else 0
        if broker not in self._epochs and 0 < first <= kept:
            # It was never sent these: the numbers are those of another process of this name.
            for publication in self._waiting:
                publication.number = 0
        places = _Places(where)
        while self._waiting and 0 < self._waiting[0].number <= kept:
            publication = self._waiting.popleft()
            publication.where = places.of(publication)
            # Nobody says here whether the others were asked.
            publication.is_unsure = publication.maybe_twice and bool(publication.elsewhere(broker))
            refusal = self._was_refused(publication)
            if refusal is not None:
                self._doubt(publication, broker)
            settled.append(self._settle(publication, refusal))
        self.refusals = {number: refusal.reason for number, refusal in self._early.items()}
        if any(p.size > self.largest for p in self._waiting):  # taken for a more generous broker
            large = [p for p in self._waiting if p.size > self.largest]
            self._waiting = deque(p for p in self._waiting if p.size <= self.largest)
            settled += [self._settle(p, Refused(str(p.number), self.too_large(p))) for p in large]
            for publication in large:
                if publication.number:
                    self._will_not_send(publication)
        self._stored(kept)
        self._left_out = [Publish(number, ()) for number in self._refused]
        self._next = max(self._next, kept + 1)
        self._broker = broker
        self._epochs[broker] = epoch
        self.kept = kept
        self.is_open = True
        return settled

    def _give_up_if(
        self, is_lost: Callable[[Publication], bool], why: Callable[[Publication], str]
    ) -> list[tuple[Publication, Refused | None]]:
        """Nobody can say what has become of these; of those with ids, any broker can find out."""
        lost = [p for p in self._waiting if is_lost(p) and not p.is_known_anywhere]
        if lost:
            gone = set(map(id, lost))
            self._waiting = deque(p for p in self._waiting if id(p) not in gone)
        return [self._settle(p, Refused(UNKNOWN, why(p))) for p in lost]

    def _was_refused(self, publication: Publication) -> Refused | None:
        """The refusal that was told before the session was attached; for a whole, the first."""
        if not self._early:
            return None
        found = [self._early.pop(number, None) for number in publication.numbers]
        return next((refusal for refusal in found if refusal is not None), None)

    def give_up(self) -> list[Publication]:
        """Forget all that is not settled, and return it."""
        unsettled = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._frames.clear()
        self._size = self._count = 0
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
        """Requests for one frame: one, unless numbers are missing since they were refused, or some
        are to be kept as a whole."""
        size, count = 0, 0
        run: list[Publication] = []
        room = min(self.limits.frame, self.largest)
        while self._waiting and count < self.limits.most:
            publication = self._waiting[0]
            if count and (
                size + publication.size > room or count + publication.count > self.limits.most
            ):
                break
            self._waiting.popleft()
            if publication.number == 0:
                self._number(publication)
            if run and not self._goes_with(publication, run[-1]):
                yield self._request(run)
                run = []
            run.append(publication)
            size, count = size + publication.size, count + publication.count
        self._frames.append(run[-1].last)
        yield self._request(run)

    @staticmethod
    def _goes_with(publication: Publication, before: Publication) -> bool:
        """Whether both travel in one request."""
        return (
            publication.number == before.number + 1
            and publication.count == before.count == 1
            and publication.maybe_twice == before.maybe_twice
            and publication.sent_to == before.sent_to
        )

    def _request(self, run: list[Publication]) -> Publish:
        """What is sent of these, which may be kept by this broker from now on."""
        first, broker = run[0], self._broker
        elsewhere = first.elsewhere(broker)
        if broker not in first.sent_to:  # nor in that of the others, which is the same
            sent_to = (*first.sent_to, broker)
            for publication in run:
                publication.sent_to = sent_to
        self._sent.extend(run)
        said, ids = first.notifications, first.ids
        if len(run) > 1:
            said = tuple([publication.notifications[0] for publication in run])
            ids = ()
            if any(publication.ids for publication in run):
                ids = tuple(publication.ids[0] if publication.ids else "" for publication in run)
        is_whole = first.count > 1
        return Publish(first.number, said, is_whole, ids, elsewhere, first.maybe_twice)

    # -- answers -------------------------------------------------------------------------------

    def accepted(
        self, number: int, where: Sequence[Kept] = ()
    ) -> list[tuple[Publication, Refused | None]]:
        """Everything up to this number is kept, the last of it there."""
        settled = []
        places = _Places(where)
        while self._sent and self._sent[0].number <= number:
            publication = self._sent.popleft()
            publication.where = places.of(publication)
            settled.append(self._settle(publication))
        self.kept = max(self.kept, number)
        if number not in self._refused:  # else nothing behind those before it may be kept
            self._stored(number)
        self._count_frames()
        return settled

    def refused(self, number: int, refusal: Refused) -> list[tuple[Publication, Refused | None]]:
        """This one will not be kept, nor what is to be kept together with it."""
        if not self.is_open:
            self._early[number] = refusal
            return []
        for at, publication in enumerate(self._sent):  # they come in order: near the front
            if publication.number > number:
                break
            if number <= publication.last:
                del self._sent[at]
                self._will_not_send(publication)
                self._doubt(publication, self._broker)
                self._count_frames()
                return [self._settle(publication, refusal)]
        return []

    def _doubt(self, publication: Publication, broker: str) -> None:
        """A broker refuses what others may have kept: if it comes again, they are asked."""
        brokers = publication.elsewhere(broker)
        if brokers:
            self._doubts |= {id: brokers for id in publication.ids if id}
            while len(self._doubts) > self.limits.count:
                del self._doubts[next(iter(self._doubts))]

    def _stored(self, kept: int) -> None:
        """The broker has stored what it refused up to a number, with the number itself."""
        self._refused = {number: None for number in self._refused if number > kept}

    def _settle(
        self, publication: Publication, refusal: Refused | None = None
    ) -> tuple[Publication, Refused | None]:
        self._size -= publication.size
        self._count -= publication.count
        self.settled += 1
        return publication, refusal

    def _count_frames(self) -> None:
        while self._frames and not (self._sent and self._sent[0].number <= self._frames[0]):
            self._frames.popleft()


class _Places:
    """Where publications are kept, by what the broker has told of runs of them."""

    __slots__ = ("_end", "_first", "_numbers", "_one", "_runs")

    def __init__(self, runs: Sequence[Kept]) -> None:
        found = {run.number: run for run in runs}
        self._runs = [found[number] for number in sorted(found)]
        self._numbers = [run.number for run in self._runs]
        self._one: tuple[Kept, ...] = ()
        """The last run, which most are in."""
        if self._runs:
            last = self._runs[-1]
            self._one, self._first, self._end = (last,), last.number, last.last + 1

    def of(self, publication: Publication) -> tuple[Kept, ...]:
        """The runs that are about one of them."""
        if not self._runs:
            return ()
        number = publication.number
        if self._one and self._first <= number and number + publication.count <= self._end:
            return self._one
        first = max(0, bisect_right(self._numbers, publication.number) - 1)
        after = bisect_right(self._numbers, publication.last)
        return tuple(run for run in self._runs[first:after] if run.last >= publication.number)


def _lost(publication: Publication, broker: str) -> str:
    return (
        f"it was sent to {publication.sent_to[-1]}, which may have kept it; {broker}, to which "
        "this client is connected now, cannot say, since it has no id"
    )
