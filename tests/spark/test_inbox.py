"""The inbox: what tasks write and the driver commits, without Spark."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tidings.events import TidingsError
from tidings.lakes.lake import Lake
from tidings.spark.delivering import inbox as inboxes
from tidings.spark.delivering.inbox import Inbox, write

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


def test_a_file_that_only_a_worker_sees_is_not_committed(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    told = list(write(tmp_path / "inbox", events(["a"])))
    (tmp_path / "inbox" / told[0].path).unlink()
    with pytest.raises(TidingsError, match="must be one folder that this machine and all workers"):
        inbox.add(told, "query", 0)
    assert DeltaTable(tmp_path / "inbox").transaction_version("query") is None


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


# -- compaction --------------------------------------------------------------------------------


def test_small_files_are_joined_and_deleted_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "_COMPACT", 2)
    path = tmp_path / "inbox"
    Inbox(path)
    stray = path / "day=2026-11-16" / "part-stray.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"")
    os.utime(stray, (0, 0))
    for batch in range(2):  # also if it was started anew meanwhile
        Inbox(path).add(list(write(path, events(["a"]))), "query", batch)
    assert len(DeltaTable(path).file_uris()) == 1
    assert not stray.exists()
    assert len(list(path.glob("day=*/*.parquet"))) == 3, "readers may be reading them"
    assert len(held(path)) == 2


def test_what_cannot_be_joined_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inboxes, "_COMPACT", 2)
    inbox = Inbox(tmp_path / "inbox")
    inbox.add(list(write(tmp_path / "inbox", events(["a"]))), "query", 0)
    (file,) = tmp_path.glob("inbox/day=*/*.parquet")
    file.write_bytes(b"")
    with caplog.at_level(logging.WARNING, "tidings.spark"):
        inbox.add(list(write(tmp_path / "inbox", events(["a"]))), "query", 1)
    assert "small files could not be joined" in caplog.text
    assert DeltaTable(tmp_path / "inbox").transaction_version("query") == 1


# -- what is no inbox --------------------------------------------------------------------------


def test_what_is_no_inbox_is_refused_at_once(tmp_path: Path) -> None:
    Lake(tmp_path / "lake").held()
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    for name, reason in (
        ("lake", "this is no inbox: its columns are id, stream, tick, "),
        ("file", "there is something else here, which is no inbox"),
        ("full", "there is something else here, which is no inbox"),
        ("file/inbox", "no inbox can be made here: "),
        ("x%41", f"Delta takes this name for {tmp_path}/xA; give another one"),
    ):
        with pytest.raises(TidingsError, match=f"^{tmp_path / name}: {reason}"):
            Inbox(tmp_path / name)
    assert not (tmp_path / "xA").exists()


def test_an_inbox_that_cannot_be_read_is_said_in_one_line(tmp_path: Path) -> None:
    Inbox(tmp_path / "inbox")
    (tmp_path / "inbox" / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises(TidingsError, match=f"^{tmp_path / 'inbox'}: .+$"):
        Inbox(tmp_path / "inbox")
