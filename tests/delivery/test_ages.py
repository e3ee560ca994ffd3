"""Ages: whose a name is, how many each principal has, and which nobody has used."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.ages import Ages, principal_of

NAMES = st.sampled_from(["a/1", "a/2", "a/2/3", "b/1", "b", "/x"])
STEPS = st.lists(st.tuples(NAMES, st.none() | st.integers(0, 5)), max_size=20)


@given(STEPS)
def test_they_are_what_a_plain_mapping_says(steps: list[tuple[str, int | None]]) -> None:
    ages, oracle = Ages(), dict[str, int]()
    for name, day in steps:
        if day is None:
            ages.forget(name)
            oracle.pop(name, None)
        else:
            assert ages.use(name, day) == (oracle.get(name) != day)
            oracle[name] = day
        whose = [principal_of(each) for each in oracle]
        assert ages.counts == {each: whose.count(each) for each in whose}
        assert {name for name in ("a/1", "b", "c/1") if name in ages} == {"a/1", "b"} & set(oracle)
        for before in range(7):
            unused = {each for each, day in oracle.items() if day < before}
            assert set(ages.unused(before=before)) == unused
