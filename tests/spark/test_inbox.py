"""The inbox: what tasks write and the driver commits, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tidings.spark.bulk import inbox as inboxes
from tidings.spark.bulk.inbox import Inbox, write

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def events(*wanted: list[str], time: datetime = NOON, size: int = 1) -> pa.RecordBatch:
    """An event for each list of names."""
    rows = [
        {"matches": names, "id": f"paris:{n}", "time": time, "event": f"{n}" * size}
        for n, names in enumerate(wanted)
    ]
    return pa.RecordBatch.from_pylist(rows)


def held(folder: Path) -> list[dict[str, Any]]:
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row["name"]))


def test_a_row_is_a_name_and_an_event(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    late = NOON + timedelta(hours=12)
    some = list(write(tmp_path / "inbox", events(["a", "b"], [], ["b"])))
    inbox.add([*some, *write(tmp_path / "inbox", events(["c"], time=late))], "query", 0)
    assert [(row["name"], row["id"], row["event"]) for row in held(tmp_path / "inbox")] == [
        *(("a", "paris:0", "0"), ("b", "paris:0", "0"), ("c", "paris:0", "0")),
        ("b", "paris:2", "2"),
    ]
    assert [row["day"].day for row in held(tmp_path / "inbox")] == [16, 16, 17, 16]
    assert {row["time"] for row in held(tmp_path / "inbox")} == {NOON, late}
    assert DeltaTable(tmp_path / "inbox").transaction_version("query") == 0


def test_what_nobody_wants_is_no_commit(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    inbox.add(list(write(tmp_path / "inbox", events([], []))), "query", 0)
    assert DeltaTable(tmp_path / "inbox").version() == 0


def test_a_popular_event_is_never_in_memory_for_all_who_want_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "_BYTES", 10_000)
    inbox = Inbox(tmp_path / "inbox")
    names = [f"desk-{n:03}" for n in range(600)]
    said = events(names, names, size=100)
    assert max(rows.num_rows for rows in inboxes._deliveries(said)) <= 101
    inbox.add(list(write(tmp_path / "inbox", said)), "query", 0)
    assert [(row["id"], row["name"]) for row in held(tmp_path / "inbox")] == [
        (id, name) for id in ("paris:0", "paris:1") for name in names
    ]
