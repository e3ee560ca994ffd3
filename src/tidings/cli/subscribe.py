"""`tidings subscribe`: what a broker has to tell of a filter, as lines of JSON."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Final, Literal

from tidings.cli.complaints import (
    connection_told,
    counted,
    lacking,
    oddities_told,
    remark,
    remark_if_none,
)
from tidings.cli.stopping import exit_code, interrupt
from tidings.client import CursorTooOld, Event, Login, PlainClient, PlainSubscription
from tidings.events import Filter, Notification, TidingsError
from tidings.events.encoding import encode_json
from tidings.events.values import time_text
from tidings.protocol.cursors import beginning, read_time

if TYPE_CHECKING:
    from tidings.lakes.history import History

_MOST_UNWRITTEN: Final = 1_000
_GRACE: Final = 1.0
"""Seconds that an event which was published just before a time may take to come."""


def subscribe(
    text: str,
    login: Login,
    *,
    durable: str | None,
    since: str | None,
    until: str | None,
    count: int | None,
    with_meta: bool,
    replace: bool = False,
    here: bool = False,
    lake: str | None = None,
) -> int:
    """Print events until there are enough, or somebody interrupts; returns the exit code."""
    wanted = Filter.parse(text)
    beginning(since)
    end = None if until is None else _end(until)
    if durable is not None and isinstance(end, datetime):
        raise TidingsError(
            "a durable subscription acknowledges all that it is told, so it cannot leave out what "
            "came after a time; it can end when it has caught up: --until now"
        )
    remark_if_none(wanted)
    signal.signal(signal.SIGTERM, interrupt)
    printer, code = Printer(sys.stdout.buffer, with_meta=with_meta), 0
    try:
        with (
            oddities_told(),
            login.plain(on_status=connection_told()) as client,
            _events(
                client,
                wanted,
                durable=durable,
                since=since,
                replace=replace,
                home="here" if here else None,
                end=end,
                lake=lake,
            ) as events,
        ):
            if replace:
                remark(f"{durable} hears this filter from now on, behind {events.cursor}")
            if sys.stderr.isatty():
                remark(f"listening at {client.broker}; Ctrl-C ends")
            try:
                printer.print_all(_until(events, end), events, count)
            except KeyboardInterrupt as problem:
                code = exit_code(problem)
                printer.let_go()
            missed, gone, doubted = events.missed, events.lost, events.doubted
    except KeyboardInterrupt as problem:
        code, missed, gone, doubted = exit_code(problem), 0, 0, 0
    except CursorTooOld as problem:
        raise how_to_go_on(problem) from None
    said = counted(printer.count, "event")
    said += f", {missed:,} missed since the reader was too slow" if missed else ""
    remark(said + (f", up to {gone:,} lost that no broker keeps any more" if gone else ""))
    if doubted:
        remark("a broker's memory was damaged meanwhile: some may be missing, or come twice")
    return code


def forget(durable: str, login: Login) -> None:
    """Let a broker forget a durable subscription; `TidingsError` if it knows none of this name."""
    with login.plain(on_status=connection_told()) as client:
        if not client.forget(durable):
            raise TidingsError(f"{client.broker} knows no durable subscription {durable!r}")
    remark(f"{durable} is forgotten")


def _events(
    client: PlainClient,
    wanted: Filter,
    *,
    durable: str | None,
    since: str | None,
    replace: bool,
    home: Literal["here"] | None,
    end: datetime | Literal["now"] | None,
    lake: str | None,
) -> PlainSubscription | History:
    """From brokers; and from a lake what they no longer keep, if there is one."""
    folder = client.lake if lake is None else lake
    if not folder or (since is None and durable is None):
        return client.subscribe(wanted, durable=durable, since=since, replace=replace, home=home)
    try:
        from tidings.lakes.committed import existing
        from tidings.lakes.history import History, served

        opened = existing(folder)
        served(opened, wanted)
    except (TidingsError, ModuleNotFoundError) as problem:
        if lake is not None and since is not None:
            raise
        if lake is not None or since is not None:
            why = lacking(problem) if isinstance(problem, ModuleNotFoundError) else problem
            remark(f"only what brokers still keep: {why}")
        return client.subscribe(wanted, durable=durable, since=since, replace=replace, home=home)
    until = end if isinstance(end, datetime) else None
    events = History(
        client,
        opened,
        wanted,
        since=since,
        until=until,
        durable=durable,
        replace=replace,
        home=home,
    )
    for gap in events.gaps():
        remark(
            f"the lake lacks ticks {gap.after + 1} to {gap.upto} of {gap.stream}: nobody kept "
            "them for long enough"
        )
    return events


def how_to_go_on(problem: CursorTooOld) -> TidingsError:
    """What is gone, and what to type."""
    return TidingsError(f"{problem}\nTo go on with what is still kept: --since {problem.cursor}")


def _end(until: str) -> datetime | Literal["now"]:
    if until.strip() == "now":
        return "now"
    when = read_time(until, now=datetime.now(UTC))
    if when is None:
        raise TidingsError(
            f"{until!r} is no time to end at: give now, a time (2026-11-15T12:00Z) "
            "or how long ago (-10m)"
        )
    return when


def _until(
    events: PlainSubscription | History, end: datetime | Literal["now"] | None
) -> Iterator[Event]:
    """The events up to a time, as far as they are known when it has come."""
    if end is None:
        yield from events
        return
    if end == "now":
        yield from events.until_live()
        return
    for event in events.until_live():
        if event.time <= end:
            yield event
    while (left := (end - datetime.now(UTC)).total_seconds() + _GRACE) > 0 or events.waiting:
        try:
            event = events.get(timeout=max(left, 0))
        except TimeoutError:
            return
        if event.time <= end:
            yield event


class Printer:
    """Writes events, and acknowledges what is written."""

    def __init__(self, out: IO[bytes], *, with_meta: bool) -> None:
        self.count = 0
        self._out = out
        self.with_meta = with_meta
        self._unwritten: list[str] = []
        self._last: Event | None = None

    def print_all(
        self, chosen: Iterator[Event], events: PlainSubscription | History, most: int | None
    ) -> None:
        """Print events as they come: what is there is out before more is waited for."""
        for event in chosen:
            self._unwritten.append(self.text(event))
            self._last = event
            is_last = self.count + len(self._unwritten) == most
            if is_last or not events.waiting or len(self._unwritten) >= _MOST_UNWRITTEN:
                self.let_go()
            if is_last:
                return
        self.let_go()

    def text(self, event: Event) -> str:
        """What to print of an event."""
        if not self.with_meta:
            return event.notification.to_json()
        meta = {"id": event.id, "time": time_text(event.time), "cursor": event.cursor}
        return line(meta, event.notification)

    def let_go(self) -> None:
        """Write what was not written yet, and only then acknowledge it."""
        if self._last is None:
            return
        text = "\n".join(self._unwritten) + "\n"
        last, self._last = self._last, None
        self.count += len(self._unwritten)
        self._unwritten.clear()
        try:
            self._out.write(text.encode())
            self._out.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise TidingsError(f"cannot write: {problem.strerror}") from None
        last.ack_soon()


def line(meta: dict[str, str], said: Notification) -> str:
    """What is known of an event, and the event itself."""
    return f'{encode_json(meta)[:-1]},"event":{said.to_json()}}}'
