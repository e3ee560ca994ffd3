"""Any sequence of changes and questions: the index answers as the scan does, at every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.matching.engines import TUNINGS, tuned
from tests.matching.strategies import PROBES, filters, notifications
from tidings.events import Filter, Notification
from tidings.matching import Index, Scan, index, warm

KEYS: list[Any] = [*range(6), "a", "b", ("a", 1), 10**30]
keys = st.sampled_from(KEYS)


class Changes(RuleBasedStateMachine):
    """One index and one scan that undergo the same."""

    def __init__(self) -> None:
        super().__init__()
        warm.wait()
        self.index, self.scan = Index(), Scan()
        self.events: list[Notification] = []
        self.tuning: Any = None

    @initialize(
        tuning=st.sampled_from(list(TUNINGS)),
        pairs=st.dictionaries(keys, filters),
        events=st.lists(notifications, max_size=4),
    )
    def begin(self, tuning: str, pairs: dict[Any, Filter], events: list[Notification]) -> None:
        self.tuning = tuned(tuning)
        self.tuning.__enter__()
        self.add_many(pairs)
        self.events = events

    def teardown(self) -> None:
        if self.tuning is not None:
            self.tuning.__exit__(None, None, None)

    def both(self, change: str, *arguments: Any) -> None:
        """Make a change in both; both refuse it, or neither."""
        refused = []
        for engine in (self.index, self.scan):
            try:
                getattr(engine, change)(*arguments)
            except KeyError:
                refused.append(engine)
        assert len(refused) in (0, 2)

    @rule(key=keys, filter_=filters)
    def add(self, key: Any, filter_: Filter) -> None:
        self.both("add", key, filter_)

    @rule(pairs=st.dictionaries(keys, filters))
    def add_many(self, pairs: dict[Any, Filter]) -> None:
        self.both("add_many", list(pairs.items()))

    @rule(pairs=st.dictionaries(keys, filters))
    def add_what_is_new_as_a_segment(self, pairs: dict[Any, Filter]) -> None:
        bulk, index._BULK = index._BULK, 0
        try:
            self.both("add_many", [(k, f) for k, f in pairs.items() if k not in self.scan])
        finally:
            index._BULK = bulk

    @rule(key=keys)
    def remove(self, key: Any) -> None:
        self.both("remove", key)

    @precondition(lambda self: len(self.scan) > 0)
    @rule(data=st.data())
    def remove_one_that_is_there(self, data: st.DataObject) -> None:
        there = [key for key in KEYS if key in self.scan]
        self.both("remove", data.draw(st.sampled_from(there)))

    @rule(key=keys, filter_=filters)
    def replace(self, key: Any, filter_: Filter) -> None:
        self.both("replace", key, filter_)

    @rule(ratio=st.sampled_from([0, 1, 4]))
    def fold(self, ratio: int) -> None:
        """Ratio 0 keeps every segment apart, 4 merges nearly always."""
        before, index._RATIO = index._RATIO, ratio  # type: ignore[misc]
        try:
            self.index._fold()
        finally:
            index._RATIO = before  # type: ignore[misc]

    @rule()
    def sort_what_is_fresh(self) -> None:
        self.index._look_after()

    @rule()
    def learn(self) -> None:
        self.index._learn()

    @rule()
    def lay_out_anew(self) -> None:
        """Learn even where it promises nothing."""
        from tidings.matching.segment import Segment

        asked = Segment.is_worth_relearning
        Segment.is_worth_relearning = lambda *_: True  # type: ignore[method-assign]
        try:
            self.index._learn()
        finally:
            Segment.is_worth_relearning = asked  # type: ignore[method-assign]

    @rule()
    def match_every_probe(self) -> None:
        for event in PROBES:
            assert set(self.index.match(event)) == set(self.scan.match(event))

    @rule(event=notifications)
    def match(self, event: Notification) -> None:
        found = self.index.match(event)
        assert len(found) == len(set(found)), "a key counts once"
        assert set(found) == set(self.scan.match(event))

    @invariant()
    def the_same_events_find_the_same_filters(self) -> None:
        for event in self.events:
            assert set(self.index.match(event)) == set(self.scan.match(event))

    @invariant()
    def the_same_filters_are_there(self) -> None:
        assert len(self.index) == len(self.scan)
        for key in KEYS:
            assert (key in self.index) == (key in self.scan)
            if key in self.scan:
                assert self.index[key] == self.scan[key]

    @invariant()
    def what_is_dead_is_counted(self) -> None:
        state = self.index._state
        dead = [int((s.source.died <= state.version).sum()) for s in state.segments]
        assert self.index.explain()["dead"] == sum(dead)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
class TestChanges(Changes.TestCase):
    settings = settings(max_examples=max(10, settings().max_examples // 2), stateful_step_count=25)


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        ("add", ("new", "x = 1")),
        ("replace", ("old", "x = 1")),
        ("add_many", ([("new", Filter.parse("x = 1")), ("bad", "x = 1")],)),
    ],
)
def test_text_in_the_place_of_a_filter_is_refused_and_changes_nothing(
    change: str, arguments: tuple[Any, ...]
) -> None:
    index = Index()
    index.add("old", Filter.parse("x = 1"))
    with pytest.raises(TypeError, match="expected a Filter"):
        getattr(index, change)(*arguments)
    assert index.match(Notification({"x": 1})) == ["old"]
    assert len(index) == 1
