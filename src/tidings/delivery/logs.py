"""Logs: a node's own streams, and answers to those that fetch from them, from memory or disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from tidings.delivery.erased import Eraser, is_erased
from tidings.delivery.log import Log, OwnStream, Said, size
from tidings.delivery.promises import FOREVER, Promises
from tidings.protocol.epochs import broker_of, epoch_of
from tidings.protocol.host import Append, Damaged, Read, Records, Span, Trimmed, Unreadable
from tidings.protocol.messages import BEGIN, NOW, Event, Fetch, Fetched
from tidings.protocol.parts import Kernel, Wants

_READ: Final = 4_096
"""Events read from a log at a time."""
_PART: Final = 1 << 17
"""Bytes of events in an answer, about: a slow link has other things to carry."""
_RESTS: Final = 8
"""Readers for which the rest of what was read is kept while they take it."""


class Logs:
    """A node's logs, and the questions that wait for something to be read from them.

    There is one for each epoch of each of its own streams; those that are closed are still read.
    An answer goes to the neighbour that asked, or `back` if the node itself did.
    """

    def __init__(
        self,
        kernel: Kernel,
        wants: Wants,
        spans: Mapping[str, Span],
        promises: Promises,
        back: Callable[[Fetched], None],
    ) -> None:
        """What is said from now on is of no time below what is promised."""
        self._kernel, self._wants = kernel, wants
        self._back = back
        self.logs: dict[str, Log] = {
            stream: Log(first=span.first, last=span.last, time=span.time)
            for stream, span in spans.items()
        }
        self.own = {name: OwnStream(name, self.logs) for name in map(broker_of, spans)}
        """The node's own streams, by name."""
        self.published = next(iter(self.own.values()))
        """What clients publish: the first of them."""
        self.promises = promises
        self.reads: dict[int, Fetch] = {}
        """What is being read, and for whom."""
        self._old_reads: set[int] = set()
        """Those that were under way when the host was last asked for what is kept."""
        self._rests: dict[tuple[str, int], tuple[Event, ...]] = {}
        """What was read and not sent yet, by the place behind which it begins."""
        self.read_limit, self.part_limit = _READ, _PART
        self._number = 0
        self._recalled: dict[str, Span] = {}
        """What was known when the host was asked for what is kept."""

    def complete(self, stream: str) -> float:
        """The time below which one of the node's own streams is complete."""
        is_closed = stream != self.own[broker_of(stream)].stream
        return FOREVER if is_closed else self.promises.below

    @property
    def log(self) -> Log:
        """That of what clients publish now."""
        return self.published.log

    def keep(
        self, own: OwnStream, said: Iterable[Said], time: float, publisher: str = ""
    ) -> list[Event]:
        """Say this in an own stream. Kept at the next `Sync`."""
        events = own.say(said, max(time, self.promises.below))
        if events:
            self._kernel.emit(Append(tuple(events), publisher))
        return events

    def trimmed(self, input: Trimmed) -> None:
        """What comes before a tick is no longer kept."""
        self.logs[input.stream].trim(input.first)

    def answer(self, fetch: Fetch) -> None:
        """Answer from the end of the log that is in memory, or have the log read."""
        log = self.logs[fetch.stream]
        since = fetch.since
        if fetch.after > log.time:
            since = log.last
        elif fetch.after > 0.0:
            tick = log.tick_before(fetch.after)
            since = BEGIN if tick is None else tick
        if since == NOW:
            since = log.last
        elif since == BEGIN and fetch.after <= 0.0:
            since = log.first - 1
        if since != BEGIN and since < log.first - 1:
            self._send_back(fetch, log.first - 1, log.first - 1, (), lost=True)
            return
        if since > log.last:
            # Of what was closed while this node ran, what came since it started may be new to a
            # reader that is ahead: those ticks were used before.
            is_closed = fetch.stream != self.own[broker_of(fetch.stream)].stream
            edge = max(log.begun, log.first - 1) if is_closed else log.last
            self._send_back(fetch, edge, log.last, (), lost=True)
            return
        recent = None if since == BEGIN else log.recent(since)
        if recent is not None:
            self._send_part(fetch, since, log.last, recent)
            return
        rest = self._rests.pop((fetch.stream, since), None)
        if rest is not None:
            self._send_part(fetch, since, rest[-1].tick, rest)
            return
        self._number += 1
        if self._number in self.reads:
            raise Damaged(f"read {self._number} is under way already")
        self.reads[self._number] = fetch
        read = Read(self._number, fetch.stream, max(since, 0), fetch.after, self.read_limit)
        self._kernel.emit(read)

    def records(self, input: Records) -> None:
        """What was to be read from the log has been."""
        fetch = self.reads.pop(input.number, None)
        if fetch is None:
            return
        if fetch.after <= 0.0 and 0 <= fetch.since < input.since:  # trimmed meanwhile
            self._send_back(fetch, input.since, input.since, (), lost=True)
        else:
            self._send_part(fetch, input.since, input.upto, input.events)

    def unreadable(self, input: Unreadable) -> None:
        """What was to be read from the log is damaged."""
        fetch = self.reads.pop(input.number, None)
        if fetch is not None:
            self._send_back(fetch, input.since, input.upto, (), lost=True, is_damaged=True)

    def erase(self, eraser: Eraser) -> None:
        """Erase in what is in memory. The store does it later: `read_again` then."""
        self._rests.clear()
        for log in self.logs.values():
            log.amend(lambda e: eraser.tombstone(e) if eraser.matches(e) else e)

    def read_again(self) -> None:
        """Something was erased in the store: what is being read may be from before that."""
        self._rests.clear()
        reads, self.reads = self.reads, {}
        for fetch in reads.values():
            self.answer(fetch)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it between two inputs; what is only kept for speed goes."""
        self._rests.clear()
        yield from self.promises.audit()
        for log in self.logs.values():
            yield from log.audit()
        latest = {broker_of(stream): stream for stream in sorted(self.logs, key=epoch_of)}
        streams = {name: own.stream for name, own in self.own.items()}
        if streams != latest or self.own.get(self.published.name) is not self.published:
            yield f"the node's own streams are {streams}, and its logs {sorted(self.logs)}"
        if any(not 0 < number <= self._number for number in self.reads):
            yield f"reads {sorted(self.reads)} are under way, and {self._number} was the last"

    def recall(self) -> None:
        """The host is about to say what is kept: note what is known.

        A read that has not come back since the last time never will, if its number was damaged:
        whoever needs what it was for has asked again.
        """
        for number in self._old_reads & self.reads.keys():
            del self.reads[number]
        self._old_reads = set(self.reads)
        logs = self.logs.items()
        self._recalled = {s: Span(log.first, log.last, log.time) for s, log in logs}

    def recalled(self, spans: Mapping[str, Span]) -> None:
        """What is kept has to fit what was known then; both may have moved on since."""
        known, logs = self._recalled, self.logs
        if not known.keys() <= spans.keys() <= logs.keys():
            raise Damaged(f"{sorted(spans)} are kept, of logs {sorted(logs)}")
        for stream, span in spans.items():
            log, before = logs[stream], known.get(stream, Span())
            if not (before.first <= span.first and before.last <= span.last <= log.last):
                raise Damaged(f"{span} is kept of {stream}, and {before} was known")
            if 0 < span.last == log.last and span.time != log.time:
                raise Damaged(f"{stream} ends at {span.time}, not at {log.time}")
            log.trim(span.first)

    def _send_part(self, fetch: Fetch, since: int, upto: int, events: Sequence[Event]) -> None:
        wanted = self._chooser(fetch)
        chosen: list[Event] = []
        bytes_ = 0
        for number, event in enumerate(events, start=1):
            if wanted(event) and not is_erased(event):
                chosen.append(event)
                bytes_ += size(event.notification)
                if bytes_ > self.part_limit:
                    upto = event.tick
                    self._keep_rest(fetch.stream, upto, events[number:])
                    break
        self._send_back(fetch, since, upto, tuple(chosen))

    def _keep_rest(self, stream: str, since: int, events: Sequence[Event]) -> None:
        """Who got a part will ask for the next one."""
        if events and self.logs[stream].recent(since) is None:
            self._rests[stream, since] = tuple(events)
            while len(self._rests) > _RESTS:
                del self._rests[next(iter(self._rests))]

    def _chooser(self, fetch: Fetch) -> Callable[[Event], bool]:
        filter_ = fetch.filter
        if filter_ is not None:
            return lambda event: filter_.matches(event.notification)
        neighbour = self._kernel.neighbours.get(fetch.path[-1])
        if neighbour is None:
            return lambda event: False  # nobody waits for it any more
        wants = self._wants
        # What is no longer advertised is not asked for by any table, but may have been wanted.
        ads = wants.told_advertised(neighbour)

        def chosen(event: Event) -> bool:
            notification = event.notification
            return (
                event.flood
                or neighbour in wants.holders(wants.filters(notification))
                or (ads is not None and not any(ad.matches(notification) for ad in ads))
            )

        return chosen

    def _send_back(
        self,
        fetch: Fetch,
        since: int,
        upto: int,
        events: tuple[Event, ...],
        *,
        lost: bool = False,
        is_damaged: bool = False,
    ) -> None:
        is_live = upto == self.logs[fetch.stream].last and not lost
        about = (fetch.stream, fetch.number, fetch.path)
        answer = Fetched(*about, since, upto, events, is_live, lost, is_damaged)
        if fetch.path:
            neighbour = self._kernel.neighbours.get(fetch.path[-1])
            if neighbour is not None:
                self._kernel.send(neighbour, answer)
        else:
            self._back(answer)


def damaged(stream: str, since: int, upto: int) -> str:
    """What to tell a reader of ticks that are damaged in the log of their broker."""
    return (
        f"the log of broker {broker_of(stream)} is damaged: ticks {since + 1} to {upto} of "
        f"{stream} cannot be read (look at its store with tidings store check)"
    )
