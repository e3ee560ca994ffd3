"""Erasing in a lake: rows keep their places and lose all else, in the lake and in its files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.lakes.filled import ODD, fill
from tidings.delivery.erased import ERASED
from tidings.events import Filter, Notification
from tidings.lakes import delta, erasing
from tidings.lakes.erasing import erase
from tidings.lakes.lake import Lake, LakeError
from tidings.lakes.layout import Archived, to_notifications

START = datetime(2026, 11, 14, tzinfo=UTC)
WANTED = "customer = 'cust 7'"


def orders(first: int, last: int) -> list[Archived]:
    """Events of ten customers, over some days."""
    return [
        Archived(
            "paris",
            n,
            START + timedelta(minutes=20 * n),
            Notification(
                {
                    "customer": f"cust {n % 10}",
                    "n": n,
                    "tags": ["a", f"of cust {n % 10}."],
                    "big": 2**70 if n % 3 else f"the secret of cust {n % 10}.",
                }
            ),
        )
        for n in range(first, last + 1)
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    for version, first in enumerate(range(1, 300, 50), 1):
        lake.append(orders(first, first + 49), writer="tests", version=version)
    return lake


def texts(folder: Path) -> Iterator[str]:
    """All that is in any file of a lake, also what Parquet has compressed."""
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            yield repr(pq.ParquetFile(path).read().to_pylist())
        elif path.is_file():
            yield path.read_text(errors="replace")


def is_in(lake: Lake, text: str) -> bool:
    return any(text in each for each in texts(lake.path))


def test_nothing_of_it_is_left_in_any_file_not_even_in_the_log(lake: Lake) -> None:
    assert is_in(lake, "cust 7")
    done = erase(lake, WANTED, "erase-1")
    assert (done.erased, done.held) == (30, {"paris": 300})
    assert not is_in(lake, "of cust 7.")
    assert not is_in(lake, "cust 7")  # nor among the least and the greatest values of files
    assert is_in(lake, "of cust 3.")


def test_its_rows_keep_their_places_and_nothing_else(lake: Lake) -> None:
    before = DeltaTable(lake.path).to_pyarrow_table().sort_by("tick")
    erase(lake, WANTED, "erase-1")
    after = DeltaTable(lake.path).to_pyarrow_table().sort_by("tick")
    kept = ["id", "stream", "tick", "time", "day"]
    assert after.select(kept) == before.select(kept)
    for was, row in zip(before.to_pylist(), after.to_pylist(), strict=True):
        mark = row.pop(ERASED)
        if was["customer"] == "cust 7":
            assert mark == "erase-1"
            assert all(value is None for name, value in row.items() if name not in kept)
        else:
            assert (mark, row) == (None, was)


def test_whoever_reads_the_lake_hears_all_else_as_before(lake: Lake) -> None:
    before = [e for e in lake.events() if e.notification["customer"] != "cust 7"]
    erase(lake, WANTED, "erase-1")
    for opened in (lake, Lake(lake.path)):
        assert list(opened.events()) == before
        assert sum(batch.num_rows for batch in opened.scan("TRUE")) == len(before)
        assert list(opened.events("NOT EXISTS customer")) == []
        assert list(opened.events(f"EXISTS {ERASED}")) == []
        assert list(opened.events(WANTED)) == []
        assert opened.held() == {"paris": 300}


def test_the_lake_goes_on_behind_it(lake: Lake) -> None:
    erase(lake, WANTED, "erase-1")
    assert not lake.append(orders(251, 300), writer="tests", version=6)
    assert lake.append(orders(301, 320), writer="tests", version=7)
    assert len(list(Lake(lake.path).events(WANTED))) == 2
    lake.compact()
    assert len(list(lake.events())) == 290


def test_only_files_that_have_something_of_it_are_written_anew(lake: Lake) -> None:
    before = set(lake.snapshot().sizes())
    done = erase(lake, "n BETWEEN 3 AND 60", "erase-1")
    assert 0 < done.rewritten < 4
    assert len(before - set(lake.snapshot().sizes())) == done.rewritten


def test_to_count_changes_nothing(lake: Lake) -> None:
    version = lake.snapshot().table.version()
    assert erase(lake, WANTED, "erase-1", is_dry=True).erased == 30
    assert lake.snapshot().table.version() == version
    assert is_in(lake, "cust 7")


def test_to_erase_again_finds_nothing(lake: Lake) -> None:
    erase(lake, WANTED, "erase-1")
    files = lake.snapshot().sizes()
    again = erase(lake, WANTED, "erase-2")
    assert (again.erased, again.rewritten, again.deleted) == (0, 0, 0)
    assert lake.snapshot().sizes() == files


def test_old_files_stay_for_who_reads_them_if_that_is_wanted(lake: Lake) -> None:
    view = lake.snapshot()
    assert erase(lake, WANTED, "erase-1", keep_files=True).deleted == 0
    assert len(list(view.events(WANTED))) == 30
    assert len(list(lake.events(WANTED))) == 0
    assert is_in(lake, "cust 7")
    assert erase(lake, WANTED, "erase-2").deleted > 0
    assert not is_in(lake, "cust 7")


def test_whoever_commits_meanwhile_loses_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, others = delta.replace, [orders(301, 310), orders(311, 320)]

    def beaten(*about: object) -> None:
        if others:
            lake.append(others.pop(0), writer="tests", version=9 - len(others))
        replace(*about)  # type: ignore[arg-type]

    monkeypatch.setattr(erasing.delta, "replace", beaten)
    assert erase(lake, WANTED, "erase-1").erased == 32
    assert [e.tick for e in lake.events()] == [n for n in range(1, 321) if n % 10 != 7]
    assert not is_in(lake, "cust 7")


def test_killed_before_old_files_are_deleted_it_is_finished_by_the_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(erasing, "_clean", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            erase(lake, WANTED, "erase-1")
    assert is_in(lake, "cust 7")
    erase(lake, WANTED, "erase-2")
    assert not is_in(lake, "cust 7")
    assert len(list(lake.events())) == 270


def test_every_value_of_every_domain_goes_and_all_others_stay(tmp_path: Path) -> None:
    said = fill(tmp_path / "lake", ODD)
    lake = Lake(tmp_path / "lake")
    before = list(lake.events())
    for filter_ in ("EXISTS x AND x < 30", "EXISTS time", "EXISTS _hidden", "TRUE"):
        wanted = Filter.parse(filter_)
        before = [e for e in before if not wanted.matches(e.notification)]
        erase(lake, wanted, "erase-1")
        assert list(lake.events()) == before
    assert before == []
    table = DeltaTable(lake.path).to_pyarrow_table()
    assert table.num_rows == len(said)
    assert {said.get(ERASED) for said in to_notifications(table)} == {"erase-1"}


def test_a_lake_that_cannot_mark_rows_says_so(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    event = Archived("paris", 1, START, Notification({"Tidings.Erased": 1, "customer": "cust 7"}))
    lake.append([event], writer="tests", version=1)
    with pytest.raises(LakeError, match="called almost so"):
        erase(lake, WANTED, "erase-1")
    assert len(list(lake.events())) == 1
