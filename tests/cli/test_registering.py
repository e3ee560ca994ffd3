"""Bulk subscriptions from the command line, registered at brokers of both semantics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.brokers import log_of, running
from tidings.cli.bulk import cancel, register_many, subscribe_in_bulk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("config", ["", '[routing]\nadvertisements = "covering"\n'])
def test_registrations_are_taken_with_and_without_advertisements(
    tmp_path: Path, config: str
) -> None:
    filters = tmp_path / "desks.tsv"
    filters.write_text("desk-1\tn > 1\ndesk-2\tn > 2\n")
    with running(tmp_path / "broker", config=config) as broker:
        about: dict[str, Any] = {"url": broker.url, "token": None, "authority": None}
        more = {"until": "now", "count": None, "with_meta": False}
        assert register_many(filters, **about, is_cancelled=False) == 0
        assert subscribe_in_bulk("n > 7", "desk-7", **about, **more) == 0
        assert cancel("desk-7", **about) == 0
        names = [event.notification["tidings.bulk"] for event in log_of(broker)]
    assert names == ["desk-1", "desk-2", "desk-7", "desk-7"]
