"""Publishing deliveries: by the tasks that find them, as soon as they do, and each once.

A task reads a stretch of ticks, and what it delivers of it is always the same: same ticks, same
table of subscriptions. So a delivery has a number that is the same whenever the task is run, and
the broker knows it again::

    number = ROOM · (tick behind which the stretch begins) + 1, 2, 3, …

Stretches of a session follow on each other, so its numbers rise. A task that runs again asks how
far the session is and what of that was refused, makes dead letters of these, and goes on there;
nothing has to be written down but what Spark writes itself. Only the broker that was told some of
it knows, so that a batch does not go on at another one.
(The sink cannot do so: of rows that anybody wrote, it does not know that they come again alike.)

Where the broker no longer keeps the next events, and it is to go on all the same, it is not known
how many deliveries they had. So numbers go on as if the stretch began there: what an earlier try
had delivered from there on is then delivered again, and nothing is lost.

Where one batch has several stretches of a stream, each has a session of its own, a lane.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidings.client import Login, PublishRefusedForNow
from tidings.delivery.copies import FOR
from tidings.events import Filter, Notification, TidingsError
from tidings.events.values import moment
from tidings.protocol.runs import Rows
from tidings.spark.bulk.judging import Judged, index_of, wanted
from tidings.spark.bulk.registrations import ID, deliveries
from tidings.spark.letters import DeadLetters
from tidings.spark.streams.absence import Gone, OnGap
from tidings.spark.streams.reading import notifications, read_rows
from tidings.spark.streams.stretch import Stretch

ROOM: Final = 1 << 20
"""Numbers for each tick: events have no more deliveries, which are for a thousand names each. It
leaves room for 2⁴³ ticks. A batch that was begun with another number must not go on."""
TICKS: Final = 20_000
"""Ticks of a stretch. A batch that was begun with another number must not go on."""
COUNTS: Final = "events BIGINT, matched BIGINT, delivered BIGINT, refused BIGINT, times DOUBLE"
"""What is known of a task that has delivered; the last is the sum of when events happened."""
_UNDER_WAY: Final = 2
"""Lists of deliveries that may wait for the broker while further ones are made."""
_AT_ONCE: Final = 2_000
"""Deliveries of a list. If a task fails, the letters of all that is under way may be
missing, and the next try makes them: a broker remembers more refusals than that."""
_LOOK: Final = 0.2


@dataclass(frozen=True)
class Delivering(InputPartition):
    """What one task reads, judges and publishes; under which session's name, and where."""

    judged: Judged
    session: str
    broker: str


def lanes(stretches: Iterable[Judged], session: str, *, broker: str) -> list[Delivering]:
    """Each stretch with a session of its own: the first of a stream has the first lane, and so on.

    They are the same whenever a batch is run, and each one's stretches rise from batch to batch.
    """
    counts: dict[str, int] = {}
    found = []
    for judged in stretches:
        stream = judged.stretch.stream
        lane = counts[stream] = counts.get(stream, -1) + 1
        found.append(Delivering(judged, f"deliver-{session}-{stream}-{lane}", broker))
    return found


def delivered(
    task: Delivering,
    login: Login,
    filter: Filter,
    *,
    on_gap: OnGap,
    subscriptions: str,
    dead_letters: str,
) -> Iterator[pa.RecordBatch]:
    """Deliver what somebody wants of a stretch; gives one row of `COUNTS`.

    `subscriptions` is the lake of registrations, and `dead_letters` the folder for deliveries that
    cannot be published.
    """
    stretch = task.judged.stretch
    index = index_of(subscriptions, task.judged.cursor)
    matched = names = 0
    times = last = 0.0
    when = moment(last)
    with StretchPublisher(task, login, dead_letters) as publisher:
        for rows in _rows(stretch, login, filter, on_gap, publisher):
            said = notifications(rows)
            for place, found in wanted(said, index):
                if rows.times[place] != last:  # many events have the same
                    last = rows.times[place]
                    when = moment(last)
                id = f"{stretch.stream}:{rows.ticks[place]}"
                for delivery in deliveries(said[place], found, id=id, time=when):
                    publisher.put(delivery)
                matched += 1
                names += len(found)
                times += last
    counts = {
        "events": stretch.end - stretch.start,
        "matched": matched,
        "delivered": names - publisher.missed,
        "refused": publisher.refused,
        "times": times,
    }
    yield pa.RecordBatch.from_pylist([counts])


def _rows(
    stretch: Stretch, login: Login, filter: Filter, on_gap: OnGap, publisher: StretchPublisher
) -> Iterator[Rows]:
    while True:
        try:
            yield from read_rows(stretch, login, filter)
            return
        except Gone as gone:
            if on_gap == "fail":
                raise
            if gone.upto <= gone.after:  # the log is lost: the next batch begins with the new one
                return
            stretch = replace(stretch, start=min(gone.upto, stretch.end))
            publisher.pass_over(stretch.start)


class StretchPublisher:
    """Publishes the deliveries of one stretch, those that an earlier try has not."""

    def __init__(self, task: Delivering, login: Login, dead_letters: str) -> None:
        self._task, self._login, self._folder = task, login, dead_letters
        self._client = login.plain(task.session)
        self._number = ROOM * task.judged.stretch.start
        """Of the last delivery."""
        self.missed = 0
        """How many names were not reached."""
        self._fresh: list[Notification] = []
        self._under_way: deque[tuple[Future[int], list[tuple[Notification, TidingsError]]]] = (
            deque()
        )

    @property
    def refused(self) -> int:
        """How many deliveries were not published, and are dead letters."""
        return self._letters.count

    def __enter__(self) -> StretchPublisher:
        client = self._client.open()
        try:
            self._check(client.broker)
            self._advertise()
        except BaseException:
            client.close()
            raise
        self._behind = max(client.kept, self._number)
        self._told = client.refusals  # of what an earlier try has published
        start, known = self._task.judged.stretch.start, self._behind - self._number
        # A try that goes on keeps the letters of those before it.
        name = f"{self._task.session}-{start}{f'-{known}' if known else ''}.jsonl"
        self._letters = DeadLetters(self._folder, name)
        client.leave_out(self._number)
        return self

    def _check(self, broker: str) -> None:
        begun_at, url = self._task.broker, self._login.url
        if broker != begun_at:
            raise TidingsError(
                f"{self._task.judged.stretch} were being delivered at broker {begun_at}; the one "
                f"at {url} is {broker}: what of them was delivered cannot be known. Give the "
                f"address of {begun_at} until this batch is done, or begin anew with another "
                "checkpointLocation, or --lake of a command"
            )

    def _advertise(self) -> None:
        url, timeout = self._login.url, self._login.timeout
        try:
            self._client.advertise(f"EXISTS {FOR}", timeout)
        except TimeoutError:
            raise TidingsError(
                f"the broker at {url} has not answered within {timeout:g} seconds; nothing more is "
                "delivered"
            ) from None

    def __exit__(self, kind: object, *about: object) -> None:
        is_whole = False
        try:
            if kind is None:
                self._settle()
                is_whole = True
        finally:
            for work, _ in self._under_way:  # what is refused of them, the next try is told
                work.cancel()
            try:
                self._letters.close(is_whole=is_whole)
            finally:
                self._client.close()

    def put(self, delivery: Notification) -> None:
        """Publish a delivery, with others; waits if much is under way."""
        self._number += 1
        if self._number > ROOM * self._task.judged.stretch.end:
            raise TidingsError("there are more deliveries of an event than numbers for them")
        if self._number > self._behind:
            self._fresh.append(delivery)
            if len(self._fresh) >= _AT_ONCE:
                self._send()
        elif self._number in self._told:
            self._refuse(delivery, self._told[self._number])

    def pass_over(self, tick: int) -> None:
        """Go on with the numbers of deliveries of events behind this tick."""
        self._settle()
        self._number = ROOM * tick
        self._client.leave_out(self._number)

    def _settle(self) -> None:
        self._send()
        while self._under_way:
            self._wait()

    def _send(self) -> None:
        if not self._fresh:
            return
        while len(self._under_way) >= _UNDER_WAY:
            self._wait()
        fresh, self._fresh = self._fresh, []
        refusals: list[tuple[Notification, TidingsError]] = []

        def refuse(index: int, problem: TidingsError) -> None:
            refusals.append((fresh[index], problem))

        self._under_way.append((self._client.publish_soon(fresh, on_refused=refuse), refusals))

    def _wait(self) -> None:
        """Until the oldest that is under way is on the broker's disk."""
        future, refusals = self._under_way[0]
        kept, moved_at = self._client.kept, monotonic()
        while not wait([future], timeout=_LOOK).done:
            if self._client.kept != kept:
                kept, moved_at = self._client.kept, monotonic()
            elif monotonic() - moved_at > self._login.timeout:
                raise TidingsError(
                    f"the broker at {self._login.url} has kept nothing for "
                    f"{self._login.timeout:g} seconds; deliveries will go on behind number {kept}"
                )
        self._under_way.popleft()
        future.result()
        for delivery, problem in refusals:
            if isinstance(problem, PublishRefusedForNow):
                raise TidingsError(
                    f"{problem}; deliveries will go on behind number {self._client.kept}"
                )
            self._refuse(delivery, str(problem))

    def _refuse(self, delivery: Notification, reason: str) -> None:
        where = {"id": delivery[ID], "names": len(delivery[FOR])}
        self.missed += len(delivery[FOR])
        self._letters.add(where, reason, delivery)
