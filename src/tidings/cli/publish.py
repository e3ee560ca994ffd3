"""`tidings publish`: events from the command line or from stdin, to a broker's disk."""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from tidings.cli.complaints import complain, connection_told, counted, remark, shortened
from tidings.cli.match import arrivals
from tidings.cli.progress import progress
from tidings.cli.stopping import exit_code
from tidings.client import ClientClosed, Login, PlainClient
from tidings.events import Filter, Notification, TidingsError
from tidings.events.notification import BYTES

PUBLISHED: Final = 0
SOME_REFUSED: Final = 1
_COMPLAINTS: Final = 10
_LONGEST_COMPLAINT: Final = 300


def publish(
    event: str | None,
    login: Login,
    *,
    name: str | None,
    advertise: str | None,
    rate: float | None,
    strict: bool,
    resume: bool,
    content: Path | None,
    content_type: str | None,
) -> int:
    """Publish one event, or all that stdin has; returns the exit code."""
    if resume and (name is None or event is not None or content is not None):
        raise TidingsError(
            "--resume goes on with stdin behind what was published under a name: give the --name"
        )
    offered = None if advertise is None else Filter.parse(advertise)
    single = _single(event, content, content_type)
    with login.plain(name, connection_told()) as client:
        if offered is not None:
            client.advertise(offered)
        if single is not None:
            client.publish(single)
            return PUBLISHED
        return _publish_stdin(client, rate, strict=strict, skip=client.kept if resume else 0)


def _single(
    event: str | None, content: Path | None, content_type: str | None
) -> Notification | None:
    """The one event that is to be published, if it is not stdin that has them."""
    said = None if event is None else Notification.from_json(event)
    if content is None:
        if content_type is not None:
            raise TidingsError("--content-type says what the bytes of a --content FILE are")
        return said
    try:
        found = content.read_bytes()
    except OSError as problem:
        raise TidingsError(f"cannot read {content}: {problem.strerror}") from None
    if said is not None and said.bytes_type is not None:
        raise TidingsError(
            "the event has bytes of its own under $body: leave out these or --content"
        )
    attributes = None if said is None else said.value
    return Notification.of_bytes(found, content_type or BYTES, attributes)


def _publish_stdin(client: PlainClient, rate: float | None, *, strict: bool, skip: int) -> int:
    if sys.stdin is None:
        raise TidingsError("standard input is closed: there is nothing to publish")
    if sys.stdin.isatty():
        remark("reading events from the terminal, one JSON object on each line; Ctrl-D ends")
    with progress() as shown:
        lines = EventLines(strict=strict, count=shown.counter("events", None), skip=skip)
        began = time.monotonic()
        events = lines.read(sys.stdin.buffer)
        try:
            kept = client.publish_each(
                events if rate is None else paced(events, rate), on_refused=lines.refused
            )
            code = SOME_REFUSED if lines.bad else PUBLISHED
        except KeyboardInterrupt as problem:
            client.flush()
            kept, code = lines.sent - lines.turned_down, exit_code(problem)
        seconds = time.monotonic() - began
    lines.report()
    pace = f" in {seconds:.1f} s, {kept / seconds:,.0f} a second" if seconds > 1 else ""
    before = f", after {lines.skipped:,} that were published before" if lines.skipped else ""
    remark(f"{counted(kept, 'event')} published{pace}{before}")
    return code


def paced(events: Iterator[Notification], rate: float) -> Iterator[Notification]:
    """The events, at most `rate` in a second; what came late is not made up for."""
    due = time.monotonic()
    for event in events:
        now = time.monotonic()
        if due > now:
            time.sleep(due - now)
        yield event
        due = max(due, now - 1.0) + 1 / rate


class EventLines:
    """Reads events from lines, and complains of those that are none or are refused."""

    def __init__(self, *, strict: bool, count: Callable[[int], None], skip: int = 0) -> None:
        self.skipped = 0
        self._skip = skip
        self.sent = self.bad = self.turned_down = 0
        self._strict = strict
        self._count = count
        # Where an event's number and its line's drift apart: at lines that are no events.
        self._firsts: list[int] = []
        self._numbers: list[int] = []

    def read(self, stream: IO[bytes]) -> Iterator[Notification]:
        """The events, each as soon as its line is there."""
        number = 0
        for batch in arrivals(stream):
            for line in batch:
                number += 1
                if not line or line.isspace():
                    continue
                try:
                    event = Notification.from_json(line)
                except TidingsError as problem:
                    self._complain(number, str(problem))
                    if self._strict:
                        return
                    continue
                if self.skipped < self._skip:
                    self.skipped += 1
                    continue
                if not self._numbers or number - self._numbers[-1] != self.sent - self._firsts[-1]:
                    self._firsts.append(self.sent)
                    self._numbers.append(number)
                yield event
                self.sent += 1  # whoever wants the next one has sent this one
                if self._strict and self.bad:
                    return
            self._count(sum(map(len, batch)) + len(batch))

    def refused(self, index: int, problem: TidingsError) -> None:
        """The broker does not take an event."""
        if isinstance(problem, ClientClosed):
            return
        place = bisect_right(self._firsts, index) - 1
        self.turned_down += 1
        self._complain(self._numbers[place] + index - self._firsts[place], str(problem))

    def _complain(self, number: int, what: str) -> None:
        self.bad += 1
        if self.bad <= _COMPLAINTS:
            complain(f"line {number}: {shortened(what, _LONGEST_COMPLAINT)}")

    def report(self) -> None:
        """How many more there were to complain of."""
        if self.bad > _COMPLAINTS:
            complain(f"nor could {counted(self.bad - _COMPLAINTS, 'more line')} be published")
