"""What a log has in memory is what was appended, and it knows what it has not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.log import BYTES, Log
from tidings.events import Notification
from tidings.protocol.messages import Event


def said(tick: int, time: float) -> Event:
    return Event("paris", tick, Notification({}), time=time)


batches = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=8)


def filled(batches: list[list[int]], tail: int, first: int) -> tuple[Log, list[Event]]:
    """A log with these batches, each event so much later than the last, and all its events."""
    log = Log(first=1, last=0, time=0.0, tail=tail)
    events: list[Event] = []
    for batch in batches:
        added = []
        for pause in batch:
            time = (events or [said(0, 1.0)])[-1].time + pause
            added.append(said(len(events) + 1, time))
            events.append(added[-1])
        log.extend(added, 10 * len(added))
    log.trim(min(first, log.last + 1))
    return log, events


@given(batches, st.integers(0, 6), st.integers(0, 40))
def test_recent_events_are_those_behind_a_tick_or_unknown(
    batches: list[list[int]], tail: int, since: int
) -> None:
    log, events = filled(batches, tail, 1)
    recent = log.recent(min(since, log.last))
    assert recent is None or recent == events[min(since, log.last) :]
    assert log.recent(log.last) == []
    assert log.last == len(events)


@given(batches, st.integers(0, 6), st.integers(1, 40), st.integers(0, 40))
def test_a_time_is_a_tick_that_is_kept_or_must_be_looked_up(
    batches: list[list[int]], tail: int, first: int, time: int
) -> None:
    log, events = filled(batches, tail, first)
    found = log.tick_before(float(time))
    if found is not None:
        assert found == max(log.first - 1, *(e.tick for e in events if e.time < time), 0)
    else:
        assert log.recent(log.first - 1) is None


@pytest.mark.parametrize("size", [BYTES, BYTES + 1, 10 * BYTES])
def test_a_batch_larger_than_the_memory_is_left_to_the_store(size: int) -> None:
    log = Log(first=1, last=0, time=0.0)
    log.extend([said(1, 1.0), said(2, 1.0)], size)
    log.extend([said(3, 1.0)], 10)
    assert log.recent(2) == [said(3, 1.0)]
    assert log.recent(1) is None
