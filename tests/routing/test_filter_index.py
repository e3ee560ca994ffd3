"""The index of filters finds what asking every filter finds, however they come and go."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import anything, intervals, quotes
from tidings.events import Filter
from tidings.routing.filter_index import FilterIndex

filters = st.one_of(anything, intervals, quotes)
steps = st.lists(st.tuples(filters, st.integers(0, 2), st.booleans()), max_size=60)


@given(st.sampled_from([2, 24]), st.lists(quotes, max_size=40), steps)
def test_it_agrees_with_the_scan_however_filters_come_and_go(
    large: int, first: list[Filter], steps: list[tuple[Filter, int, bool]]
) -> None:
    with patch("tidings.routing.conjunction_index._LARGE", large):
        held, mine = dict.fromkeys(first), FilterIndex()
        for filter_ in held:
            mine.add(filter_)
        for asked, gone, comes in steps:
            if comes and asked not in held:
                held[asked] = None
                mine.add(asked)
            for filter_ in list(held)[:gone]:
                del held[filter_]
                mine.remove(filter_)
            expected = [other for other in held if other.overlaps(asked)]
            found = mine.overlapping(asked)
            assert len(mine) == len(held)
            assert len(found) == len(expected)
            assert set(found) == set(expected)
            assert mine.is_overlapped(asked) == bool(expected)


def test_filters_that_share_a_conjunction_go_one_by_one() -> None:
    mine = FilterIndex()
    one, other = Filter.parse("s = 'A' OR p = 1"), Filter.parse("s = 'A' OR p = 2")
    mine.add(one)
    mine.add(other)
    mine.remove(one)
    assert mine.overlapping(Filter.parse("s = 'A'")) == [other]
    mine.remove(other)
    assert not mine.is_overlapped(Filter.all())
