"""Lakes that are deleted, replaced, damaged or no lakes at all: said in one sentence, and not made
worse.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidings.events import Notification, TidingsError
from tidings.lakes import delta, files
from tidings.lakes import lake as lakes
from tidings.lakes.committed import existing
from tidings.lakes.filling import to_table
from tidings.lakes.lake import Lake, LakeError
from tidings.lakes.layout import FIXED, Archived
from tidings.lakes.ledger import Ledger, Outdated
from tidings.lakes.search import Question

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def event(tick: int, *, stream: str = "paris", **said: Any) -> Archived:
    return Archived(stream, tick, NOON, Notification(said or {"n": tick}))


def fill(lake: Lake, commits: range) -> None:
    for number in commits:
        lake.append([event(number)], writer="w", version=number)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = Lake(tmp_path / "lake")
    fill(found, range(1, 4))
    return found


# -- deleted and replaced --------------------------------------------------------------------------


def test_a_lake_that_was_deleted_is_not_made_again(lake: Lake) -> None:
    shutil.rmtree(lake.path)
    with pytest.raises(LakeError, match="there is no lake here"):
        lake.held()
    with pytest.raises(LakeError, match="there is no lake here"):
        lake.append([event(4)], writer="w", version=4)
    assert not lake.path.exists()


def test_nobody_writes_files_where_the_lake_is_not(lake: Lake) -> None:
    """As on a worker that does not see the lake's folder."""
    known = lake.schema()
    shutil.rmtree(lake.path)
    with pytest.raises(FileNotFoundError):
        files.write(lake.path, to_table([event(4)], known), known)
    assert not lake.path.exists()


def test_a_lake_in_the_place_of_another_is_not_taken_for_it(lake: Lake) -> None:
    shutil.rmtree(lake.path)
    other = Lake(lake.path)
    with pytest.raises(LakeError, match="another lake is here now"):
        lake.append([event(4)], writer="w", version=4)
    assert other.held() == {}
    assert list(other.events()) == []


@pytest.mark.parametrize("left", [0, None], ids=["shortened", "missing"])
def test_what_whoever_commits_does_not_see_is_not_committed(lake: Lake, left: int | None) -> None:
    """A worker may have written it to another disk, or not all of it may have come."""
    known = lake.schema()
    written = [files.write(lake.path, to_table([event(t)], known), known) for t in (4, 5)]
    lost = lake.path / written[1].files[0].path
    lost.unlink() if left is None else os.truncate(lost, left)
    with pytest.raises(LakeError, match=f"{lost.name}: .* must be one folder that this machine"):
        lake.commit(written, "w", 4, held={"paris": 5})
    assert lake.held() == {"paris": 3}
    assert {str(p.relative_to(lake.path)) for p in lake.path.rglob("*.parquet")} == {
        *lake.snapshot().files()
    }
    fill(lake, range(4, 6))
    assert [e.tick for e in lake.events()] == [1, 2, 3, 4, 5]


# -- versions --------------------------------------------------------------------------------------


def cleaned(lake: Lake) -> None:
    """As Delta cleans up its log: a checkpoint, and what is before it is gone."""
    table = DeltaTable(lake.path)
    table.create_checkpoint()
    for commit in range(table.version() + 1):
        (lake.path / "_delta_log" / f"{commit:020}.json").unlink()


def test_numbers_of_a_version_that_the_log_has_no_more_are_not_those_of_a_later_one(
    lake: Lake,
) -> None:
    before = DeltaTable(lake.path).version()
    fill(lake, range(4, 6))
    cleaned(lake)
    with pytest.raises(Outdated, match=f"version {before} "):
        Ledger(lake.path).numbers(before)


def test_a_snapshot_belongs_together_though_the_log_is_cleaned_up_meanwhile(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, opened = Lake(lake.path), delta.found
    later = iter([range(4, 6)])

    def found(path: Path) -> DeltaTable:
        table = opened(path)
        for commits in later:  # others write, just after it was opened for the first time
            fill(lake, commits)
            cleaned(lake)
        return table

    monkeypatch.setattr(delta, "found", found)
    view = own.snapshot()
    assert [e.tick for e in view.events()] == [1, 2, 3, 4, 5]
    assert view.held() == {"paris": 5}


def test_a_log_that_lacks_commits_is_said_to(lake: Lake) -> None:
    hint = lake.path / "_delta_log" / "_last_checkpoint"
    hint.write_bytes(b"{")
    assert Lake(lake.path).held() == {"paris": 3}
    cleaned(lake)
    hint.write_bytes(b"{")
    with pytest.raises(LakeError, match="_delta_log lacks the commit 0"):
        Lake(lake.path).held()


# -- writing ---------------------------------------------------------------------------------------


class Contended(Sequence[Archived]):
    """An event whose attribute is new whenever one looks, and somebody else has just named it."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self._looks = lake, 0

    def __iter__(self) -> Iterator[Archived]:
        self._looks += 1
        said = {f"x{self._looks}": "theirs"}
        rome = event(self._looks, stream="rome", **said)
        self._lake.append([rome], writer="rome", version=self._looks)
        yield event(1, stream="berlin", **dict.fromkeys(said, 1))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, at: Any) -> Any:
        raise IndexError(at)


def test_what_never_fits_is_not_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakes, "_ATTEMPTS", 3)
    with pytest.raises(LakeError, match="others write to the lake all the time"):
        Lake(lake.path).append(Contended(lake), writer="berlin", version=1)
    assert "berlin" not in lake.held()
    assert {e.stream for e in lake.events()} == {"paris", "rome"}


def test_replaced_files_stay_for_at_least_as_long_as_was_said(lake: Lake) -> None:
    reading = lake.snapshot()
    assert lake.compact(keep=timedelta(minutes=59)) == {"joined": 3, "made": 1, "deleted": 0}
    assert [e.tick for e in reading.events()] == [1, 2, 3]
    assert lake.compact(keep=timedelta(0))["deleted"] == 3


def test_files_that_can_be_joined_are_counted_by_day(lake: Lake, tmp_path: Path) -> None:
    def joinable(lake: Lake) -> list[int]:
        return [joint.files for joint in lake.snapshot().joints()]

    assert joinable(Lake(tmp_path / "empty")) == []
    assert joinable(lake) == [3]
    for version, day in enumerate(range(3), start=4):
        late = event(version)._replace(time=NOON + timedelta(days=day + 1))
        lake.append([late], writer="w", version=version)
    assert joinable(lake) == [3]  # each of these is alone in its day
    lake.compact()
    assert joinable(lake) == []


# -- no lakes --------------------------------------------------------------------------------------


def nothing(path: Path) -> None:
    """There is nothing at all."""


def file(path: Path) -> None:
    path.write_text("precious")


def folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("precious")


def other_table(path: Path) -> None:
    write_deltalake(path, pa.table({"a": [1]}))


def damaged(path: Path) -> None:
    Lake(path)
    (path / "_delta_log" / f"{0:020}.json").write_bytes(b"{")


@pytest.mark.parametrize(
    ("made", "to_write", "to_read"),
    [
        (nothing, None, "there is no lake here"),
        (file, "there is something else here, which is no lake", "there is no lake here"),
        (folder, "there is something else here, which is no lake", "there is no lake here"),
        (other_table, *["this is a Delta table, but no lake"] * 2),
        (damaged, *["the lake cannot be read: Kernel error: Json error.*"] * 2),
    ],
)
def test_what_is_no_lake_is_said_in_a_sentence(
    tmp_path: Path, made: Any, to_write: str | None, to_read: str
) -> None:
    path = tmp_path / "it"
    made(path)
    for read in (lambda: existing(path), lambda: Question.of(path).schema()):
        with pytest.raises(LakeError) as problem:
            read()
        assert_said(problem.value, f"{path}: {to_read}")
    if to_write is not None:
        with pytest.raises(LakeError) as problem:
            Lake(path)
        assert_said(problem.value, f"{path}: {to_write}")


def assert_said(problem: Exception, what: str) -> None:
    """The whole of it is this, in one line."""
    with pytest.raises(type(problem), match=f"^{what}$"):
        raise problem
    assert "\n" not in str(problem)


# -- damaged files ---------------------------------------------------------------------------------


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def overwritten(file: Path) -> None:
    """All of it but the end, which says where columns are."""
    content = file.read_bytes()
    end = int.from_bytes(content[-8:-4], "little") + 8
    file.write_bytes(b"\xff" * (len(content) - end) + content[-end:])


@pytest.mark.parametrize("read", [Lake.events, Lake.scan])
@pytest.mark.parametrize("harm", [Path.unlink, cut_off, overwritten])
def test_a_file_that_cannot_be_read_is_named(lake: Lake, harm: Any, read: Any) -> None:
    (file,) = lake.snapshot().files("n = 2")
    harm(lake.path / file)
    assert len(list(read(lake, "n = 3"))) == 1, "others can be read"
    with pytest.raises(LakeError) as problem:
        list(read(lake, "n = 2"))
    assert_said(problem.value, f"{lake.path / file}: it cannot be read: .+")


def test_a_file_that_may_have_a_column_is_not_left_out_if_nobody_can_look(lake: Lake) -> None:
    """The log says of no file that it lacks a column which is newer."""
    (file,) = lake.snapshot().files("n = 2")
    lake.append([event(4, newer=1)], writer="w", version=4)
    (lake.path / file).unlink()
    with pytest.raises(LakeError, match=f"{file}: it cannot be read: No such file"):
        list(lake.events("newer = 1"))


def test_where_no_lake_can_be_made_is_said_in_a_sentence(tmp_path: Path) -> None:
    file(tmp_path / "file")
    with pytest.raises(LakeError, match=r"no lake can be made here: .*directory") as problem:
        Lake(tmp_path / "file" / "lake")
    assert "\n" not in str(problem.value)


def test_a_name_that_delta_reads_as_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    for asked in (Lake, existing, lambda path: Question.of(path).schema()):
        with pytest.raises(LakeError, match=r"a%20b: Delta takes this name for .*a b"):
            asked(tmp_path / "a%20b")
    assert [path.name for path in tmp_path.iterdir()] == ["a b"]
    assert Lake(tmp_path / "100% a").held() == {}


def test_the_beginning_is_no_end(lake: Lake) -> None:
    with pytest.raises(TidingsError, match="'begin' is no place to end"):
        list(lake.events(until="begin"))
    with pytest.raises(TidingsError, match="'begin' is no place to end"):
        Question.of(lake.path, until="begin")
    assert len(list(lake.events(since="begin"))) == 3


def test_a_lake_of_another_format_is_refused_and_what_to_do(tmp_path: Path) -> None:
    for number, (said, reason) in enumerate(
        [(None, "of format 1, which was never released.*a new folder"), ("3", "by a newer tidings")]
    ):
        path = tmp_path / f"lake-{number}"
        properties = {} if said is None else {"tidings.format": said}
        DeltaTable.create(
            path,
            FIXED,
            configuration=properties,
            partition_by=["day"],
            raise_if_key_not_exists=False,
        )
        with pytest.raises(LakeError, match=reason):
            Lake(path)
