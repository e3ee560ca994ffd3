"""Files of filters and what is made of them, without Spark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.strategies import SCHEMA, filters
from tidings.events import Filter, Notification, TidingsError
from tidings.matching.named import NamedIndex
from tidings.spark.matching import filter_file


@given(st.dictionaries(st.text(max_size=3), filters, max_size=6))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, chosen: dict[str, Filter]
) -> None:
    path = filter_file.write(chosen, tmp_path_factory.getbasetemp())
    found = filter_file.read(path)
    assert found == chosen
    assert list(found) == list(chosen)


def test_types_come_along(tmp_path: Path) -> None:
    priced = Filter.parse("type IS A 'priced'", schema=SCHEMA)
    read = filter_file.read(
        filter_file.write({"plain": Filter.parse("a = 1"), "t": priced}, tmp_path)
    )
    assert read["t"].matches(Notification({"type": "stock.quote.late"}))
    assert not read["t"].matches(Notification({"type": "stock"}))


def test_equal_filters_have_one_file_and_others_another(tmp_path: Path) -> None:
    one = filter_file.write({"a": Filter.parse("x = 1 AND y = 2")}, tmp_path)
    assert filter_file.write({"a": Filter.parse("y = 2 AND x = 1")}, tmp_path) == one
    assert filter_file.write({"b": Filter.parse("y = 2 AND x = 1")}, tmp_path) != one
    assert len(list(tmp_path.iterdir())) == 2


def test_threads_may_write_the_same_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"k{n}": Filter.parse(f"x = {n} AND y > {n}") for n in range(100)}
    ready, pack = threading.Barrier(4), filter_file._packed

    def packed(filters: dict[str, Filter]) -> list[bytes]:
        pieces = pack(filters)
        ready.wait()  # so that all of them write now
        return pieces

    monkeypatch.setattr(filter_file, "_packed", packed)
    with ThreadPoolExecutor(4) as threads:
        for turn in range(20):
            folder = tmp_path / f"{turn}"
            folder.mkdir()
            paths = list(threads.map(filter_file.write, [many] * 4, [folder] * 4))
            assert paths == list(folder.iterdir()) * 4
            assert filter_file.read(paths[0]) == many


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = filter_file.write({"a": Filter.parse("x = 1")}, tmp_path)
    path.write_bytes(path.read_bytes().replace(b"number", b"string"))
    with pytest.raises(TidingsError, match="damaged"):
        filter_file.read(path)
    with pytest.raises(TidingsError, match="No such file"):
        filter_file.read(tmp_path / "missing")


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(filter_file, "VERSION", 3)
        path = filter_file.write({"a": Filter.parse("x = 1")}, tmp_path)
    with pytest.raises(TidingsError, match=r"version 2, found .* of version 3"):
        filter_file.read(path)


def test_a_process_makes_an_index_of_a_snapshot_once(tmp_path: Path) -> None:
    paths = [filter_file.write({"a": Filter.parse(f"x = {n}")}, tmp_path) for n in range(6)]
    first = filter_file.index_of(paths[0])
    for path in paths[1:4]:
        filter_file.index_of(path)
        assert filter_file.index_of(paths[0]) is first, "asked lately"
    for path in paths[1:]:
        filter_file.index_of(path)
    assert filter_file.index_of(paths[0]) is not first, "some are kept, not all"


def test_a_process_holds_one_part_at_a_time(tmp_path: Path) -> None:
    paths = [filter_file.write({"a": Filter.parse(f"y = {n}")}, tmp_path) for n in range(3)]
    first = filter_file.index_of(paths[0])
    assert filter_file.index_of(paths[0], alone=True) is first
    for path in paths[1:]:
        filter_file.index_of(path, alone=True)
        assert list(filter_file._indexes) == [path.name]


def test_each_event_has_the_list_of_its_keys() -> None:
    found = NamedIndex({"low": Filter.parse("x < 2"), "one": Filter.parse("x = 1")})
    lists = found.of(pa.record_batch({"x": pa.array([5, 1, None, 0])})).to_pylist()
    assert [sorted(keys) for keys in lists] == [[], ["low", "one"], [], ["low"]]
    none = found.of(pa.record_batch({"x": pa.array([7])}))
    assert none.type == pa.list_(pa.string())
    assert none.to_pylist() == [[]]
    assert NamedIndex({}).of(pa.record_batch({"x": [1]})).to_pylist() == [[]]
