"""Cursors: how far in each stream, as text too; and the ways to say where to begin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from tidings.events import TidingsError
from tidings.events.values import parse_time
from tidings.protocol.requests import Cursor, Since

Beginning: TypeAlias = str | datetime | timedelta | Mapping[str, int] | None
"""Where to begin: `"begin"`, a cursor (`"paris:17,london:40"`), a time, how long ago, or now."""

_PLACE: Final = re.compile(r"([A-Za-z0-9_.~-]+):([0-9]{1,18})")
_AGO: Final = re.compile(
    r"-?\s*([0-9]+(?:\.[0-9]+)?)\s*"
    r"(?:(ms)|(s|sec|seconds?)|(m|min|minutes?)|(h|hours?)|(d|days?)|(w|weeks?))(?:\s+ago)?"
)
_UNITS: Final = (
    timedelta(milliseconds=1),
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(weeks=1),
)


def cursor_text(cursor: Mapping[str, int]) -> str:
    """A cursor as text, which is the same for equal cursors.

    >>> cursor_text({"paris": 17, "london": 40})
    'london:40,paris:17'
    """
    return ",".join(f"{stream}:{cursor[stream]}" for stream in sorted(cursor))


def read_cursor(text: str) -> Cursor:
    """The cursor that a text says; `TidingsError` if it is none.

    >>> read_cursor("london:40,paris:17")
    {'london': 40, 'paris': 17}
    """
    found: Cursor = {}
    for place in text.split(",") if text else ():
        parts = _PLACE.fullmatch(place.strip())
        if parts is None:
            raise TidingsError(
                f"{place!r} is no place in a stream; a cursor looks like paris:17,london:40"
            )
        if parts[1] in found:
            raise TidingsError(f"the cursor names the stream {parts[1]!r} twice")
        found[parts[1]] = int(parts[2])
    return found


def is_behind(cursor: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether a cursor is nowhere ahead of another one.

    >>> is_behind({"paris": 3}, {"paris": 3, "rome": 1}), is_behind({"rome": 2}, {"paris": 9})
    (True, False)
    """
    return all(tick <= other.get(stream, 0) for stream, tick in cursor.items())


def merged(*cursors: Mapping[str, int]) -> Cursor:
    """The furthest of each stream, by name.

    >>> merged({"paris": 17}, {"paris": 12, "london": 3})
    {'london': 3, 'paris': 17}
    """
    streams = sorted({s for c in cursors for s in c})
    return {s: max(c[s] for c in cursors if s in c) for s in streams}


def read_time(text: str, *, now: datetime) -> datetime | None:
    """The time that a text says, absolute or before `now`; None if it says none.

    >>> noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    >>> print(read_time("-10m", now=noon))
    2026-11-15 11:50:00+00:00
    >>> print(read_time("2 hours ago", now=noon))
    2026-11-15 10:00:00+00:00
    >>> print(read_time("2026-11-15T11:30+01:00", now=noon))
    2026-11-15 10:30:00+00:00
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is None:
            return parse_time(text)
        assert ago.lastindex is not None
        return now - float(ago[1]) * _UNITS[ago.lastindex - 2]
    except ValueError:
        return None
    except OverflowError:
        raise TidingsError(f"{text!r} lies before all time") from None


def beginning(since: Beginning) -> Since:
    """What a program says of where to begin, in the words of the protocol."""
    if since is None:
        return None
    if since == "begin":
        return "begin"
    if isinstance(since, timedelta):
        since = datetime.now(UTC) - abs(since)
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise TidingsError(f"{since} has no time zone; use datetime.now(UTC), for example")
        return max(since.timestamp(), 1e-6)
    if isinstance(since, Mapping):
        return read_cursor(cursor_text(since))
    when = read_time(since, now=datetime.now(UTC))
    if when is not None:  # before cursors: 12:30 is a time, not tick 30 of a stream
        return max(when.timestamp(), 1e-6)
    if _PLACE.match(since.strip()) is None and since:
        raise TidingsError(
            f"{since!r} says no place: give begin, a time (2026-11-15T12:00Z), "
            "how long ago (-10m) or a cursor (paris:17,london:40)"
        )
    return read_cursor(since)
