"""`tidings subscribe`: what does not go together is refused before any broker is asked; where
`--until` ends it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from tidings.cli.app import app
from tidings.cli.subscribe import _until


def said(*arguments: str, **environment: str) -> str:
    """What is wrong with the usage, on one line."""
    here = {"TIDINGS_URL": "tidings://127.0.0.1:1", "COLUMNS": "200", **environment}
    done = CliRunner().invoke(app, ["subscribe", *arguments], env=here)
    assert done.exit_code == 2
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("--bulk a --lake l", "--bulk goes without --lake"),
        ("--bulk a --durable d --lake l", "--bulk goes without --durable, --lake"),
        ("TRUE --here", "--here needs --durable NAME: what is to begin here"),
        ("--filters f --lake l", "--filters goes without --lake"),
        (
            "--filters f --until now --count 3 --with-meta",
            "--filters goes without --until, --count, --with-meta",
        ),
        ("--filters f --cancel --count 3", "--filters goes without --count"),
        ("--bulk a --cancel --with-meta", "--cancel goes without --with-meta"),
        ("--bulk a --cancel --lake l", "--cancel goes without --lake"),
    ],
)
def test_what_would_be_ignored_is_refused(arguments: str, wanted: str) -> None:
    assert f"{wanted}\n" in said(*arguments.split())


@pytest.mark.parametrize("filter", [["x > 1"], []])
def test_what_is_cancelled_has_to_be_said(filter: list[str]) -> None:
    assert "--cancel needs --bulk NAME or --filters FILE" in said(*filter, "--cancel")


def test_a_lake_of_the_environment_is_no_option_that_was_given() -> None:
    assert "goes without" not in said("--filters", "no-such-file", TIDINGS_LAKE="lake")


class Arriving:
    """A subscription with a clock of its own, on which to wait takes no time.

    Its events are times, in seconds from the end: when one arrives, and when it was published.
    """

    def __init__(self, end: datetime, *arrivals: tuple[float, float]) -> None:
        self._end, self._left = end, list(arrivals)
        self.clock = -5.0

    def now(self, zone: Any) -> datetime:
        return self._end + timedelta(seconds=self.clock)

    def until_live(self) -> Iterator[Any]:
        while self.waiting:
            yield self.get(0)

    @property
    def waiting(self) -> int:
        return sum(arrives <= self.clock for arrives, _ in self._left)

    def get(self, timeout: float) -> Any:
        if not self._left or self._left[0][0] > self.clock + timeout:
            self.clock += timeout
            raise TimeoutError
        arrives, published = self._left.pop(0)
        self.clock = max(self.clock, arrives)
        return Published(self._end + timedelta(seconds=published))


class Published:
    """As much of an event as `--until` looks at."""

    def __init__(self, time: datetime) -> None:
        self.time = time


@pytest.mark.parametrize(
    ("arrivals", "told"),
    [
        ([], []),
        ([(-6, -7), (-2, -3), (0.5, 0.4)], [-7, -3]),
        ([(0.9, -0.1), (1.5, -0.1)], [-0.1]),
        ([(0.1, 0.05), (0.9, -0.1), (1.5, -0.1)], [-0.1]),
    ],
    ids=["nothing", "before and after", "late", "late, behind one of after the end"],
)
def test_until_a_time_to_come_is_a_second_longer_for_what_is_late(
    monkeypatch: pytest.MonkeyPatch, arrivals: list[tuple[float, float]], told: list[float]
) -> None:
    end = datetime(2026, 11, 15, 12, tzinfo=UTC)
    events: Any = Arriving(end, *arrivals)
    monkeypatch.setattr("tidings.cli.subscribe.datetime", events)
    assert [(e.time - end).total_seconds() for e in _until(events, end)] == told
    assert events.clock == 1, "and then it ends"
