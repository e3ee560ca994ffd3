"""The tally: how delivering goes on, added up from what Spark tells of its batches."""

from __future__ import annotations

import json
from datetime import datetime
from time import monotonic
from typing import Any, Final, NamedTuple

from tidings.spark.bulk.registrations import Registrations

METRICS: Final = "deliveries"
"""The name under which Spark adds up what a query delivers: matched, delivered, refused, time."""


class DeliverReport(NamedTuple):
    """How delivering goes on."""

    events: int = 0
    """Ticks of the brokers' streams that were read since the start."""
    matched: int = 0
    """Events that somebody wants, since the start."""
    delivered: int = 0
    """Pairs of an event and a name that it has reached, since the start."""
    dead: int = 0
    """Deliveries that could not be published, and are dead letters."""
    batches: int = 0
    seconds: float = 0.0
    """Since the start."""
    rate: float = 0.0
    """Ticks per second of late."""
    latency: float | None = None
    """Seconds from publication to delivery, the mean of the last batch that had any."""
    subscriptions: int = 0
    """Bulk subscriptions in force."""
    refused: int = 0
    """Registrations that were refused."""
    why: str = ""
    """What is wrong with the last registration that was refused."""


class Tally:
    """Adds up what Spark tells of batches."""

    def __init__(self) -> None:
        self._began = self._at = monotonic()
        self._last = -1
        self._report = DeliverReport()

    def add(self, news: list[Any]) -> None:
        """What there is to tell of the last batches, some of which may be known."""
        events = 0
        for about in news:
            if about["batchId"] <= self._last or not about["sources"]:
                continue
            source = about["sources"][0]
            start, end = _said(source["startOffset"]), _said(source["endOffset"])
            if end is None or (start is not None and start["cursor"] == end["cursor"]):
                continue  # it is told again, waiting for more
            ticks = sum(end["cursor"].values()) - sum(end["begin"].values())
            self._last = about["batchId"]
            events += ticks
            observed = about["observedMetrics"].get(METRICS)
            matched = 0 if observed is None else observed["matched"] or 0
            delivered, dead = (observed["delivered"], observed["refused"]) if matched else (0, 0)
            before = self._report
            self._report = before._replace(
                events=before.events + ticks,
                matched=before.matched + matched,
                delivered=before.delivered + delivered,
                dead=before.dead + dead,
                batches=before.batches + 1,
                latency=_ended(about) - observed["time"] / matched if matched else before.latency,
            )
        now = monotonic()
        if events or now - self._at > 5.0:
            self._report = self._report._replace(rate=events / max(now - self._at, 1e-9))
            self._at = now

    def report(self, known: Registrations) -> DeliverReport:
        """All so far; others may be changing what is known."""
        return self._report._replace(
            seconds=monotonic() - self._began,
            subscriptions=known.count,
            refused=known.refusals,
            why=["", *known.refused.values()][-1],
        )


def _said(offset: Any) -> Any:
    """An offset, as `format.reader` makes it; None if there is none."""
    return json.loads(offset) if isinstance(offset, str) else offset


def _ended(about: Any) -> float:
    """When a batch had ended, in seconds since 1970."""
    began = datetime.fromisoformat(about["timestamp"])
    return float(began.timestamp() + about["durationMs"].get("triggerExecution", 0) / 1e3)
