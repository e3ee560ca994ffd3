"""Work: what a filter costs is counted before it is done, and nested limits all hold."""

import json

import pytest

from tidings.events import Filter
from tidings.events.work import TooMuchWorkError, limited, spend


def test_without_a_limit_nothing_is_counted():
    spend(10**12)


def test_the_limit_that_does_not_hold_is_told():
    with limited(10) as outer, limited(5) as inner:
        spend(5)
        with pytest.raises(TooMuchWorkError, match="more than 5 steps") as caught:
            spend(1)
        assert caught.value.budget is inner
    with limited(10) as outer, limited(50), pytest.raises(TooMuchWorkError) as caught:
        spend(11)
    assert caught.value.budget is outer
    spend(100)


def like(pattern, word="passing"):
    return {"string": {"within": [{}], word: [{"like": pattern}]}}


def numbers(*values):
    return {"number": [{"eq": value} for value in values]}


COSTLY = {
    "conjunctions": [{"a": numbers(n), "b": numbers(-n)} for n in range(300)],
    "values": [{"a": numbers(*range(2 * n, 600, 3)), "b": numbers(n)} for n in range(100)],
    "patterns": [{"a": like("%a" * 100 + f"%{n}")} for n in range(40)],
    "tests": [
        {"a": {"string": {"within": [{}], "failing": [{"like": f"%w{n}%"} for n in range(300)]}}}
    ],
    "attributes": [{f"a{n}": numbers(n + k) for n in range(400)} for k in range(2)],
    "groups": [{"a": {"set": {"hits": [{"overlaps": [n, n + 1]} for n in range(600)]}}}],
    "sets": [
        {"a": {"set": {"superset": [n], "hits": [{"overlaps": [-n, 7]}]}}} for n in range(200)
    ],
}


@pytest.mark.parametrize("what", COSTLY)
def test_whatever_makes_a_filter_costly_is_counted_before_it_is_done(what):
    text = json.dumps({"any": COSTLY[what]})
    with limited(10**9) as budget:
        whole = Filter.from_json(text)
    steps = budget.steps - budget.left
    assert whole == Filter.from_json(text)
    assert steps > 10_000
    with limited(steps // 10), pytest.raises(TooMuchWorkError):
        Filter.from_json(text)
