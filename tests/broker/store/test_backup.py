"""Checks, backups and what is restored from them: of stores that are whole, damaged or in use."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker.store.test_continuity import run
from tests.broker.store.test_sqlite import MIB, events, of, opened, overwrite, span_of
from tidings.broker.store import SQLiteStore, StoreError
from tidings.broker.store import mark as marks
from tidings.broker.store.backup import back_up, renew, restore
from tidings.broker.store.check import check
from tidings.broker.store.database import is_in_use
from tidings.broker.store.mark import Head
from tidings.protocol.host import Span


@pytest.fixture
def paris(tmp_path: Path) -> Path:
    """A store with two streams, closed."""
    folder = tmp_path / "paris"
    with closing(opened(folder)) as store:
        for tick in range(1, 41, 4):
            store.commit({"tick": tick}, of("paris", tick, tick + 3))
        store.raise_epoch()
        for tick in range(1, 21, 4):
            store.commit({"tick": tick}, of("paris~2", tick, tick + 3))
    return folder


SPANS = {"paris": Span(1, 40, 40.0), "paris~2": Span(1, 20)}


# Checks


def test_to_look_whether_a_store_is_in_use_keeps_nobody_from_starting(
    paris: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_in_use(paris)
    with (paris / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: looking.close())
        with closing(opened(paris)):
            assert is_in_use(paris)


def test_a_whole_store_is_well(paris: Path) -> None:
    told: list[tuple[int, int]] = []
    report = check(paris, told=lambda done, total: told.append((done, total)))
    assert (report.problems, report.doubt, report.is_in_use) == ((), None, False)
    assert (report.broker, report.spans, report.values) == ("paris", SPANS, 1)
    assert told[-1] == (60, 60)
    with closing(opened(paris)) as store:
        assert store.raised is None, "a check changes nothing"


def test_a_store_is_checked_while_it_grows_and_is_trimmed(tmp_path: Path) -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            last = span_of(store).last
            store.commit({"tick": last}, events(last + 1, last + 7))
            store.trim(before=last - 300.0)

    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 20))
        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(30):
                report = check(tmp_path)
                assert (report.problems, report.doubt, report.is_in_use) == ((), None, True)
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "UPDATE log SET events = zeroblob(50) WHERE place = (1 << 48) + 5",
            "paris: the events from",
        ),
        ("UPDATE log SET last = 'x' WHERE place = (1 << 48) + 5", "paris: a row of the log is not"),
        ("DELETE FROM log WHERE place & 0xffff = 25", "paris: ticks 25 to 28 are missing"),
        ("DELETE FROM log WHERE place & 0xffff = 37", "paris: ticks 37 to 40 are missing"),
        ("DELETE FROM log WHERE place >> 48 = 2 AND place & 0xffff = 17", "paris~2: ticks 17 to"),
        ("UPDATE state SET value = x'00'", "the values: the value of 'tick' is not what"),
        ("UPDATE about SET value = x'00' WHERE key = 'head'", "what it says about its head"),
        ("DELETE FROM about WHERE key = 'closed'", "it does not say what its last commit was"),
    ],
)
def test_a_check_names_what_is_damaged(paris: Path, change: str, said: str) -> None:
    with closing(sqlite3.connect(paris / "broker.db", isolation_level=None)) as other:
        other.execute(change)
    report = check(paris)
    assert said in report.problems[0]
    assert len({p for p in report.problems if "missing" not in p}) <= 1


def test_a_check_finds_what_only_sqlite_knows(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        for tick in range(1, 201, 10):
            store.commit({}, events(tick, tick + 9))
    with closing(sqlite3.connect(tmp_path / "broker.db", isolation_level=None)) as other:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'log_by_time'"
        (page,) = other.execute(query).fetchone()
    overwrite(tmp_path / "broker.db", (page - 1) * 4096 + 4000, bytes(50))
    opened(tmp_path).close()
    assert any(problem.startswith("the database: ") for problem in check(tmp_path).problems)


def test_a_check_tells_that_a_start_would_begin_an_epoch(paris: Path) -> None:
    (paris / "identity").touch()
    report = check(paris)
    assert report.problems == ()
    assert "it was copied or restored" in (report.doubt or "")


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_what_is_no_store_is_said(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "broker.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"broker\.db (is not there|is damaged|is not a store)"):
        check(tmp_path)


# Backups


def test_a_backup_is_the_store_and_a_start_on_it_begins_an_epoch(
    paris: Path, tmp_path: Path
) -> None:
    taken = back_up(paris, tmp_path / "paris.db")
    assert taken.place == "paris~2:20"
    assert (tmp_path / "paris.db").stat().st_mode & 0o777 == 0o600
    report = check(tmp_path / "paris.db")
    assert (report.problems, report.doubt, report.spans) == ((), None, SPANS)
    done = restore(tmp_path / "paris.db", tmp_path / "elsewhere")
    assert (done.begins, done.aside) == ("paris~3", None)
    with closing(opened(tmp_path / "elsewhere")) as store:
        assert "it was restored from a backup" in (store.raised or "")
        assert list(store.spans()) == ["paris", "paris~2", "paris~3"]
        assert store.content() == {"tick": 17}
        assert store.read("paris~2", 0, limit=100)[2] == of("paris~2", 1, 20)
        store.commit({}, of("paris~3", 1, 1))
    with closing(opened(tmp_path / "elsewhere")) as store:
        assert store.raised is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "paris", "paris.db"]


def test_a_backup_overwrites_nothing_and_leaves_nothing_half(paris: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(StoreError, match="there already"):
        back_up(paris, tmp_path / "there")
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        back_up(paris, tmp_path / "nowhere" / "paris.db")
    with pytest.raises(StoreError, match="is not there"):
        back_up(tmp_path / "no store", tmp_path / "paris.db")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(paris, tmp_path / "paris.db", told=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["paris", "there"]


@pytest.mark.slow
def test_a_backup_is_whole_though_commits_go_on_between_its_steps(tmp_path: Path) -> None:
    steps: list[int] = []

    def told(done: int, total: int) -> None:
        steps.append(done)
        last = span_of(store).last
        store.commit({"tick": last}, events(last + 1, last + 3, text="x" * 10_000))

    with closing(opened(tmp_path / "paris")) as store:
        for tick in range(1, 401):
            store.commit({"tick": tick - 1}, events(tick, tick, text="x" * 100_000))
        taken = back_up(tmp_path / "paris", tmp_path / "paris.db", told=told)
        assert span_of(store).last > 400 + 3 * 8
    assert steps == sorted(set(steps)), "it has never begun anew"
    assert taken.place == "paris:400"
    report = check(tmp_path / "paris.db")
    assert (report.problems, report.spans) == ((), {"paris": Span(1, 400)})


@pytest.mark.slow
def test_commits_do_not_wait_for_one_who_reads_for_long(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 1))
        with closing(sqlite3.connect(tmp_path / "broker.db", isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM log").fetchall()
            tries = 0
            checkpoint = store._writer._checkpoint

            def counted() -> None:
                nonlocal tries
                tries += 1
                checkpoint()

            store._writer._checkpoint = counted  # type: ignore[method-assign]
            for tick in range(2, 102):
                store.commit({}, events(tick, tick, text="x" * MIB))
            assert 1 <= tries <= 4
        store.commit({}, events(102, 102, text="x" * MIB))
        for tick in range(103, 143):
            store.commit({}, events(tick, tick, text="x" * MIB))
        assert (tmp_path / "broker.db-wal").stat().st_size < 80 * MIB


# What is restored


def test_a_store_is_replaced_only_if_that_was_said_and_its_epoch_counts(
    paris: Path, tmp_path: Path
) -> None:
    back_up(paris, tmp_path / "paris.db")
    with closing(opened(paris)) as store:
        store.raise_epoch()
        store.raise_epoch()
        store.commit({}, of("paris~4", 1, 7))
    with pytest.raises(StoreError, match="has a store; --replace puts it aside"):
        restore(tmp_path / "paris.db", paris)
    done = restore(tmp_path / "paris.db", paris, replace=True)
    assert done.begins == "paris~5"
    assert done.aside is not None
    assert check(done.aside).spans["paris~4"] == Span(1, 7)
    with closing(opened(paris)) as store:
        spans = store.spans()
        assert list(spans) == ["paris", "paris~2", "paris~3", "paris~4", "paris~5"]
        assert spans["paris~2"].last == 20
        assert (spans["paris~4"].first, spans["paris~4"].last) == (8, 7)


def damaged(folder: Path) -> None:
    overwrite(folder / "broker.db", 0, bytes(100))


def gone(folder: Path) -> None:
    (folder / "broker.db").unlink()


@pytest.mark.parametrize("harm", [damaged, gone])
def test_what_a_lost_stores_mark_says_counts(
    paris: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    back_up(paris, tmp_path / "paris.db")
    with closing(opened(paris)) as store:
        store.raise_epoch()
        store.commit({}, of("paris~3", 1, 7))
    harm(paris)
    assert restore(tmp_path / "paris.db", paris, replace=True).begins == "paris~4"
    with closing(opened(paris)) as store:
        assert store.spans()["paris~3"].last == 7
        assert list(store.spans())[-1] == "paris~4"


def test_a_restore_is_refused_while_a_broker_runs_or_if_it_cannot_be_right(
    paris: Path, tmp_path: Path
) -> None:
    back_up(paris, tmp_path / "paris.db")
    with (
        closing(opened(paris)),
        pytest.raises(StoreError, match="in use by another broker"),
    ):
        restore(tmp_path / "paris.db", paris, replace=True)
    with closing(SQLiteStore(tmp_path / "london", "london", ballast=0)):
        pass
    with pytest.raises(StoreError, match=r"is the store of 'london', but .* one of 'paris'"):
        restore(tmp_path / "paris.db", tmp_path / "london", replace=True)
    with closing(sqlite3.connect(tmp_path / "paris.db", isolation_level=None)) as other:
        other.execute("DELETE FROM log WHERE place & 0xffff = 25")
    with pytest.raises(StoreError, match=r"is damaged \(paris: ticks 25 to 28 are missing\)"):
        restore(tmp_path / "paris.db", paris, replace=True)
    with closing(opened(paris)) as store:
        assert store.raised is None, "nothing has changed"


def test_another_user_does_not_leave_files_that_the_broker_cannot_open(
    paris: Path, tmp_path: Path
) -> None:
    back_up(paris, tmp_path / "paris.db")
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    os.chown(paris, 65534, 65534)
    for change in (
        lambda: restore(tmp_path / "paris.db", paris, replace=True),
        lambda: renew(paris),
    ):
        with pytest.raises(StoreError, match=r"belongs to another user \(number 65534\)"):
            change()


def test_the_copy_of_a_folder_is_restored_with_its_journal(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from tests.broker.store.test_sqlite import events, opened
store = opened(Path(sys.argv[1]))
store.commit({}, events(1, 9))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script, tmp_path / "paris").returncode == -signal.SIGKILL
    shutil.copytree(tmp_path / "paris", tmp_path / "copy")
    done = restore(tmp_path / "copy", tmp_path / "paris", replace=True, above=4)
    assert done.taken is not None
    assert (done.taken.place, done.begins) == ("paris:9", "paris~5")
    with closing(opened(tmp_path / "paris")) as store:
        assert store.read("paris", 0, limit=10)[2] == events(1, 9)
        assert list(store.spans())[-1] == "paris~5"


@pytest.mark.parametrize("harm", [damaged, gone, None])
def test_without_a_backup_an_empty_log_begins_in_another_epoch(
    paris: Path, harm: Callable[[Path], None] | None
) -> None:
    if harm is not None:
        harm(paris)
        with pytest.raises(StoreError, match="whose store it is: name the broker"):
            renew(paris)
    done = renew(paris, broker="paris")
    assert done.begins == "paris~3"
    with closing(opened(paris)) as store:
        assert store.raised is None
        spans = store.spans()
        assert list(spans) == ["paris", "paris~2", "paris~3"]
        assert set(spans.values()) == {Span()}, "whoever has read in them is told"
        assert store.content() == {}
        store.commit({}, of("paris~3", 1, 1))
    with pytest.raises(StoreError, match="is the store of 'paris', not of 'london'"):
        renew(paris, broker="london")


def test_after_the_loss_of_a_disk_an_epoch_begins_that_nobody_knows(tmp_path: Path) -> None:
    assert renew(tmp_path / "new", broker="paris", above=2).begins == "paris~3"
    with closing(opened(tmp_path / "new")) as store:
        assert list(store.spans()) == ["paris", "paris~2", "paris~3"]


_STEPS = """
import os, signal, sys
from pathlib import Path
from tidings.broker.store.backup import renew, restore

STEPS = {"open", "write", "fsync", "rename", "unlink", "mkdir", "backup", "close", "execute"}

def killed_at(step, folder):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    left = step
    def profile(frame, kind, what):
        nonlocal left
        file = frame.f_code.co_filename
        if kind == "c_call" and what.__name__ in STEPS and ("tidings" in file or "pathlib" in file):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
    sys.setprofile(profile)
    if sys.argv[2] == "renew":
        renew(folder)
    else:
        restore(Path(sys.argv[2]), folder, replace=True)
    os._exit(0)

step = 0
while killed_at(step, Path(sys.argv[1]) / str(step)):
    step += 1
print(step)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["restore", "renew"])
def test_a_crash_at_any_step_never_leads_to_a_tick_that_was_used(
    paris: Path, tmp_path: Path, what: str
) -> None:
    """The old store, with which an epoch begins as it is a copy here; or the new one; or neither,
    which is refused, and can be done again."""
    back_up(paris, tmp_path / "paris.db")
    (paris / "mark").unlink()  # it would keep a broker from beginning anew
    folders = tmp_path / "steps"
    folders.mkdir()
    for step in range(150):
        shutil.copytree(paris, folders / str(step))
    done = run(_STEPS, folders, tmp_path / "paris.db" if what == "restore" else "renew")
    assert 30 < int(done.stdout) < 150, done.stderr
    refused = 0
    for step in range(int(done.stdout) + 1):
        folder = folders / str(step)
        if not (folder / "broker.db").exists():
            refused += 1
            with pytest.raises(StoreError, match=r"broker\.db is missing, but"):
                opened(folder)
            if what == "restore":
                restore(tmp_path / "paris.db", folder, replace=True)
            else:
                renew(folder, broker="paris")
        with closing(opened(folder)) as store:
            *_, (stream, span) = store.spans().items()
            assert stream in ("paris~3", "paris~4")
            assert span == Span()
    assert refused > 0


def test_the_new_mark_of_a_renewed_store_is_that_of_its_database(paris: Path) -> None:
    before = marks.look(paris)
    assert before == Head(16, 2, 20)
    renew(paris)
    assert marks.look(paris) == Head(17, 3, 0)
