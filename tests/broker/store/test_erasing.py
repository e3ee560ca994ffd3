"""Erasing in a store: what is gone is gone from every byte, and all else is as it was."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.broker.store import SQLiteStore, StoreError, database
from tidings.broker.store.backup import back_up
from tidings.broker.store.check import check
from tidings.broker.store.connections import Writer
from tidings.delivery.erased import Eraser, is_erased
from tidings.events import Filter, Notification
from tidings.protocol.messages import Event

ERASER = Eraser(Filter.parse("customer = 'c-7'"), "erase-1")
SECRET, OTHER = b"the secret of c-7", b"the secret of c-3"


def event(tick: int, customer: str, size: int = 0) -> Event:
    said = {"customer": customer, "n": tick, "text": f"the secret of {customer} {'x' * size}"}
    return Event("paris", tick, Notification(said), flood=tick % 2 == 0, time=float(tick))


def events(first: int, last: int) -> list[Event]:
    """Of ten customers, small ones and such as take several pages."""
    sizes = random.Random(first).choices((0, 40, 700, 9_000), (8, 4, 2, 1), k=last - first + 1)
    return [event(t, f"c-{t % 10}", s) for t, s in zip(range(first, last + 1), sizes, strict=True)]


def fill(store: SQLiteStore, last: int, *, at_once: int = 17) -> None:
    for first in range(1, last + 1, at_once):
        store.commit({}, events(first, min(last, first + at_once - 1)))


def bytes_of(folder: Path) -> bytes:
    """All that is in any file of a store."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def everything(store: SQLiteStore, stream: str = "paris") -> list[Event]:
    found: list[Event] = []
    while True:
        since, _, some = store.read(stream, found[-1].tick if found else 0, limit=100)
        assert not found or not some or since == found[-1].tick
        if not some:
            return found
        found += some


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(tmp_path / "paris", "paris", ballast=0)) as store:
        yield store


def test_no_byte_of_it_is_left_in_any_file_while_the_store_is_open(
    store: SQLiteStore, tmp_path: Path
) -> None:
    fill(store, 1_000)
    assert SECRET in bytes_of(tmp_path / "paris")
    found = store.erase("paris", ERASER, upto=1_000)
    assert (found.erased, found.last, found.damaged) == (100, 997, ())
    assert SECRET not in bytes_of(tmp_path / "paris")
    assert OTHER in bytes_of(tmp_path / "paris")


def test_nor_of_what_was_trimmed_before(store: SQLiteStore, tmp_path: Path) -> None:
    fill(store, 2_000)
    store.trim(before=1_500.0)
    assert SECRET in bytes_of(tmp_path / "paris")  # in pages that are free now
    store.erase("paris", ERASER, upto=2_000)
    assert SECRET not in bytes_of(tmp_path / "paris")
    assert check(tmp_path / "paris").problems == ()


def test_without_giving_free_pages_back_it_would_be_left(
    store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 2_000)
    store.trim(before=1_500.0)
    monkeypatch.setattr(Writer, "scrub", lambda _: False)
    store.erase("paris", ERASER, upto=2_000)
    assert SECRET in bytes_of(tmp_path / "paris")


def test_all_else_is_as_it_was_also_after_a_restart(tmp_path: Path) -> None:
    before = events(1, 300)
    wanted = [ERASER.tombstone(e) if ERASER.matches(e) else e for e in before]
    with closing(SQLiteStore(tmp_path, "paris", ballast=0)) as store:
        store.commit({"a": 1}, before)
        spans = store.spans()
        store.erase("paris", ERASER, upto=300)
        assert (store.spans(), everything(store)) == (spans, wanted)
    assert check(tmp_path).problems == ()
    assert check(tmp_path).doubt is None
    with closing(SQLiteStore(tmp_path, "paris", ballast=0)) as store:
        assert store.raised is None
        assert (store.spans(), everything(store), store.content()) == (spans, wanted, {"a": 1})
        store.commit({}, [event(301, "c-7")])  # and the log goes on
        assert store.read("paris", 0, after=300.5, limit=9)[2] == (event(301, "c-7"),)


def test_what_comes_behind_a_tick_stays(store: SQLiteStore) -> None:
    store.commit({}, [event(tick, "c-7") for tick in range(1, 41)])
    assert store.erase("paris", ERASER, upto=25).erased == 25
    assert [e.tick for e in everything(store) if not is_erased(e)] == list(range(26, 41))


def test_to_erase_again_counts_the_same_and_changes_nothing(
    store: SQLiteStore, tmp_path: Path
) -> None:
    fill(store, 200)
    first = store.erase("paris", ERASER, upto=200)
    content = (tmp_path / "paris" / "broker.db").read_bytes()
    assert store.erase("paris", ERASER, upto=200) == first
    assert (tmp_path / "paris" / "broker.db").read_bytes() == content
    other = Eraser(ERASER.filter, "erase-2")
    assert store.erase("paris", other, upto=200) == first._replace(erased=0)


def test_to_count_changes_nothing(store: SQLiteStore) -> None:
    fill(store, 200)
    before = everything(store)
    assert store.erase("paris", ERASER, upto=200, is_dry=True).erased == 20
    assert everything(store) == before


def test_closed_epochs_are_erased_in_too(store: SQLiteStore, tmp_path: Path) -> None:
    fill(store, 50)
    store.raise_epoch()
    store.commit({}, [Event("paris~2", 1, Notification({"customer": "c-7"}), time=60.0)])
    assert store.erase("paris", ERASER, upto=50).erased == 5
    assert SECRET not in bytes_of(tmp_path / "paris")
    assert store.erase("paris~2", ERASER, upto=1).erased == 1


def test_what_is_damaged_is_told_and_the_rest_is_erased(store: SQLiteStore, tmp_path: Path) -> None:
    fill(store, 51)  # three rows
    with closing(sqlite3.connect(tmp_path / "paris" / "broker.db")) as connection:
        rows = connection.execute("SELECT place, events FROM log ORDER BY place").fetchall()
        spoilt = rows[1][1][:50] + b"?" + rows[1][1][51:]
        connection.execute("UPDATE log SET events = ? WHERE place = ?", (spoilt, rows[1][0]))
        connection.commit()
    found = store.erase("paris", ERASER, upto=51)
    assert (found.erased, found.damaged) == (4, ((18, 34),))


def test_while_somebody_reads_the_journal_it_says_so(
    store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 100)
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    with closing(database.look(tmp_path / "paris" / "broker.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        with pytest.raises(StoreError, match="still in its journal"):
            store.erase("paris", ERASER, upto=100)
    store.erase("paris", ERASER, upto=100)
    assert SECRET not in bytes_of(tmp_path / "paris")


def test_a_backup_that_is_taken_afterwards_has_nothing_of_it(
    store: SQLiteStore, tmp_path: Path
) -> None:
    fill(store, 400)
    store.erase("paris", ERASER, upto=400)
    back_up(tmp_path / "paris", tmp_path / "backup.db")
    assert SECRET not in (tmp_path / "backup.db").read_bytes()
    assert OTHER in (tmp_path / "backup.db").read_bytes()


def test_commits_and_trims_go_on_meanwhile(store: SQLiteStore, tmp_path: Path) -> None:
    fill(store, 4_000)
    counts: list[int] = []
    work = threading.Thread(
        target=lambda: counts.append(store.erase("paris", ERASER, upto=4_000).erased)
    )
    work.start()
    tick = 4_000
    while work.is_alive():
        tick += 1
        store.commit({}, [event(tick, "c-3")])
        if tick == 4_010:
            store.trim(before=300.0)
    work.join()
    left = everything(store)
    assert left[-1].tick == tick
    assert not any(map(ERASER.matches, left))
    assert 370 <= counts[0] <= 400
    assert SECRET not in bytes_of(tmp_path / "paris")
    assert check(tmp_path / "paris").problems == ()


@settings(max_examples=30, deadline=None)
@given(
    commits=st.lists(st.lists(st.booleans(), min_size=1, max_size=40), min_size=1, max_size=8),
    upto=st.integers(0, 200),
)
def test_exactly_what_matches_up_to_the_tick_makes_room(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[bool]], upto: int
) -> None:
    folder = tmp_path_factory.mktemp("paris")
    said: list[Event] = []
    with closing(SQLiteStore(folder, "paris", ballast=0)) as store:
        for commit in commits:
            new = [
                event(tick, "c-7" if matches else "c-3")
                for tick, matches in enumerate(commit, len(said) + 1)
            ]
            store.commit({}, new)
            said += new
        found = store.erase("paris", ERASER, upto=upto)
        wanted = [ERASER.tombstone(e) if e.tick <= upto and ERASER.matches(e) else e for e in said]
        assert everything(store) == wanted
        assert found.erased == sum(map(is_erased, wanted))
        assert found.last == max((e.tick for e in wanted if is_erased(e)), default=0)
    assert check(folder).problems == ()
