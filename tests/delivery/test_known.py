"""What is known of streams: the highest tick of each, stored when it changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.streams import REMEMBERED, Known, Stored

STREAMS = ("london", "paris", "rome")
STEPS = st.lists(
    st.tuples(st.just("hear"), st.sampled_from(STREAMS), st.integers(0, 9))
    | st.tuples(st.just("pass"), st.sets(st.sampled_from(STREAMS)), st.floats(0, REMEMBERED))
    | st.tuples(st.just("store"), st.none(), st.none())
)


@given(STEPS)
def test_whatever_happens_the_highest_tick_is_known_and_stored(steps: list[tuple]) -> None:
    known, disk = Known(), {}
    ticks: dict[str, int] = {}
    away: dict[str, float] = {}
    for do, what, value in steps:
        if do == "hear":
            assert known.hear(what, value) is (what not in ticks)
            ticks[what] = max(value, ticks.get(what, 0))
        elif do == "pass":
            known.passed(value, reachable=what)
            away = {s: 0.0 if s in what else away.get(s, 0.0) + value for s in ticks}
            ticks = {s: t for s, t in ticks.items() if away[s] < REMEMBERED}
            away = {s: t for s, t in away.items() if s in ticks}
        else:
            _store(known, disk)
            assert {s: tick for s, (tick, _) in disk.items()} == ticks
            assert not known.changes()
        assert known == ticks


def _store(known: Known, disk: dict[str, Stored]) -> None:
    for stream, stored in known.changes().items():
        if stored is None:
            del disk[stream]
        else:
            disk[stream] = stored


def test_a_stream_is_forgotten_after_ninety_days_without_a_way_across_restarts() -> None:
    disk: dict[str, Stored] = {}
    for day in range(90):
        known = Known()
        for stream, stored in disk.items():
            known.restore(stream, stored)
        if day == 0:
            known.hear("paris", 7)
        assert known == {"paris": 7}, f"on day {day}"
        for _ in range(24):
            known.passed(3600.0, reachable=["london"])
            _store(known, disk)
    assert not known
    assert not disk


def test_a_stream_that_is_reached_again_is_as_good_as_new() -> None:
    known = Known()
    known.hear("paris", 7)
    known.passed(REMEMBERED - 1, reachable=[])
    known.passed(60.0, reachable=["paris"])
    known.passed(REMEMBERED - 1, reachable=[])
    assert known == {"paris": 7}
