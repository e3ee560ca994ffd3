"""Types of events, against enumeration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Filter, Notification, Schema, SchemaError
from tidings.events.strings import IsA, Types

parse = Filter.parse

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
