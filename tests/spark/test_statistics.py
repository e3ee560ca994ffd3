"""Statistics of a lake: what was counted is what plain Python counts, on Spark and without."""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tidings.events import Filter, Notification, TidingsError
from tidings.lakes.filling import to_table
from tidings.lakes.lake import Lake
from tidings.lakes.layout import FIXED, Archived
from tidings.routing import Statistics, reduce
from tidings.spark.matching import asking
from tidings.spark.statistics.quantiles import LARGEST
from tidings.spark.statistics.selectivity import Counts, Selectivity, broker_of, mergers, one_broker
from tidings.spark.statistics.sketch import SAMPLE, Sketch
from tidings.spark.statistics.statistics import Findings, _selectivity, statistics

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SYMBOLS = ("DIS", "KO", "SAP", "IBM")
FILTERS = {
    key: Filter.parse(text)
    for key, text in {
        "paris/low": "symbol = 'DIS' AND price < 20",
        "paris/high": "symbol = 'DIS' AND price > 30",
        "paris/odd": "price BETWEEN 22 AND 24 AND EXISTS volume",
        "rome/ko": "symbol = 'KO'",
        "rome/text": "price = 'unknown'",
        "rome/large": "price > 1000000000000000000000",
        "oslo/never": "symbol = 'nobody' AND price BETWEEN 1 AND 2",
        "oslo/rare": "symbol = 'nobody' AND price BETWEEN 3 AND 4",
    }.items()
}


def quotes(count: int, seed: int = 1) -> list[Notification]:
    """Prices that go with their symbols, some of them texts, some too large for a column."""
    chance = Random(seed)
    found = []
    for n in range(count):
        symbol = chance.choices(SYMBOLS, (6, 3, 2, 1))[0]
        quote: dict[str, Any] = {"symbol": symbol, "tags": ["a", "b"][: n % 3]}
        kind = chance.randrange(20)
        if kind < 17:
            quote["price"] = round(chance.gauss(10 * SYMBOLS.index(symbol) + 20, 3), 2)
        elif kind == 17:
            quote["price"] = "unknown"
        elif kind == 18:
            quote["price"] = 2**70 + n
        if n % 2:
            quote["volume"] = chance.choice([100, 100, 100, 200, 5_000])
        quote["at"] = NOON + timedelta(seconds=chance.randrange(1000))
        found.append(Notification(quote))
    return found


EVENTS = quotes(3_000)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """In several files, the first without some columns that the others have."""
    made = Lake(tmp_path_factory.mktemp("statistics") / "lake")
    plain = [Notification({"symbol": "KO"})] * 5
    own = [Statistics(7).notification(), Notification({"tidings.bulk": "d", "filter": "TRUE"})]
    events = [Archived("b", n + 1, NOON, e) for n, e in enumerate([*plain, *own, *EVENTS])]
    for version, first in enumerate(range(0, len(events), 1_000), start=1):
        made.append(events[first : first + 1_000], "test", version)
    return made


ALL = [*[Notification({"symbol": "KO"})] * 5, *EVENTS]


def share(filter_: str | Filter) -> float:
    wanted = Filter.parse(filter_) if isinstance(filter_, str) else filter_
    return sum(map(wanted.matches, ALL)) / len(ALL)


def sketched(batches: Iterable[pa.RecordBatch], sample: int = SAMPLE) -> Sketch:
    """The sketch of some batches."""
    found = Sketch(sample)
    for batch in batches:
        found.add(batch)
    return found


# -- distributions -----------------------------------------------------------------------------


def test_shares_are_what_is_counted(lake: Lake) -> None:
    learnt = statistics(None, lake).statistics
    assert learnt.events == len(ALL), "without what is about tidings itself"
    assert set(learnt.attributes) == {"symbol", "price", "volume", "at", "tags"}
    symbols = Counter(e["symbol"] for e in ALL)
    for symbol, count in symbols.items():
        assert learnt.attributes["symbol"].strings[symbol] == pytest.approx(
            count / len(ALL), rel=1e-4
        )
    for name in ("symbol", "price", "volume", "at", "tags"):
        found = learnt.attributes[name].present
        assert found == pytest.approx(share(f"EXISTS {name}"), rel=1e-4), name
    price = learnt.attributes["price"]
    assert price.number is not None
    assert price.number.share == pytest.approx(share("price IS NUMBER"), rel=1e-4)
    assert price.strings["unknown"] == pytest.approx(share("price = 'unknown'"), rel=1e-4)
    assert learnt.attributes["at"].time is not None


@pytest.mark.parametrize("low", [0, 10, 17, 20.5, 27, 31, 44, 60])
def test_estimates_are_near_what_is_counted_also_given_a_symbol(lake: Lake, low: float) -> None:
    learnt = statistics(None, lake).statistics
    gap = Filter.parse(f"price BETWEEN {low} AND {low + 4}").conjunctions[0]["price"]
    assert learnt.admitted("price", gap) == pytest.approx(
        share(f"price BETWEEN {low} AND {low + 4}"), abs=0.02
    )
    for symbol in SYMBOLS:
        rest = Filter.parse(f"symbol = '{symbol}'").conjunctions[0].constraints
        found = learnt.among("price", rest)
        assert found is not None
        known, factor = found
        assert known.number is not None
        estimate = factor * known.number.between((low, 0), (low + 4, 1))
        counted = share(f"symbol = '{symbol}' AND price BETWEEN {low} AND {low + 4}")
        assert estimate == pytest.approx(counted, abs=0.02), symbol


def test_only_what_differs_is_known_given_a_value(lake: Lake) -> None:
    given = statistics(None, lake).statistics.given
    assert set(given["symbol"]["DIS"]) == {"price"}, "volumes do not depend on symbols"


def test_what_is_too_rare_to_be_known_given_a_value_is_not_taken_for_impossible() -> None:
    """Times of `x` are few, and where the symbol is A nobody can say how they are distributed."""
    chance = Random(1)
    events = [
        Notification(
            {
                "symbol": symbol,
                "x": NOON + timedelta(seconds=n % 60)
                if n % 50 == 0
                else chance.gauss(10 * (symbol == "A"), 1),
            }
        )
        for n in range(1_000)
        for symbol in ("AB"[n // 2 % 2],)
    ]
    rows = [Archived("b", n, NOON, event) for n, event in enumerate(events, start=1)]
    known = sketched(to_table(rows, FIXED).to_batches()).statistics().given["symbol"]["A"]["x"]
    assert known.number is not None
    assert known.number.below((5, 0)) < 0.05
    assert known.time is not None
    assert known.time.share == pytest.approx(0.01, rel=0.1)


def test_a_sketch_does_not_depend_on_how_rows_were_divided(lake: Lake) -> None:
    batches = list(lake.scan())
    whole = sketched(batches, sample=500)
    apart = Sketch(sample=500)
    for batch in reversed(batches):
        for first in range(0, batch.num_rows, 77):
            apart.merge(sketched([batch.slice(first, 77)], sample=500))
    assert apart.statistics() == whole.statistics()


def test_long_texts_are_counted_but_do_not_fill_a_sketch() -> None:
    long = "x" * 12_000
    said = [{"n": n, "text": f"{n}{long}", "N": 2**70, "note": "short"} for n in range(1_000)]
    said += [{"n": n, "text": "short", "N": long} for n in range(1_000)]
    rows = [Archived("b", n + 1, NOON, Notification(each)) for n, each in enumerate(said)]
    sketch = sketched(to_table(rows, FIXED).to_batches())
    assert len(pickle.dumps(sketch)) < 250_000
    learnt = sketch.statistics().attributes
    assert (learnt["text"].present, learnt["text"].strings) == (1.0, {"short": 0.5})
    assert learnt["text"].unlisted == 0.5
    assert (learnt["N"].present, learnt["note"].strings) == (1.0, {"short": 0.5})


def test_many_attributes_and_strings_are_still_a_bounded_text(tmp_path: Path) -> None:
    chance = Random(1)
    wide = [
        Notification({f"a{k}": f"{chance.randrange(40)}{'x' * 90}" for k in range(40)})
        for _ in range(1_000)
    ]
    lake = Lake(tmp_path / "wide")
    lake.append([Archived("b", n + 1, NOON, e) for n, e in enumerate(wide)], "test", 1)
    learnt = statistics(None, lake).statistics
    assert len(learnt.text()) <= LARGEST
    assert learnt.attributes


def test_an_empty_lake_says_nothing(tmp_path: Path) -> None:
    found = statistics(None, Lake(tmp_path / "empty"), FILTERS)
    assert found.statistics == Statistics()
    assert found.filters is not None
    assert set(found.filters["events"].to_pylist()) == {0}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    made = Lake(tmp_path / "lake")
    made.append([Archived("b", 1, NOON, Notification({"x": 1}))], "test", 1)
    (file,) = made.path.glob("day=*/*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(TidingsError, match=rf"^{file}: it cannot be read: "):
        statistics(None, made)
    file.unlink()
    with pytest.raises(TidingsError, match=rf"^{file}: it cannot be read: .*No such file"):
        statistics(None, made)


# -- filters -----------------------------------------------------------------------------------


def check_filters(found: Findings) -> None:
    assert found.filters is not None
    assert found.mergers is not None
    assert found.overlaps is not None
    for row in found.filters.to_pylist():
        assert row["events"] == sum(map(FILTERS[row["key"]].matches, ALL)), row
        assert row["broker"] == broker_of(row["key"])
    wanted = {
        broker: [f for key, f in FILTERS.items() if broker_of(key) == broker]
        for broker in ("oslo", "paris", "rome")
    }
    candidates = {(m.broker, str(m.conjunction), m.name): m for m in mergers(FILTERS)}
    assert len(candidates) == found.mergers.num_rows == 2
    for row in found.mergers.to_pylist():
        merger = candidates[row["broker"], row["filter"], row["attribute"]]
        inside = [e for e in ALL if merger.filter.matches(e)]
        wasted = [e for e in inside if not any(f.matches(e) for f in wanted[row["broker"]])]
        assert (row["inside"], row["wasted"]) == (len(inside), len(wasted)), row
        assert row["estimate"] == pytest.approx(row["inside_share"], abs=0.02)
    hearing = {b: [any(f.matches(e) for f in fs) for e in ALL] for b, fs in wanted.items()}
    for row in found.overlaps.to_pylist():
        one, other = hearing[row["one"]], hearing[row["other"]]
        both = sum(a and b for a, b in zip(one, other, strict=True))
        either = sum(a or b for a, b in zip(one, other, strict=True))
        assert row["events"] == both
        assert row["alike"] == pytest.approx(both / max(1, either))
    assert found.overlaps.num_rows == 3


def test_filters_mergers_and_overlaps_are_counted(lake: Lake) -> None:
    check_filters(statistics(None, lake, FILTERS))


def test_so_many_matches_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PAIRS", 10_000)
    wanted = {f"paris/{n}": Filter.parse(f"x >= -{n}") for n in range(200)}
    rows = pa.record_batch({"x": pa.array(range(3_000)), "rest": pa.nulls(3_000, pa.string())})
    selectivity = Selectivity(wanted, [])

    def counted(some: pa.RecordBatch) -> tuple[Counts, int]:
        tracemalloc.start()
        counts = selectivity.count(some)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return counts, most

    counted(rows.slice(0, 1))  # the first one loads what is needed
    _, few = counted(rows.slice(0, 100))
    counts, most = counted(rows)
    assert (counts.events, counts.matched.tolist()) == (3_000, [3_000] * 200)
    assert counts.shared.tolist() == [[3_000]]
    assert most < few + 50 * 10_000, "of 600,000 matches"


def test_more_than_a_thousand_brokers_are_not_compared(lake: Lake) -> None:
    wanted = {f"user-{n}/alerts": Filter.parse("price > 1000") for n in range(1_001)}
    with pytest.raises(
        TidingsError, match=r"name 1,001 brokers .* before the first slash of a key"
    ):
        statistics(None, lake, wanted)
    found = statistics(None, lake, wanted, owner=one_broker)
    assert found.filters is not None
    assert found.overlaps is not None
    assert (found.filters.num_rows, found.overlaps.num_rows) == (1_001, 0)


def test_an_index_is_made_once_in_a_process() -> None:
    loaded = []

    def content() -> bytes:
        loaded.append(1)
        return pickle.dumps((FILTERS, [], broker_of))

    first = _selectivity("a digest", content)
    assert first is not None
    assert _selectivity("a digest", content) is first
    assert len(loaded) == 1
    assert _selectivity("another", lambda: b"") is None


def test_what_is_learnt_closes_the_gaps_that_cost_little(lake: Lake) -> None:
    found = statistics(None, lake, FILTERS)
    assert found.mergers is not None
    costs = {row["broker"]: row["inside_share"] for row in found.mergers.to_pylist()}
    assert costs["oslo"] == 0.0
    assert costs["paris"] > 0.01
    wanted = dict.fromkeys(FILTERS.values(), 1)
    told = {str(f) for f in reduce("learnt:0.001", wanted, found.statistics)}
    assert "price BETWEEN 1 AND 4 AND symbol = 'nobody'" in told
    assert "price NOT BETWEEN 20 AND 30 AND symbol = 'DIS'" in told


@pytest.mark.slow
@pytest.mark.xdist_group("statistics")
def test_on_spark_it_is_the_same(spark: Any, lake: Lake) -> None:
    done: list[tuple[int, int]] = []
    found = statistics(spark, lake, FILTERS, progress=lambda *told: done.append(told))
    check_filters(found)
    assert found.statistics == statistics(None, lake).statistics
    assert found.events == len(ALL)
    assert done[-1] == (len(ALL) + 2, len(ALL) + 2), "with what is about tidings itself"
    assert statistics(spark, lake).statistics == found.statistics


@pytest.mark.slow
@pytest.mark.xdist_group("statistics")
def test_on_spark_a_file_that_cannot_be_read_is_named(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if Java has ended, so that nothing can be tidied up."""

    def refused(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("pyspark.Broadcast.destroy", refused)
    made = Lake(tmp_path / "lake")
    made.append([Archived("b", 1, NOON, Notification({"x": 1}))], "test", 1)
    (file,) = made.path.glob("day=*/*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(TidingsError, match=rf"^{file}: it cannot be read: "):
        statistics(spark, made)
