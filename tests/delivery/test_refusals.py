"""What was refused: remembered for those who may not have heard of it, and stored in time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.client.outbox import OutboxLimits
from tidings.delivery import refusals
from tidings.delivery.refusals import Refusals
from tidings.protocol.host import Store
from tidings.protocol.requests import Refused


class Disk(dict[str, Any]):
    """What is stored."""

    def keep(self, changes: list[Store]) -> None:
        for key, value in ((change.key, change.value) for change in changes):
            if value is None:
                del self[key]  # nothing is forgotten that was not stored
            else:
                assert self.get(key, value) == value
                self[key] = value


def restored(disk: Disk, **last: int) -> Refusals:
    known = Refusals()
    known.restore(disk, last=last)
    return known


def told(known: Refusals, session: str = "desk") -> list[int]:
    return [int(refusal.id) for refusal in known.of(session)]


STEPS = st.lists(st.sampled_from(["refuse", "refuse", "keep", "attach", "restart"]), max_size=60)


@given(STEPS)
def test_what_is_stored_is_what_was_refused_before_what_is_kept(steps: list[str]) -> None:
    disk, known = Disk(), Refusals()
    number = kept = 0
    refused: set[int] = set()
    for step in steps:
        match step:
            case "refuse":
                number += 1
                refused.add(number)
                disk.keep(known.add("desk", number, "too wide"))
            case "keep":
                number = kept = number + 1
                disk.keep(known.kept("desk", kept))
            case _:
                if step == "restart":
                    known = restored(disk)
                disk.keep(known.forget("desk", above=kept))
                number = kept  # the client gives the numbers behind it to something else
                refused = {n for n in refused if n <= kept}
                assert told(known) == sorted(refused)
        assert disk == {f"refused:desk:{n}": "too wide" for n in refused if n <= kept}


def test_a_session_that_has_left_leaves_nothing() -> None:
    disk, known = Disk(), Refusals()
    for number in (1, 3):
        disk.keep(known.add("desk", number, "too wide"))
        disk.keep(known.add("desk:1", number, "too wide"))
    disk.keep(known.kept("desk", 2) + known.kept("desk:1", 2))
    disk.keep(known.forget("desk"))
    assert disk == {"refused:desk:1:1": "too wide"}
    assert (told(known), told(known, "desk:1")) == ([], [1, 3])
    assert told(restored(disk), "desk:1") == [1]


def test_the_last_refusals_of_a_session_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "EACH", 3)
    disk, known = Disk(), Refusals()
    for number in range(7, 11):
        disk.keep(known.add("desk", number, "too wide"))
    disk.keep(known.kept("desk", 11))
    known = restored(disk)  # where they are sorted as texts
    assert known.of("desk") == [Refused(str(n), "too wide") for n in (8, 9, 10)]
    disk.keep(known.add("desk", 12, "too wide"))
    assert told(known) == [9, 10, 12]
    assert len(disk) == 2


def test_the_name_that_was_refused_nothing_for_the_longest_time_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "IN_ALL", 4)
    disk, known = Disk(), Refusals()
    for name, number in [("p/a", 1), ("p/b", 1), ("p/b", 2), ("p/a", 3), ("p/c", 1)]:
        disk.keep(known.add(name, number, "too wide"))
        disk.keep(known.kept(name, number + 1))
    assert sorted(disk) == ["refused:p/a:1", "refused:p/a:3", "refused:p/c:1"]
    known = restored(disk, **{"p/a": 9, "p/c": 8})
    known.add("p/d", 1, "too wide")
    disk.keep(known.add("p/d", 2, "too wide"))
    assert "refused:p/c:1" not in disk
    assert told(known, "p/a") == [1, 3]


def test_nobody_has_another_principals_refusals_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "IN_ALL", 4)
    disk, known = Disk(), Refusals()
    disk.keep(known.add("desk/a", 2, "too wide"))
    for number in range(1, 100):
        disk.keep(known.add(f"eve/{number % 7}", number, "no"))
    disk.keep(known.kept("desk/a", 3))
    assert told(known, "desk/a") == [2]
    assert disk == {"refused:desk/a:2": "too wide"}


def test_no_client_has_more_under_way_than_is_remembered() -> None:
    assert OutboxLimits().frames * OutboxLimits().most <= refusals.EACH
