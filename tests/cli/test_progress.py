"""Progress: what is told on a terminal, and where there is none."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from tidings.cli import progress
from tidings.cli.bulk import _registrations
from tidings.cli.complaints import complain
from tidings.cli.progress import ProgressLine
from tidings.events import Filter


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "monotonic", found)
    return found


def test_registrations_are_counted_on_a_terminal(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    found = [(f"desk-{n}", Filter.all()) for n in range(3_001)]
    line = ProgressLine()
    for _ in _registrations(found, "registered", line, is_cancelled=False):
        clock.now += 1 / 1_024
    line.clear()
    shown = sys.stderr.getvalue().split("\r\033[K")
    assert shown[1] == "0 of 3,001 registered"
    assert shown[-2].endswith(" of 3,001 registered, 1,024/s")
    assert shown[-1] == ""
    assert 20 < len(shown) < 40, "often enough to be seen, and no oftener"


def test_elsewhere_there_is_a_line_every_ten_seconds(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", StringIO())
    line = ProgressLine()
    for n in range(25):
        line.count(n, 25, "events", f", {n} matches")
        clock.now += 1
    line.clear()
    assert sys.stderr.getvalue().splitlines() == [
        "10 of 25 events, 1/s, 10 matches",
        "20 of 25 events, 1/s, 20 matches",
    ]


def test_an_error_has_a_line_of_its_own(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    ProgressLine().starting("local[*]")
    complain("there is none")
    assert sys.stderr.getvalue().split("\r\033[K")[1] == "starting Spark"
    assert sys.stderr.getvalue().split("\r\033[K")[2].endswith("there is none\n")
    monkeypatch.setattr(sys, "stderr", Terminal())
    ProgressLine().starting("none")
    assert sys.stderr.getvalue() == ""
