"""What every engine behind `Matcher` must do: one suite, run for each, in every state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.engines import ENGINES, TUNINGS, Pairs, tuned
from tests.matching.strategies import PROBES, filters, notifications, parsed
from tidings.events import Filter, Notification
from tidings.matching import Matcher, Scan

Make = Callable[[Pairs], Matcher]


@pytest.fixture(params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    return ENGINES[request.param]


FEWER = settings(max_examples=max(5, settings().max_examples // 8))
HALF = settings(max_examples=settings().max_examples // 2)
"""The examples of all engines together are many."""
tunings = st.sampled_from(list(TUNINGS))


def parse(*texts: str) -> list[tuple[int, Filter]]:
    return [(n, Filter.parse(text)) for n, text in enumerate(texts)]


QUOTES = parse(
    "symbol = 'DIS'",
    "symbol = 'DIS' AND price < 10",
    "price BETWEEN 5 AND 20",
    "symbol IN ('IBM', 'DIS') OR price > 100",
    "tags CONTAINS 'media'",
    "TRUE",
    "FALSE",
)


# -- matching --------------------------------------------------------------------------------


def test_it_finds_the_filters_that_an_event_satisfies(make: Make) -> None:
    engine = make(QUOTES)
    assert sorted(engine.match(Notification({"symbol": "DIS", "price": 7}))) == [0, 1, 2, 3, 5]
    assert sorted(engine.match(Notification({"tags": ["media", "us"]}))) == [4, 5]
    assert sorted(engine.match(Notification({}))) == [5]


def test_an_empty_engine_finds_nothing(make: Make) -> None:
    engine = make([])
    assert len(engine) == 0
    assert engine.match(Notification({"x": 1})) == []
    assert engine.match_some([Notification({"x": 1}), Notification({})]) == [[], []]
    assert [list(part) for part in engine.match_batch([Notification({"x": 1})])] == [[], []]


TRAPS: dict[str, list[str]] = {
    "nothing comes first, and what is reached twice comes second": ["FALSE", "x > 1 OR y > 1"],
    "constraints of two attributes that are one object": ["EXISTS x", "EXISTS y"],
    "ends that look like points": ["x > 'a'", "x <= 'a'", "y >= 'a'", "y < 'a'"],
    "all values but a few": ["x != 1", "x NOT IN ('a', 'b')", "y != 2 AND x != 3"],
    "a check of what may be absent": ["x = 1 AND y != 2", "x = 'a' AND y NOT IN (1, 2)"],
    "large negative numbers": [f"x {sign} {-(2**53) - n}" for n in range(4) for sign in ("<", "=")],
    "a set found by several elements": ["x OVERLAPS ('a', 'b')", "x OVERLAPS (1, true)"],
    "a filter found by several values": [
        "x IN (1, 2) OR y IN (1, 2) OR o.z = 1",
        "x = 1 OR x = 'a'",
    ],
    "booleans are no numbers": ["x = true", "x = 1", "x = false", "x = 0", "x CONTAINS true"],
    "a type is found by its descendants": ["x IS A 'stock'", "x IS A 'priced' AND x > 'p'"],
    "strings between strings": ["x > 'a' AND x < 'b'", "x = 'a'", "x >= 'a.b'", "x != 'ab'"],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("trap", TRAPS)
def test_filters_that_are_easy_to_get_wrong(trap: str, engine: str) -> None:
    chosen = [parsed(text) for text in TRAPS[trap]]
    for tuning in TUNINGS if engine in ("folded", "in segments") else ["postings"]:
        with tuned(tuning):
            assert_finds(ENGINES[engine](enumerate(chosen)), chosen, PROBES)


@pytest.mark.parametrize("engine", ENGINES)
@HALF
@given(
    tuning=tunings,
    chosen=st.lists(filters, min_size=1, max_size=12),
    events=st.lists(notifications),
)
def test_any_filters_and_any_events_agree_with_asking_every_filter(
    engine: str, tuning: str, chosen: list[Filter], events: list[Notification]
) -> None:
    with tuned(tuning):
        assert_finds(ENGINES[engine](enumerate(chosen)), chosen, PROBES + events)


def assert_finds(engine: Matcher, chosen: list[Filter], events: list[Notification]) -> None:
    expected = [[n for n, f in enumerate(chosen) if f.matches(event)] for event in events]
    assert [sorted(engine.match(event)) for event in events] == expected
    assert list(map(sorted, engine.match_some(events))) == expected
    pairs = [(row, key) for row, keys in enumerate(expected) for key in keys]
    rows, keys = (list(map(_plain, part)) for part in engine.match_batch(events))
    assert sorted(zip(rows, keys, strict=True)) == pairs
    assert rows == sorted(rows)


def _plain(item: Any) -> Any:
    return item.as_py() if hasattr(item, "as_py") else item


def test_keys_are_given_back_as_they_were_put_in(make: Make) -> None:
    keys: list[Any] = [7, "seven", ("a", 7), frozenset({7}), 10**30, b"7"]
    engine = make((key, Filter.all()) for key in keys)
    assert sorted(map(repr, engine.match(Notification({})))) == sorted(map(repr, keys))


def test_integer_keys_stay_plain_integers(make: Make) -> None:
    engine = make(QUOTES)
    event = Notification({})
    for found in (engine.match(event), *engine.match_some([event, event])):
        assert {key.__class__ for key in found} == {int}


# -- changing --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@FEWER
@given(chosen=st.lists(filters, max_size=9))
def test_the_filter_under_a_key_is_the_one_put_there(engine: str, chosen: list[Filter]) -> None:
    found = ENGINES[engine](enumerate(chosen))
    assert [found[n] for n in range(len(chosen))] == chosen
    assert [hash(found[n]) for n in range(len(chosen))] == list(map(hash, chosen))
    assert [str(found[n]) for n in range(len(chosen))] == list(map(str, chosen))
    assert len(found) == len(chosen)


def test_a_key_in_use_is_refused_and_nothing_changes(make: Make) -> None:
    engine = make(QUOTES)
    with pytest.raises(KeyError, match="0"):
        engine.add(0, Filter.all())
    for pairs in ([("new", Filter.all()), (3, Filter.all())], [("new", Filter.all())] * 2):
        with pytest.raises(KeyError):
            engine.add_many(pairs)
    _assert_is(engine, QUOTES)


def test_a_key_not_in_use_is_refused_and_nothing_changes(make: Make) -> None:
    engine = make(QUOTES)
    with pytest.raises(KeyError, match="none"):
        engine.remove("none")
    with pytest.raises(KeyError, match="none"):
        engine.replace("none", Filter.all())
    with pytest.raises(KeyError, match="none"):
        engine["none"]
    _assert_is(engine, QUOTES)


def test_pairs_that_break_off_leave_nothing_behind(make: Make) -> None:
    def broken() -> Pairs:
        yield "new", Filter.all()
        raise ValueError("broken off")

    engine = make(QUOTES)
    with pytest.raises(ValueError, match="broken off"):
        engine.add_many(broken())
    _assert_is(engine, QUOTES)


def test_what_is_removed_is_gone_and_its_key_is_free_again(make: Make) -> None:
    engine = make(QUOTES)
    engine.remove(0)
    assert 0 not in engine
    with pytest.raises(KeyError):
        engine.remove(0)
    _assert_is(engine, QUOTES[1:])
    engine.add(0, Filter.parse("symbol = 'IBM'"))
    _assert_is(engine, [(0, Filter.parse("symbol = 'IBM'")), *QUOTES[1:]])


def test_a_replaced_filter_counts_no_more_and_the_new_one_does(make: Make) -> None:
    engine = make(QUOTES)
    for n in range(3):
        engine.replace(0, Filter.parse(f"price = {n}"))
        _assert_is(engine, [(0, Filter.parse(f"price = {n}")), *QUOTES[1:]])


def test_everything_can_be_removed_and_added_again(make: Make) -> None:
    engine = make(QUOTES)
    for _ in range(2):
        for key, _ in QUOTES:
            engine.remove(key)
        _assert_is(engine, [])
        engine.add_many(QUOTES)
        _assert_is(engine, QUOTES)


def _assert_is(engine: Matcher, pairs: list[tuple[int, Filter]]) -> None:
    """The engine holds just these, by whatever means one asks."""
    scan = Scan()
    scan.add_many(pairs)
    assert len(engine) == len(pairs)
    assert "new" not in engine
    for key, filter_ in pairs:
        assert key in engine
        assert engine[key] == filter_
    for event in (
        Notification({"symbol": "DIS", "price": 7}),
        Notification({"symbol": "IBM", "price": 200, "tags": ["media"]}),
        Notification({"price": 0}),
    ):
        assert sorted(engine.match(event)) == sorted(scan.match(event))
