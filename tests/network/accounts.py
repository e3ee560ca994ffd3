"""Accounts: who published and heard what, held against the logs of the brokers at the end.

The logs are the truth about what happened. Of each publisher they must hold what was accepted,
once and in order. Of each stream, a reader must have heard just what its filter matches, from a
definite tick on. A reader may have had several lives: each goes on behind something that the one
before it had acknowledged, or had at least heard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidings.events import Filter
from tidings.protocol.messages import Event

END = "end"
"""The attribute of the last event of each stream, which everybody wants."""

LATE = 2.0
"""A reader may be told of events that were on their way when it began; not for longer."""

Logs = Mapping[str, Sequence[Event]]


@dataclass
class Published:
    """What one publisher knows about what it has published: numbers from 1 on."""

    name: str
    begun: int = 0
    """It has tried to publish these,"""
    accepted: int = 0
    """and been told that these are kept."""


@dataclass
class Life:
    """What a reader heard until it was killed, or stopped."""

    heard: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Ticks, by stream, in the order in which they came."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """What the broker is sure to know."""
    missed: int = 0

    def hear(self, stream: str, tick: int) -> None:
        self.heard[stream].append(tick)


@dataclass
class Heard:
    """What one reader has heard in all its lives."""

    name: str
    filter: str
    lives: list[Life] = field(default_factory=list)
    asked_at: float = 0.0
    """When the subscription was asked for,"""
    known: dict[str, int] = field(default_factory=dict)
    """and what its broker had on disk of how far each stream was."""
    after: dict[str, int] | None = None
    """What each publisher had tried to publish when it had begun. None: nothing."""

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def wanted(self) -> Filter:
        return Filter.parse(f"({self.filter}) OR EXISTS {END}")


def check_published(logs: Logs, published: Sequence[Published]) -> None:
    """Every accepted publication is in a log, once and in order; nothing else is there."""
    found: dict[str, list[int]] = defaultdict(list)
    for name, log in logs.items():
        assert [e.tick for e in log] == list(range(1, len(log) + 1)), f"the ticks of {name}"
        times = [e.time for e in log]
        assert times == sorted(times), f"time goes backwards in {name}"
        for event in log:
            if END not in event.notification:
                found[event.notification["by"]].append(event.notification["n"])
    assert found.keys() <= {p.name for p in published}
    for each in published:
        numbers = found[each.name]
        assert numbers == list(range(1, len(numbers) + 1)), f"what {each.name} has published"
        assert each.accepted <= len(numbers) <= each.begun, each


def check_heard(logs: Logs, heard: Heard) -> None:
    """Each stream was heard as the filter says, without a gap, from a definite tick on."""
    assert heard.lives
    missed = sum(life.missed for life in heard.lives)
    wanted = heard.wanted
    for stream, log in logs.items():
        events = [e for e in log if wanted.matches(e.notification)]
        ticks = [e.tick for e in events]
        where = f"{heard.name} in stream {stream}"
        first = _first(heard, stream, ticks)
        _check_start(heard, events, first, where)
        if missed:
            last = heard.life.heard[stream]
            assert last == sorted(set(last) & set(ticks)), f"{where}: {_difference(last, ticks)}"
            missed -= len(ticks[first:]) - len(last)
            continue
        upto, acknowledged = first, 0
        for number, life in enumerate(heard.lives):
            got = life.heard.get(stream, [])
            if got:
                assert got[0] in ticks, f"{where}: was told of {got[0]}"
                start = ticks.index(got[0])
                due = ticks[start : start + len(got)]
                assert got == due, f"{where}, life {number}: {_difference(got, due)}"
                assert start <= upto, f"{where}, life {number}: {ticks[upto:start]} are missing"
                assert got[0] > acknowledged, f"{where}, life {number}: {got[0]} comes again"
                upto = max(upto, start + len(got))
            acknowledged = max(acknowledged, life.acknowledged.get(stream, 0))
        assert upto == len(ticks), f"{where}: {ticks[upto:]} are missing at the end"
    assert missed == 0, f"{heard.name} was told of {missed} more missed events than there were"


def _first(heard: Heard, stream: str, ticks: list[int]) -> int:
    """Which of the events that it wants was the first that it heard."""
    for life in heard.lives:
        if life.heard.get(stream):
            return ticks.index(life.heard[stream][0])
    return len(ticks)


def _check_start(heard: Heard, events: Sequence[Event], first: int, where: str) -> None:
    """Nothing that its broker knew of before, and all from when it had begun."""
    if heard.after is None:
        assert first == 0, f"{where}: the first {first} are missing"
        return
    for number, event in enumerate(events):
        by = event.notification.get("by")
        is_known = event.tick <= heard.known.get(event.stream, 0)
        if is_known and event.time < heard.asked_at - LATE:
            assert number < first, f"{where}: {event.tick} is from before its start"
        if by is not None and event.notification["n"] > heard.after.get(by, 0):
            assert number >= first, f"{where}: {event.tick} is missing at its start"


def _difference(got: list[int], due: list[int]) -> str:
    for place, (one, other) in enumerate(zip(got, due, strict=False)):
        if one != other:
            return f"event {place} is {one}, not {other}: {got[place - 2 : place + 5]}"
    return f"{len(got)} events, not {len(due)}"
