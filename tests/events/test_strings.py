"""Strings: LIKE, subjects and event types, against naive matchers and enumerated strings."""

import re
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracles.filters import like_matches
from tidings import Filter, Notification, Schema, SchemaError
from tidings.events.intervals import STRINGS, Intervals
from tidings.events.strings import IsA, Like, Strings, Types

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


# -- LIKE ------------------------------------------------------------------------------------


@given(st.text("ab%_\\\n.*", max_size=8), st.text("ab%_\\\n.*", max_size=8))
@example("%a%a", "a")  # one a can't be both
@example("a%a", "a")
@example("%_", "")
@example("%a%a%", "a")
@example("%ab%bc%", "abc")
@example("%ab%b", "ab")
@example("_%b%_", "abb")
@example("%\n", "\n\n")
def test_like_agrees_with_a_naive_matcher(pattern, value):
    assert Strings.like(Like.parse(pattern)).matches(value) == like_matches(pattern, value)
    like = Like.parse(pattern)
    assert like.matches(value) == like_matches(pattern, value)


@given(st.text("ab%_.", max_size=8), st.text("ab.", max_size=8))
def test_like_agrees_with_regular_expressions(pattern, value):
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(char, re.escape(char)) for char in pattern)
    assert Like.parse(pattern).matches(value) == bool(re.fullmatch(regex, value, re.DOTALL))


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


@given(st.text("ab%_\\", max_size=6))
def test_a_pattern_is_printed_so_that_it_can_be_read(pattern):
    like = Like.parse(pattern)
    assert Like.parse(like.pattern) == like
    assert hash(Like.parse(like.pattern)) == hash(like)


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


@given(st.integers(1, 30), st.booleans())
def test_matching_never_takes_exponential_time(count, found):
    value = "ab" * 200 + ("c" if found else "")
    assert Like.parse("%a_%b" * count + "%c").matches(value) == found


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


# -- types -----------------------------------------------------------------------------------

DIAMOND = {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": []}


def test_a_type_inherits_from_all_above_it():
    types = Types(DIAMOND)
    assert [t for t in "abcde" if types.is_a("d", t)] == list("abcd")
    assert [t for t in "abcde" if types.is_a("b", t)] == list("ab")
    assert types.is_a("unknown", "unknown")
    assert not types.is_a("unknown", "a")
    assert "a" in types
    assert len(types) == 5


def test_chains_of_types_may_be_long():
    types = Types({f"t{i}": [f"t{i + 1}"] for i in range(1_500)})
    assert types.is_a("t0", "t1500")


@pytest.mark.parametrize(
    "parents", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["b"]}]
)
def test_a_type_cannot_inherit_from_itself(parents):
    with pytest.raises(SchemaError, match="inherit"):
        Types(parents)


@given(st.sampled_from("abcde"), st.sampled_from("abcde"), st.booleans(), st.booleans())
def test_types_agree_with_enumeration(one, other, no_one, no_other):
    schema = Schema(types=DIAMOND)
    above = {t: {s for s in "abcde" if Types(DIAMOND).is_a(s, t)} for t in "abcde"}

    def both(name, negated):
        found = parse(f"t IS {'NOT ' if negated else ''}A '{name}'", schema=schema)
        return found, (set("abcde") - above[name] if negated else above[name])

    (f, a), (g, b) = both(one, no_one), both(other, no_other)
    for found, wanted in ((f, a), (g, b), (f.intersect(g), a & b), (f.union(g), a | b)):
        assert {t for t in "abcde" if found.matches(Notification({"t": t}))} == wanted
        assert Filter.from_json(found.to_json(), schema=schema) == found
        assert parse(str(found), schema=schema) == found
    if f.covers(g):
        assert a >= b
    if a & b:
        assert f.overlaps(g)


def test_is_a_without_a_schema_is_the_type_itself():
    assert parse("t IS A 'x'").matches(Notification({"t": "x"}))
    assert not parse("t IS A 'x'").matches(Notification({"t": "x.y"}))
    assert IsA("x") == IsA("x")
