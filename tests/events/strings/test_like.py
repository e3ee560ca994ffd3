"""LIKE patterns, against naive matchers."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracles.filters import like_matches
from tidings.events.strings import Like, Strings


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


@given(st.text("ab%_\\", max_size=6))
def test_a_pattern_is_printed_so_that_it_can_be_read(pattern):
    like = Like.parse(pattern)
    assert Like.parse(like.pattern) == like
    assert hash(Like.parse(like.pattern)) == hash(like)


@given(st.integers(1, 30), st.booleans())
def test_matching_never_takes_exponential_time(count, found):
    value = "ab" * 200 + ("c" if found else "")
    assert Like.parse("%a_%b" * count + "%c").matches(value) == found
