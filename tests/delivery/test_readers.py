"""Flows that break off, and readers that begin."""

from __future__ import annotations

from tidings.delivery.readers import Flow, Reader
from tidings.events import Filter


def reader(order: int = 1) -> Reader:
    return Reader("session", f"s{order}", Filter.parse("TRUE"))


def test_those_who_were_asking_where_a_flow_is_ask_again_first_when_it_breaks_off() -> None:
    flow, first, second = Flow("paris"), reader(1), reader(2)
    flow.is_live, flow.fetch, flow.probe = True, 7, 8
    flow.probing[first] = flow.waiting[second] = None
    flow.break_off()
    assert not flow.is_live
    assert (flow.fetch, flow.probe) == (0, 0)
    assert list(flow.waiting) == [first, second]
    assert not flow.probing


def test_a_reader_that_was_saved_before_has_no_new_start() -> None:
    known = reader()
    known.begins("paris", 4)
    assert known.starts is None


def test_a_new_reader_starts_once_in_each_stream() -> None:
    new = reader()
    new.starts = {}
    new.begins("paris", 4)
    new.begins("paris", 9)
    new.begins("rome", 0)
    assert new.starts == {"paris": 4, "rome": 0}
