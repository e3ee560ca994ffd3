"""The store, on a real disk that is full, read-only, damaged, shared or pulled from under it."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidings.broker.store import SQLiteStore, StoreError
from tidings.broker.store.check import check
from tidings.broker.store.database import LogDamageError
from tidings.events import Filter, Notification
from tidings.protocol.host import Span
from tidings.protocol.messages import Event
from tidings.protocol.runs import unpack_runs
from tidings.protocol.wire import unpack

MIB = 1 << 20
FILES = ["broker.db", "identity", "lock", "mark"]
ROOT = Path(__file__).parents[3]


def event(tick: int, *, time: float | None = None, text: str = "") -> Event:
    """The one event that has this tick, so that a reader can tell whether it is the right one."""
    return Event(
        "paris",
        tick,
        Notification({"n": tick, "square": tick * tick, "text": text or f"event {tick}"}),
        flood=tick % 3 == 0,
        time=float(tick) if time is None else time,
    )


def events(first: int, last: int, *, text: str = "") -> tuple[Event, ...]:
    return tuple(event(tick, text=text) for tick in range(first, last + 1))


def opened(folder: Path, *, ballast: int = 0) -> SQLiteStore:
    return SQLiteStore(folder, "paris", ballast=ballast)


def span_of(store: SQLiteStore) -> Span:
    """What is kept of the current stream."""
    return list(store.spans().values())[-1]


def everything(store: SQLiteStore, *, limit: int = 1_000, is_trimmed: bool = False) -> list[Event]:
    """All that is kept, read in steps as a node would."""
    found: list[Event] = []
    position = 0
    while True:
        since, upto, some = store.read("paris", position, limit=limit)
        if not some:
            return found
        assert [e.tick for e in some] == list(range(since + 1, upto + 1))
        assert since == position or not found or (is_trimmed and since > position)
        found += some
        position = upto


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    with closing(opened(tmp_path / "paris")) as store:
        yield store


# Who may read it


def rights(folder: Path) -> dict[str, int]:
    """The rights of a folder, as ".", and of the files in it."""
    return {
        "." if path == folder else path.name: path.stat().st_mode & 0o777
        for path in (folder, *folder.iterdir())
    }


OPEN = ("lock", "ballast", "broker.db", "broker.db-wal", "broker.db-shm", "identity", "mark")
"""The files of a store while it is open."""


def test_a_store_is_for_its_own_user_only(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "new" / "paris", ballast=1000)) as store:
        store.commit({"a": 1}, events(1, 3))
        assert rights(tmp_path / "new" / "paris") == {".": 0o700, **dict.fromkeys(OPEN, 0o600)}


def test_the_files_of_a_store_that_others_can_read_are_taken_from_them(tmp_path: Path) -> None:
    folder = tmp_path / "paris"
    folder.mkdir(mode=0o755)
    with closing(opened(folder, ballast=1000)):
        pass
    for path in folder.iterdir():
        path.chmod(0o644)
    (folder / "notes").touch(0o644)
    with closing(opened(folder, ballast=1000)):
        theirs = {".": 0o755, "notes": 0o644}  # the user's own, who may want it so
        assert rights(folder) == {**theirs, **dict.fromkeys(OPEN, 0o600)}


# What is kept


def test_a_new_store_is_empty(store: SQLiteStore) -> None:
    assert store.content() == {}
    assert span_of(store) == Span()
    assert store.read("paris", 0, limit=10) == (0, 0, ())
    assert store.read("paris", 0, after=5.0, limit=10) == (0, 0, ())
    assert store.trim(before=10.0, size=0) == 1
    assert store.trouble is None


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    wanted = Filter.parse("symbol = 'DIS' AND price > 100")
    values = {"cursor:desk-7": {"london": 1 << 70}, "wanted": wanted, "name": ("a", 1.5, b"\0")}
    with closing(opened(tmp_path)) as store:
        store.commit({**values, "gone": 1}, events(1, 3))
        store.commit({"gone": None, "never there": None}, ())
    with closing(opened(tmp_path)) as store:
        assert store.content() == values
        assert span_of(store) == Span(1, 3, 3.0)
        assert store.read("paris", 0, limit=10) == (0, 3, events(1, 3))


def test_a_read_begins_in_the_middle_of_a_batch_and_goes_on_across_batches(
    store: SQLiteStore,
) -> None:
    store.commit({}, events(1, 4))
    store.commit({}, events(5, 5))
    store.commit({}, events(6, 9))
    assert store.read("paris", 2, limit=1) == (2, 4, events(3, 4))
    assert store.read("paris", 2, limit=3) == (2, 5, events(3, 5))
    assert store.read("paris", 2, limit=100) == (2, 9, events(3, 9))
    assert store.read("paris", 8, limit=100) == (8, 9, events(9, 9))


def test_a_read_at_or_behind_the_end_finds_nothing_and_stays_there(store: SQLiteStore) -> None:
    store.commit({}, events(1, 4))
    assert store.read("paris", 4, limit=10) == (4, 4, ())
    assert store.read("paris", 7, limit=10) == (7, 7, ())


def test_a_read_by_time_begins_with_the_first_event_of_that_time(store: SQLiteStore) -> None:
    times = [1.0, 2.0, 2.0, 2.0, 2.0, 5.0, 5.5]
    batch = [event(tick, time=t) for tick, t in enumerate(times, start=1)]
    for part in (batch[:3], batch[3:4], batch[4:]):
        store.commit({}, part)
    assert store.read("paris", 0, after=2.0, limit=10) == (1, 7, tuple(batch[1:]))
    assert store.read("paris", 6, after=0.5, limit=10) == (0, 7, tuple(batch))
    assert store.read("paris", 0, after=2.5, limit=10) == (5, 7, tuple(batch[5:]))
    assert store.read("paris", 0, after=5.25, limit=1) == (6, 7, tuple(batch[6:]))
    assert store.read("paris", 0, after=6.0, limit=10) == (7, 7, ())


def test_a_large_commit_can_be_read_in_small_parts(store: SQLiteStore) -> None:
    store.commit({}, events(1, 2_000))
    since, upto, some = store.read("paris", 10, limit=50)
    assert (since, some) == (10, events(11, upto))
    assert 60 <= upto < 600
    assert everything(store, limit=50) == list(events(1, 2_000))


def test_large_events_are_not_read_all_at_once(store: SQLiteStore) -> None:
    store.commit({}, events(1, 40, text="x" * MIB))
    _, upto, _ = store.read("paris", 0, limit=40)
    assert 4 <= upto <= 16
    assert len(everything(store)) == 40


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(events(2, 3), id="a repetition"),
        pytest.param(events(4, 5)[1:], id="a gap before it"),
        pytest.param((event(4), event(6)), id="a gap within it"),
        pytest.param((event(4, time=2.5),), id="an earlier time"),
        pytest.param((event(4), event(5, time=3.5)), id="an earlier time within it"),
        pytest.param((event(4, time=float("nan")),), id="no time"),
        pytest.param((Event("london", 4, Notification({}), time=4.0),), id="another's stream"),
    ],
)
def test_events_that_do_not_follow_are_refused_with_all_that_came_with_them(
    store: SQLiteStore, wrong: tuple[Event, ...]
) -> None:
    store.commit({"a": 1}, events(1, 3))
    with pytest.raises(StoreError, match="cannot follow on paris:"):
        store.commit({"a": 2}, wrong)
    assert store.content() == {"a": 1}
    assert everything(store) == list(events(1, 3))
    store.commit({}, events(4, 4))


# Threads


def test_others_read_while_a_commit_runs(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({"a": 1}, events(1, 3))
        # A commit that cannot end, since another program writes to the database.
        with closing(sqlite3.connect(tmp_path / "broker.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            begun = threading.Event()

            def commit() -> None:
                begun.set()
                store.commit({"a": 2}, events(4, 6))

            thread = threading.Thread(target=commit)
            thread.start()
            begun.wait()
            assert store.read("paris", 0, limit=10) == (0, 3, events(1, 3))
            assert store.content() == {"a": 1}
            assert thread.is_alive()
            other.execute("ROLLBACK")
            thread.join()
        assert store.read("paris", 0, limit=10) == (0, 6, events(1, 6))


@pytest.mark.slow
def test_readers_and_a_trimmer_see_a_log_without_gaps_while_it_grows(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    done = threading.Event()

    def until_done(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while not done.is_set():
                    work()
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def read() -> None:
        for found in everything(store, limit=7, is_trimmed=True):
            assert found == event(found.tick)

    def read_by_time() -> None:
        wanted = span_of(store).last - 3
        since, _, found = store.read("paris", 0, after=float(wanted), limit=5)
        assert [e.tick for e in found] == list(range(since + 1, since + 1 + len(found)))
        assert since == wanted - 1 or wanted <= 1 or span_of(store).first >= wanted

    def trim() -> None:
        store.trim(before=span_of(store).last - 50.0)

    with closing(opened(tmp_path)) as store:
        threads = [until_done(work) for work in (read, read, read_by_time, trim)]
        tick = 0
        for size in [1, 3, 20] * 40:
            store.commit({"tick": tick + size}, events(tick + 1, tick + size))
            tick += size
        done.set()
        for thread in threads:
            thread.join()
        assert problems == []
        assert span_of(store).last == tick


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.close()
    store.close()
    for use in (
        store.content,
        lambda: store.commit({}, ()),
        lambda: store.read("paris", 0, after=1.0, limit=1),
        store.trim,
    ):
        with pytest.raises(StoreError, match=r"broker\.db has been closed\.$"):
            use()
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


# Trimming


def test_trimming_by_age_forgets_whole_batches_that_are_older(store: SQLiteStore) -> None:
    for tick in (1, 4, 7):
        store.commit({}, events(tick, tick + 2))
    assert store.trim(before=3.0) == 1
    assert store.trim(before=3.5) == 4
    assert store.trim(before=6.0) == 4
    assert span_of(store) == Span(4, 9, 9.0)
    assert store.read("paris", 0, limit=100) == (3, 9, events(4, 9))
    assert store.read("paris", 0, after=1.0, limit=100) == (3, 9, events(4, 9))


def test_no_tick_is_used_twice_even_if_everything_is_old(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 3))
        store.commit({}, events(4, 6))
        assert store.trim(before=1e9, size=0) == 4
    with closing(opened(tmp_path)) as store:
        assert span_of(store) == Span(4, 6, 6.0)
        store.commit({}, events(7, 7))
        assert everything(store) == list(events(4, 7))


def test_trimming_by_size_keeps_about_as_much(store: SQLiteStore) -> None:
    for tick in range(1, 101):
        store.commit({}, events(tick, tick, text="x" * 10_000))
    first = store.trim(size=300_000)
    assert 68 <= first <= 75
    assert store.trim(size=300_000) == first
    assert everything(store) == list(events(first, 100, text="x" * 10_000))


def test_trimming_goes_no_further_than_it_may(store: SQLiteStore) -> None:
    for tick in (1, 4, 7, 10):
        store.commit({}, events(tick, tick + 2))
    assert store.trim(before=1e9, upto={"paris": 0}) == 1
    assert store.trim(before=1e9, upto={"paris": 5}) == 4, "a batch goes as a whole or not at all"
    assert store.trim(size=0, upto={"paris": 6}) == 7
    assert store.trim(before=1e9, upto={"paris": 100}) == 10
    assert everything(store) == list(events(10, 12))


# Closed streams


def of(stream: str, first: int, last: int) -> tuple[Event, ...]:
    return tuple(
        Event(stream, tick, Notification({"of": stream, "n": tick}), time=float(tick))
        for tick in range(first, last + 1)
    )


def test_a_closed_stream_stays_what_it_was_and_the_next_one_begins_at_1(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, of("paris", 1, 5))
        assert store.raise_epoch() == "paris~2"
        with pytest.raises(StoreError, match=r"paris:6 .* cannot follow on paris~2:0"):
            store.commit({}, of("paris", 6, 6))
        store.commit({}, of("paris~2", 1, 3))
        assert store.raise_epoch() == "paris~3"
    with closing(opened(tmp_path)) as store:
        spans = {"paris": Span(1, 5, 5.0), "paris~2": Span(1, 3, 3.0), "paris~3": Span()}
        assert store.spans() == spans
        assert list(store.spans()) == list(spans)
        store.commit({}, of("paris~3", 1, 2))
        assert store.read("paris", 2, limit=100) == (2, 5, of("paris", 3, 5))
        assert store.read("paris", 5, limit=100) == (5, 5, ())
        assert store.read("paris", 0, after=4.5, limit=100) == (4, 5, of("paris", 5, 5))
        assert store.read("paris", 0, after=5.5, limit=100) == (5, 5, ())
        assert store.read("paris~2", 0, limit=1) == (0, 3, of("paris~2", 1, 3))
        assert store.read("paris~3", 0, after=1.5, limit=9) == (1, 2, of("paris~3", 2, 2))
        since, upto, (block,) = store.copy("paris~2", 1, upto=9, size=1)
        assert (since, upto) == (1, 3)
        assert unpack(block, "paris~2") == of("paris~2", 1, 3)
        for use in (store.read, store.copy):
            with pytest.raises(StoreError, match="has no log of 'paris~4'"):
                use("paris~4", 0, **({"limit": 1} if use == store.read else {"upto": 1, "size": 1}))


def test_closed_streams_are_trimmed_first_and_wholly_and_stay_known(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        for tick in (1, 4):
            store.commit({}, of("paris", tick, tick + 2))
        store.raise_epoch()
        for tick in (1, 4, 7):
            store.commit({}, of("paris~2", tick, tick + 2))
        assert store.trim(before=1e9, upto={"paris": 4, "paris~2": 0}) == 1
        assert store.spans()["paris"] == Span(4, 6, 6.0)
        assert store.trim(before=1e9, upto={"paris~2": 4}) == 4, "the other is not named"
        assert store.spans()["paris"] == Span(4, 6, 6.0)
        assert store.trim(size=0) == 7
        spans = {"paris": Span(7, 6, 6.0), "paris~2": Span(7, 9, 9.0)}
        assert store.spans() == spans
        assert store.read("paris", 0, limit=9) == (6, 6, ())
        assert store.copy("paris", 0, upto=3, size=1) == (6, 6, ())
    with closing(opened(tmp_path)) as store:
        assert store.spans() == spans
        store.commit({}, of("paris~2", 10, 10))


def test_a_size_counts_the_rows_of_all_streams(store: SQLiteStore) -> None:
    for tick in range(1, 51):
        store.commit({}, events(tick, tick, text="x" * 10_000))
    store.raise_epoch()
    for tick in range(1, 51):
        large = Notification({"text": "x" * 10_000})
        store.commit({}, [Event("paris~2", tick, large, time=float(tick))])
    assert store.trim(size=600_000) == 1
    assert 38 <= store.spans()["paris"].first <= 45
    assert store.trim(size=100_000) > 40
    assert store.spans()["paris"] == Span(51, 50, 50.0)


@pytest.mark.slow
def test_more_batches_than_one_step_takes_are_trimmed(store: SQLiteStore) -> None:
    tick = 1
    for _ in range(12):  # a commit of 14,000 events is 55 rows
        store.commit({}, events(tick, tick + 14_000 - 1, text="x"))
        tick += 14_000
    assert store.trim(before=float(tick - 20)) == tick - 14_000 + 54 * 256


@pytest.mark.slow
def test_the_file_grows_into_what_was_trimmed_and_shrinks_if_that_is_far_too_much(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.db"
    with closing(opened(tmp_path)) as store:
        for tick in range(1, 401):
            store.commit({}, events(tick, tick, text="x" * 100_000))
            if tick % 20 == 0:
                store.trim(size=10 * MIB)
        assert span_of(store).first > 250
        assert file.stat().st_size < 16 * MIB
        store.trim(size=MIB)
        assert file.stat().st_size < 7 * MIB
        first = span_of(store).first
        assert everything(store) == list(events(first, 400, text="x" * 100_000))


def test_a_file_that_cannot_shrink_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 200, text="x" * 100_000))
    with closing(sqlite3.connect(tmp_path / "broker.db", isolation_level=None)) as other:
        other.executescript("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM;")
    with closing(opened(tmp_path)) as store:
        assert store.trim(size=0) > 1
        assert (tmp_path / "broker.db").stat().st_size > 19 * MIB


# Who may open it


def test_two_brokers_cannot_open_one_store(tmp_path: Path) -> None:
    with (
        closing(opened(tmp_path)),
        pytest.raises(StoreError, match=rf"in use by another broker \(process {os.getpid()}\)"),
    ):
        opened(tmp_path)
    opened(tmp_path).close()


def test_the_store_of_another_broker_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(StoreError, match="belongs to broker 'paris', not to 'london'"):
        SQLiteStore(tmp_path, "london", ballast=0)
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("format", "reason"),
    [
        (7, "newer tidings, in format 7; this one reads format 2: start its broker with that"),
        (1, "of format 1, which was never released; .* move the folder .* away"),
    ],
)
def test_another_format_is_refused(tmp_path: Path, format: int, reason: str) -> None:
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "broker.db")) as other:
        other.execute(f"PRAGMA user_version = {format}")
    with pytest.raises(StoreError, match=reason):
        opened(tmp_path)
    with pytest.raises(StoreError, match=reason):
        check(tmp_path)


def test_a_log_knows_who_has_published_what(store: SQLiteStore) -> None:
    said, names = events(1, 600), ["ann"] * 255 + ["bob"] * 300 + [""] * 45
    store.commit({}, said, names)
    store.commit({}, events(601, 602), ["bob", "ann"])
    _, upto, blocks = store.copy("paris", 0, upto=602, size=1 << 20)
    runs = [run for block in blocks for run in unpack_runs(block)]
    assert upto == 602
    assert [run.publisher for run in runs for _ in run.rows] == [*names, "bob", "ann"]
    assert [e for run in runs for e in run.each("paris")] == [*said, *events(601, 602)]


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "broker.db")) as other:
        other.execute("CREATE TABLE log (message TEXT)")
    with pytest.raises(StoreError, match="is not a store of tidings"):
        opened(tmp_path)


def test_a_journal_without_its_database_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "broker.db").rename(tmp_path / "broker.db-wal")
    with pytest.raises(StoreError, match="is missing, but its journal is there"):
        opened(tmp_path)


def test_a_crash_while_the_database_was_made_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "draft.db").write_bytes(b"half of a database")
    (tmp_path / "draft.db-wal").write_bytes(b"half of a journal")
    opened(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


# Disks that fail


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A disk of our own, if we may have one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except OSError as problem:
        pytest.skip(f"cannot mount a small disk here: {problem}")
    if done.returncode:
        pytest.skip(f"cannot mount a small disk here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def fill(folder: Path) -> Path:
    """Take what is left of the disk."""
    rubbish = folder / "rubbish"
    with rubbish.open("ab", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return rubbish


def test_on_a_full_disk_what_was_accepted_is_still_committed(tmp_path: Path) -> None:
    text = "x" * 10_000
    with mounted(tmp_path / "disk", "size=24m") as disk:
        with closing(opened(disk / "paris", ballast=6 * MIB)) as store:
            store.commit({}, events(1, 10, text=text))
            assert store.trouble is None
            rubbish = fill(disk)
            tick = 11
            while store.trouble is None:
                store.commit({"tick": tick}, events(tick, tick + 9, text=text))
                tick += 10
            assert "is full" in store.trouble
            assert "12 MiB" in store.trouble
            assert not (disk / "paris" / "ballast").exists()
            # From here on the host takes nothing new, but what it has taken must go through.
            store.commit({"tick": tick}, events(tick, tick + 9, text=text))
            store.trim()
            assert store.trouble is not None
            assert everything(store) == list(events(1, tick + 9, text=text))
            # Room for the ballast alone would be gone with the next commit.
            rubbish.unlink()
            rubbish.write_bytes(bytes(free(disk) - 9 * MIB))
            store.trim()
            assert store.trouble is not None
            rubbish.unlink()
            store.trim()
            assert store.trouble is None
            assert (disk / "paris" / "ballast").stat().st_blocks * 512 >= 6 * MIB
        with closing(opened(disk / "paris", ballast=6 * MIB)) as store:
            assert store.content() == {"tick": tick}
            assert everything(store) == list(events(1, tick + 9, text=text))


def test_a_commit_that_finds_no_room_at_all_keeps_nothing_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path / "disk", "size=16m") as disk:
        with closing(opened(disk / "paris", ballast=MIB)) as store:
            store.commit({"tick": 3}, events(1, 3))
            rubbish = fill(disk)
            large = events(4, 63, text="x" * 100_000)
            for _ in range(3):
                with pytest.raises(StoreError, match=r"The disk of .*paris is full\."):
                    store.commit({"tick": 63}, large)
                assert store.content() == {"tick": 3}
                assert everything(store) == list(events(1, 3))
                assert store.trouble == f"The disk of {disk / 'paris'} is full."
            rubbish.unlink()
            store.commit({"tick": 63}, large)
            store.trim()
            assert store.trouble is None
        with closing(opened(disk / "paris", ballast=MIB)) as store:
            assert store.content() == {"tick": 63}
            assert span_of(store).last == 63


def test_on_a_full_disk_trimming_makes_room(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "size=32m") as disk,
        closing(opened(disk / "paris", ballast=4 * MIB)) as store,
    ):
        tick = 0
        while store.trouble is None:
            store.commit({}, events(tick + 1, tick + 10, text="x" * 20_000))
            tick += 10
        assert store.trim(size=2 * MIB) > 1
        assert store.trouble is None
        store.commit({}, events(tick + 1, tick + 10, text="x" * 20_000))
        assert span_of(store).last == tick + 10


def test_a_database_that_may_not_grow_is_like_a_full_disk(tmp_path: Path) -> None:
    with closing(opened(tmp_path, ballast=MIB)) as store:
        store.commit({"a": 1}, events(1, 3))
        connection = store._writer._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}").fetchone()
        with pytest.raises(StoreError, match="is full"):
            store.commit({"a": 2}, events(4, 50, text="x" * 1000))
        assert "is full" in (store.trouble or "")
        assert store.content() == {"a": 1}
        store.trim()  # there is room for ballast, but nobody has seen a commit succeed
        assert "is full" in (store.trouble or "")
        connection.execute("PRAGMA max_page_count = 100000").fetchone()
        store.commit({"a": 2}, events(4, 50, text="x" * 1000))
        assert store.trouble is None
        assert span_of(store).last == 50


def test_a_disk_that_is_nearly_full_at_the_start_is_told(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "size=12m") as disk,
        closing(SQLiteStore(disk / "paris", "paris")) as store,
    ):
        assert "when 32 MiB are free" in (store.trouble or "")
        store.commit({"a": 1}, events(1, 3))
        assert store.content() == {"a": 1}


def test_a_disk_that_has_become_read_only_is_refused(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=12m") as disk:
        opened(disk / "paris").close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StoreError, match=r"paris cannot be written: Read-only file system\.$"):
            opened(disk / "paris")
        with pytest.raises(StoreError, match=r"london cannot be written: Read-only file system\.$"):
            opened(disk / "london")


def test_a_disk_that_becomes_read_only_while_it_runs_is_trouble(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=12m,mode=755") as disk:
        store = opened(disk / "paris")
        store.commit({"a": 1}, events(1, 3))
        # The database is open for writing, so that the disk cannot be made read-only under it.
        store._writer._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match="cannot be written: attempt to write a readonly"):
            store.commit({"a": 2}, ())
        assert "cannot be written" in (store.trouble or "")
        assert store.content() == {"a": 1}
        store.close()


def test_a_database_that_its_owner_may_not_write_is_refused(tmp_path: Path) -> None:
    """Root may write everything, so it becomes nobody for this."""
    folder = tmp_path / "paris"
    opened(folder).close()
    (folder / "lock").chmod(0o666)
    (folder / "broker.db").chmod(0o444)
    folder.chmod(0o777)
    if os.getuid() == 0:
        for parent in folder.parents:
            if parent == Path(tempfile.gettempdir()):
                break
            parent.chmod(parent.stat().st_mode | 0o011)
    script = (
        "import os, sys; from tidings.broker.store import SQLiteStore, StoreError\n"
        "os.getuid() or os.setuid(65534)\n"
        "try: SQLiteStore(sys.argv[1], 'paris', ballast=0)\n"
        "except StoreError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.endswith("cannot be written: attempt to write a readonly database.\n")


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written: (Not a directory|File exists)"):
        opened(tmp_path / "file")


# Damage


@pytest.fixture
def full_folder(tmp_path: Path) -> Path:
    """A store of some megabytes, closed; its log fills all but the first pages."""
    with closing(opened(tmp_path)) as store:
        for tick in range(1, 2_001, 20):
            store.commit({"tick": tick}, events(tick, tick + 19, text="x" * 4_000))
    assert (tmp_path / "broker.db").stat().st_size > 7 * MIB
    return tmp_path


def overwrite(file: Path, start: int, content: bytes) -> None:
    with file.open("r+b") as opened_file:
        opened_file.seek(start)
        opened_file.write(content)


def test_a_file_without_its_header_is_refused(full_folder: Path) -> None:
    overwrite(full_folder / "broker.db", 0, bytes(100))
    with pytest.raises(StoreError, match=r"damaged \(file is not a database\): `tidings store"):
        opened(full_folder)


@pytest.mark.parametrize("size", [0, 50, 512, 4096, 10_000, 3 * MIB])
def test_a_file_that_was_cut_off_is_refused(full_folder: Path, size: int) -> None:
    os.truncate(full_folder / "broker.db", size)
    with pytest.raises(StoreError, match=r"is damaged|not a store of tidings"):
        opened(full_folder)


def test_a_damaged_end_of_the_log_is_found_at_once(full_folder: Path) -> None:
    file = full_folder / "broker.db"
    overwrite(file, file.stat().st_size - 20_000, b"?")
    with pytest.raises(StoreError, match=r"damaged \(the events from \d+ on are not what was"):
        opened(full_folder)


def test_what_is_damaged_in_the_middle_is_told_and_the_rest_is_read(full_folder: Path) -> None:
    overwrite(full_folder / "broker.db", 2 * MIB + 2_000, b"?")
    text = "x" * 4_000
    with closing(opened(full_folder)) as store:
        with pytest.raises(
            LogDamageError, match=r"damaged \(the events from \d+ on are not what was"
        ) as told:
            everything(store)
        since, upto = told.value.since, told.value.upto
        assert upto - since == 20
        assert store.read("paris", 0, limit=2_000) == (0, since, events(1, since, text=text))
        rest = store.read("paris", upto, limit=2_000)
        assert rest == (upto, 2_000, events(upto + 1, 2_000, text=text))
        for begin in (since + 1, since + 10, upto - 1):
            with pytest.raises(LogDamageError) as told:
                store.read("paris", begin, limit=1)
            assert (told.value.since, told.value.upto) == (begin, upto)
        with pytest.raises(LogDamageError) as told:
            store.read("paris", 0, after=float(since + 5), limit=1)
        assert (told.value.since, told.value.upto) == (since, upto)
        assert store.copy("paris", 0, upto=2_000, size=100 * MIB)[:2] == (0, since)
        with pytest.raises(LogDamageError) as told:
            store.copy("paris", since, upto=2_000, size=MIB)
        assert (told.value.since, told.value.upto) == (since, upto)
        assert store.copy("paris", upto, upto=2_000, size=100 * MIB)[:2] == (upto, 2_000)
        assert store.trouble is None, "what is published is safe"
        store.commit({}, events(2_001, 2_001))
        assert store.trim(before=float(upto)) >= since  # whoever would have to read it is too late


def test_damage_that_happens_while_it_runs_is_told(full_folder: Path) -> None:
    file = full_folder / "broker.db"
    with closing(sqlite3.connect(file)) as other:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'log'"
        (root,) = other.execute(query).fetchone()
    with closing(opened(full_folder)) as store:
        overwrite(file, (root - 1) * 4096, bytes(4096))
        store.commit({"tick": 0}, ())  # so that readers look at the file again
        with pytest.raises(StoreError, match=r"damaged \(database disk image is malformed\)"):
            store.read("paris", 0, limit=10)
        assert "is damaged" in (store.trouble or "")
        assert store.content() == {"tick": 0}


def test_a_damaged_value_is_found_at_once(full_folder: Path) -> None:
    file = full_folder / "broker.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("UPDATE state SET value = CAST(value || x'00' AS BLOB)")
        other.commit()
    with pytest.raises(StoreError, match="the value of 'tick' is not what was written"):
        opened(full_folder)


@pytest.mark.parametrize("column", ["last", "last_time", "until", "events"])
def test_rows_of_the_wrong_kind_are_damage(full_folder: Path, column: str) -> None:
    with closing(sqlite3.connect(full_folder / "broker.db")) as other:
        other.execute(f"UPDATE log SET {column} = 'nonsense' WHERE place & 0xffff = 101")
        other.commit()
    with closing(opened(full_folder)) as store:
        assert store.read("paris", 0, limit=100)[1] == 100
        with pytest.raises(StoreError, match="is damaged"):
            store.read("paris", 100, limit=10)
        if column in ("last", "last_time"):
            with pytest.raises(StoreError, match="is damaged"):
                store.trim(before=500.0)


def test_a_row_that_is_missing_is_damage_and_trimming_stops_before_it(full_folder: Path) -> None:
    with closing(sqlite3.connect(full_folder / "broker.db")) as other:
        other.execute("DELETE FROM log WHERE place & 0xffff = 101")
        other.commit()
    with closing(opened(full_folder)) as store:
        assert store.read("paris", 0, limit=1_000)[1] == 100
        with pytest.raises(LogDamageError, match="the events behind 100 are missing") as told:
            store.read("paris", 100, limit=1_000)
        assert (told.value.since, told.value.upto) == (100, 120)
        assert store.read("paris", 120, limit=5)[0] == 120
        with pytest.raises(StoreError, match="the events behind 100 are missing"):
            store.trim(before=500.0)
        assert store.trim(before=81.0) == 81


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_overwritten_nothing_wrong_is_ever_read(full_folder: Path, seed: int) -> None:
    """It is found or it does not matter; it never comes as another event or another error."""
    chance = random.Random(seed)
    file = full_folder / "broker.db"
    for _ in range(chance.choice([1, 3, 30])):
        start = chance.randrange(0, min(file.stat().st_size, chance.choice([40_000, 1 << 40])))
        overwrite(file, start, chance.randbytes(chance.choice([1, 100, 4096])))
    complaints = []
    try:
        with closing(opened(full_folder)) as store:
            last = span_of(store).last
            for position in range(span_of(store).first - 1, last, 100):
                try:
                    since, upto, found = store.read("paris", position, limit=100)
                    assert found == events(since + 1, upto, text="x" * 4_000)
                except StoreError as error:
                    complaints.append(str(error))
            store.commit({"tick": 1}, events(last + 1, last + 1))
            store.trim(before=1_000.0)
    except StoreError as error:
        complaints.append(str(error))
    assert all("damaged" in complaint or "not a store" in complaint for complaint in complaints)


# Crashes

_WRITER = """
import random, sys
from tests.broker.store.test_sqlite import events, opened, span_of
from pathlib import Path
store, chance = opened(Path(sys.argv[1]), ballast=1 << 20), random.Random(int(sys.argv[2]))
tick = span_of(store).last
while True:
    size = chance.choice([0, 1, 1, 5, 300])
    batch = events(tick + 1, tick + size)
    tick += size
    store.commit({"tick": tick, f"key {tick % 7}": tick}, batch)
    print(tick, flush=True)
    if chance.random() < 0.02:
        store.trim(before=tick - 5_000)
"""


@pytest.mark.slow
def test_after_a_kill_everything_confirmed_is_there_and_nothing_is_half(tmp_path: Path) -> None:
    chance = random.Random(7)
    for seed in range(8):
        command = [sys.executable, "-c", _WRITER, str(tmp_path), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            confirmed = 0
            for _ in range(chance.randrange(1, 150)):
                confirmed = int(process.stdout.readline())
            deadline = time.monotonic() + chance.random() * 0.01
            while time.monotonic() < deadline:  # not always right after a commit
                pass
            process.send_signal(signal.SIGKILL)
            confirmed = max(
                [confirmed, *(int(line) for line in process.stdout if line[-1:] == "\n")]
            )
        with closing(opened(tmp_path, ballast=1 << 20)) as store:
            assert store.raised is None
            span, values = span_of(store), store.content()
            assert span.last >= confirmed
            assert values["tick"] == span.last
            assert max(values.values()) == span.last
            assert everything(store) == list(events(span.first, span.last))
            assert store.trouble is None
        with closing(sqlite3.connect(tmp_path / "broker.db")) as other:
            assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Any order of events


class Model(RuleBasedStateMachine):
    """The store against a dict and a list."""

    folder: Path

    @initialize()
    def begin(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.store = opened(self.folder)
        self.values: dict[str, object] = {}
        self.log: list[Event] = []
        self.rows: list[int] = []
        """The last tick of each batch that is kept."""
        self.first = 1
        self.time = 0.0

    @rule(
        values=st.dictionaries(
            st.sampled_from("abcd"),
            st.none() | st.integers() | st.dictionaries(st.text(max_size=3), st.integers()),
        ),
        steps=st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), max_size=12),
        copies=st.sampled_from([1, 1, 1, 40]),
    )
    def commit(self, values: dict[str, object], steps: list[float], copies: int) -> None:
        batch = []
        for step in steps * copies:
            self.time += step
            batch.append(event(len(self.log) + len(batch) + 1, time=self.time))
        self.store.commit(values, batch)
        self.rows += [e.tick for n, e in enumerate(batch, 1) if n % 256 == 0 or n == len(batch)]
        self.values.update(values)
        self.values = {key: value for key, value in self.values.items() if value is not None}
        self.log += batch

    @rule(back=st.integers(0, 60), limit=st.integers(1, 600))
    def read(self, back: int, limit: int) -> None:
        start = max(0, len(self.log) - back)
        since, upto, found = self.store.read("paris", start, limit=limit)
        assert since == max(start, self.first - 1 if self.log else 0)
        self.check(since, upto, found, limit)

    @rule(back=st.floats(-1.0, 50.0), limit=st.integers(1, 600))
    def read_by_time(self, back: float, limit: int) -> None:
        after = max(self.time - back, 0.25)
        since, upto, found = self.store.read("paris", 0, after=after, limit=limit)
        kept = self.log[self.first - 1 :]
        assert since == next((e.tick - 1 for e in kept if e.time >= after), len(self.log))
        self.check(since, upto, found, limit, by_time=True)

    def check(
        self, since: int, upto: int, found: tuple[Event, ...], limit: int, by_time: bool = False
    ) -> None:
        assert found == tuple(self.log[since:upto])
        assert upto == since + len(found)
        left = len(self.log) - since
        assert len(found) < limit + 256
        assert len(found) >= (min(left, 1) if by_time else min(left, limit))

    @rule(back=st.floats(0.0, 50.0))
    def trim_by_age(self, back: float) -> None:
        before = self.time - back
        self.trimmed(self.store.trim(before=before), lambda last: self.log[last - 1].time < before)

    @rule(size=st.sampled_from([0, 1, 1 << 30]))
    def trim_by_size(self, size: int) -> None:
        self.trimmed(self.store.trim(size=size), lambda last: size <= 1)

    def trimmed(self, first: int, is_expired: Callable[[int], bool]) -> None:
        while len(self.rows) > 1 and is_expired(self.rows[0]):
            self.first = self.rows.pop(0) + 1
        assert first == self.first

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = opened(self.folder)

    @invariant()
    def it_keeps_what_it_should(self) -> None:
        if hasattr(self, "store"):
            assert self.store.content() == self.values
            assert span_of(self.store) == Span(
                self.first, len(self.log), self.time if self.log else 0
            )
            assert self.store.trouble is None

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert everything(self.store, limit=9) == self.log[self.first - 1 :]
            self.store.close()
            self.scratch.cleanup()


TestModel = Model.TestCase
TestModel.settings = settings(stateful_step_count=20)


# How fast


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, 1_000])
def test_commits_take_a_while(tmp_path: Path, size: int) -> None:
    """Prints events per second: `pytest -s -k take_a_while tests/broker/store/test_sqlite.py`."""
    record = {"symbol": "DIS", "price": 101.25, "volume": 300, "venue": "XNYS"}
    record |= {"bid": 101.2, "ask": 101.3, "halted": False, "trader": "desk-7"}
    notification = Notification(record)
    with closing(opened(tmp_path, ballast=16 * MIB)) as store:
        tick, begun = 0, time.perf_counter()
        while time.perf_counter() < begun + 1.0:
            batch = [Event("paris", tick + n, notification, time=1.0) for n in range(1, size + 1)]
            store.commit({"publisher:desk-7": tick + size}, batch)
            tick += size
        rate = tick / (time.perf_counter() - begun)
        print(f"\nbatches of {size:5,}: {rate:10,.0f} events/s, {rate / size:6,.0f} commits/s")
        assert span_of(store).last == tick
