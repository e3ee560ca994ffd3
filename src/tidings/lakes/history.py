"""History: what a filter admits, from a lake and then from brokers, with no gap and no repeat.

A lake knows up to which tick it holds each stream. So it is read up to there, and a subscription
begins right behind::

    lake      1 ─────────────── 120                 it holds paris:120
    brokers              90 ─────────── 200 ──▶     and they keep paris from 90 on
    told      1 ─────────────── 120 ──────────▶

Both go on meanwhile. If brokers have let go of what comes next, the lake is asked again,
which may have it by now; only what neither of them has is missing, and that is an error.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain
from secrets import token_hex
from time import monotonic
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.client import (
    ClientClosed,
    CursorTooOld,
    Event,
    PlainClient,
    PlainSubscription,
    StreamWentBack,
    Told,
)
from tidings.client.event import DONE
from tidings.delivery.copies import FOR
from tidings.events import Filter
from tidings.events.values import MICROSECOND
from tidings.lakes.grouping import names_in
from tidings.lakes.lake import EVERYTHING, Gap, Lake, LakeError, View
from tidings.lakes.layout import Archived
from tidings.lakes.pruning import exactly
from tidings.protocol.cursors import Beginning, cursor_text, read_cursor
from tidings.protocol.messages import Event as NodeEvent
from tidings.protocol.requests import Cursor

_log = logging.getLogger("tidings.lakes")

_OFTEN: Final = 1.0
"""Seconds between two words to the broker about what of the lake is acknowledged."""


class History:
    """A subscription that begins in a lake; read it like one of the plain client, and close it.

    Its events are those that a subscription would have told if brokers had kept everything: each
    once, and each stream in its order. `CursorTooOld` says what neither lake nor brokers have.

    A durable one is known to its broker from the start, and acknowledged there also while it
    reads from the lake. Without `since` it goes on where it was, and reads from the lake only
    what brokers no longer keep.

    What the lake has from after `until` is passed over; brokers tell what they have all the same.
    """

    def __init__(
        self,
        client: PlainClient,
        lake: Lake,
        filter: Filter | str,
        *,
        since: Beginning = None,
        until: datetime | None = None,
        durable: str | None = None,
        replace: bool = False,
        home: Literal["here"] | None = None,
    ) -> None:
        self.filter: Final = served(lake, filter)
        self._client, self._lake = client, lake
        self._until, self._durable = until, durable
        self._owner, self._replace, self._home = token_hex(8), replace, home
        self._position: Cursor
        self._position, self._earliest = start_of(since)
        self._since: Beginning = since if self._earliest is None else self._earliest
        self._missed = self._lost = self._doubted = self._count = 0
        self._is_closed = False
        self._done: Event | None = None
        self._said_at = monotonic()
        self._next_past: Event | None = None
        self._live: PlainSubscription | None = None
        self._past: Iterator[Event] = iter(())
        if since is not None:
            self._enter()
            if self._durable is not None and self._position:
                self._place()
            return
        try:
            self._live = self._subscribed()
        except CursorTooOld as problem:
            self._go_back(problem)

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hear no more. A durable one goes on later behind what is acknowledged."""
        self._is_closed = True
        if self._live is not None:
            self._live.close()
        elif self._done is not None:
            self._say_done()

    # -- what it knows -------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many events can be read at once, or 1 if it is not known how many more."""
        if self._next_past is not None:
            return 1
        return 0 if self._live is None else self._live.waiting

    @property
    def missed(self) -> int:
        """How many events it was not told of, as those before were not read; only if live.

        Where `lost` is above 0, there may be more: up to as many as that.
        """
        return self._missed + (0 if self._live is None else self._live.missed)

    @property
    def lost(self) -> int:
        """How many ticks brokers no longer kept when it was to be told of them; only if live.

        How many of them were events that it wants cannot be known.
        """
        return self._lost + (0 if self._live is None else self._live.lost)

    @property
    def doubted(self) -> int:
        """How often a broker has found its memory damaged: see `Subscription.doubted`."""
        return self._doubted + (0 if self._live is None else self._live.doubted)

    @property
    def cursor(self) -> str:
        """How far it was told, for `since`. Events that wait to be read lie before it."""
        return cursor_text(self._position) if self._live is None else self._live.cursor

    def gaps(self) -> list[Gap]:
        """What the lake knows to be missing of what was asked for."""
        if self._since is None:
            return []
        begin = {} if self._earliest is not None else start_of(self._since)[0]
        found = [gap for gap in self._lake.gaps() if gap.upto > begin.get(gap.stream, 0)]
        return [gap for gap in found if self._earliest is None or not self._is_early(gap)]

    def _is_early(self, gap: Gap) -> bool:
        """Whether what follows on a gap is before all that is asked for, and so is the gap."""
        held = self._lake.held()
        since = {**held, gap.stream: gap.upto}
        after = next(self._lake.events(since=since, until={gap.stream: held[gap.stream]}), None)
        return after is not None and self._earliest is not None and after.time < self._earliest

    # -- events --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        while (event := self._next()) is not None:
            yield event

    def until_live(self) -> Iterator[Event]:
        """The events until it has caught up: all that there is, and then the end."""
        while (event := self._next(or_live=True)) is not None:
            yield event

    def get(self, timeout: float | None = None) -> Event:
        """The next event; `TimedOut` if there is none within these seconds."""
        event = self._next(timeout)
        if event is None:
            raise ClientClosed("the subscription is closed")
        return event

    def acknowledge(self, event: Event) -> Awaitable[None]:
        """What `Event.ack` does for events of the lake."""
        self._done = event
        if self._live is not None:
            return self._live.acknowledge(event)
        self._say_done()
        return DONE

    def acknowledge_soon(self, event: Event) -> None:
        """What `Event.ack_soon` does for events of the lake."""
        self._done = event
        if self._live is not None:
            self._live.acknowledge_soon(event)
        elif monotonic() > self._said_at + _OFTEN:
            self._say_done()

    def _say_done(self) -> None:
        self._said_at = monotonic()
        if self._durable is not None and self._done is not None:
            self._client.acknowledge(self._durable, self._done.position, owner=self._owner)

    def _next(self, timeout: float | None = None, *, or_live: bool = False) -> Event | None:
        while not self._is_closed:
            if (event := self._next_past) is not None:
                self._next_past = next(self._past, None)
                return event
            try:
                if self._live is None:
                    self._live = self._subscribed()
                event = _heard(self._live, timeout, or_live=or_live)
                self._count = self._count if event is None else event.sequence
            except CursorTooOld as problem:
                self._go_back(problem)
                continue
            if event is None or self._earliest is None or event.time >= self._earliest:
                return event
        return None

    # -- from one to the other -----------------------------------------------------------------

    def _enter(self) -> None:
        """Begin with what the lake has behind the position, if it has anything."""
        view = self._lake.snapshot()
        past, behind = read(view, self.filter, self._position, self._earliest, self._until)
        if not self._position:
            self._position = places(view, self._earliest)
        self._past = chain(self._told(past), self._passed(behind))
        self._next_past = next(self._past, None)

    def _told(self, past: Iterator[Archived]) -> Iterator[Event]:
        """Events of the lake, as a subscription has them."""
        for stream, tick, time, notification in past:
            if self._earliest is not None and time < self._earliest:
                continue
            self._count += 1
            # The next float up, so that to be cut to microseconds does not change it.
            moment = math.nextafter(time.timestamp(), math.inf)
            said = NodeEvent(stream, tick, notification, False, moment)
            yield Event(said, self._position, self._count, self)
            self._position = {**self._position, stream: tick}

    def _passed(self, cursor: Mapping[str, int]) -> Iterator[Event]:
        """No event: what there was up to here has been told."""
        self._position = {**self._position, **cursor}
        yield from ()

    def _subscribed(self) -> PlainSubscription:
        found = self._client.subscribe(
            self.filter,
            durable=self._durable,
            since=self._since,
            replace=self._replace,
            home=self._home,
            told=Told(self._position, self._count, self._owner),
        )
        if self._done is not None:
            found.acknowledge_soon(self._done)
        return found

    def _place(self) -> None:
        """Let the broker know where a durable subscription begins, though it may not keep that."""
        with suppress(CursorTooOld):
            self._client.subscribe(
                self.filter,
                durable=self._durable,
                since=self._position,
                replace=self._replace,
                home=self._home,
                queue=1,
                told=Told({}, 1, self._owner),  # or silence would be acknowledged
            ).close()

    def _go_back(self, problem: CursorTooOld) -> None:
        """Brokers no longer keep what comes next; perhaps the lake has it."""
        if self._live is not None:
            self._missed += self._live.missed
            self._lost += self._live.lost
            self._doubted += self._live.doubted
            self._live = None
        stream = problem.stream
        told = read_cursor(problem.cursor)
        if stream not in told:
            raise problem
        kept, here = told[stream], problem.position
        if isinstance(problem, StreamWentBack):
            if self._lake.held().get(stream, 0) < here:
                raise problem
            _log.warning("%s; the lake %s has what was lost", problem, self._lake.path)
            self._position = {**self._position, **told}
            return
        self._position = {**self._position, **told, stream: here}
        if self._lake.held().get(stream, 0) > here:
            self._enter()
        elif here < kept and self._is_before(stream, kept):
            self._position = {**self._position, stream: kept}
        else:
            cursor = cursor_text({**self._position, stream: kept})
            raise CursorTooOld(self._lack(problem, kept), cursor, stream, here) from problem

    def _lack(self, problem: CursorTooOld, kept: int) -> str:
        """What neither brokers nor the lake have."""
        upto = self._lake.held().get(problem.stream)
        holds = "nothing of it" if upto is None else f"it up to tick {upto}"
        return (
            f"ticks {problem.position + 1} to {kept} of {problem.stream} are no longer kept, and "
            f"not in the lake {self._lake.path}, which holds {holds}; does `tidings pipeline "
            "archive` run?"
        )

    def _is_before(self, stream: str, kept: int) -> bool:
        """Whether a stream up to a tick, which is no longer kept, is all before what is wanted."""
        if self._earliest is None:
            return False
        with self._client.subscribe(Filter.all(), since=self._earliest) as events:
            first = next((e.tick for e in events.until_live() if e.stream == stream), None)
        return first is None or first > kept + 1


def _heard(events: PlainSubscription, timeout: float | None, *, or_live: bool) -> Event | None:
    if or_live:
        return next(events.until_live(), None)
    return next(iter(events), None) if timeout is None else events.get(timeout)


def read(
    view: View, wanted: Filter, start: Cursor, earliest: datetime | None, until: datetime | None
) -> tuple[Iterator[Archived], Cursor]:
    """What a lake has of a filter, in the order of time, and the cursor right behind that.

    Both are as of the view: `subscribe` with this filter (see `served`) since that cursor tells
    what follows. It begins behind a cursor or, if that is empty, at a time; what is later than
    `until` is left out.
    """
    end = None if until is None else until + MICROSECOND
    ahead = {s: t for s, t in view.held().items() if t > start.get(s, 0)}
    return view.events(wanted, since=start or earliest, until=end), {**start, **ahead}


def served(lake: Lake, filter: Filter | str) -> Filter:
    """The filter to ask a lake and brokers for; `LakeError` if the lake has not all of it.

    It is the given one, but for a lake without the copies that bulk subscribers get: a filter that
    does not ask for them hears the events themselves, from brokers as from the lake.
    """
    wanted = Filter.of(filter)
    held = lake.filter
    if held.covers(wanted):
        return wanted
    if FOR not in names_in([wanted]) and held.covers(without := wanted.intersect(EVERYTHING)):
        return without
    raise LakeError(f"the lake {lake.path} holds only {held}, and so not all of {wanted}")


def start_of(since: Beginning) -> tuple[Cursor, datetime | None]:
    """A cursor or, if that is empty, a time; neither is the beginning."""
    where = exactly(since)
    return ({}, where) if isinstance(where, datetime) else (where or {}, None)


def places(view: View, earliest: datetime | None) -> Cursor:
    """Where a time lies in the streams of a lake: the last tick before it."""
    found = view.held()
    if earliest is None:
        return dict.fromkeys(found, 0)
    for path in view.files(since=earliest):
        with pq.ParquetFile(view.path / path) as file:
            for batch in file.iter_batches(columns=["stream", "tick", "time"]):
                late = batch.filter(pc.greater_equal(batch["time"], pa.scalar(earliest)))
                least = pa.table(late).group_by("stream").aggregate([("tick", "min")])
                for stream, tick in zip(
                    *map(pa.ChunkedArray.to_pylist, least.columns), strict=True
                ):
                    found[stream] = min(found[stream], tick - 1)
    return found
