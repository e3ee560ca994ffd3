"""Conjunctions: products of constraints."""

import pickle

from tidings import Conjunction, Filter, Notification
from tidings.events.constraint import EVERYTHING, EXISTS


def conjunction(text):
    (only,) = Filter.parse(text).conjunctions
    return only


def test_what_admits_everything_is_not_listed():
    assert Conjunction({"x": EVERYTHING}) == Conjunction({})
    assert Conjunction({"x": EVERYTHING, "y": EXISTS}) == Conjunction({"y": EXISTS})
    assert list(conjunction("b = 1 AND a = 1").constraints) == ["a", "b"]


def test_an_attribute_that_is_not_named_may_be_anything():
    assert conjunction("x = 1")["y"] == EVERYTHING
    assert Conjunction({}).matches(Notification({"y": 1}))
    assert str(Conjunction({})) == "TRUE"


def test_one_constraint_can_be_taken_out_or_replaced():
    both = conjunction("x = 1 AND y = 2")
    assert both.without("y") == conjunction("x = 1")
    assert both.without("z") == both
    assert both.with_("y", EVERYTHING) == conjunction("x = 1")
    assert both.with_("y", EXISTS) == conjunction("x = 1 AND EXISTS y")


def test_an_intersection_that_admits_nothing_is_none():
    assert conjunction("x = 1").intersect(conjunction("x = 2")) is None
    assert conjunction("x = 1").intersect(conjunction("y = 2")) == conjunction("x = 1 AND y = 2")


def test_an_example_has_the_attributes_asked_for_and_no_others():
    found = conjunction("x > 1 AND tags CONTAINS 'a' AND NOT EXISTS y AND s LIKE '%b'").example()
    assert set(found) == {"x", "tags", "s"}


def test_no_example_is_better_than_a_wrong_one():
    hard = conjunction("x LIKE '%qqq%' AND x NOT LIKE '%q' AND x NOT LIKE '%a%'")
    sample = hard.example()
    assert sample is None or hard.matches(sample)


def test_conjunctions_are_values():
    one = conjunction("x = 1 AND y LIKE '%a'")
    assert pickle.loads(pickle.dumps(one)) == one
    assert {one, conjunction("y LIKE '%a' AND x = 1")} == {one}
    assert one != "x = 1"
    assert repr(one) == "<Conjunction x = 1 AND y LIKE '%a'>"
