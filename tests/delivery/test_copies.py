"""Copies: whose a name is, and what its owner is told of a copy."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.matching.strategies import PROBES
from tidings.delivery.copies import (
    EVERYBODY,
    FOR,
    addressee,
    as_told,
    copies_for,
    is_of_copies_only,
    is_owned,
)
from tidings.events import Filter, Notification
from tidings.protocol.records import RecordDecoder, pack_notification

PRINCIPALS = st.sampled_from([EVERYBODY, "desk", "des", "lab"])
NAMES = st.text(st.sampled_from("ab/é' "), min_size=1, max_size=4)


@given(PRINCIPALS, PRINCIPALS, NAMES, NAMES)
def test_a_name_belongs_to_one_principal(one: str, other: str, name: str, its: str) -> None:
    full = addressee(one, name)
    if one != EVERYBODY or "/" not in name:
        assert is_owned(one, full)
        assert is_owned(other, full) == (one == other)
        assert (full == addressee(other, its) and is_owned(other, full)) == (
            (one, name) == (other, its)
        )


@given(st.sampled_from(PROBES), st.frozensets(NAMES, min_size=1, max_size=4), NAMES)
@example(Notification({"x": [{"a": 1}]}), frozenset(["a", "aa"]), "a")
def test_who_is_told_of_a_copy_sees_nobody_else(
    said: Notification, names: frozenset[str], name: str
) -> None:
    copy = Notification({**said.said(), FOR: names})
    read = RecordDecoder().notification(pack_notification(copy))  # as it comes from a log
    for each in (copy, read):
        told = as_told(each, name)
        assert (told is not None) == (name in names) == copies_for(name).matches(each)
        if told is not None:
            assert told == Notification({**said.said(), FOR: {name}})
            assert RecordDecoder().notification(pack_notification(told)) == told


def test_what_is_for_no_set_of_names_is_for_nobody() -> None:
    for value in ("desk", 7, True, [["desk"]]):
        copy = Notification({FOR: value})
        assert as_told(copy, "desk") is None


def test_a_filter_that_only_copies_pass_is_known() -> None:
    for text in ("EXISTS tidings.for", "tidings.for CONTAINS 'a' OR tidings.for = 'b' AND n = 1"):
        assert is_of_copies_only(Filter.parse(text))
    for text in ("TRUE", "NOT EXISTS tidings.for", "EXISTS tidings.for OR n = 1", "n = 1"):
        assert not is_of_copies_only(Filter.parse(text))
