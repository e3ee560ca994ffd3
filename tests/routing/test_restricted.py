"""A reduction restricted to advertisements."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import anything, quotes, some_examples
from tests.routing.test_contract import Step, Told, run, steps
from tidings.events import Filter, TidingsError
from tidings.routing import Restricted, reduce, reduction

ad_steps = st.lists(
    st.tuples(st.sampled_from(["admit", "admit", "revoke", "no", "no"]), st.integers(0, 99)),
    min_size=8,
    max_size=8,
)


@pytest.mark.parametrize("strategy", ["flooding", "simple", "identity", "covering", "merging"])
@some_examples
@given(
    st.lists(st.one_of(anything, quotes), min_size=1, max_size=12),
    steps,
    st.lists(anything, max_size=3),
    ad_steps,
)
def test_its_output_is_what_overlaps_an_advertisement(
    strategy: str, pool: list[Filter], steps: list[Step], ads: list[Filter], ad_steps: list[Step]
) -> None:
    wanted: Counter[Filter] = Counter()
    mine, told = Restricted(reduction(strategy), to=ads), Told()
    advertised = list(ads)
    waiting = list(ad_steps)

    def add(filter_: Filter) -> None:
        wanted[filter_] += 1
        mine.add(filter_)

    def remove(filter_: Filter) -> None:
        wanted[filter_] -= 1
        mine.remove(filter_)

    def look() -> None:
        word, number = waiting.pop() if waiting else ("no", 0)
        if word == "admit":
            advertised.append((pool + ads)[number % len(pool + ads)])
            mine.admit(advertised[-1])
        elif word == "revoke" and advertised:
            mine.revoke(advertised.pop(number % len(advertised)))
        expected = {
            f: n
            for f, n in reduce(strategy, +wanted).items()
            if any(f.overlaps(ad) for ad in advertised)
        }
        told.hear(mine.drain())
        assert told.table == expected
        assert mine.output == expected

    run(pool, steps, look, add, remove)


def test_without_restriction_it_is_the_reduction_itself() -> None:
    mine = Restricted(reduction("identity"), to=None)
    (one,) = [Filter.parse("x = 1")]
    mine.add(one)
    assert mine.output == {one: 1}
    assert mine.drain().added == {one: 1}
    with pytest.raises(TidingsError):
        mine.admit(Filter.all())
    with pytest.raises(TidingsError):
        mine.revoke(Filter.all())


def test_nothing_is_told_to_a_neighbour_that_advertises_nothing() -> None:
    mine = Restricted(reduction("flooding"), to=[])
    assert not mine.drain()
    mine.admit(Filter.parse("x = 1"))
    assert mine.drain().added == {Filter.all(): 1}


def test_an_advertisement_counts_until_its_last_copy_is_revoked() -> None:
    ad, filter_ = Filter.parse("x < 5"), Filter.parse("x = 1 AND y = 1")
    mine = Restricted(reduction("covering"), to=[ad, ad])
    mine.add(filter_)
    mine.drain()
    mine.revoke(ad)
    assert not mine.drain()
    mine.revoke(ad)
    assert mine.drain().removed == {filter_: 1}
    with pytest.raises(KeyError):
        mine.revoke(ad)


def test_a_filter_stays_while_another_advertisement_overlaps_it() -> None:
    mine = Restricted(reduction("covering"), to=[])
    mine.add(Filter.parse("s = 'A' AND p < 5"))
    mine.admit(Filter.parse("s = 'A'"))
    mine.admit(Filter.parse("p = 3"))
    assert mine.drain().added
    mine.revoke(Filter.parse("s = 'A'"))
    assert not mine.drain()
    mine.revoke(Filter.parse("p = 3"))
    assert mine.drain().removed


def test_an_advertisement_of_another_value_is_no_reason_to_tell() -> None:
    mine = Restricted(reduction("identity"), to=[Filter.parse("s = 'B' AND p = 1 OR p = 2")])
    mine.add(Filter.parse("s = 'A' AND p = 1"))
    assert not mine.drain()
    mine.add(Filter.parse("s = 'A' AND p <= 2"))
    assert mine.drain()


def test_copies_are_told_as_copies() -> None:
    one = Filter.parse("x = 1")
    mine = Restricted(reduction("simple"), to=[one])
    mine.add(one)
    mine.drain()
    mine.add(one)
    assert mine.drain().added == {one: 1}
    mine.remove(one)
    mine.remove(one)
    assert mine.drain().removed == {one: 2}


def test_filters_that_share_a_conjunction_are_all_found_by_it() -> None:
    shared = [Filter.parse(f"s = 'A' OR p = {n}") for n in range(3)]
    mine = Restricted(reduction("identity"), to=[])
    for filter_ in shared:
        mine.add(filter_)
    mine.drain()
    mine.remove(shared[1])
    mine.admit(Filter.parse("s = 'A'"))
    assert mine.drain().added == {shared[0]: 1, shared[2]: 1}
    mine.revoke(Filter.parse("s = 'A'"))
    assert mine.drain().removed == {shared[0]: 1, shared[2]: 1}
