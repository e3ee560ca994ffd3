"""Two ends that differ find out, and only what differs is exchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.events import Filter
from tidings.protocol.messages import SUBSCRIPTIONS
from tidings.routing.stabilisation import check, compare, repair, repaired

VIEW = (0, 0)
tables = st.dictionaries(
    st.integers(0, 300).map(lambda n: Filter.parse(f"x = {n}")), st.integers(1, 3), max_size=60
)


@given(tables, tables)
def test_a_repair_makes_any_table_what_was_told(
    told: dict[Filter, int], held: dict[Filter, int]
) -> None:
    answer = compare(check(SUBSCRIPTIONS, VIEW, told), VIEW, held)
    if answer is None:
        assert held == told
    else:
        assert repaired(repair(answer, VIEW, told), held) == told


@given(tables)
def test_nothing_is_said_where_nothing_differs(told: dict[Filter, int]) -> None:
    assert compare(check(SUBSCRIPTIONS, VIEW, told), VIEW, dict(reversed(told.items()))) is None


def test_of_a_large_table_only_a_small_part_is_sent() -> None:
    told = {Filter.parse(f"x = {n}"): 1 for n in range(2_000)}
    held = dict(told)
    held.popitem()
    answer = compare(check(SUBSCRIPTIONS, VIEW, told), VIEW, held)
    assert answer is not None
    assert len(answer.buckets) < 200
    message = repair(answer, VIEW, told)
    assert len(message.which) == 1
    assert len(message.content) < 50
