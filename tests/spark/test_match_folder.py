"""Who would have heard what: as the filters say, whole or not there at all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.lakes.filled import ODD, START, fill
from tests.spark.cluster import Cluster
from tests.spark.test_lake_match import random_filters
from tidings.events import Filter, Schema, TidingsError
from tidings.lakes import portions
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived
from tidings.spark.matching import filter_file
from tidings.spark.matching import tasks as written
from tidings.spark.matching.folder import MatchFolder
from tidings.spark.matching.report import Summary

FILTERS = {**random_filters(60, 5), "never": Filter.none()}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Archived]]:
    path = tmp_path_factory.mktemp("lakes") / "lake"
    return path, fill(path, ODD)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "_LEAST", 1)


def check(
    out: Path, events: list[Archived], filters: dict[Any, Filter], *, is_listed: bool = True
) -> None:
    """All that was written is as the filters say."""
    heard = [
        (e.stream, e.tick, e.time, key)
        for e in events
        for key, wanted in filters.items()
        if wanted.matches(e.notification)
    ]
    if is_listed:
        files = sorted((out / "matches").iterdir())
        rows = [tuple(r.values()) for file in files for r in pq.read_table(file).to_pylist()]
        said = f"the events that match: {', '.join(pq.read_schema(files[0]).names)}."
        assert said in (out / "report.md").read_text()
        assert sorted((*event, key) for *event, keys in rows for key in keys) == sorted(heard)
    assert (
        is_listed == (out / "matches").exists() == ("matches/" in (out / "report.md").read_text())
    )
    summary = pq.read_table(out / "summary.parquet").to_pylist()
    assert [row["key"] for row in summary] == list(filters)
    for row in summary:
        times = [time for _, _, time, key in heard if key == row["key"]]
        wanted = (len(times), min(times, default=None), max(times, default=None))
        assert (row["count"], row["first"], row["last"]) == wanted
    assert f"{len(heard):,} matches" in (out / "report.md").read_text()
    assert not out.with_name(f"{out.name}.unfinished").exists()


@pytest.mark.parametrize("memory", [2**30, 8_000])
def test_all_of_it_is_written(
    lake: tuple[Path, list[Archived]], tmp_path: Path, memory: int, small_tasks: None
) -> None:
    path, events = lake
    told: list[tuple[int, int]] = []
    folder = MatchFolder(path, FILTERS, tmp_path / "heard", memory=memory)
    folder.begin()
    files = len(list(path.glob("day=*/*.parquet")))
    assert len(folder.tasks()) == files if memory > 8_000 else len(folder.tasks()) > 2 * files
    summary = folder.run(None, lambda *numbers: told.append(numbers))
    check(tmp_path / "heard", events, FILTERS)
    assert (summary.events, summary.filters) == (len(events), len(FILTERS))
    assert summary.matched in (
        None,
        sum(any(f.matches(e.notification) for f in FILTERS.values()) for e in events),
    )
    assert told[-1] == (len(events), summary.matches)
    assert summary.silent == sum(
        not any(f.matches(e.notification) for e in events) for f in FILTERS.values()
    )


@pytest.mark.parametrize("memory", [2**30, 8_000])
def test_matches_may_be_counted_only(
    lake: tuple[Path, list[Archived]], tmp_path: Path, memory: int, small_tasks: None
) -> None:
    path, events = lake
    out = tmp_path / "heard"
    MatchFolder(path, FILTERS, out, memory=memory, is_listed=False).run(None)
    check(out, events, FILTERS, is_listed=False)
    with pytest.raises(TidingsError, match="name another folder"):
        MatchFolder(path, FILTERS, out, memory=memory)
    for until, some in (
        (
            START + timedelta(minutes=9),
            [e for e in events if e.time < START + timedelta(minutes=9)],
        ),
        ({"paris": 7}, [e for e in events if e.stream == "paris" and e.tick <= 7]),
    ):
        out = tmp_path / f"until {len(some)}"
        MatchFolder(path, FILTERS, out, until=until, is_listed=False).run(None)
        check(out, some, FILTERS, is_listed=False)


@pytest.mark.parametrize(("first", "kind"), [(-3, "int32"), (2**40, "int64")])
@pytest.mark.parametrize("memory", [2**30, 8_000])
def test_keys_may_be_whole_numbers(
    lake: tuple[Path, list[Archived]], tmp_path: Path, first: int, kind: str, memory: int
) -> None:
    path, events = lake
    numbered = dict(enumerate(FILTERS.values(), start=first))
    MatchFolder(path, numbered, tmp_path / "heard", memory=memory).run(None)
    check(tmp_path / "heard", events, numbered)
    file = next((tmp_path / "heard" / "matches").iterdir())
    assert str(pq.read_schema(file).field("matches").type.value_type) == kind
    assert str(pq.read_schema(tmp_path / "heard" / "summary.parquet").field("key").type) == kind
    named = {str(key): filter_ for key, filter_ in numbered.items()}
    with pytest.raises(TidingsError, match="matches of other filters"):
        MatchFolder(path, named, tmp_path / "heard", memory=memory)


def test_the_first_and_the_last_are_found_in_any_order() -> None:
    tally, draw = written.FilterCounts(5), np.random.default_rng(3)
    counts, times = draw.integers(0, 4, 300), draw.integers(-50, 1_000, 300)
    numbers = draw.integers(0, 4, counts.sum(), np.int32)
    left = numbers
    for at in range(0, 300, 60):
        some = counts[at : at + 60]
        rows = np.repeat(np.arange(60, dtype=np.int32 if at else np.int64), some)
        found = tally.add(times[at : at + 60], rows, left[: some.sum()])
        assert found.tolist() == some.tolist()
        left = left[some.sum() :]
    for n in range(4):
        mine = np.repeat(times, counts)[numbers == n]
        found = (tally.counts[n], tally.first[n], tally.last[n])
        assert found == (len(mine), mine.min(), mine.max())
    assert tally.table()["number"].to_pylist() == [0, 1, 2, 3]


def test_what_was_begun_is_gone_on_with(
    lake: tuple[Path, list[Archived]],
    tmp_path: Path,
    small_tasks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, events = lake
    out = tmp_path / "heard"
    performed: list[int] = []
    perform = written.perform

    def dying(job: written.Job, task: written.Task) -> written.Done:
        if len(performed) == 2:
            (job.folder / "matches" / ".part-00002.parquet.left").write_bytes(b"half of it")
            raise KeyboardInterrupt
        performed.append(task.number)
        return perform(job, task)

    monkeypatch.setattr("tidings.spark.matching.folder.perform", dying)
    with pytest.raises(KeyboardInterrupt):
        MatchFolder(path, FILTERS, out).run(None)
    assert not out.exists(), "what is not whole is not there"
    again = MatchFolder(path, FILTERS, out)
    assert again.was_begun
    performed.append(-1)
    again.run(None)
    assert sorted(performed) == [-1, *range(len(performed) - 1)], "nothing is done twice"
    check(out, events, FILTERS)
    assert MatchFolder(path, FILTERS, out).was_complete

    with pytest.raises(TidingsError, match="matches of other filters or events"):
        MatchFolder(path, {"one": Filter.all()}, out)
    with pytest.raises(TidingsError, match="matches of other filters or events"):
        MatchFolder(path, FILTERS, out, since="begin")
    with pytest.raises(TidingsError, match="something else here"):
        MatchFolder(path, FILTERS, path)
    with pytest.raises(TidingsError, match="there is no lake here"):
        MatchFolder(out, FILTERS, tmp_path / "new")


@pytest.mark.parametrize("is_listed", [True, False])
def test_killed_at_the_very_end_it_goes_on(
    lake: tuple[Path, list[Archived]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_listed: bool,
) -> None:
    path, events = lake
    out = tmp_path / "heard"

    def dying(summary: Summary) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr("tidings.spark.matching.folder.report", dying)
        with pytest.raises(KeyboardInterrupt):
            MatchFolder(path, FILTERS, out, is_listed=is_listed).run(None)
    MatchFolder(path, FILTERS, out, is_listed=is_listed).run(None)
    check(out, events, FILTERS, is_listed=is_listed)


def test_what_was_begun_is_gone_on_with_where_the_lake_is_now(tmp_path: Path) -> None:
    events = fill(tmp_path / "lake", ODD)
    out = tmp_path / "heard"
    MatchFolder(tmp_path / "lake", FILTERS, out).begin()
    moved = (tmp_path / "lake").rename(tmp_path / "moved")
    again = MatchFolder(moved, FILTERS, out)
    assert again.was_begun
    assert again.run(None).lake == moved
    check(out, events, FILTERS)


def test_what_was_begun_on_files_that_are_gone_cannot_be_gone_on_with(tmp_path: Path) -> None:
    path, out = tmp_path / "lake", tmp_path / "heard"
    events = fill(path, ODD, commits=30)
    MatchFolder(path, FILTERS, out).begin()
    Lake(path).compact(keep=timedelta(0))  # as it is a week later
    told = r"heard\.unfinished: this was begun at .*/lake/day=.*parquet of then; remove the folder"
    with pytest.raises(TidingsError, match=told):
        MatchFolder(path, FILTERS, out)
    shutil.rmtree(f"{out}.unfinished")
    MatchFolder(path, FILTERS, out).run(None)
    check(out, events, FILTERS)


def test_what_was_begun_is_not_thrown_away_for_another_question(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    path, events = lake
    out, since = tmp_path / "heard", START.replace(minute=55)
    MatchFolder(path, FILTERS, out, since=since).begin()
    with pytest.raises(TidingsError, match=r"heard\.unfinished: .* with other filters .* --out"):
        MatchFolder(path, FILTERS, out)
    folder = MatchFolder(path, FILTERS, out, since=since)
    assert folder.was_begun
    folder.run(None)
    check(out, [e for e in events if e.time >= since], FILTERS)
    assert MatchFolder(path, FILTERS, out, since=since).was_complete
    places = {"since": "paris:17,rome:3", "until": "2026-11-15T00:00:00.123457Z"}
    MatchFolder(path, FILTERS, tmp_path / "some", **places).run(None)
    assert MatchFolder(path, FILTERS, tmp_path / "some", **places).was_complete


def test_killed_before_it_had_begun_it_begins_anew(
    lake: tuple[Path, list[Archived]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, events = lake
    out = tmp_path / "heard"
    write = filter_file.write

    def dying(filters: dict[str, Filter], folder: Path) -> Path:
        write(filters, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(filter_file, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            MatchFolder(path, {"other": Filter.all()}, out).begin()
    unfinished = out.with_name("heard.unfinished")
    (unfinished / ".match.json").write_text("{")
    others = unfinished / "letter.txt"
    others.touch()
    with pytest.raises(TidingsError, match="something else here"):
        MatchFolder(path, FILTERS, out)
    others.unlink()
    folder = MatchFolder(path, FILTERS, out)
    assert not folder.was_begun
    folder.run(None)
    check(out, events, FILTERS)
    assert len(list((out / "filters").iterdir())) == 1, "nothing is left of what was killed"


@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        ("1 hour ago", "2 hours ago", r"since 20\S+ \S+ UTC and until 20\S+ \S+ UTC"),
        ("2026-11-15", "2026-11-15", "since 2026-11-15 00:00:00 UTC and until 2026-11-15"),
        ("paris:7,rome:3", "paris:7", "since paris:7,rome:3 and until paris:7"),
    ],
)
def test_an_end_before_the_beginning_is_refused(
    lake: tuple[Path, list[Archived]], tmp_path: Path, since: str, until: str, told: str
) -> None:
    with pytest.raises(TidingsError, match=f"there can be nothing {told}"):
        MatchFolder(lake[0], FILTERS, tmp_path / "heard", since=since, until=until)


def test_a_cursor_is_the_same_in_any_order(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    MatchFolder(lake[0], FILTERS, tmp_path / "heard", since={"paris": 3, "rome": 4}).begin()
    assert MatchFolder(
        lake[0], FILTERS, tmp_path / "heard", since={"rome": 4, "paris": 3}
    ).was_begun


def test_filters_of_other_types_are_others(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    one, other = (
        {"stock": Filter.parse("x IS A 'stock'", schema=Schema(types={"stock": [], "ab": above}))}
        for above in ([], ["stock"])
    )
    MatchFolder(lake[0], one, tmp_path / "heard").begin()
    assert MatchFolder(lake[0], one, tmp_path / "heard").was_begun
    with pytest.raises(TidingsError, match="begun with other filters"):
        MatchFolder(lake[0], other, tmp_path / "heard")


def test_nothing_is_written_before_it_begins(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    assert not MatchFolder(lake[0], FILTERS, tmp_path / "new" / "heard").was_begun
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(TidingsError, match=f"no folder can be made in {tmp_path / 'file'}"):
        MatchFolder(lake[0], FILTERS, tmp_path / "file" / "heard")
    DeltaTable.create(tmp_path / "other", pa.schema([pa.field("x", pa.int64())]))
    with pytest.raises(TidingsError, match="but no lake"):
        MatchFolder(tmp_path / "other", FILTERS, tmp_path / "heard")


def test_what_somebody_else_has_begun_meanwhile_is_gone_on_with(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    path, events = lake
    one, other = (MatchFolder(path, FILTERS, tmp_path / "heard") for _ in range(2))
    one.begin()
    done = tmp_path / "heard.unfinished" / "counts" / "done"
    done.touch()
    other.begin()
    assert done.exists(), "nothing is thrown away"
    other.run(None)
    check(tmp_path / "heard", events, FILTERS)


def test_a_file_in_place_of_the_unfinished_folder_is_something_else(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    (tmp_path / "heard.unfinished").touch()
    with pytest.raises(TidingsError, match=r"heard\.unfinished: there is something else here"):
        MatchFolder(lake[0], FILTERS, tmp_path / "heard")


def test_the_root_of_all_folders_is_something_else(lake: tuple[Path, list[Archived]]) -> None:
    with pytest.raises(TidingsError, match="something else here"):
        MatchFolder(lake[0], FILTERS, Path("/"))


def test_how_long_ago_is_that_of_the_day_when_it_began(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    path, out = lake[0], tmp_path / "heard"
    wide, later = "2 hours ago", "10 minutes ago"
    before = datetime.now(UTC)
    MatchFolder(path, FILTERS, out, since=wide, until=later).begin()
    after = datetime.now(UTC)
    again = MatchFolder(path, FILTERS, out, since=wide, until=later)
    assert again.was_begun
    again.run(None)
    report = (out / "report.md").read_text()
    said = re.search(r"since (\S+ \S+) UTC and until (\S+ \S+) UTC", report)
    assert said is not None
    for text, ago in zip(said.groups(), (timedelta(hours=2), timedelta(minutes=10)), strict=True):
        when = datetime.fromisoformat(text).replace(tzinfo=UTC) + ago
        assert before - timedelta(seconds=1) <= when <= after
    with pytest.raises(TidingsError, match=f"since {said[1]} UTC and until {said[2]} UTC"):
        MatchFolder(path, FILTERS, out, since=wide, until=later)


def test_a_process_holds_one_general_part_at_a_time(
    lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    general = {f"k{n}": Filter.parse(f"x > {n}") for n in range(60)}
    folder = MatchFolder(lake[0], general, tmp_path / "heard", memory=2_000)
    folder.begin()
    assert len({task.part.path for task in folder.tasks()}) > 1
    folder.run(None)
    assert len(filter_file._indexes) == 1
    check(tmp_path / "heard", lake[1], general)


@pytest.mark.slow
@pytest.mark.xdist_group("match folder")
def test_spark_writes_the_same(
    spark: Any, lake: tuple[Path, list[Archived]], tmp_path: Path, small_tasks: None
) -> None:
    path, events = lake
    folder = MatchFolder(path, FILTERS, tmp_path / "heard")
    folder.begin()
    file = next(path.glob("day=*/*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:100])
    with pytest.raises(TidingsError, match=r"^/.*parquet: it cannot be read: "):
        folder.run(spark)
    file.write_bytes(content)
    assert 0 < len(folder.tasks()) < len(list(path.glob("day=*/*.parquet")))
    MatchFolder(path, FILTERS, tmp_path / "heard").run(spark)
    check(tmp_path / "heard", events, FILTERS)


@pytest.mark.slow
@pytest.mark.xdist_group("archive_on_spark")  # where the cluster is
def test_a_cluster_does_the_same(
    spark_cluster: Cluster, lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    path, events = lake
    texts = {f"k{n}": f"symbol = 'S{n}' AND quantity > {n}" for n in range(12)}
    file = tmp_path / "filters.tsv"
    file.write_text("".join(f"{key}\t{text}\n" for key, text in texts.items()))
    arguments = [spark_cluster.master, str(path), str(file), str(tmp_path / "heard")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.matching_on", *arguments],
        env=spark_cluster.environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr + spark_cluster.said()
    filters = {key: Filter.parse(text) for key, text in texts.items()}
    check(tmp_path / "heard", events, filters)
    keys = {e.id: [k for k, f in filters.items() if f.matches(e.notification)] for e in events}
    wanted = {id_: sorted(found) for id_, found in keys.items() if found}
    assert json.loads(done.stderr.splitlines()[-1]) == wanted
