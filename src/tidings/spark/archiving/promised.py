"""Promised: below which times a lake is complete, by what brokers have promised of its streams.

A promise is a tick and a time: whatever is earlier lies up to that tick. It says something of a
lake as soon as that holds the stream up to there. The newest promise is of where the stream ends,
which a lake that is always a little late never holds; so one is waited for until the lake has come
to its tick, and then the newest at that moment.

    lake    ━━━━━━━━━━━━━━━━▶ 12
    ticks   ──────────●10──────────●20─────────●30───▶  complete below the time told with 10;
                      told         told        told     it waits for 30 now, the newest
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidings.protocol.requests import Cursor
from tidings.spark.streams.places import Ends


class _Promise(NamedTuple):
    tick: int
    time: float


class Promised:
    """What was promised, and what of that a lake may say.

    >>> promised = Promised()
    >>> promised.hear(Ends({"paris": 10}, {"paris": 500.0}))
    >>> promised.below({"paris": 9}), promised.below({"paris": 10})
    ({}, {'paris': 500.0})
    """

    def __init__(self) -> None:
        self._due: dict[str, _Promise] = {}
        """The one that the lake is to come to, of each stream."""
        self._newest: dict[str, _Promise] = {}
        self._below: dict[str, float] = {}

    def hear(self, ends: Ends) -> None:
        """Times are promised of where the streams end."""
        for stream in ends.complete.keys() & ends.ticks.keys():
            newest = _Promise(ends.ticks[stream], ends.complete[stream])
            self._newest[stream] = newest
            self._due.setdefault(stream, newest)

    def below(self, held: Cursor) -> Mapping[str, float]:
        """The times below which a lake is complete that holds so much; it must hold it for good."""
        for stream, newest in self._newest.items():
            tick = held.get(stream, 0)
            for promise in (self._due[stream], newest):
                if promise.tick <= tick:
                    self._below[stream] = max(promise.time, self._below.get(stream, 0.0))
            if self._due[stream].tick <= tick:
                self._due[stream] = newest
        return dict(self._below)
