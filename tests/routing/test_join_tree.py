"""Trees: their root is the join of their leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.events import Constraint
from tidings.events.intervals import NUMBERS, Intervals
from tidings.routing.joins import JoinTree, union_of


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 15), st.integers(0, 15)), max_size=80))
def test_a_tree_holds_the_union_of_its_leaves(steps: list[tuple[bool, int, int]]) -> None:
    tree, held = JoinTree(union_of), list[Constraint]()
    for adds, low, high in steps:
        if adds or not held:
            each = Constraint.of(Intervals.between(NUMBERS, min(low, high), max(low, high)))
            held.append(each)
            tree.add(each)
        else:
            tree.remove(held.pop(low % len(held)))
        union = None
        for each in held:
            union = each if union is None else union_of(union, each)
        assert tree.root == union
        assert len(tree) == len(set(held))
