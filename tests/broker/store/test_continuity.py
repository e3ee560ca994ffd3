"""Whether a store goes on where it has ended: damage, copies, backups, and crashes at any step."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker.store.test_sqlite import ROOT, event, events, opened, overwrite
from tidings.broker.store import SQLiteStore, StoreError, about, database, identity
from tidings.broker.store import mark as marks
from tidings.broker.store.mark import Head, Mark
from tidings.protocol.host import Span

_CRASH = """
import os, signal, sys
from pathlib import Path
from tests.broker.store.test_sqlite import events, opened
store = opened(Path(sys.argv[1]))
for tick in range(1, 41):
    store.commit({"tick": tick}, events(tick, tick))
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker leaves that was killed after 40 commits of an event each."""
    folder = tmp_path_factory.mktemp("crash") / "paris"
    done = run(_CRASH, folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (folder / "broker.db-wal").stat().st_size > 40 * 4096
    return folder


@pytest.fixture
def crashed(crash: Path, tmp_path: Path) -> Path:
    """The same, to be changed: a copy that its database takes for the original."""
    folder = tmp_path / "paris"
    shutil.copytree(crash, folder)
    adopt(folder)
    return folder


def adopt(folder: Path) -> None:
    """Let the database take the folder, which is a copy, for the original, and be killed."""
    script = """
import os, signal, sys
from pathlib import Path
from tidings.broker.store import about, database, identity
folder = Path(sys.argv[1])
connection = database.connect(folder / "broker.db")
connection.execute("BEGIN IMMEDIATE")
about.put(connection, about.IDENTITY, identity.look(folder)[0])
connection.execute("COMMIT")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script, folder).returncode == -signal.SIGKILL


def believe(folder: Path) -> None:
    """Let the database take the folder, which is a copy, for the original."""
    with closing(database.connect(folder / "broker.db")) as connection:
        about.put(connection, about.IDENTITY, identity.look(folder)[0])


def ends(folder: Path) -> tuple[dict[str, Span], str | None]:
    """What a store holds when it is opened again, and why it has begun an epoch."""
    with closing(opened(folder)) as store:
        return store.spans(), store.raised


def goes_on(folder: Path, epoch: int) -> None:
    """A store takes events and can be opened again, in the same epoch."""
    with closing(opened(folder)) as store:
        *_, (stream, span) = store.spans().items()
        assert stream == ("paris" if epoch == 1 else f"paris~{epoch}")
        after = event(span.last + 1, time=1e6)
        store.commit({}, [type(after)(stream, after.tick, after.notification, time=after.time)])
    spans, raised = ends(folder)
    assert raised is None
    assert list(spans)[-1] == stream
    assert spans[stream].last == span.last + 1


# What proves


def test_a_kill_leaves_what_goes_on(crashed: Path) -> None:
    assert ends(crashed) == ({"paris": Span(1, 40, 40.0)}, None)
    goes_on(crashed, 1)


def test_a_kill_between_a_commit_and_its_mark_leaves_what_goes_on(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from tests.broker.store.test_sqlite import events, opened
from tidings.broker.store.mark import Mark
store = opened(Path(sys.argv[1]))
store.commit({}, events(1, 3))
Mark.move = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.commit({}, events(4, 9))
"""
    assert run(script, tmp_path).returncode == -signal.SIGKILL
    assert marks.look(tmp_path) == Head(1, 1, 3)
    assert ends(tmp_path) == ({"paris": Span(1, 9, 9.0)}, None)


# What is not proved

_MORE = """
import os, signal, sys
from pathlib import Path
from tests.broker.store.test_sqlite import events, opened
store = opened(Path(sys.argv[1]))
for tick in range(41, 81):
    store.commit({"tick": tick}, events(tick, tick))
os.kill(os.getpid(), signal.SIGKILL)
"""


def flip_a_bit(folder: Path) -> None:
    wal = folder / "broker.db-wal"
    place = wal.stat().st_size * 3 // 4
    overwrite(wal, place, bytes([wal.read_bytes()[place] ^ 1]))


def cut_off(folder: Path) -> None:
    os.truncate(folder / "broker.db-wal", (folder / "broker.db-wal").stat().st_size // 2)


def cut_a_byte_off(folder: Path) -> None:
    # What closed the last commit: all of it is gone with that.
    os.truncate(folder / "broker.db-wal", (folder / "broker.db-wal").stat().st_size - 1)


def empty(folder: Path) -> None:
    os.truncate(folder / "broker.db-wal", 0)


def remove(folder: Path) -> None:
    (folder / "broker.db-wal").unlink()


@pytest.mark.parametrize(
    "damage", [flip_a_bit, cut_off, cut_a_byte_off, empty, remove], ids=lambda f: f.__name__
)
def test_damage_to_the_write_ahead_log_begins_an_epoch(
    crashed: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    opened(crashed).close()  # from here on there is only the journal of what follows
    run(_MORE, crashed)
    damage(crashed)
    spans, raised = ends(crashed)
    assert list(spans) == ["paris", "paris~2"]
    assert spans["paris~2"] == Span()
    last = spans["paris"].last
    assert 40 <= last < 80
    assert raised is not None
    assert "the mark tells of commit 80, up to paris:80, but the database ends with" in raised
    assert f"So paris~2 begins, and paris is closed at tick {last}." in raised
    assert [r for r in caplog.records if r.levelno == logging.WARNING and raised in r.message]
    with closing(opened(crashed)) as store:
        assert store.read("paris", 0, limit=100)[2] == events(1, last)
    goes_on(crashed, 2)


def test_the_database_of_yesterday_begins_an_epoch(tmp_path: Path) -> None:
    folder, copy = tmp_path / "paris", tmp_path / "yesterday.db"
    with closing(opened(folder)) as store:
        store.commit({}, events(1, 5))
    shutil.copy2(folder / "broker.db", copy)
    assert ends(folder)[1] is None
    with closing(opened(folder)) as store:
        store.commit({}, events(6, 9))
    shutil.copy2(copy, folder / "broker.db")
    spans, raised = ends(folder)
    assert spans == {"paris": Span(1, 5, 5.0), "paris~2": Span()}
    assert "the mark tells of commit 2, up to paris:9, but" in (raised or "")
    goes_on(folder, 2)


def test_the_database_of_yesterday_under_the_journal_of_today_is_no_silent_start(
    crashed: Path, tmp_path: Path
) -> None:
    """SQLite puts the pages of both together."""
    opened(crashed).close()
    shutil.copy2(crashed / "broker.db", tmp_path / "yesterday.db")
    run(_MORE, crashed)
    shutil.copy2(tmp_path / "yesterday.db", crashed / "broker.db")
    spans, raised = ends(crashed)  # here the journal has all pages that have changed since
    assert (spans, raised) == ({"paris": Span(1, 80, 80.0)}, None)
    run(_MORE.replace("range(41, 81)", "range(81, 121)"), crashed)
    shutil.copy2(tmp_path / "yesterday.db", crashed / "broker.db")
    with pytest.raises(StoreError, match="is damaged"):
        opened(crashed)


@pytest.mark.parametrize("tool", ["copytree", "cp", "in place"])
def test_a_folder_from_a_backup_begins_an_epoch(tmp_path: Path, tool: str) -> None:
    folder, copy = tmp_path / "paris", tmp_path / "backup"
    with closing(opened(folder)) as store:
        store.commit({}, events(1, 5))
    subprocess.run(["cp", "-a", folder, copy], check=True)
    assert ends(folder)[1] is None, "to be copied changes nothing"
    with closing(opened(folder)) as store:
        store.commit({}, events(6, 9))
    if tool == "copytree":
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
    elif tool == "cp":
        shutil.rmtree(folder)
        subprocess.run(["cp", "-a", copy, folder], check=True)
    else:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
    spans, raised = ends(folder)
    assert spans == {"paris": Span(1, 5, 5.0), "paris~2": Span()}
    assert "it was copied or restored" in (raised or "")
    goes_on(folder, 2)


def test_a_folder_that_is_moved_goes_on(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "paris")) as store:
        store.commit({}, events(1, 5))
    (tmp_path / "paris").rename(tmp_path / "elsewhere")
    assert ends(tmp_path / "elsewhere")[1] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda f: (f / "mark").unlink(), "`mark` .* is missing", id="no mark"),
        pytest.param(lambda f: os.truncate(f / "mark", 10), "cannot be read", id="half a mark"),
        pytest.param(lambda f: (f / "identity").unlink(), "has lost its file", id="no identity"),
        pytest.param(lambda f: (f / "identity").touch(), "was copied", id="touched"),
        pytest.param(lambda f: (f / "identity").write_text("x"), "was copied", id="another"),
    ],
)
def test_without_its_witnesses_a_store_begins_an_epoch(
    tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 5))
    change(tmp_path)
    spans, raised = ends(tmp_path)
    assert spans == {"paris": Span(1, 5, 5.0), "paris~2": Span()}
    assert raised is not None
    assert re.search(said, raised)
    goes_on(tmp_path, 2)


def test_half_of_a_mark_is_enough(tmp_path: Path) -> None:
    """A power failure may tear one of its two places, which is then one commit behind."""
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 5))
        store.commit({}, events(6, 9))
    overwrite(tmp_path / "mark", 0, bytes(20))
    assert marks.look(tmp_path) == Head(1, 1, 5)
    assert ends(tmp_path)[1] is None


def test_an_epoch_that_only_the_mark_knows_is_not_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "paris"
    with closing(opened(folder)) as store:
        store.commit({}, events(1, 5))
    shutil.copy2(folder / "broker.db", tmp_path / "yesterday.db")
    with closing(opened(folder)) as store:
        assert store.raise_epoch() == "paris~2"
        store.raise_epoch()
        assert store.raise_epoch() == "paris~4"
    shutil.copy2(tmp_path / "yesterday.db", folder / "broker.db")
    spans, _ = ends(folder)
    assert list(spans) == ["paris", "paris~2", "paris~3", "paris~4", "paris~5"]
    goes_on(folder, 5)


def test_an_epoch_is_begun_while_the_store_is_open(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 5))
        assert store.raise_epoch() == "paris~2"
        assert store.raise_epoch() == "paris~3"
        spans = {"paris": Span(1, 5, 5.0), "paris~2": Span(), "paris~3": Span()}
        assert store.spans() == spans
    goes_on(tmp_path, 3)


def test_a_database_that_has_gone_is_not_begun_anew(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 5))
    (tmp_path / "broker.db").unlink()
    with pytest.raises(StoreError, match=r"is missing, but the mark .* commit 1, up to paris:5: "):
        opened(tmp_path)


def test_a_log_that_ends_before_its_last_commit_is_damage(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 5))
        store.commit({}, events(6, 9))
        store._writer._connection.execute("DELETE FROM log WHERE place & 0xffff = 6")
    with pytest.raises(StoreError, match="the log ends at 5, the last commit at 9"):
        opened(tmp_path)


def test_a_mark_that_cannot_be_moved_is_trouble_until_it_can(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        mark = store._mark
        file, mark._file = mark._file, os.open(tmp_path / "mark", os.O_RDONLY)
        store.commit({}, events(1, 5))
        assert "mark cannot be written" in (store.trouble or "")
        file, mark._file = mark._file, file
        os.close(file)
        store.trim()
        assert store.trouble is None
    assert marks.look(tmp_path) == Head(1, 1, 5)


def test_a_mark_can_be_closed_at_any_moment(tmp_path: Path) -> None:
    marks.write(tmp_path, Head())
    mark = Mark(tmp_path)

    class ClosedJustThen(threading.Event):
        """It is set right after it was looked at, as `close` may do it."""

        def wait(self, timeout: float | None = None) -> bool:
            was_set = super().wait(timeout)
            self.set()
            mark._due.set()
            return was_set

    mark._is_closed = ClosedJustThen()
    mark.move(Head(1))
    mark._thread.join(30)
    assert not mark._thread.is_alive()
    mark.close()


# Crashes while it is opened

_STEPS = """
import os, signal, sys
from pathlib import Path
from tests.broker.store.test_sqlite import opened

STEPS = {"open", "write", "pwrite", "fsync", "fdatasync", "rename", "unlink", "execute", "close"}

def killed_at(step, folder):
    "Whether the process dies, as its store makes this many system calls and queries."
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    left = step
    def profile(frame, kind, what):
        nonlocal left
        if kind == "c_call" and what.__name__ in STEPS and "tidings" in frame.f_code.co_filename:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
    sys.setprofile(profile)
    opened(folder)
    os._exit(0)

step = 0
while killed_at(step, Path(sys.argv[1]) / str(step)):
    step += 1
print(step)
"""


@pytest.mark.slow
def test_a_crash_while_a_store_is_made_does_no_harm(tmp_path: Path) -> None:
    done = run(_STEPS, tmp_path)
    assert int(done.stdout) > 20, done.stderr
    for step in range(int(done.stdout) + 1):
        assert ends(tmp_path / str(step)) == ({"paris": Span()}, None), step
        assert not list((tmp_path / str(step)).glob("*draft*"))


@pytest.mark.slow
@pytest.mark.parametrize("lost", [(), ("mark",), ("identity",), ("mark", "identity")])
def test_a_crash_while_an_epoch_begins_does_no_harm(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """Whenever it happens, the next start is in the second epoch, and not in a third."""
    with closing(opened(tmp_path / "paris")) as store:
        store.commit({}, events(1, 5))
    for name in lost:
        (tmp_path / "paris" / name).unlink()
    for step in range(100):
        shutil.copytree(tmp_path / "paris", tmp_path / str(step))
    done = run(_STEPS, tmp_path)
    assert 20 < int(done.stdout) < 100, done.stderr
    for step in range(int(done.stdout)):
        spans, _ = ends(tmp_path / str(step))
        assert spans == {"paris": Span(1, 5, 5.0), "paris~2": Span()}, step
        assert ends(tmp_path / str(step)) == (spans, None)


def test_a_store_has_the_identity_that_it_was_made_with(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        assert identity.look(tmp_path) == (store._identity,)
        assert isinstance(store, SQLiteStore)
    for name in ("mark", "identity"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


# Copies that are put back


def synced(source: Path, target: Path, *names: str) -> None:
    """What `rsync -a --delete` does: a file of the same size and time is left alone."""
    for name in names or os.listdir(source):
        copy, file = source / name, target / name
        if file.exists():
            before, after = copy.stat(), file.stat()
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                continue
        shutil.copy2(copy, target / "draft")
        (target / "draft").rename(file)
    for name in set(os.listdir(target)) - set(os.listdir(source)):
        (target / name).unlink()


def overwritten(source: Path, target: Path) -> None:
    """What `cp` does that is given the database and the mark only."""
    for name in ("broker.db", "mark"):
        shutil.copyfile(source / name, target / name)


@pytest.mark.parametrize("put_back", [synced, overwritten], ids=lambda f: f.__name__)
@pytest.mark.parametrize("starts", [1, 2])
def test_a_copy_that_is_put_back_where_nothing_else_has_changed_begins_an_epoch(
    tmp_path: Path, put_back: Callable[[Path, Path], None], starts: int
) -> None:
    folder, copy = tmp_path / "paris", tmp_path / "copy"
    with closing(opened(folder)) as store:
        store.commit({}, events(1, 5))
    subprocess.run(["cp", "-a", folder, copy], check=True)
    for start in range(starts):
        with closing(opened(folder)) as store:
            store.commit({}, events(6 + start, 6 + start))
    put_back(copy, folder)
    spans, raised = ends(folder)
    assert spans == {"paris": Span(1, 5, 5.0), "paris~2": Span()}
    assert "it was copied or restored" in (raised or "")
    goes_on(folder, 2)


def test_a_snapshot_of_a_store_in_use_that_is_put_back_begins_an_epoch(tmp_path: Path) -> None:
    """It has the very identity of the broker that was killed meanwhile."""
    script = """
import os, shutil, signal, subprocess, sys
from pathlib import Path
from tests.broker.store.test_sqlite import events, opened
folder, copy = map(Path, sys.argv[1:])
store = opened(folder)
store.commit({}, events(1, 5))
subprocess.run(["cp", "-a", folder, copy], check=True)
store.commit({}, events(6, 9))
os.kill(os.getpid(), signal.SIGKILL)
"""
    folder, copy = tmp_path / "paris", tmp_path / "copy"
    assert run(script, folder, copy).returncode == -signal.SIGKILL
    synced(copy, folder)
    spans, raised = ends(folder)
    assert spans == {"paris": Span(1, 5, 5.0), "paris~2": Span()}
    assert "it was copied or restored" in (raised or "")


def test_every_start_is_another_one_and_leaves_one_identity(tmp_path: Path) -> None:
    found = set()
    for _ in range(4):
        opened(tmp_path).close()
        (only,) = identity.look(tmp_path)
        found.add(only.id)
    assert len(found) == 4


def test_a_start_without_room_for_another_identity_keeps_the_one_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(opened(tmp_path)) as store:
        store.commit({}, events(1, 5))
    before = identity.look(tmp_path)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tidings.broker.store.identity.os.fsync", full)
        with closing(opened(tmp_path)) as store:
            assert (store.raised, store.trouble) == (None, None)
            assert before[0] in identity.look(tmp_path)
    assert "no room for another identity" in caplog.text
    goes_on(tmp_path, 1)
    assert len(identity.look(tmp_path)) == 1


@pytest.mark.slow
def test_a_crash_while_a_store_goes_on_is_no_reason_to_doubt_it_nor_to_trust_a_copy(
    tmp_path: Path,
) -> None:
    original = tmp_path / "paris"
    with closing(opened(original)) as store:
        store.commit({}, events(1, 5))
    for step in range(60):
        shutil.copytree(original, tmp_path / str(step))
        believe(tmp_path / str(step))
        subprocess.run(["cp", "-a", tmp_path / str(step), tmp_path / f"{step}-before"], check=True)
    done = run(_STEPS, tmp_path)
    assert 20 < int(done.stdout) < 60, done.stderr
    for step in range(int(done.stdout)):
        folder, between = tmp_path / str(step), tmp_path / f"{step}-between"
        subprocess.run(["cp", "-a", folder, between], check=True)
        with closing(opened(folder)) as store:
            assert (store.spans(), store.raised) == ({"paris": Span(1, 5, 5.0)}, None), step
            store.commit({}, events(6, 9))
        for copy in (tmp_path / f"{step}-before", between):
            synced(copy, folder)
            spans, raised = ends(folder)
            assert list(spans) == ["paris", "paris~2"], step
            assert raised is not None
