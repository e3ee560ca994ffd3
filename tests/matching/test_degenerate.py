"""Skewed, adversarial and degenerate inputs: the answers stay right, and nothing grows without end.

No test here measures time; what would fall off a cliff would be noticed all the same.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

from tests.matching.engines import ENGINES, TUNINGS, folded, fresh, in_segments, tuned
from tidings.events import Constraint, Domain, Filter, Notification, register
from tidings.events.constraint import DOMAINS
from tidings.events.phrases import Phrase
from tidings.matching import Index, Matcher

LAID_OUT = [folded, in_segments]


def found(engine: Matcher, event: dict[str, Any]) -> list[Any]:
    return sorted(engine.match(Notification(event)))


def everywhere(test: Any) -> Any:
    return pytest.mark.parametrize("engine", ENGINES)(test)


# -- many alike ------------------------------------------------------------------------------


@everywhere
def test_all_filters_equal(engine: str) -> None:
    same = Filter.parse("x BETWEEN 1 AND 2 AND s = 'a'")
    index = ENGINES[engine]((n, same) for n in range(2_000))
    assert found(index, {"x": 1, "s": "a"}) == list(range(2_000))
    assert found(index, {"x": 3, "s": "a"}) == found(index, {"x": 1}) == []


@everywhere
def test_ten_thousand_filters_that_admit_everything(engine: str) -> None:
    index = ENGINES[engine]((n, Filter.all()) for n in range(10_000))
    assert found(index, {}) == found(index, {"x": 1}) == list(range(10_000))


@everywhere
def test_nothing_but_filters_that_admit_nothing(engine: str) -> None:
    index = ENGINES[engine]((n, Filter.none()) for n in range(2_000))
    assert found(index, {}) == found(index, {"x": 1}) == []
    assert len(index) == 2_000


@pytest.mark.parametrize("tuning", TUNINGS)
def test_all_filters_on_one_attribute(tuning: str) -> None:
    with tuned(tuning):
        index = folded((n, Filter.parse(f"x >= {n} AND x < {n + 100}")) for n in range(1_000))
    for value in (-1, 0, 99, 100, 500, 999, 1_098, 1_099):
        assert found(index, {"x": value}) == list(range(max(0, value - 99), min(value + 1, 1_000)))


@pytest.mark.parametrize("tuning", TUNINGS)
def test_one_value_that_nearly_everybody_asks_for(tuning: str) -> None:
    with tuned(tuning):
        index = folded(
            (n, Filter.parse(f"s = '{n if n % 10 == 0 else 'a'}'")) for n in range(3_000)
        )
    assert found(index, {"s": "a"}) == [n for n in range(3_000) if n % 10]
    assert found(index, {"s": "20"}) == [20]


# -- long ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("make", [fresh, *LAID_OUT])
def test_ten_thousand_values_in_one_list(make: Any) -> None:
    numbers = ", ".join(map(str, range(0, 20_000, 2)))
    strings = ", ".join(f"'s{n}'" for n in range(10_000))
    texts = [
        *(
            f"x IN ({numbers})",
            f"x NOT IN ({numbers})",
            f"s IN ({strings})",
            f"s NOT IN ({strings})",
        ),
        *(f"t OVERLAPS ({strings})", f"t SUBSET OF ({strings})", f"t DISJOINT FROM ({strings})"),
    ]
    index = make((n, Filter.parse(text)) for n, text in enumerate(texts))
    assert found(index, {"x": 19_998}) == [0]
    assert found(index, {"x": 19_999}) == found(index, {"x": -2}) == [1]
    assert found(index, {"s": "s9999"}) == [2]
    assert found(index, {"s": "s10000"}) == [3]
    assert found(index, {"t": ["s1", "s2"]}) == [4, 5]
    assert found(index, {"t": ["s1", "other"]}) == [4]
    assert found(index, {"t": []}) == [5, 6]
    for n, text in enumerate(texts):
        assert index[n] == Filter.parse(text)


@pytest.mark.parametrize("make", [fresh, *LAID_OUT])
def test_strings_of_a_megabyte(make: Any) -> None:
    long = "x" * 2**20
    texts = [f"s = '{long}'", f"s > '{long}'", f"s LIKE '{long}%'", "s LIKE '%xy'", "s < 'y'"]
    index = make((n, Filter.parse(text)) for n, text in enumerate(texts))
    assert found(index, {"s": long}) == [0, 2, 4]
    assert found(index, {"s": long + "y"}) == [1, 2, 3, 4]
    assert found(index, {"s": long[:-1]}) == [4]
    assert found(index, {long: 1}) == []
    rows, keys = index.match_batch(pa.table({"s": [long, long + "y"]}))
    assert sorted(zip(rows.to_pylist(), keys.to_pylist(), strict=True)) == [
        *((0, key) for key in (0, 2, 4)),
        *((1, key) for key in (1, 2, 3, 4)),
    ]


def test_events_that_were_seen_are_not_kept_if_they_are_large() -> None:
    index = folded([(0, Filter.parse("s = 'a'"))])
    for n in range(600):
        index.match(Notification({"s": f"{n}" * 2**16, "t": [f"{n} {m}" for m in range(50)]}))
    kept = sum(sys.getsizeof(v) for event in index._sample for v in event.values())
    assert kept < 2**22


# -- wide ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tuning", ["as it is", "bits", "presence"])
@pytest.mark.parametrize("attributes", [63, 64, 65, 130])
def test_filters_with_more_attributes_than_a_word_has_bits(tuning: str, attributes: int) -> None:
    with tuned(tuning):
        index = folded(
            (n, Filter.parse(" AND ".join(f"a{m} > {n}" for m in range(attributes))))
            for n in range(70)
        )
    event = {f"a{m}": 40 for m in range(attributes)}
    assert found(index, event) == list(range(40))
    assert found(index, {**event, "a62": 10}) == list(range(10))
    assert found(index, {**event, f"a{attributes - 1}": 0}) == []
    del event["a62"]
    assert found(index, event) == []


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["as it is", "bits", "presence", "postings"])
def test_five_thousand_attributes(tuning: str) -> None:
    with tuned(tuning):
        index = folded((n, Filter.parse(f"a{n} > 0 AND b = {n % 7}")) for n in range(5_000))
    assert found(index, {f"a{n}": n % 2 for n in range(5_000)} | {"b": 3}) == [
        n for n in range(5_000) if n % 2 and n % 7 == 3
    ]
    assert found(index, {"a4999": 1, "b": 4999 % 7}) == [4_999]
    assert found(index, {"a4999": 1}) == []


@everywhere
def test_an_event_with_ten_thousand_attributes(engine: str) -> None:
    index = ENGINES[engine](
        [
            *((n, Filter.parse(f"a{n} = {n}")) for n in range(300)),
            (-1, Filter.parse("a9999 = 9999")),
            (-2, Filter.parse("EXISTS nothing")),
        ]
    )
    event = {f"a{n}": n for n in range(10_000)}
    assert found(index, event) == [-1, *range(300)]
    assert found(index, event) == [-1, *range(300)]
    assert found(index, {"a1": 1}) == [1], "the large event has left nothing behind"


@everywhere
def test_a_set_with_ten_thousand_elements(engine: str) -> None:
    index = ENGINES[engine](
        (n, Filter.parse(f"t CONTAINS 'e{n}' AND t OVERLAPS ('e{n}', 'other') AND b = {n % 2}"))
        for n in range(400)
    )
    event = {"b": 1, "t": [f"e{n}" for n in range(10_000)], "c": 2}
    assert found(index, event) == list(range(1, 400, 2))
    assert found(index, {"b": 0, "t": ["e2"]}) == [2]


def test_buffers_grow_at_every_length_of_an_event() -> None:
    index = folded((n, Filter.parse(f"a{n} = {n}")) for n in range(300))
    for length in (*range(60, 70), *range(125, 132), 255, 256, 257, 300):
        assert found(index, {f"a{n}": n for n in range(length)}) == list(range(length))
    sets = folded((n, Filter.parse(f"t CONTAINS {n}")) for n in range(300))
    for length in (*range(60, 70), *range(125, 132), 255, 256, 257, 300):
        assert found(sets, {"t": list(range(length)), "a": 1}) == list(range(length))


@everywhere
def test_attributes_that_nobody_names(engine: str) -> None:
    index = ENGINES[engine]([(0, Filter.parse("x = 1"))])
    event = {"y": 1, "x.y": 1, "X": 1}
    assert found(index, event) == []
    assert found(index, {**event, "x": 1}) == [0]


# -- changing --------------------------------------------------------------------------------


def footprint(index: Index) -> int:
    """How many filters are held somewhere, living or dead."""
    state = index._state
    return len(state.fresh.keys) + sum(segment.source.rows for segment in state.segments)


@pytest.mark.parametrize("matching", [False, True], ids=["no match", "with matches"])
def test_adding_and_removing_the_same_key_does_not_fill_the_memory(matching: bool) -> None:
    index = folded([("other", Filter.parse("x = 0"))])
    for n in range(10_000):
        index.add("key", Filter.parse("x = 1") if n % 2 else Filter.all())
        if matching and n % 10 == 0:
            assert found(index, {"x": 1}) == ["key"]
        index.remove("key")
    assert footprint(index) < 5_000
    assert len(index._state.segments) < 10
    assert found(index, {"x": 0}) == ["other"]


@pytest.mark.parametrize("matching", [False, True], ids=["no match", "with matches"])
def test_replacing_the_same_key_does_not_fill_the_memory(matching: bool) -> None:
    index = folded([("key", Filter.all()), ("other", Filter.parse("x = 0"))])
    filters = [Filter.parse(f"x = {n}") for n in range(10)]
    for n in range(10_000):
        index.replace("key", filters[n % 10])
        if matching and n % 10 == 0:
            assert found(index, {"x": n % 10}) == (["key", "other"] if n % 10 == 0 else ["key"])
    assert footprint(index) < 5_000


def test_values_that_nobody_asks_for_any_more_are_forgotten() -> None:
    index = Index()
    for turn in range(12):
        index.add_many((n, Filter.parse(f"s = 'turn {turn} {n}'")) for n in range(1_100))
        assert found(index, {"s": f"turn {turn} 7"}) == [7]
        for n in range(1_100):
            index.remove(n)
    assert len(index) == 0
    assert footprint(index) < 4_000
    assert len(index._lines.interned) < 4_000


@everywhere
def test_removing_everything_leaves_an_engine_that_works(engine: str) -> None:
    index = ENGINES[engine]((n, Filter.parse(f"x = {n} OR s = 'a'")) for n in range(400))
    for n in range(400):
        index.remove(n)
    assert len(index) == 0
    assert found(index, {"x": 1, "s": "a"}) == []
    index.add("new", Filter.parse("s = 'a'"))
    assert found(index, {"x": 1, "s": "a"}) == ["new"]


def test_segments_stay_few_however_filters_come() -> None:
    index = folded([])
    for n in range(3_000):
        index.add(n, Filter.parse(f"x >= {n}"))
        if n % 50 == 0:
            index._fold()
    assert len(index._state.segments) < 10
    assert found(index, {"x": 2_998.5}) == list(range(2_999))


# -- other domains ---------------------------------------------------------------------------


class Point(tuple[int, int]):
    """A value of a domain that matching knows nothing of."""

    __slots__ = ()


class Boxes:
    """The points whose coordinates are all below a limit; None is all points."""

    domain = "point"

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    is_empty = property(lambda self: self.limit == 0)
    is_full = property(lambda self: self.limit is None)

    def matches(self, value: Point) -> bool:
        return self.limit is None or max(value) < self.limit

    def covers(self, other: Boxes) -> bool:
        return self.limit is None or (other.limit is not None and other.limit <= self.limit)

    def overlaps(self, other: Boxes) -> bool:
        return not self.is_empty and not other.is_empty

    def phrase(self, name: str) -> Phrase:
        return Phrase(f"{name} BELOW {self.limit}")

    def example(self) -> Point:
        return Point((0, 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Boxes) and self.limit == other.limit

    def __hash__(self) -> int:
        return hash(self.limit)


@everywhere
def test_a_domain_that_somebody_registered(engine: str) -> None:
    from tidings.events import Conjunction

    if "point" not in DOMAINS:
        register("point", Point, Domain(Boxes(None), Boxes(0), lambda plain, types: Boxes(plain)))
    try:
        chosen = [
            Filter([Conjunction({"p": Constraint.of(Boxes(limit))}).intersect(c) or c])
            for limit in (3, 5)
            for c in Filter.parse("x > 0").conjunctions
        ]
        index = ENGINES[engine](enumerate(chosen))
        event = Notification({"x": 1})
        assert index.match(event) == []
        event.attributes["p"] = Point((4, 1))
        assert index.match(event) == [1]
        event.attributes["p"] = Point((2, 1))
        assert sorted(index.match(event)) == [0, 1]
        assert [index[n] for n in range(2)] == chosen
    finally:
        DOMAINS.pop("point", None)
