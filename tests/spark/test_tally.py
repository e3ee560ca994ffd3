"""What is told of delivering: from what Spark tells, as it tells it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidings.spark.bulk.registrations import Registrations
from tidings.spark.delivering.tally import Tally


def about(
    batch: int, start: int | None, end: int, begin: int | None = None, **observed: Any
) -> dict[str, Any]:
    def offset(tick: int, begin: int | None) -> str:
        cursors = {"begin": {"paris": begin or 0, "rome": 5}, "cursor": {"paris": tick, "rome": 5}}
        return json.dumps(cursors)

    return {
        "batchId": batch,
        "timestamp": "2026-11-16T12:00:10.000Z",
        "durationMs": {"triggerExecution": 500},
        "sources": [
            {
                "startOffset": "null" if start is None else offset(start, None),
                "endOffset": offset(end, begin if begin is not None else start),
            }
        ],
        "observedMetrics": {"deliveries": observed} if observed else {},
    }


def test_each_batch_is_counted_once() -> None:
    tally, noon = Tally(), 1_794_830_400.0
    first = about(1, 10, 110, matched=50, delivered=80, refused=3, time=50 * (noon + 10))
    second = about(2, 110, 130, matched=None, delivered=None, refused=None, time=None)
    tally.add([about(0, None, 10, begin=7)])
    assert tally.report(Registrations()).events == 3
    tally.add([first])
    tally.add([first, second, about(2, 130, 130)])
    tally.add([second])
    found = tally.report(Registrations())
    assert (found.events, found.matched, found.delivered, found.batches) == (123, 50, 80, 3)
    assert found.dead == 3
    tally.add([about(3, 130, 40, begin=0)])  # the broker had lost its log
    assert tally.report(Registrations()).events == 163
    assert found.latency == pytest.approx(0.5)
