"""Each strategy by examples, the hard cases of the thesis among them."""

from __future__ import annotations

import pytest

from tidings.events import Filter, TidingsError
from tidings.routing import STRATEGIES, Change, reduce, reduction


def parsed(*texts: str) -> list[Filter]:
    return [Filter.parse(text) for text in texts]


def told(strategy: str, *texts: str) -> list[str]:
    """The output as texts, from the incremental version and the plain one alike."""
    mine = reduction(strategy)
    for filter_ in parsed(*texts):
        mine.add(filter_)
    assert mine.output == reduce(strategy, dict.fromkeys(parsed(*texts), 1))
    return sorted(map(str, mine.output))


def said(change: Change) -> tuple[list[str], list[str]]:
    return sorted(map(str, change.added)), sorted(map(str, change.removed))


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Covering",
        "covering:",
        "covering:2",
        "imperfect",
        "imperfect:",
        "imperfect:F",
        "imperfect:0.9",
        "imperfect:nan",
        "imperfect:inf",
        "learnt",
        "learnt:",
        "learnt:S",
        "learnt:-0.1",
        "learnt:1.1",
        "learnt:nan",
        "bounded",
        "bounded:1",
        "bounded:-2",
        "bounded:2.5",
        "bounded: 3",
        "bounded:٣",
        "bounded:N",
    ],
)
def test_what_is_no_strategy_is_refused_with_what_would_be_one(name: str) -> None:
    for refuse in (lambda: reduction(name), lambda: reduce(name, {})):
        with pytest.raises(TidingsError) as refusal:
            refuse()
        assert "covering, merging" in str(refusal.value) or "such as" in str(refusal.value)


def test_all_named_strategies_exist() -> None:
    for name in STRATEGIES:
        reduction(name.replace("F", "1.5").replace("S", "0.1").replace("N", "10"))


# -- flooding, simple, identity ----------------------------------------------------------------


def test_flooding_asks_for_everything_even_if_nobody_wants_anything() -> None:
    mine = reduction("flooding")
    assert mine.drain() == Change({Filter.all(): 1}, {})
    mine.add(Filter.parse("x = 1"))
    assert not mine.drain()
    assert mine.output == {Filter.all(): 1}


def test_simple_counts() -> None:
    (one,) = parsed("x = 1")
    mine = reduction("simple")
    mine.add(one)
    mine.add(one)
    assert mine.drain() == Change({one: 2}, {})
    mine.remove(one)
    assert mine.drain() == Change({}, {one: 1})
    assert mine.output == {one: 1}


def test_identity_tells_the_first_and_the_last_of_equal_filters() -> None:
    """Equal by meaning, not by spelling: so the right one is removed."""
    one, same = parsed("x > 1 AND y = 2", "y IN (2) AND NOT x <= 1 AND x IS NUMBER")
    assert one == same
    mine = reduction("identity")
    mine.add(one)
    mine.add(same)
    assert mine.drain() == Change({one: 1}, {})
    mine.remove(one)
    assert not mine.drain()
    mine.remove(one)
    assert mine.drain() == Change({}, {one: 1})


def test_filter_none_is_nothing_to_tell_where_conjunctions_are() -> None:
    for strategy in ("covering", "merging", "imperfect:2", "bounded:2"):
        assert told(strategy, "FALSE") == []
    assert told("identity", "FALSE") == ["FALSE"]


# -- covering ----------------------------------------------------------------------------------


def test_a_covered_filter_is_not_told() -> None:
    assert told("covering", "x < 5", "x < 10", "x < 7") == ["x < 10"]


def test_a_covering_filter_replaces_what_it_covers_at_once() -> None:
    mine = reduction("covering")
    for filter_ in parsed("x < 5", "x = 2 AND y = 1", "y = 1"):
        mine.add(filter_)
    mine.drain()
    mine.add(Filter.parse("x < 10"))
    assert said(mine.drain()) == (["x < 10"], ["x < 5"])


def test_uncovering_tells_the_largest_of_what_was_covered_in_the_same_change() -> None:
    mine = reduction("covering")
    for filter_ in parsed("x < 10", "x < 5", "x < 3", "x < 7 AND y = 1", "x < 2 AND y = 1"):
        mine.add(filter_)
    mine.drain()
    mine.remove(Filter.parse("x < 10"))
    assert said(mine.drain()) == (["x < 5", "x < 7 AND y = 1"], ["x < 10"])


def test_what_another_filter_covers_is_not_uncovered() -> None:
    mine = reduction("covering")
    for filter_ in parsed("x < 10", "y = 1", "x < 5 AND y = 1", "x < 7"):
        mine.add(filter_)
    mine.drain()
    mine.remove(Filter.parse("x < 10"))
    assert said(mine.drain()) == (["x < 7"], ["x < 10"])


def test_removing_one_of_two_identical_maximal_filters_is_silent() -> None:
    mine = reduction("covering")
    for filter_ in parsed("x < 10", "x < 10", "x < 5"):
        mine.add(filter_)
    mine.drain()
    mine.remove(Filter.parse("x < 10"))
    assert not mine.drain()


def test_removing_what_is_covered_is_silent_and_so_is_what_hung_below_it() -> None:
    mine = reduction("covering")
    for filter_ in parsed("x < 3", "x < 5", "x < 10"):  # each one evicts the one before
        mine.add(filter_)
        mine.drain()
    mine.remove(Filter.parse("x < 5"))
    assert not mine.drain()
    mine.remove(Filter.parse("x < 10"))
    assert said(mine.drain()) == (["x < 3"], ["x < 10"])


def test_the_members_of_a_disjunction_are_handled_one_by_one() -> None:
    assert told("covering", "x < 5 OR y = 1", "x < 10", "z = 1 OR y = 1") == [
        "x < 10",
        "y = 1",
        "z = 1",
    ]


def test_a_conjunction_of_two_filters_stays_until_both_are_gone() -> None:
    one, other = parsed("x < 5 OR y = 1", "z = 1 OR y = 1")
    mine = reduction("covering")
    mine.add(one)
    mine.add(other)
    mine.remove(one)
    assert sorted(map(str, mine.output)) == ["y = 1", "z = 1"]


def test_everything_covers_all_and_gives_it_back() -> None:
    mine = reduction("covering")
    for filter_ in parsed("x < 5", "y = 1", "NOT EXISTS z"):
        mine.add(filter_)
    mine.drain()
    mine.add(Filter.all())
    assert said(mine.drain()) == (["TRUE"], ["NOT EXISTS z", "x < 5", "y = 1"])
    mine.remove(Filter.all())
    assert said(mine.drain()) == (["NOT EXISTS z", "x < 5", "y = 1"], ["TRUE"])


def test_the_cover_and_what_hangs_below_may_go_in_one_change() -> None:
    filters = parsed("x < 10", "x < 5", "x < 3")
    mine = reduction("covering")
    for filter_ in filters:
        mine.add(filter_)
    mine.drain()
    for filter_ in filters[:2]:
        mine.remove(filter_)
    assert said(mine.drain()) == (["x < 3"], ["x < 10"])


# -- merging -----------------------------------------------------------------------------------


def test_filters_that_differ_in_one_attribute_become_one() -> None:
    assert told(
        "merging", "s = 'A' AND p < 5", "s = 'A' AND p >= 5", "s = 'B' AND p IS NUMBER"
    ) == ["p IS NUMBER AND s IN ('A', 'B')"]


def test_a_merger_is_cancelled_when_a_part_of_it_goes() -> None:
    mine = reduction("merging")
    for filter_ in parsed("x < 5", "x = 7", "x = 9"):
        mine.add(filter_)
    assert said(mine.drain()) == (["x < 5 OR x IN (7, 9)"], [])
    mine.remove(Filter.parse("x = 7"))
    assert said(mine.drain()) == (["x < 5 OR x = 9"], ["x < 5 OR x IN (7, 9)"])


def test_a_merger_that_a_new_filter_covers_is_dropped() -> None:
    mine = reduction("merging")
    for filter_ in parsed("x = 1 AND y = 1", "x = 2 AND y = 1"):
        mine.add(filter_)
    mine.drain()
    mine.add(Filter.parse("y = 1"))
    assert said(mine.drain()) == (["y = 1"], ["x IN (1, 2) AND y = 1"])


def test_a_merger_may_be_a_filter_that_is_wanted_anyway_and_either_go() -> None:
    halves = parsed("EXISTS x AND y = 1", "NOT EXISTS x AND y = 1")
    (whole,) = parsed("y = 1")
    for first, second in (([whole], halves), (halves, [whole])):
        mine = reduction("merging")
        for filter_ in [*halves, whole]:
            mine.add(filter_)
        mine.drain()
        for filter_ in first:
            mine.remove(filter_)
        assert not mine.drain()
        for filter_ in second:
            mine.remove(filter_)
        assert said(mine.drain()) == ([], ["y = 1"])


def test_two_groups_may_become_the_same_and_one_of_them_change() -> None:
    """Both join to `z = 1` on the way, at the level of another attribute each."""
    groups = parsed("EXISTS x AND z = 1", "NOT EXISTS x AND z = 1") + parsed(
        "EXISTS y AND z = 1", "NOT EXISTS y AND z = 1"
    )
    mine = reduction("merging")
    for filter_ in [*groups, *parsed("z = 2")]:
        mine.add(filter_)
    assert said(mine.drain()) == (["z IN (1, 2)"], [])
    mine.remove(groups[0])
    assert not mine.drain()
    mine.remove(groups[2])
    assert said(mine.drain()) == (
        ["NOT EXISTS x AND z = 1", "NOT EXISTS y AND z = 1", "z = 2"],
        ["z IN (1, 2)"],
    )


def test_an_attribute_that_may_be_anything_disappears() -> None:
    assert told("merging", "EXISTS x AND y = 1", "NOT EXISTS x AND y = 1") == ["y = 1"]


def test_patterns_that_have_no_union_stay_apart() -> None:
    assert told("merging", "x LIKE '%a'", "x LIKE '%b'", "x = 'ca'") == [
        "x LIKE '%a'",
        "x LIKE '%b'",
    ]


# -- imperfect ---------------------------------------------------------------------------------


def test_near_intervals_become_one() -> None:
    two = ("x BETWEEN 0 AND 10", "x BETWEEN 12 AND 20")  # 20 long together, 18 apart
    assert told("imperfect:1.1", *two) == [
        "x BETWEEN 0 AND 10",
        "x BETWEEN 12 AND 20",
    ]
    assert told("imperfect:1.2", *two) == ["x BETWEEN 0 AND 20"]


def test_the_length_of_the_hull_counts_not_that_of_its_parts() -> None:
    """0…2 and 3…5 make 0…5; with 7…8, that is 8 against 5 + 1, and not against 2 + 2 + 1."""
    three = ("x BETWEEN 0 AND 2", "x BETWEEN 3 AND 5", "x BETWEEN 7 AND 8")
    assert told("imperfect:1.4", *three) == ["x BETWEEN 0 AND 8"]
    assert told("imperfect:1.3", *three) == ["x BETWEEN 0 AND 5", "x BETWEEN 7 AND 8"]


def test_a_factor_of_one_joins_what_touches_and_nothing_else() -> None:
    assert told("imperfect:1", "x >= 0 AND x < 1", "x BETWEEN 1 AND 2") == ["x BETWEEN 0 AND 2"]
    apart = ["x > 1 AND x <= 2", "x >= 0 AND x < 1"]  # but for a single point
    assert told("imperfect:1", *apart) == apart
    assert told("imperfect:1.01", *apart) == ["x BETWEEN 0 AND 2"]


def test_points_have_no_length_and_never_join_each_other() -> None:
    assert told("imperfect:100", "x = 1", "x = 2") == ["x = 1", "x = 2"]
    assert told("imperfect:1.5", "x BETWEEN 1 AND 2", "x = 2.5") == ["x BETWEEN 1 AND 2.5"]


def test_times_have_lengths_too() -> None:
    day = "x BETWEEN TIMESTAMP '2026-11-{}T00:00:00Z' AND TIMESTAMP '2026-11-{}T00:00:00Z'"
    assert len(told("imperfect:1.6", day.format("01", "02"), day.format("03", "04"))) == 1
    assert len(told("imperfect:1.4", day.format("01", "02"), day.format("03", "04"))) == 2


def test_what_is_no_bounded_interval_is_merged_perfectly() -> None:
    assert told("imperfect:2", "x < 0", "x < 1", "x IN (5, 7)", "x BETWEEN 8 AND 9") == [
        "x < 1 OR x IN (5, 7)",
        "x BETWEEN 8 AND 9",
    ]


def test_lengths_are_exact_for_numbers_that_no_float_holds() -> None:
    huge = 10**400
    two = (f"x BETWEEN 0 AND {huge}", f"x BETWEEN {3 * huge} AND {4 * huge}")
    assert len(told("imperfect:2", *two)) == 1
    assert len(told("imperfect:1.99", *two)) == 2


# -- bounded -----------------------------------------------------------------------------------


def test_few_conjunctions_stay_as_they_are() -> None:
    assert told("bounded:4", "x = 1", "y = 1") == ["x = 1", "y = 1"]


def test_a_change_moves_few_entries() -> None:
    """One in or out, one across the line, and a few hulls at most."""
    mine = reduction("bounded:20")
    filters = parsed(*(f"s = 'S{n}' AND p = {n}" for n in range(200)))
    for filter_ in filters[:150]:
        mine.add(filter_)
    mine.drain()
    for filter_ in filters[150:]:
        mine.add(filter_)
        change = mine.drain()
        assert len(change.added) <= 5
        assert len(change.removed) <= 5
    for filter_ in filters[::2]:
        mine.remove(filter_)
        change = mine.drain()
        assert len(change.added) <= 5
        assert len(change.removed) <= 5
    assert len(mine.output) <= 20


def test_different_questions_are_not_thrown_together() -> None:
    """A hull of conjunctions that name nothing in common would be everything."""
    texts = [f"{name} = {n}" for name in "abcd" for n in range(0, 100, 2)]
    mine = reduction("bounded:20")
    for filter_ in parsed(*(f"{text} AND z BETWEEN {n} AND {n}" for n, text in enumerate(texts))):
        mine.add(filter_)
    assert Filter.all() not in mine.output
    assert all(str(f)[0] in "abcd" for f in mine.output)
