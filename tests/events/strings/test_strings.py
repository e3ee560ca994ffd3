"""Sets of strings by patterns and subjects, against enumerated strings."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Filter, Notification
from tidings.events.intervals import STRINGS, Intervals
from tidings.events.strings import Like, Strings

parse = Filter.parse

ALL = ["".join(s) for n in range(5) for s in product("ab", repeat=n)]
patterns = st.text("ab%_", max_size=5)
strings = st.one_of(
    patterns.map(lambda p: Strings.like(Like.parse(p))),
    st.sampled_from(["", "a", "ab", "b"]).map(lambda s: Strings(Intervals.above(STRINGS, s))),
    st.sampled_from(["a", "ab", "b"]).map(lambda s: Strings(Intervals.below(STRINGS, s))),
    patterns.map(Like.parse)
    .filter(lambda like: like.exact is None and like.prefix is None)
    .map(lambda like: Strings(Intervals.everything(STRINGS), failing=frozenset({like}))),
)
combined = st.recursive(strings, lambda s: st.builds(Strings.intersect, s, s), max_leaves=4)


def members(found):
    return {s for s in ALL if found.matches(s)}


# -- patterns ------------------------------------------------------------------------------


@given(patterns, patterns)
def test_covering_between_patterns_is_sound(one, other):
    a, b = Strings.like(Like.parse(one)), Strings.like(Like.parse(other))
    if a.covers(b):
        assert members(a) >= members(b)
        assert a.union(b) == a
    if members(a) & members(b):
        assert a.overlaps(b)
    if a == b:
        assert members(a) == members(b)


@given(combined, combined)
def test_the_algebra_of_combined_tests_is_exact_or_safe(one, other):
    a, b = members(one), members(other)
    assert members(one.intersect(other)) == a & b
    if one.covers(other):
        assert a >= b
    if a & b:
        assert one.overlaps(other)
    union = one.union(other)
    if union is not None:
        assert members(union) == a | b
    rest = one.complement()
    assert {s for part in rest for s in members(part)} == set(ALL) - a
    assert one.intersect(other) == other.intersect(one)
    sample = one.example()
    assert sample is None or one.matches(sample)


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("x LIKE '%b%'", "x LIKE 'ab%'"),
        ("x LIKE '%b%'", "x = 'abc'"),
        ("x LIKE '%b%'", "x IN ('abc', 'b')"),
        ("x LIKE '%b%'", "x UNDER 'b'"),
        ("x LIKE '%b%'", "x BETWEEN 'abc' AND 'abd'"),
        ("x LIKE '%b'", "x LIKE 'a%b'"),
        ("x LIKE '%b'", "x LIKE '%ab'"),
        ("x LIKE 'a%'", "x LIKE 'a%b'"),
        ("x LIKE 'a%'", "x LIKE 'ab_'"),
        ("x LIKE '_%'", "x LIKE 'a%'"),
        ("x LIKE '__%'", "x LIKE '_a%'"),
        ("x NOT LIKE '%ab%'", "x NOT LIKE '%b%'"),
        ("x NOT LIKE '%b'", "x LIKE '%b%' AND x NOT LIKE '%b'"),
        ("x NOT LIKE 'a%b'", "x > 'b'"),
        ("x > 'a'", "x LIKE 'b%c'"),
        ("x LIKE '%a%'", "x LIKE '%a%' AND x LIKE '%b'"),
    ],
)
def test_covering_between_strings_of_all_kinds(general, special):
    assert parse(general).covers(parse(special))
    assert not parse(special).covers(parse(general))
    assert parse(general).merge(parse(special)) == parse(general)


@pytest.mark.parametrize(
    ("one", "other", "witness"),
    [
        ("x LIKE '_a'", "x LIKE '%a'", "a"),
        ("x LIKE '%_a'", "x LIKE '%a'", "a"),
        ("x LIKE 'a_%'", "x LIKE 'a%'", "a"),
        ("x LIKE '%ab%'", "x LIKE '%a%b%'", "acb"),
        ("x LIKE '%a%a%'", "x LIKE '%a%'", "a"),
        ("x LIKE '%ab%bc%'", "x LIKE '%abc%'", "abc"),
        ("x NOT LIKE '%b%'", "x NOT LIKE '%ab%'", "b"),
        ("x NOT LIKE '%b'", "x LIKE 'a%'", "ab"),
        ("x LIKE '%b%'", "x BETWEEN 'ab' AND 'b'", "ac"),
        ("x LIKE 'a%' AND x LIKE '%b'", "x LIKE '%b'", "b"),
    ],
)
def test_what_is_not_covered_has_a_witness(one, other, witness):
    event = Notification({"x": witness})
    assert parse(other).matches(event)
    assert not parse(one).matches(event)
    assert not parse(one).covers(parse(other))
    assert parse(one).merge(parse(other)) != parse(one)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x LIKE 'abc'", "x = 'abc'"),
        ("x LIKE ''", "x = ''"),
        ("x LIKE '%'", "x IS STRING"),
        ("x LIKE '%%'", "x IS STRING"),
        ("x LIKE 'a%%'", "x LIKE 'a%'"),
        ("x LIKE '%_%'", "x LIKE '_%'"),
        ("x LIKE '%a%' AND x LIKE '%a'", "x LIKE '%a'"),
        ("x LIKE 'b%' AND x LIKE '%b%'", "x LIKE 'b%'"),
        ("x LIKE '%a' AND x = 'ba'", "x = 'ba'"),
        ("x LIKE '%a' AND x = 'b'", "FALSE"),
        ("x LIKE '%a' AND x NOT LIKE '%a%'", "FALSE"),
        ("x LIKE '%a' OR x NOT LIKE '%a'", "x IS STRING"),
        ("x LIKE 'a%' AND x NOT LIKE 'b%c'", "x LIKE 'a%'"),
        ("x LIKE '%a' AND x IN ('a', 'b', 'ca')", "x IN ('a', 'ca')"),
        ("x LIKE '%a' AND x > 'b' OR x LIKE '%a' AND x <= 'b'", "x LIKE '%a'"),
    ],
)
def test_what_follows_is_dropped(text, canonical):
    assert str(parse(text)) == canonical


# -- subjects --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "under"),
    [
        ("economy", True),
        ("economy.exchange", True),
        ("economy.exchange.NYSE", True),
        ("economy.", True),
        ("economyx", False),
        ("economy-x", False),
        ("econom", False),
        ("", False),
    ],
)
def test_a_subject_is_under_itself_and_what_is_above_it(subject, under):
    assert parse("s UNDER 'economy'").matches(Notification({"s": subject})) == under
    assert parse("s NOT UNDER 'economy'").matches(Notification({"s": subject})) != under


def test_a_subject_covers_what_is_below_it():
    assert parse("s UNDER 'a'").covers(parse("s UNDER 'a.b'"))
    assert not parse("s UNDER 'a'").covers(parse("s UNDER 'ab'"))
    assert not parse("s UNDER 'a.b'").overlaps(parse("s UNDER 'a.c'"))
