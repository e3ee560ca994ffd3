"""Who would have heard what: as the filters say, whole or not there at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.cluster import Cluster
from tests.spark.lakes import ODD, START, fill
from tests.spark.test_lake_match import random_filters
from tidings.events import Filter, TidingsError
from tidings.spark.format import portions
from tidings.spark.lakes.layout import Archived
from tidings.spark.matching import heard as written
from tidings.spark.matching.audit import Audit

FILTERS = {**random_filters(60, 5), "never": Filter.none()}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Archived]]:
    path = tmp_path_factory.mktemp("lakes") / "lake"
    return path, fill(path, ODD)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "_LEAST", 1)


def check(out: Path, events: list[Archived], filters: dict[str, Filter]) -> None:
    """All that was written is as the filters say."""
    heard = [
        (e.id, e.stream, e.tick, e.time, key)
        for e in events
        for key, wanted in filters.items()
        if wanted.matches(e.notification)
    ]
    files = sorted((out / "matches").iterdir())
    rows = [tuple(r.values()) for file in files for r in pq.read_table(file).to_pylist()]
    assert sorted((*event, key) for *event, keys in rows for key in keys) == sorted(heard)
    summary = pq.read_table(out / "summary.parquet").to_pylist()
    assert [row["key"] for row in summary] == list(filters)
    for row in summary:
        times = [time for _, _, _, time, key in heard if key == row["key"]]
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
    audit = Audit(path, FILTERS, tmp_path / "heard", memory=memory)
    files = len(list(path.glob("day=*/*.parquet")))
    assert len(audit.tasks()) == files if memory > 8_000 else len(audit.tasks()) > 2 * files
    summary = audit.run(None, lambda *numbers: told.append(numbers))
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

    def dying(question: Any, folder: Path, task: written.Task, *others: Any) -> written.Done:
        if len(performed) == 2:
            (folder / "matches" / ".part-00002.parquet.left").write_bytes(b"half of it")
            raise KeyboardInterrupt
        performed.append(task.number)
        return perform(question, folder, task, *others)

    monkeypatch.setattr("tidings.spark.matching.audit.perform", dying)
    with pytest.raises(KeyboardInterrupt):
        Audit(path, FILTERS, out).run(None)
    assert not out.exists(), "what is not whole is not there"
    again = Audit(path, FILTERS, out)
    assert again.was_begun
    performed.append(-1)
    again.run(None)
    assert sorted(performed) == [-1, *range(len(performed) - 1)], "nothing is done twice"
    check(out, events, FILTERS)
    assert Audit(path, FILTERS, out).was_complete

    with pytest.raises(TidingsError, match="matches of other filters or events"):
        Audit(path, {"one": Filter.all()}, out)
    with pytest.raises(TidingsError, match="matches of other filters or events"):
        Audit(path, FILTERS, out, since="begin")
    with pytest.raises(TidingsError, match="something else here"):
        Audit(path, FILTERS, path)
    with pytest.raises(TidingsError, match="there is no lake here"):
        Audit(out, FILTERS, tmp_path / "new")


def test_another_question_starts_clean(lake: tuple[Path, list[Archived]], tmp_path: Path) -> None:
    path, events = lake
    out = tmp_path / "heard"
    Audit(path, FILTERS, out)
    since = START.replace(minute=55)
    audit = Audit(path, FILTERS, out, since=since)
    assert not audit.was_begun
    audit.run(None)
    check(out, [e for e in events if e.time >= since], FILTERS)


@pytest.mark.slow
@pytest.mark.xdist_group("audit")
def test_spark_writes_the_same(
    spark: Any, lake: tuple[Path, list[Archived]], tmp_path: Path, small_tasks: None
) -> None:
    path, events = lake
    audit = Audit(path, FILTERS, tmp_path / "heard")
    file = next(path.glob("day=*/*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:100])
    with pytest.raises(TidingsError, match=r"TidingsError: .*parquet: it cannot be read: "):
        audit.run(spark)
    file.write_bytes(content)
    assert 0 < len(audit.tasks()) < len(list(path.glob("day=*/*.parquet")))
    Audit(path, FILTERS, tmp_path / "heard").run(spark)
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
