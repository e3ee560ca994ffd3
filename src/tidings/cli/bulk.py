"""`tidings subscribe --bulk`: subscriptions that `tidings pipeline deliver` serves."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from tidings.cli.complaints import connection_told, counted, remark, remark_if_none
from tidings.cli.progress import ProgressLine, progress
from tidings.cli.stopping import exit_code, interrupt
from tidings.cli.subscribe import Printer, how_to_go_on, line
from tidings.client import CursorTooOld, Event, Login, PlainClient, PlainSubscription
from tidings.delivery.copies import addressee
from tidings.events import Filter, Notification, TidingsError
from tidings.events.values import time_text
from tidings.protocol.cursors import Beginning
from tidings.spark.bulk.registrations import (
    ALL,
    ID,
    TIME,
    Registrations,
    cancellation,
    check_name,
    original,
    registration,
    registrations_of,
)


def subscribe_in_bulk(
    text: str | None,
    name: str,
    login: Login,
    *,
    since: str | None,
    until: str | None,
    count: int | None,
    with_meta: bool,
) -> int:
    """Register a filter, if there is one, and print what is delivered; returns the exit code."""
    check_name(name)
    if text is not None:
        registration(name, text)  # whatever is wrong with it is said before anybody is asked
        remark_if_none(Filter.parse(text))
    if until not in (None, "now"):
        raise TidingsError("deliveries come later than events: with --bulk, there is --until now")
    signal.signal(signal.SIGTERM, interrupt)
    printer, code = _BulkPrinter(sys.stdout.buffer, with_meta=with_meta), 0
    try:
        with (
            login.plain(on_status=connection_told()) as client,
            # First, so that nothing is delivered before somebody listens. An empty cursor: what
            # was delivered before anybody did comes, too.
            _copies(client, name, since or {}) as events,
        ):
            if text is not None:
                client.advertise(ALL)
                client.publish(registration(addressee(client.principal, name), text))
            if sys.stderr.isatty():
                remark(f"listening at {client.broker} to what is delivered; Ctrl-C ends")
            try:
                chosen = events.until_live()
                if text is None:
                    chosen = _or_doubt(chosen, client, name)
                if until is None:
                    chosen = chain(chosen, events)
                printer.print_all(chosen, events, count)
            except KeyboardInterrupt as problem:
                code = exit_code(problem)
                printer.let_go()
    except KeyboardInterrupt as problem:
        code = exit_code(problem)
    except CursorTooOld as problem:
        raise how_to_go_on(problem) from None
    remark(counted(printer.count, "event"))
    return code


def _or_doubt(chosen: Iterator[Event], client: PlainClient, name: str) -> Iterator[Event]:
    """What was delivered; if that is nothing, a remark if the name may be a wrong one."""
    first = next(chosen, None)
    if first is not None:
        yield first
        yield from chosen
    elif (why := _doubt(client, name)) is not None:
        remark(f"listening to {name}, but {why}")


def _doubt(client: PlainClient, name: str) -> str | None:
    """Why nothing is in force under a name, by what brokers keep; None if something is.

    They look through all of that: to be asked only if somebody would else wait for nothing.
    """
    known, full = Registrations(), addressee(client.principal, name)
    with client.subscribe(registrations_of(full), since="begin") as said:
        known.hear(said.until_live())
    if full not in known.entries:
        return "no registration of it is among what brokers keep"
    return "it was cancelled before" if known.entries[full].filter is None else None


def _copies(client: PlainClient, name: str, since: Beginning = None) -> PlainSubscription:
    """What is delivered to a name; it goes on where it was, or at a place."""
    return client.subscribe(Filter.all(), bulk=name, durable=f"bulk-{name}", since=since)


def cancel(name: str, login: Login) -> int:
    """End a bulk subscription; what was delivered so far is not for a later one of this name."""
    check_name(name)
    with login.plain(on_status=connection_told()) as client:
        why = _doubt(client, name)
        client.advertise(ALL)
        # In any case: `deliver` knows also what brokers no longer keep.
        client.publish(cancellation(addressee(client.principal, name)))
        # From now on, since what follows where it was may no longer be kept.
        _copies(client, name, datetime.now(UTC)).forget()
        _copies(client, name).close()  # it begins now, as it is new
    remark(f"{name} is cancelled" if why is None else f"{name} is cancelled, but {why}")
    return 0


def register_many(filters: Path, login: Login, *, is_cancelled: bool) -> int:
    """Register all filters of a file, or cancel them; returns the exit code."""
    from tidings.cli.match import read_filters

    with progress() as shown:
        found = _named(filters, read_filters(filters, None, shown))
    what, told = "cancelled" if is_cancelled else "registered", ProgressLine()
    with login.plain(on_status=connection_told()) as client:
        client.advertise(ALL)
        full = [(addressee(client.principal, name), filter_) for name, filter_ in found]
        kept = client.publish_each(_registrations(full, what, told, is_cancelled=is_cancelled))
    told.clear()
    remark(f"{counted(kept, 'subscription')} {what}")
    return 0


def _named(path: Path, found: list[tuple[str | int, Filter]]) -> list[tuple[str, Filter]]:
    """The filters, if all have names: numbers of lines would replace those of another file."""
    named: list[tuple[str, Filter]] = []
    for key, filter_ in found:
        if isinstance(key, int):
            raise TidingsError(
                f"{path}, line {key}: the filter has no name; to register it, put a name and a tab "
                "before it"
            )
        named.append((check_name(key), filter_))
    return named


def _registrations(
    found: list[tuple[str, Filter]], what: str, told: ProgressLine, *, is_cancelled: bool
) -> Iterator[Notification]:
    for number, (name, filter_) in enumerate(found):
        told.count(number, len(found), what)
        yield cancellation(name) if is_cancelled else registration(name, filter_)


class _BulkPrinter(Printer):
    """Prints the events that were delivered, as they were published."""

    def text(self, event: Event) -> str:
        said = original(event.notification)
        if not self.with_meta:
            return said.to_json()
        # Others may publish what looks like a delivery.
        id, time = (event.notification.attributes.get(name) for name in (ID, TIME))
        meta = {
            "id": id if isinstance(id, str) else event.id,
            "time": time_text(time if isinstance(time, datetime) else event.time),
            "cursor": event.cursor,
        }
        return line(meta, said)
