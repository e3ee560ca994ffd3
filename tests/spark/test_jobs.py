"""Jobs of a real Spark that are stopped."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tidings.spark import jobs
from tidings.spark.interrupts import Stopped
from tidings.spark.jobs import carry_out

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]


def test_whoever_stops_it_spark_goes_on_with_something_else(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_PATIENCE", 0.1)
    context, stop = spark.sparkContext, threading.Event()

    def endless() -> Any:
        return context.parallelize([0], 1).map(lambda _: threading.Event().wait()).collect()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(context, endless, "for ever", told=interrupt)
    with pytest.raises(Stopped):
        carry_out(context, endless, "for ever", stop=stop, told=stop.set)
    assert context.statusTracker().getActiveJobsIds() == []
    assert carry_out(context, spark.range(3).count, "something else") == 3
