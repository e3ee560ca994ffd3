from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tidings.cli.pictures import CLOSED, INSIDE, OMITTED, OPEN, OUTSIDE, label, picture
from tidings.events import Filter
from tidings.events.intervals import NUMBERS, STRINGS, TIMES, Intervals
from tidings.events.strings import Strings


def intervals(text: str) -> Intervals:
    """The intervals of a filter on one attribute."""
    (constraint,) = Filter.parse(text).conjunctions[0].constraints.values()
    (part,) = constraint.parts.values()
    found = part.intervals if isinstance(part, Strings) else part
    assert isinstance(found, Intervals)
    return found


def drawn(*texts: str, width: int = 60) -> str:
    """A picture, with runs of the same stroke as one."""
    lines = picture(*map(intervals, texts), width=width)
    shapes = []
    for line in lines[: len(texts)]:
        shape = ""
        for char in line:
            shape += "" if shape.endswith(char) else char
        shapes.append(shape)
    return " / ".join(shapes) + " | " + " ".join(lines[-1].split())


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ("x = 7", "─●─ | 7"),
        ("x != 7", "━○━ | 7"),
        ("x < 7", "━○─ | 7"),
        ("x <= 7", "━●─ | 7"),
        ("x > 7", "─○━ | 7"),
        ("x >= 7", "─●━ | 7"),
        ("x BETWEEN 1 AND 2", "─●━●─ | 1 2"),
        ("x NOT BETWEEN 1 AND 2", "━○─○━ | 1 2"),
        ("x < 4 OR x = 7", "━○─●─ | 4 7"),
        ("x > 0 AND x != 1", "─○━○━ | 0 1"),
        ("x = 'DIS'", "─●─ | 'DIS'"),
        ("x != 'DIS'", "━○━ | 'DIS'"),
        ("x <= 'a'", "━●─ | 'a'"),
        ("x > 'a'", "─○━ | 'a'"),
        ("x = ''", "─●─ | ''"),
        ("x != ''", "─○━ | ''"),
        ("x LIKE 'ab%'", "─●━○─ | 'ab' 'ac'"),
        ("x UNDER 'a'", "─●─●━○─ | 'a' 'a.' 'a/'"),
        ("x > TIMESTAMP '2026-01-01'", "─○━ | 2026-01-01"),
        ("x = TIMESTAMP '2026-01-01T12:00:00.000001Z'", "─●─ | 2026-01-01T12:00:00.0…"),
        ("x >= X'ff'", "─●━ | X'ff'"),
    ],
)
def test_a_filter_is_drawn(filter_text: str, expected: str) -> None:
    assert drawn(filter_text) == expected


def test_two_filters_share_one_line() -> None:
    assert drawn("x > 1", "x BETWEEN 2 AND 3") == "─○━ / ─●━●─ | 1 2 3"


def test_everything_and_nothing_have_no_labels() -> None:
    full, empty = Intervals.everything(NUMBERS), Intervals.nothing(NUMBERS)
    assert [set(line) for line in picture(full, empty)] == [{INSIDE}, {OUTSIDE}]


def test_many_values_are_counted_where_they_do_not_fit() -> None:
    line, labels = picture(Intervals.points(NUMBERS, range(10_000)))
    assert OMITTED in line
    assert " more " in labels
    assert labels.split()[-1] == "9999"
    assert line.count(CLOSED) + int(labels.split()[-3].replace(",", "")) == 10_000


def test_what_lies_around_omitted_values_is_drawn_as_it_is() -> None:
    line, _ = picture(Intervals.points(NUMBERS, range(10_000)).inverse())
    assert OUTSIDE not in line


def test_long_and_unprintable_labels_are_cut_and_cleaned() -> None:
    assert len(label("x" * 1_000_000)) <= 22
    assert label("a\x1b[31m\n") == "'a·[31m·'"


def test_wide_characters_keep_labels_below_their_marks() -> None:
    line, labels = picture(Intervals.points(STRINGS, ["東京", "京都"]))
    for mark in ("'東京'", "'京都'"):
        start = cell_len(labels[: labels.index(mark)])
        assert any(line[at] == CLOSED for at in range(start, start + cell_len(mark)))


NUMBER_SETS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=8
).map(
    lambda spans: _union(
        Intervals.between(NUMBERS, low, high) if closed else _open(low, high)
        for low, high, closed in spans
    )
)
START = datetime(2026, 1, 1, tzinfo=UTC)
TIME_SETS = st.lists(st.integers(0, 5), max_size=4).map(
    lambda ticks: Intervals.points(TIMES, [START + timedelta(microseconds=t) for t in ticks])
)
STRING_SETS = st.lists(
    st.text(st.sampled_from(string.ascii_lowercase[:3] + "\0"), max_size=3), max_size=6
).map(lambda texts: Intervals.points(STRINGS, texts))


def _open(low: int, high: int) -> Intervals:
    return Intervals.above(NUMBERS, low).intersect(Intervals.below(NUMBERS, high))


def _union(parts: object) -> Intervals:
    whole = Intervals.nothing(NUMBERS)
    for part in parts:  # type: ignore[attr-defined]
        whole = whole.union(part)
    return whole


@given(st.one_of(*(st.tuples(s, s) for s in (NUMBER_SETS, TIME_SETS, STRING_SETS))), st.booleans())
def test_pictures_are_rectangles_that_fit(rows: tuple[Intervals, ...], flipped: bool) -> None:
    if flipped:
        rows = tuple(row.inverse() for row in rows)
    *lines, labels = [*picture(*rows, width=80), ""][: len(rows) + 1]
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= 80
    assert cell_len(labels) <= len(lines[0]) + 1
    assert set("".join(lines)) <= {INSIDE, OUTSIDE, OPEN, CLOSED, OMITTED}


@given(NUMBER_SETS)
def test_every_labelled_number_is_marked_as_the_set_says(row: Intervals) -> None:
    lines = picture(row, width=1_000)
    if len(lines) < 2:
        return
    line, labels = lines
    at = 0
    for text in labels.split():
        start = labels.index(text, at)
        at = start + len(text)
        mark = line[start + (len(text) - 1) // 2]
        assert mark == (CLOSED if row.matches(int(text)) else OPEN)
        after = line[start + (len(text) - 1) // 2 + 1]
        assert after == (INSIDE if row.matches(int(text) + 0.5) else OUTSIDE)
