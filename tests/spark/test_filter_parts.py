"""Filters in parts find what they find together, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lakes.filled import ODD, fill
from tests.matching.strategies import filters
from tidings.events import Filter, TidingsError
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import Columns, columns_of
from tidings.lakes.portions import Piece, portions, read
from tidings.lakes.search import Question
from tidings.matching.named import NamedIndex
from tidings.spark.matching.asking import Asking
from tidings.spark.matching.filter_parts import Concerned, cut, needed

Rows = tuple[Columns, list[pa.RecordBatch]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """All rows of a lake with everything in it."""
    path = tmp_path_factory.mktemp("lake")
    fill(path, ODD)
    question = Question.of(path)
    schema = pa.schema([f for f in question.schema() if f.name != "day"])
    texts = [f.name for f in schema if f.type == pa.string() and f.name != "id"]
    batches: list[pa.RecordBatch] = []
    for name, _ in question.search().files:
        batches += read(path, Piece(name, 1), schema, encoded=texts)
    return columns_of(schema), batches


def found(rows: Rows, wanted: dict[str, Filter], count: int) -> dict[str, list[str]]:
    """Which keys each event finds, with the filters in this many parts."""
    columns, batches = rows
    divided = cut(wanted, count)
    keys: dict[str, list[str]] = {id_: [] for batch in batches for id_ in batch["id"].to_pylist()}
    for part in divided.parts:
        concerned = Concerned(divided.attributes, columns, divided.valued)
        grouping = Grouping(names_in(part.filters.values()), columns)
        asking = Asking(NamedIndex(part.filters), grouping, "string")
        for batch in batches:
            shown = batch
            if part.number is not None:
                shown = batch.take(concerned.rows(batch, part.number))
            for chosen, lists in asking.answers(shown, ["id"]):
                for id_, names in zip(chosen["id"].to_pylist(), lists.to_pylist(), strict=True):
                    assert names, "what matches nothing is left out"
                    keys[id_] += names
    return {id_: sorted(names) for id_, names in keys.items()}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(filters, min_size=1, max_size=12), st.integers(1, 9))
def test_any_number_of_parts_finds_the_same(rows: Rows, chosen: list[Filter], count: int) -> None:
    wanted = {f"k{n}": f for n, f in enumerate(chosen)}
    ids = [f"{('paris', 'rome')[n % 2]}:{n // 2 + 1}" for n in range(len(ODD))]
    expected = {
        id_: sorted(k for k, f in wanted.items() if f.matches(event))
        for id_, event in zip(ids, ODD, strict=True)
    }
    assert found(rows, wanted, count) == expected
    assert found(rows, wanted, 1) == expected


def test_a_filter_is_in_the_parts_of_its_values_only() -> None:
    texts = [f"symbol = 'S{n}' AND price > {n}" for n in range(400)]
    wanted: dict[Any, Filter] = {n: Filter.parse(text) for n, text in enumerate(texts)}
    wanted["two"] = Filter.parse("symbol IN ('S1', 'S2', 'S3') AND price = 1 OR symbol = 'S4'")
    wanted["range"] = Filter.parse("price > 7")
    divided = cut(wanted, 8)
    assert divided.attributes == ["symbol"], "the one with the most values"
    sizes = [len(part.filters) for part in divided.parts]
    assert sum(sizes) < len(wanted) + 4
    assert max(s for s in sizes if s > 1) < 110, "and they are of similar size"
    (general,) = [part for part in divided.parts if part.number is None]
    assert list(general.filters) == ["range"]


def test_how_many_parts_a_bound_on_memory_makes() -> None:
    wanted = {n: Filter.parse(f"symbol = 'S{n}' AND price > {n}") for n in range(20_000)}
    assert needed(wanted, 10**9) == 1
    few, many = needed(wanted, 2_000_000), needed(wanted, 500_000)
    assert 2 <= few <= 10
    assert 3 * few <= many <= 5 * few
    assert needed({}, 1) == 1


def test_a_large_file_is_cut_at_its_row_groups(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    count = 1_100_000
    numbers = pa.table({"tick": np.arange(count), "rest": pa.nulls(count, pa.string())})
    pq.write_table(numbers, tmp_path / "large", row_group_size=20_000)
    pq.write_table(numbers.slice(0, 10), tmp_path / "small")
    made = portions(tmp_path, [("small", 10), ("large", count)])
    assert len(made) == 6
    assert min(sum(p.rows for p in portion) for portion in made) >= 180_000, "all alike"
    assert max(sum(piece.rows for piece in portion) for portion in made) <= 200_010
    schema = pa.schema([("tick", pa.int64()), ("new", pa.string())])
    batches = [b for portion in made for piece in portion for b in read(tmp_path, piece, schema)]
    ticks = pa.Table.from_batches(batches)
    assert sorted(ticks["tick"].to_pylist()) == sorted([*range(10), *range(count)])
    assert ticks["new"].null_count == ticks.num_rows, "the file is older than the column"
    assert portions(tmp_path, []) == []
    assert Piece("small", 10) in made[0]


@pytest.mark.parametrize("memory", [0, -1])
def test_no_memory_is_refused(memory: int) -> None:
    with pytest.raises(TidingsError, match=f"needs memory; {memory} bytes are none"):
        needed({"a": Filter.parse("x = 1")}, memory)
