"""Readers that begin."""

from __future__ import annotations

from tidings.delivery.readers import Reader
from tidings.events import Filter


def reader(order: int = 1) -> Reader:
    return Reader("session", f"s{order}", Filter.parse("TRUE"))


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
