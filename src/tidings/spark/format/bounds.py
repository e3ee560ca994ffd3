"""Bounds: where a batch of the streams of brokers begins and ends.

They are found once, when the batch is loaded. All that is asked of it later reads between them,
however often, and whatever is published or let go of meanwhile.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from tidings.client import Login
from tidings.events import TidingsError
from tidings.protocol.epochs import comes_after, is_closed
from tidings.protocol.requests import Cursor, Since
from tidings.spark.format.options import ReadOptions
from tidings.spark.streams.absence import gap
from tidings.spark.streams.places import ends, ticks_before


class Bounds(msgspec.Struct, frozen=True):
    """What a batch reads: of each stream in `end`, the ticks behind `start` up to that."""

    start: Cursor
    end: Cursor

    def text(self) -> str:
        """As an option of Spark's."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> Bounds:
        """What `text` has said."""
        return msgspec.json.decode(text, type=cls)


def find_bounds(options: ReadOptions) -> Bounds:
    """Where the streams are that can be reached now; `TidingsError` if one that is named cannot."""
    last = ends(options.login)
    _check_known("since", options.since, last)
    _check_known("until", options.until, last)
    match options.until:
        case None:
            end = last
        case dict() as cursor:
            end = {s: min(t, cursor.get(s, 0)) for s, t in last.items()}
        case "begin":
            raise TidingsError("option until: begin is where everything starts")
        case moment:
            found = _ticks_before(options.login, moment, last.keys())
            end = {s: min(t, found[s]) for s, t in last.items()}
    start = dict(options.since) if isinstance(options.since, dict) else {}
    for stream in lost(start, last):
        if options.on_gap == "fail":
            raise TidingsError(f"option since: {gap(stream, start[stream], last[stream])}")
        start[stream] = left(stream, last)
    start |= {s: 0 for s in end.keys() - start.keys() if comes_after(s, start)}
    # What is found by time may lie behind `last`, which is older: then there is nothing yet.
    since = options.since if isinstance(options.since, float) else 0.0
    start |= _ticks_before(options.login, since, end.keys() - start.keys())
    return Bounds(start, end)


def lost(begin: Cursor, last: Cursor) -> list[str]:
    """The streams that end before they are to begin."""
    return [stream for stream, tick in begin.items() if last.get(stream, tick) < tick]


def left(stream: str, last: Cursor) -> int:
    """Where to go on in such a stream: at its end if it was closed there. Else what its broker has
    now is another log."""
    return last[stream] if is_closed(stream, last) else 0


def _ticks_before(login: Login, since: float, streams: Set[str]) -> Cursor:
    """What `ticks_before` says; `TidingsError` if one of the streams cannot be reached."""
    found = ticks_before(login, since, streams)
    for stream in sorted(streams - found.keys()):
        raise TidingsError(f"stream {stream} cannot be reached any more; is its broker up?")
    return found


def _check_known(option: str, place: Since, last: Cursor) -> None:
    """Whether there are all streams that a cursor names."""
    named = place.keys() if isinstance(place, dict) else set()
    for stream in sorted(named - last.keys()):
        raise TidingsError(
            f"option {option}: stream {stream} cannot be reached; is its name right, and its "
            f"broker up? There are {', '.join(sorted(last))}"
        )
