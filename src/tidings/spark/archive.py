"""Archiving: what brokers are told goes into a lake, each event once.

Two programs can do that. `archive` needs no Java and one core: it reads from one broker, as fast
as one client can, and is the one to use unless that is too slow. A Spark query with the source
`tidings` does the same with as many workers as there are, on a cluster if need be, and can
transform events on their way; it takes some seconds to start, and a second for each batch.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Literal, NamedTuple

from tidings.client import CursorTooOld, Event, Subscription, connect
from tidings.client.address import Tls
from tidings.client.positions import cursor_text, read_cursor
from tidings.events import Filter, TidingsError
from tidings.spark.lake import Gap, Lake

WRITER: Final = "archive"
"""The name under which `archive` writes to a lake."""
_SILENCE: Final = 60.0
"""After so many seconds without events the lake notes how far it is all the same."""
_GLANCE: Final = 0.2
"""Seconds between two looks at whether to stop."""
_QUEUE: Final = 20_000
_CONTINUE: Final = re.compile(r"continue from ([A-Za-z0-9_.-]+):[0-9]+$")


class GapError(TidingsError):
    """The brokers no longer keep what should come next, so that the lake would have a gap."""


class Report(NamedTuple):
    """How archiving goes on; told after each commit."""

    events: int
    """So many were archived since the start,"""
    commits: int
    """in so many commits,"""
    seconds: float
    """during this time."""
    rate: float
    """Events per second since the last commit."""
    cursor: str
    """How far the lake is."""
    is_live: bool
    """Whether it has caught up with what is published."""


def archive(
    url: str,
    lake: Lake,
    *,
    token: str | None = None,
    tls: Tls = None,
    filter: Filter | str = "TRUE",
    batch: int = 100_000,
    every: float = 10.0,
    until: Literal["live"] | Mapping[str, int] | str | None = None,
    on_gap: Literal["fail", "continue"] = "fail",
    progress: Callable[[Report], Any] | None = None,
    stop: threading.Event | None = None,
    wait: float = 0.0,
) -> Report:
    """Take all that the broker at `url` can be told of, and the filter matches, into the lake.

    It begins where the lake ends (see `Lake.held`), at the first event that is kept if the lake is
    new. Each event is in the lake once, whatever is killed and started again: how far the lake is
    is part of the same commit as the events. There is a commit for `batch` events, or after `every`
    seconds. Only one `archive` at a time can write to a lake; another one takes over from it.

    It goes on for ever, or until `stop` is set, or until it has what a cursor says, or (`"live"`)
    what was published so far. Then what it has is committed, and the outcome returned.

    If the brokers no longer keep what should come next, it is a `GapError`; with
    `on_gap="continue"` the lake notes the gap (`Lake.gaps`), and what is kept is archived.
    """
    wanted = Filter.parse(filter) if isinstance(filter, str) else filter
    goal = read_cursor(until) if isinstance(until, str) and until != "live" else until
    course = _Course(lake, batch, every, goal, progress)

    async def run() -> None:
        async with connect(url, token=token, tls=tls, wait=wait) as client:
            while True:
                events = client.subscribe(
                    wanted, durable=f"lake-{lake.name}", since=course.held or "begin", queue=_QUEUE
                )
                try:
                    async with events:
                        await course.follow(events, stop or threading.Event())
                    return
                except CursorTooOld as problem:
                    gap = _gap(lake, course.held, problem, on_gap)
                    course.write([], {**course.held, gap.stream: gap.upto}, gaps=[gap])

    asyncio.run(run())
    return course.report


def _gap(lake: Lake, held: dict[str, int], problem: CursorTooOld, on_gap: str) -> Gap:
    """What is lost, or an error."""
    go_on = read_cursor(problem.cursor)
    # The cursor is ahead of the lake in other streams, too: by what was told but not taken.
    ahead = [stream for stream, tick in go_on.items() if tick != held.get(stream, 0)]
    said = _CONTINUE.search(str(problem))
    stream = said[1] if said is not None else ahead[0] if len(ahead) == 1 else ""
    if stream not in go_on:
        raise GapError(f"the lake is at {cursor_text(held)}, and cannot go on: {problem}")
    gap = Gap(stream, held.get(stream, 0), go_on[stream])
    if gap.upto <= gap.after:
        raise GapError(
            f"{lake.path} holds {stream} up to {gap.after}, but that stream ends at {gap.upto}: "
            f"this is not the {stream} that was archived before"
        ) from problem
    if on_gap != "continue":
        raise GapError(
            f"the lake holds {stream} up to {gap.after}, but it is kept from {gap.upto + 1} on "
            "only. Archive with on_gap='continue' to go on there; the lake will note the gap"
        ) from problem
    return gap


class _Course:
    """The course of an archiving: gathers events, and commits them."""

    def __init__(
        self,
        lake: Lake,
        batch: int,
        every: float,
        goal: Literal["live"] | Mapping[str, int] | str | None,
        progress: Callable[[Report], Any] | None,
    ) -> None:
        self._lake, self._batch, self._every, self._goal = lake, batch, every, goal
        self._progress = progress
        self._version = lake.written(WRITER)
        self.held = lake.held()
        self._began = self._last = monotonic()
        self.report = Report(0, 0, 0.0, 0.0, cursor_text(self.held), False)

    async def follow(self, events: Subscription, stop: threading.Event) -> None:
        """Archive what a subscription is told of, until it is enough."""
        gathered: list[Event] = []
        due = monotonic() + self._every
        try:
            while not stop.is_set() and not self._is_reached(events):
                gathered += await self._some(events, self._batch - len(gathered), due)
                is_late = monotonic() >= (due if gathered else self._last + _SILENCE)
                if len(gathered) >= self._batch or is_late:
                    await self._commit(events, gathered)
                    gathered = []
                if not gathered:
                    due = monotonic() + self._every
        except CursorTooOld:  # told behind all events, and these we have
            await self._commit(events, gathered)
            raise
        await self._commit(events, gathered)

    async def _some(self, events: Subscription, most: int, due: float) -> list[Event]:
        """Events that have come; none if it is time to look for something else."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(due - monotonic(), _GLANCE))):
                return await events.take(most, or_live=self._goal == "live")
        return []

    def _is_reached(self, events: Subscription) -> bool:
        if events.waiting or self._goal is None:
            return False
        if self._goal == "live":
            return events.is_live
        assert isinstance(self._goal, Mapping)
        told = self._ahead(read_cursor(events.cursor))
        return all(told.get(stream, 0) >= tick for stream, tick in self._goal.items())

    def _ahead(self, position: Mapping[str, int]) -> dict[str, int]:
        """How far the lake will be: a subscription knows only of streams it was told of."""
        return {**self.held, **position}

    async def _commit(self, events: Subscription, gathered: list[Event]) -> None:
        if not events.waiting:
            held = self._ahead(read_cursor(events.cursor))
        elif gathered:  # those that wait lie before the subscription's own cursor
            held = self._ahead(gathered[-1].position)
        else:
            return
        if gathered or held != self.held:
            await asyncio.to_thread(self.write, gathered, held, is_live=events.is_live)
        if gathered:
            gathered[-1].ack()

    def write(
        self,
        gathered: list[Event],
        held: dict[str, int],
        *,
        gaps: Sequence[Gap] = (),
        is_live: bool = False,
    ) -> None:
        """Commit events, and say so."""
        if not self._lake.append(
            gathered, writer=WRITER, version=self._version + 1, held=held, gaps=gaps
        ):
            raise TidingsError(f"{self._lake.path}: somebody else archives into this lake, too")
        self._version += 1
        self.held = held
        now, before = monotonic(), self.report
        self.report = Report(
            before.events + len(gathered),
            before.commits + 1,
            now - self._began,
            len(gathered) / max(now - self._last, 1e-9),
            cursor_text(held),
            is_live,
        )
        self._last = now
        if self._progress is not None:
            self._progress(self.report)
