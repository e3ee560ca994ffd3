from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events import TidingsError
from tidings.protocol.cursors import beginning, cursor_text, read_cursor, read_time

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
STREAMS = st.from_regex(r"[A-Za-z0-9_.-]+(~[2-9])?", fullmatch=True)


@given(st.dictionaries(STREAMS, st.integers(0, 10**18 - 1)))
def test_a_cursor_survives_as_text(cursor: dict[str, int]) -> None:
    assert read_cursor(cursor_text(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["paris", "paris:", ":1", "paris:-1", "paris:1,,", "paris:1;rome:2", "paris:1,paris:2"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(TidingsError, match="cursor"):
        read_cursor(text)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("-10m", timedelta(minutes=10)),
        ("10 minutes ago", timedelta(minutes=10)),
        ("1.5h", timedelta(minutes=90)),
        ("- 2 days", timedelta(days=2)),
        ("250ms", timedelta(milliseconds=250)),
        ("1 second ago", timedelta(seconds=1)),
        ("1w", timedelta(weeks=1)),
    ],
)
def test_times_may_be_relative(text: str, ago: timedelta) -> None:
    assert read_time(text, now=NOON) == NOON - ago


def test_times_are_not_mistaken_for_cursors() -> None:
    assert beginning("2026-11-15T12:00") == NOON.timestamp()
    assert beginning("2026-11-15") == NOON.timestamp() - 12 * 3600
    assert beginning("paris:17") == {"paris": 17}
    assert beginning("10.m:5") == {"10.m": 5}


def test_all_ways_to_say_where_to_begin() -> None:
    assert beginning(None) is None
    assert beginning("begin") == "begin"
    assert beginning("") == {}
    assert beginning(NOON) == NOON.timestamp()
    assert beginning({"paris": 3}) == {"paris": 3}
    hour_ago = beginning(timedelta(hours=1))
    assert isinstance(hour_ago, float)
    assert abs(datetime.now(UTC).timestamp() - 3600 - hour_ago) < 60


@pytest.mark.parametrize(
    "since",
    ["soon", "10 fortnights", "99999999999w", {"a b": 1}, {"a": -1}, NOON.replace(tzinfo=None)],
)
def test_what_says_no_place_is_refused_with_a_sentence(since: object) -> None:
    with pytest.raises(TidingsError, match=r".{20}"):
        beginning(since)  # type: ignore[arg-type]
