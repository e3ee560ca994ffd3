"""What a lake says of the times of its streams: never more than was promised of what it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.spark.archiving.promised import Promised
from tidings.spark.streams.places import Ends

EVENT, PROMISE, LAKE = "an event is published", "a promise is heard", "the lake is written"
courses = st.lists(st.tuples(st.sampled_from([EVENT, PROMISE, LAKE]), st.integers(0, 5)))


def test_what_was_promised_of_a_tick_waits_until_the_lake_has_come_to_it() -> None:
    promised = Promised()
    promised.hear(Ends({"paris": 10, "rome": 0}, {"paris": 500.0, "rome": 400.0}))
    assert promised.below({"paris": 9}) == {"rome": 400.0}
    promised.hear(Ends({"paris": 10, "rome": 0}, {"paris": 501.0}))
    assert promised.below({"paris": 10}) == {"paris": 501.0, "rome": 400.0}


def test_a_lake_that_is_always_late_is_complete_below_what_was_promised_earlier() -> None:
    promised, found = Promised(), []
    for tick in range(0, 1_000, 10):
        promised.hear(Ends({"paris": tick}, {"paris": 1_000.0 + tick}))
        found.append(promised.below({"paris": tick - 35}).get("paris", 0.0))
    assert found == sorted(found)
    assert found[-1] >= 1_000.0 + 990 - 2 * 40


@given(courses)
def test_all_that_is_earlier_is_in_the_lake(course: list[tuple[str, int]]) -> None:
    """`times` are those of the events of a stream, from tick 1 on; each promise is a true one."""
    promised, times, now, held, said = Promised(), list[float](), 1.0, 0, 0.0
    newest = (0, 0.0)
    for what, amount in course:
        if what == EVENT:
            now += amount  # perhaps 0: two events of one time, the first before a promise
            times.append(now)
        elif what == PROMISE:
            now += amount
            newest = (len(times), now)
            promised.hear(Ends({"paris": len(times)}, {"paris": now}))
        else:
            held = min(len(times), held + amount)
            below = promised.below({"paris": held}).get("paris", 0.0)
            assert all(tick <= held for tick, time in enumerate(times, 1) if time < below)
            assert below >= said
            if held >= newest[0]:
                assert below == newest[1]
            said = below
