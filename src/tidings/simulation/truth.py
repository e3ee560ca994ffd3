"""Truth: what there is to hear in the streams of a simulation, and what must be heard of it.

Where nodes have logs, these tell. Where events are delivered at most once, a stream is what one
process has published; of that, what was said while nothing was under way must be heard, as long as
no broker and no link fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf
from typing import TYPE_CHECKING, Protocol

from tidings.delivery.erased import Eraser, is_erased
from tidings.events import Filter, Notification
from tidings.protocol.epochs import broker_of, epoch_of
from tidings.protocol.host import EraseLog
from tidings.protocol.messages import Event
from tidings.protocol.requests import Cursor, Erase, Erasure

if TYPE_CHECKING:
    from tidings.simulation.courses import Start
    from tidings.simulation.simulation import Simulation


class Truth(Protocol):
    """The streams, event by event."""

    @property
    def streams(self) -> Collection[str]: ...

    def end(self, stream: str) -> int:
        """The last tick there is."""

    def lengths(self) -> Cursor:
        """How long all streams are."""

    def is_true(self, event: Event) -> bool:
        """Whether this ever was the content of its tick."""

    def matching(
        self, filter: Filter, stream: str, since: int, upto: int | None = None
    ) -> list[int]:
        """The ticks behind one, up to another, of what must be heard."""

    def bounds(self, start: Start, stream: str) -> tuple[float, float]:
        """A subscription may begin behind the first tick, and must behind the second."""


class _Erasure:
    """What need not be heard any more since somebody wants it erased."""

    def __init__(self, filter: Filter, id: str) -> None:
        self.eraser = Eraser(filter, id)
        self.upto: Cursor = {}
        """Of the streams of nodes that were reached: what comes later must be heard."""
        self.done = inf
        """When that was answered: whoever asks later must not hear it."""

    def covers(self, event: Event) -> bool:
        """Whether an event may be gone."""
        return event.tick <= self.upto.get(event.stream, inf) and self.eraser.matches(event)


class Logs:
    """What nodes keep, and what they kept once."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._erasures: dict[str, _Erasure] = {}

    def asks(self, body: Erase) -> None:
        """A client wants something erased."""
        if not body.is_dry:
            self._erasures.setdefault(body.id, _Erasure(body.filter, body.id))

    def erasing(self, effect: EraseLog) -> None:
        """A node is about to erase in a log."""
        self.asks(Erase(effect.id, effect.filter))
        erasure = self._erasures[effect.id]
        before = erasure.upto.get(effect.stream, 0)
        erasure.upto[effect.stream] = max(before, effect.upto)

    def erased(self, answer: Erasure) -> None:
        """A client is told that it was done."""
        erasure = self._erasures.get(answer.id)
        if erasure is not None and answer.is_done:
            erasure.done = min(erasure.done, self._simulation.now)
            for stream, tick in self.lengths().items():
                erasure.upto.setdefault(stream, tick)

    def is_gone(self, event: Event, asked: float) -> bool:
        """Whether who has asked at a time must not hear an event, since it was erased before."""
        return any(
            each.done <= asked
            and each.covers(event)
            and any(map(each.eraser.has_erased, self._log(event.stream)[event.tick - 1 :][:1]))
            for each in self._erasures.values()
        )

    @property
    def streams(self) -> Collection[str]:
        return self._simulation.streams

    def end(self, stream: str) -> int:
        return len(self._log(stream))

    def lengths(self) -> Cursor:
        return {stream: self.end(stream) for stream in self.streams}

    def is_true(self, event: Event) -> bool:
        """That may be lost by now."""
        ever = self._simulation.stores[broker_of(event.stream)].ever.get(event.stream, [])
        return event.tick <= len(ever) and ever[event.tick - 1] == event

    def matching(
        self, filter: Filter, stream: str, since: int, upto: int | None = None
    ) -> list[int]:
        log = self._log(stream)[max(since, 0) : upto]
        found = [e for e in log if filter.matches(e.notification)]
        if self._erasures:
            found = [e for e in found if not (is_erased(e) or self._may_be_gone(e))]
        return [e.tick for e in found]

    def may_be_gone(self, stream: str, tick: int) -> bool:
        """Whether somebody wanted an event erased, so that it need not be heard."""
        ever = self._simulation.stores[broker_of(stream)].ever[stream]
        return bool(self._erasures) and self._may_be_gone(ever[tick - 1])

    def _may_be_gone(self, event: Event) -> bool:
        return any(each.covers(event) for each in self._erasures.values())

    def _log(self, stream: str) -> list[Event]:
        return self._simulation.log(stream) if stream in self.streams else []

    def bounds(self, start: Start, stream: str) -> tuple[float, float]:
        if stream not in self.streams:
            return 0.0, 0.0
        if stream in start.exact:
            lowest = highest = float(start.exact[stream])
        else:
            lowest = start.lowest.get(stream, 0)
            if not start.is_now:  # a clock that is behind may say for a while that it is earlier
                highest = sum(e.time < start.time for e in self._known(stream))
            elif start.highest is None or broker_of(stream) in start.unheard:
                highest = inf
            else:
                highest = start.highest.get(stream, 0)
        if epoch_of(stream) > 1:  # whoever has read the one before may hear all of it
            lowest = 0.0
        first = self._simulation.stores[broker_of(stream)].firsts[stream]
        return lowest, max(highest, first - 1)

    def _known(self, stream: str) -> list[Event]:
        """All that ever was kept of a stream, and what its broker is about to keep."""
        broker = broker_of(stream)
        commits = self._simulation.commits.get(broker)
        pending = [] if commits is None else commits.events(stream)
        return self._simulation.stores[broker].ever[stream] + pending

    def lost(self, filter: Filter) -> int:
        """Matching events of streams that have lost their end since."""
        stores = self._simulation.stores.values()
        ends = [each.ever[s][len(log) :] for each in stores for s, log in each.logs.items()]
        return sum(filter.matches(event.notification) for end in ends for event in end)

    def erased_of(self, filter: Filter) -> int:
        """Matching events that need not be heard since somebody wanted them erased."""
        if not self._erasures:
            return 0
        evers = [ever for each in self._simulation.stores.values() for ever in each.ever.values()]
        wanted = [e for ever in evers for e in ever if filter.matches(e.notification)]
        return sum(map(self._may_be_gone, wanted))

    def can_be_read(self, stream: str, tick: int) -> bool:
        """Whether an event is kept, and sound."""
        return self._simulation.stores[broker_of(stream)].has(stream, tick)

    def before(self, time: float) -> Cursor:
        """How long all streams were at a time, by the clock of each."""
        stores = self._simulation.stores.values()
        evers = {stream: ever for each in stores for stream, ever in each.ever.items()}
        return {stream: sum(e.time < time for e in ever) for stream, ever in evers.items()}


class Said:
    """What clients have published, which is kept nowhere."""

    def __init__(self) -> None:
        self._said: dict[str, dict[int, tuple[Notification, bool]]] = {}
        """And whether anybody may hear of it."""
        self._due: dict[str, dict[int, Notification]] = {}

    @property
    def streams(self) -> Collection[str]:
        return self._said.keys()

    def add(self, stream: str, tick: int, notification: Notification, *, may: bool) -> None:
        """Something is published; whether anybody may hear of it is known already."""
        self._said.setdefault(stream, {})[tick] = (notification, may)

    def must_be_heard(self, stream: str, ticks: Iterable[int]) -> None:
        """Nothing was under way when these were published."""
        said = self._said[stream]
        due = {tick: said[tick][0] for tick in ticks if said[tick][1]}
        self._due.setdefault(stream, {}).update(due)

    def forgive(self) -> None:
        """Something has failed: nothing must be heard of what was said so far."""
        self._due.clear()

    def end(self, stream: str) -> int:
        return max(self._said.get(stream, ()), default=0)

    def lengths(self) -> Cursor:
        return {stream: self.end(stream) for stream in self._said}

    def is_true(self, event: Event) -> bool:
        said = self._said.get(event.stream, {}).get(event.tick)
        return said == (event.notification, True)

    def matching(
        self, filter: Filter, stream: str, since: int, upto: int | None = None
    ) -> list[int]:
        due = self._due.get(stream, {}).items()
        found = [t for t, n in due if t > since and (upto is None or t <= upto)]
        return [tick for tick in found if filter.matches(self._said[stream][tick][0])]

    def bounds(self, start: Start, stream: str) -> tuple[float, float]:
        """What was under way when it began may be heard, too."""
        return 0.0, float((start.highest or {}).get(stream, 0))
