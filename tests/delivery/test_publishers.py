"""Whoever comes under a name has it, and whoever had it before is told so, never something else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.publishers import Publishers


def test_a_process_that_comes_again_has_its_epoch() -> None:
    names = Publishers()
    assert names.claim("desk", "a", 0, day=0) == 1
    assert names.claim("desk", "a", 1, day=1) == 1
    assert names.claim("desk", "a", 0, day=2) == 1  # it has not heard the answer


def test_a_successor_goes_on_with_the_numbers() -> None:
    names = Publishers()
    names.claim("desk", "a", 0, day=0)
    names.keep("desk", 7, day=1)
    assert names.claim("desk", "b", 0, day=2) == 2
    assert names["desk"].number == 7


def test_a_name_that_was_drawn_at_random_needs_no_epoch() -> None:
    names = Publishers()
    assert names.claim("5f3a", "", 0, day=0) == 0
    assert not names.items()
    names.keep("5f3a", 3, day=1)
    assert names.claim("5f3a", "", 0, day=2) == 0


def test_a_broker_that_has_forgotten_says_so_by_another_epoch() -> None:
    names = Publishers()
    epoch = names.claim("desk", "a", 3, day=0)
    assert epoch == 4
    assert names.claim("desk", "old", 3, day=1) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12))
def test_only_the_last_that_came_may_come_again(arrivals: list[tuple[str, bool]]) -> None:
    """Each process that was answered says so; once another has come, it is fenced for good."""
    names, given_, owner = Publishers(), dict[str, int](), ""
    fenced: set[str] = set()
    for number, (who, is_heard) in enumerate(arrivals):
        epoch = names.claim("desk", who, given_.get(who, 0), day=number)
        if who in fenced:
            assert epoch is None
            continue
        assert epoch is not None
        if owner != who:
            assert epoch > max(given_.values(), default=0)
            fenced |= {owner} & given_.keys()
            owner = who
        if is_heard:
            given_[who] = epoch
