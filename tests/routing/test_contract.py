"""What every reduction promises, whatever its strategy: it always equals the plain function."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import (
    STAGED,
    STRATEGIES,
    anything,
    few_examples,
    quotes,
    some_examples,
    stretches,
)
from tidings.events import Filter
from tidings.routing import Change, reduce, reduction
from tidings.routing.joins import MOST_COMPARED

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)

pools = st.one_of(
    st.lists(anything, min_size=1, max_size=12),
    st.lists(quotes, min_size=1, max_size=25),
    st.lists(stretches, min_size=1, max_size=12),
)
Step = tuple[str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "remove", "remove", "look"]), st.integers(0, 99)
    ),
    max_size=50,
)


class Told:
    """A neighbour that holds what it is told, and notices if that makes no sense."""

    def __init__(self) -> None:
        self.table: Counter[Filter] = Counter()

    def hear(self, change: Change) -> None:
        assert not change.added.keys() & change.removed.keys()
        assert all(n > 0 for n in [*change.added.values(), *change.removed.values()])
        for filter_, count in change.removed.items():
            assert self.table[filter_] >= count, "told to remove what it was not told to add"
        self.table = self.table - Counter(change.removed) + Counter(change.added)


def run(
    pool: list[Filter], steps: list[Step], look: Callable[[], None], add, remove, learn=None
) -> None:
    """Follow the steps: the number says which filter of the pool, or of those that are there."""
    held: list[Filter] = []
    for word, number in steps:
        if word == "look":
            look()
        elif word == "learn":
            learn(number)
        elif word == "remove" and held:
            remove(held.pop(number % len(held)))
        else:
            held.append(pool[number % len(pool)])
            add(held[-1])
    look()
    while held:  # and everything goes again
        remove(held.pop())
    look()


@every_strategy
@some_examples
@given(pools, steps)
def test_its_output_is_the_plain_reduction_at_any_time(
    strategy: str, pool: list[Filter], steps: list[Step]
) -> None:
    wanted: Counter[Filter] = Counter()
    mine, told = reduction(strategy), Told()

    def add(filter_: Filter) -> None:
        wanted[filter_] += 1
        mine.add(filter_)

    def remove(filter_: Filter) -> None:
        wanted[filter_] -= 1
        mine.remove(filter_)

    def look() -> None:
        expected = reduce(strategy, +wanted)
        assert mine.output == expected
        told.hear(mine.drain())
        assert told.table == expected
        assert not mine.drain()

    run(pool, steps, look, add, remove)


@every_strategy
@given(st.lists(anything, max_size=10), st.randoms(use_true_random=False))
@few_examples
def test_its_output_does_not_depend_on_the_order_of_arrival(
    strategy: str, wanted: list[Filter], chance: Random
) -> None:
    one, other = reduction(strategy), reduction(strategy)
    for filter_ in wanted:
        one.add(filter_)
    chance.shuffle(wanted)
    for filter_ in wanted:
        other.add(filter_)
        other.drain()  # step by step here, all at once there
    assert one.output == other.output


@every_strategy
def test_removing_what_is_not_there_is_refused_and_changes_nothing(strategy: str) -> None:
    low, high = Filter.parse("price < 1"), Filter.parse("price > 2")
    mine = reduction(strategy)
    mine.add(low)
    with pytest.raises(KeyError):
        mine.remove(high)
    mine.remove(low)
    with pytest.raises(KeyError):
        mine.remove(low)
    assert mine.output == reduce(strategy, {})
    mine.drain()
    mine.add(low)
    assert mine.output == reduce(strategy, {low: 1})


@every_strategy
def test_what_comes_and_goes_between_two_looks_is_not_told(strategy: str) -> None:
    mine = reduction(strategy)
    mine.add(Filter.parse("price < 1"))
    mine.drain()
    mine.add(Filter.parse("price < 2"))
    mine.remove(Filter.parse("price < 2"))
    assert mine.drain() == Change({}, {})


@every_strategy
def test_looking_at_the_output_does_not_drain(strategy: str) -> None:
    mine, told = reduction(strategy), Told()
    mine.add(Filter.parse("price < 1"))
    assert mine.output
    mine.add(Filter.parse("price < 2"))
    assert mine.output
    told.hear(mine.drain())
    assert told.table == mine.output


@every_strategy
def test_two_who_want_the_same_are_heard_until_both_have_gone(strategy: str) -> None:
    filter_ = Filter.parse("symbol = 'DIS' AND price < 1 OR symbol = 'IBM'")
    mine = reduction(strategy)
    mine.add(filter_)
    mine.add(filter_)
    mine.drain()
    mine.remove(filter_)
    assert mine.output == reduce(strategy, {filter_: 1})
    mine.remove(filter_)
    assert mine.output == reduce(strategy, {})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STAGED)
def test_large_tables_agree_too(strategy: str) -> None:
    """Hundreds of one form, so that the arrays and the trees are put to use."""
    chance = Random(strategy)
    pool = [_large(chance) for _ in range(500)]
    mine, held = reduction(strategy), Counter[Filter]()
    for round_ in range(8):
        for _ in range(150):
            mine.add(filter_ := chance.choice(pool))
            held[filter_] += 1
            if round_ % 2:
                mine.drain()
        for filter_ in chance.sample(list(held), min(len(held), 120)):
            mine.remove(filter_)
            held[filter_] -= 1
            if round_ % 3:
                mine.drain()
        held = +held
        assert mine.output == reduce(strategy, held)


def _large(chance: Random) -> Filter:
    """Like the dense workloads: a few ranges, sometimes a symbol, sometimes an exchange."""
    parts = []
    for name in chance.sample(["a", "b"], chance.choice([1, 2, 2, 2])):
        low = chance.randrange(40)
        parts.append(f"{name} BETWEEN {low} AND {low + chance.randrange(1, 25)}")
    if chance.random() < 0.5:
        parts.append(f"symbol = '{chance.choice('ABCDE')}'")
    if chance.random() < 0.2:
        parts.append(f"exchange = '{chance.choice('XY')}'")
    if chance.random() < 0.1:
        parts.append(f"name >= '{chance.choice('abc')}' AND name < '{chance.choice('xyz')}'")
    return Filter.parse(" AND ".join(parts))


@pytest.mark.parametrize("strategy", ["merging", "imperfect:2"])
def test_more_sets_than_are_compared_stay_as_they_are(strategy: str) -> None:
    """With one less, they are one: OVERLAPS all of them. What is ordered is joined in any case."""
    sets = [Filter.parse(f"x CONTAINS {n}") for n in range(MOST_COMPARED + 1)]
    held = Counter([*sets, Filter.parse("x < 1"), Filter.parse("x < 2")])
    mine = reduction(strategy)
    for filter_ in held:
        mine.add(filter_)
    assert mine.output == reduce(strategy, held)
    assert len(mine.output) == len(sets) + 1
    mine.remove(sets[5])
    assert len(mine.output) == 1
    assert mine.output == reduce(strategy, held - Counter([sets[5]]))


_PRINT_CHANGES = """
from tidings.events import Filter
from tidings.routing import Statistics, reduction
for strategy in ("covering", "merging", "imperfect:1.5", "learnt:0.5", "bounded:4"):
    mine = reduction(strategy)
    mine.learn(Statistics.parse('{"attributes": {"p": {"present": 1.0}}}'))
    text = "s = '{0}' AND p BETWEEN {1} AND 1{1} OR t = '{0}'"
    texts = [text.format(c, n) for c in "ABC" for n in (1, 2, 9)]
    texts += ["t = 'A' AND p > 1", "p LIKE '%a' OR p CONTAINS 1", "s IN ('A', 'B')"]
    for text in texts:
        mine.add(Filter.parse(text))
        if "9" in text:
            print([[str(f) for f in part] for part in mine.drain()])
    for text in texts[::2]:
        mine.remove(Filter.parse(text))
    print([[str(f) for f in part] for part in mine.drain()])
"""


@pytest.mark.slow
def test_changes_are_the_same_in_every_process() -> None:
    """Down to their order, which ends up in messages: Python hashes strings anew each time."""
    runs = {
        subprocess.run(
            [sys.executable, "-c", _PRINT_CHANGES],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
