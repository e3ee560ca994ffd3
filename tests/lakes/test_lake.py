from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import filters as oracle
from tidings import Filter, Notification
from tidings.delivery.promises import FOREVER
from tidings.lakes import delta, order
from tidings.lakes.filling import to_table
from tidings.lakes.lake import Gap, Lake, LakeError
from tidings.lakes.layout import FIXED, Archived, to_events
from tidings.lakes.ledger import number_time, time_number
from tidings.lakes.pruning import Window, may_match
from tidings.lakes.search import Search

BEGIN = datetime(2026, 11, 15, 23, 59, 58, tzinfo=UTC)
"""Two seconds before a new day."""


def event(tick: int, said: dict[str, Any], *, stream: str = "paris", step: float = 1.0) -> Archived:
    return Archived(stream, tick, BEGIN + timedelta(seconds=tick * step), Notification(said))


def some(ticks: range, *, stream: str = "paris", step: float = 1e-3) -> list[Archived]:
    return [event(t, {"n": t, "from": stream}, stream=stream, step=step) for t in ticks]


def rows(lake: Lake, *arguments: Any, **options: Any) -> list[Archived]:
    """What `scan` finds, by stream and tick."""
    found = [e for batch in lake.scan(*arguments, **options) for e in to_events(batch)]
    return sorted(found, key=lambda e: (e.stream, e.tick))


def orphans(lake: Lake) -> int:
    return len(list(lake.path.rglob("*.parquet"))) - len(lake.snapshot().files())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


# -- what goes in comes out ----------------------------------------------------------------------

NAMES = st.sampled_from(
    ["a", "a", "A", "b.c", "id", "TIME", "day", "rest", "a$double", "x y", "größe", "_h", "😀", "'"]
)
TIMES = st.datetimes(timezones=st.just(UTC))
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, -(10**40), 10**5000]),
    st.floats(allow_nan=False),
    st.text(max_size=80),
    st.binary(max_size=4),
    TIMES,
)
PLAIN = st.none() | st.text(max_size=2) | st.integers(-9, 9) | st.floats(0, 1)
JSON = PLAIN | st.lists(PLAIN, max_size=2)
VALUES = st.one_of(
    SCALARS,
    st.lists(st.text(max_size=3), max_size=3),
    st.lists(SCALARS, max_size=3),
    st.lists(st.dictionaries(st.sampled_from("ab"), JSON), min_size=1, max_size=2),
    st.lists(JSON, max_size=2).map(lambda inner: [inner]),
)
BATCHES = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=6)


def numbered(batches: list[list[dict[str, Any]]]) -> list[list[Archived]]:
    ticks = count(1)
    return [[event(next(ticks), said) for said in batch] for batch in batches]


@settings(max_examples=min(50, settings.default.max_examples))
@given(st.lists(BATCHES, min_size=1, max_size=3))
def test_every_value_comes_back_from_its_columns(batches: list[list[dict[str, Any]]]) -> None:
    schema = FIXED
    for batch in numbered(batches):
        table = to_table(batch, schema)
        assert list(to_events(table)) == batch
        assert table.schema.names[: len(schema)] == schema.names
        schema = table.schema
    assert len({name.lower() for name in schema.names}) == len(schema.names)


@settings(max_examples=10)
@given(st.lists(BATCHES, min_size=1, max_size=3))
def test_every_value_comes_back_from_a_lake(batches: list[list[dict[str, Any]]]) -> None:
    with TemporaryDirectory() as folder:
        lake = Lake(folder)
        written = numbered(batches)
        for version, batch in enumerate(written, start=1):
            assert lake.append(batch, writer="test", version=version)
        together = [e for batch in written for e in batch]
        assert list(lake.events()) == together == list(Lake(folder).events())
        lake.compact()
        assert list(lake.events()) == together


def test_the_layout_is_what_its_docstring_says(lake: Lake) -> None:
    said = [
        {"symbol": "DIS", "price": 101.25, "qty": 1, "time": BEGIN, "either": 7},
        {"symbol": "DIS", "price": 101, "qty": 2.5, "either": "seven"},
        {"symbol": 7, "price": 2**53 + 1, "tags": ["b", "a"], "huge": 2**70, "Symbol": "dis"},
    ]
    lake.append([event(t, s) for t, s in enumerate(said, 1)], writer="test", version=1)
    table = pa.Table.from_batches(lake.scan())
    columns = {name: table[name].to_pylist() for name in table.column_names}
    assert columns["id"] == ["paris:1", "paris:2", "paris:3"]
    assert columns["price"] == [101.25, 101.0, None]
    assert columns["price$integer"] == [None, None, 2**53 + 1]
    assert columns["symbol"] == ["DIS", "DIS", None]
    assert columns["symbol$integer"] == [None, None, 7]
    assert columns["qty"] == [1.0, 2.5, None]
    assert columns["either"] == [None, "seven", None]
    assert columns["either$integer"] == [7, None, None]
    assert columns["time$time"][0] == BEGIN
    assert columns["tags"] == [None, None, ["a", "b"]]
    assert columns["rest"] == [None, None, '{"huge":1180591620717411303424,"Symbol":"dis"}']
    assert [day.day for day in columns["day"]] == [15, 16, 16]


def test_an_attribute_that_is_new_is_absent_from_what_came_before(lake: Lake) -> None:
    lake.append([event(1, {"a": 1})], writer="test", version=1)
    assert lake.schema().names[-1] == "a"
    lake.append([event(2, {"b": "x"})], writer="test", version=2)
    lake.append([event(3, {"a": 1.5})], writer="test", version=3)
    assert lake.schema().names[-3:] == ["a", "b", "a$double"]
    said = [dict(e.notification) for e in lake.events()]
    assert said == [{"a": 1}, {"b": "x"}, {"a": 1.5}]


def test_a_lake_is_not_made_among_other_things(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(LakeError, match="something else"):
        Lake(tmp_path)


# -- exactly once --------------------------------------------------------------------------------


def test_a_version_is_appended_once(lake: Lake) -> None:
    first, second = some(range(1, 4)), some(range(4, 6))
    assert lake.append(first, writer="a", version=1)
    assert not lake.append(first, writer="a", version=1)
    assert not Lake(lake.path).append(first, writer="a", version=1)
    assert lake.append(second, writer="a", version=2)
    assert not lake.append(first, writer="a", version=1)
    assert (lake.snapshot().written("a"), lake.snapshot().written("b")) == (2, 0)
    assert list(lake.events()) == first + second


def test_an_event_that_is_held_is_refused(lake: Lake) -> None:
    lake.append(some(range(1, 4)), writer="a", version=1, held={"paris": 10, "london": 3})
    assert lake.held() == {"paris": 10, "london": 3}
    with pytest.raises(LakeError, match="paris:10 would be in the lake twice"):
        lake.append(some(range(10, 12)), writer="b", version=1)
    assert lake.append(some(range(11, 12)), writer="b", version=1)
    assert lake.held() == {"paris": 11, "london": 3}


def test_of_many_who_append_the_same_at_a_time_one_does(lake: Lake) -> None:
    events = some(range(1, 50))
    outcomes: list[bool] = []
    start = threading.Barrier(4)

    def append() -> None:
        own = Lake(lake.path)
        start.wait()
        outcomes.append(own.append(events, writer="a", version=1))

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, False, True]
    assert list(lake.events()) == events


def test_writers_of_different_streams_do_not_disturb_each_other(lake: Lake) -> None:
    def append(stream: str) -> None:
        own = Lake(lake.path)
        for version in range(1, 6):
            ticks = range(version * 10, version * 10 + 10)
            events = [event(t, {stream: t}, stream=stream) for t in ticks]  # each a new column
            assert own.append(events, writer=stream, version=version)

    threads = [threading.Thread(target=append, args=[name]) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.held() == {"a": 59, "b": 59, "c": 59}
    assert [e.id for e in rows(lake)] == [f"{s}:{t}" for s in "abc" for t in range(10, 60)]


def test_gaps_are_noted_with_what_is_appended(lake: Lake) -> None:
    assert lake.gaps() == []
    gaps = [Gap("paris", 17, 40), Gap("new/york", 0, 5)]
    lake.append([], writer="a", version=1, held={"paris": 40, "new/york": 5}, gaps=gaps)
    assert sorted(lake.gaps()) == sorted(gaps)
    assert lake.held() == {"paris": 40, "new/york": 5}


WRITE = """
import sys
from datetime import UTC, datetime
from tidings import Notification
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived
lake = Lake(sys.argv[1])
now = datetime.now(UTC)
def some(ticks):
    return [Archived("paris", tick, now, Notification({"n": tick})) for tick in ticks]
print("ready", flush=True)
while True:
    version, first = lake.snapshot().written("w") + 1, lake.held().get("paris", 0) + 1
    lake.append(some(range(first, first + 20_000)), writer="w", version=version)
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_all_of_a_batch_or_nothing(lake: Lake) -> None:
    random = Random(7)
    kills = 0
    while kills < 2 or not orphans(lake):
        kills += 1
        assert kills < 20, "no kill came between writing a file and committing it"
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(lake.path)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        files = len(list(lake.path.rglob("*.parquet*"))) + random.randrange(1, 4)
        while len(list(lake.path.rglob("*.parquet*"))) < files:  # it has just begun a new one
            assert writer.poll() is None
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        held = lake.held().get("paris", 0)
        assert held == lake.snapshot().written("w") * 20_000
        ticks = [t for b in lake.scan() for t in b["tick"].to_pylist()]
        assert sorted(ticks) == list(range(1, held + 1))
    lake.compact(keep=timedelta(0))
    assert orphans(lake) == 0
    assert sum(batch.num_rows for batch in lake.scan()) == held


@pytest.mark.slow
def test_readers_see_whole_commits_only_and_every_one_before(lake: Lake) -> None:
    done = threading.Event()
    turn = threading.Semaphore(0)

    def write() -> None:
        own = Lake(lake.path)
        for version in range(1, 31):
            if version % 3 == 0:
                turn.acquire()  # so that much is read meanwhile, however slow it is
            first = own.held().get("paris", 0) + 1
            own.append(some(range(first, first + 100)), writer="w", version=version)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    while not done.is_set() or seen[-1] < 3_000:
        ticks = [e.tick for e in lake.events()]
        assert ticks == list(range(1, len(ticks) + 1))
        assert len(ticks) % 100 == 0
        assert len(ticks) >= seen[-1]
        seen.append(len(ticks))
        turn.release()
    writer.join()
    assert len(set(seen)) > 3


def test_a_lake_knows_below_which_times_its_streams_are_complete(lake: Lake) -> None:
    assert lake.complete() == {}
    begin = {"paris": 1.7e9, "paris~2": 5.25}
    lake.append(some(range(1, 4)), writer="a", version=1, complete=begin)
    assert lake.complete() == begin
    lake.append([], writer="a", version=2, complete={"paris": 1.6e9, "paris~2": FOREVER})
    assert lake.complete() == {"paris": 1.7e9, "paris~2": FOREVER}  # it never goes back
    assert not lake.append([], writer="a", version=2, complete={"paris": 1.8e9})
    assert lake.complete()["paris"] == 1.7e9
    assert lake.held() == {"paris": 3}


@given(st.floats(0.0, 1e12))
def test_a_time_in_the_ledger_is_never_later_than_what_was_promised(time: float) -> None:
    assert time * (1 - 1e-15) - 2e-6 <= number_time(time_number(time)) <= time


def test_what_is_held_outlives_the_log_of_single_commits(lake: Lake) -> None:
    from deltalake import DeltaTable

    lake.append(some(range(1, 5)), writer="a", version=1, gaps=[Gap("rome", 1, 2)])
    lake.append([], writer="b", version=5, held={"london": 7})
    DeltaTable(lake.path).create_checkpoint()
    lake.append(some(range(5, 6)), writer="a", version=2)
    for commit in range(3):
        (lake.path / "_delta_log" / f"{commit:020}.json").unlink()
    for known in (lake, Lake(lake.path)):
        assert known.held() == {"london": 7, "paris": 5}
        assert (known.snapshot().written("a"), known.snapshot().written("b")) == (2, 5)
        assert known.gaps() == [Gap("rome", 1, 2)]
        assert len(list(known.events())) == 5


def test_compacting_disturbs_no_reader(lake: Lake) -> None:
    for version in range(1, 9):
        lake.append(some(range(version * 10, version * 10 + 10)), writer="a", version=version)
    before = list(lake.events())
    reading = lake.events()
    early = list(islice(reading, 15))
    outcome = lake.compact()
    assert outcome["joined"] == 8
    assert len(lake.snapshot().files()) == 1
    assert early + list(reading) == before == list(lake.events())
    assert lake.held() == {"paris": 89}
    assert lake.append(some(range(90, 95)), writer="a", version=9)


# -- searching -----------------------------------------------------------------------------------

UNIVERSE = [
    Notification(
        {k: v for k, v in zip(oracle.VALUES, values, strict=True) if v is not oracle.ABSENT}
    )
    for values in zip(*(Random(3).choices(v, k=600) for v in oracle.VALUES.values()), strict=True)
]
UNIVERSE += [
    Notification({"x": value} | other)
    for value in oracle.VALUES["x"]
    if value is not oracle.ABSENT
    for other in ({}, {"X": 1})
]


@pytest.fixture(scope="module")
def universe(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Archived]]:
    """Values of all sorts; in files of few, so that many can be left out."""
    lake = Lake(tmp_path_factory.mktemp("universe"))
    said = sorted(UNIVERSE[:500], key=lambda n: (str(type(n.get("x"))), repr(n.get("x"))))
    events = [
        event(tick, {})._replace(notification=notification)
        for tick, notification in enumerate(said + UNIVERSE[500:], start=1)
    ]
    for version, first in enumerate(range(0, len(events), 50), start=1):
        lake.append(events[first : first + 50], writer="a", version=version)
    return lake, events


@pytest.mark.slow
@settings(max_examples=min(30, settings.default.max_examples))
@given(node=oracle.anything)
def test_a_scan_finds_what_the_filter_matches(
    universe: tuple[Lake, list[Archived]], node: oracle.Node
) -> None:
    lake, events = universe
    wanted = Filter.parse(oracle.text(node))
    assert rows(lake, wanted) == [e for e in events if wanted.matches(e.notification)]


@pytest.mark.slow
@settings(max_examples=10)
@given(st.data())
def test_a_window_holds_what_lies_between_its_ends(
    universe: tuple[Lake, list[Archived]], data: st.DataObject
) -> None:
    lake, events = universe
    ticks = st.integers(0, len(events) + 1)
    first, last = data.draw(ticks), data.draw(ticks)
    after = [e for e in events if first < e.tick]
    assert rows(lake, since={"paris": first}) == after
    assert rows(lake, since={"london": first}) == events
    both = [e for e in after if e.tick <= last]
    assert rows(lake, since=f"paris:{first}", until=f"paris:{last}") == both
    assert rows(lake, until={"london": last}) == []
    start, end = (BEGIN + timedelta(seconds=t) for t in (first, last))
    inside = [e for e in events if start <= e.time < end]
    assert rows(lake, since=start, until=end) == inside
    assert list(lake.events(since=start, until=end)) == inside


def test_files_that_cannot_hold_what_is_asked_for_are_not_read(lake: Lake) -> None:
    word = "x" * 70
    for file in range(10):  # each with ten events of its own values, in two days
        ticks = range(file * 10 + 1, file * 10 + 11)
        said = [
            event(t, {"n": t, "f": t / 2, "s": f"{word}{file}", "t": f"s{file}"}, step=0.04)
            for t in ticks
        ]
        lake.append(said, writer="a", version=file + 1)
    assert len(lake.snapshot().files()) == 11  # one batch has events of both days

    def read(*arguments: Any, **options: Any) -> int:
        return len(lake.snapshot().files(*arguments, **options))

    assert read("n = 15") == 1
    assert read("n BETWEEN 15 AND 25") == 2
    assert read("f > 49") == 1
    assert read("t = 's3'") == 1
    assert read("t = 's3' OR n > 95") == 2
    assert read("t = 's3' AND n > 95") == 0
    assert read(f"s = '{word}3'") == 11  # all begin in the same way
    assert read("s = 'y'") == read("n = 'fifteen'") == read("EXISTS unheard_of") == 0
    assert read("NOT EXISTS t") == 11
    assert read(since="paris:90") == read(until="paris:10") == 1
    assert read(since=BEGIN + timedelta(seconds=3.7)) == 1
    assert read(until=BEGIN + timedelta(seconds=0.1)) == 1
    assert read(until="2026-11-16") == 5
    assert [e.tick for e in lake.events("n = 15")] == [15]

    lake.append([event(200, {"n": [[1]]})], writer="a", version=11)
    assert read("n = 15") == 1
    assert (read("EXISTS n"), read("n != 15")) == (12, 11)  # a list of lists is only there
    lake.append([event(201, {"n": 2**70})], writer="a", version=12)
    assert read("n = 15") == 2  # of what is in the rest, the log says nothing


def test_files_from_before_an_attribute_are_not_read_for_it(lake: Lake) -> None:
    older = [{"n": 1}, {"n": 2, "set": ["a"], "b": b"x"}, {"n": 3}, {"n": 4}]
    for tick, said in enumerate(older, start=1):
        lake.append([event(tick, said)], writer="a", version=tick)
    lake.compact()  # of sets and bytes, Delta does not say how many rows have them
    newer = [{"n": 5}, {"n": 6, "new": 1, "set": ["b"]}, {"new": "text"}]
    for tick, said in enumerate(newer, start=5):
        lake.append([event(tick, said)], writer="a", version=tick)
    events = [event(tick, said) for tick, said in enumerate(older + newer, start=1)]
    for text, files in [
        ("new = 1", 1),
        ("new = 'text'", 1),
        ("new = 1 AND n = 6", 1),
        ("new = 1 OR n = 5", 2),
        ("NOT EXISTS new", 5),
        ("new IS NULL OR new = 1", 5),
        ("set OVERLAPS ('a')", 2),
        ("b = X'78'", 1),
    ]:
        wanted = Filter.parse(text)
        assert rows(lake, wanted) == [e for e in events if wanted.matches(e.notification)], text
        assert len(lake.snapshot().files(wanted)) == files, text
    lake.append([event(8, {"n": 2**70})], writer="a", version=8)
    lake.append([event(9, {"later": 1})], writer="a", version=9)
    assert len(lake.snapshot().files("later = 1")) == 2  # there may be anything in the rest


def test_what_the_log_says_of_a_file_is_true_of_every_row(lake: Lake) -> None:
    said = [
        {"s": "x" * 70, "t": "\ud7ff" * 70, "last": "\U0010ffff" * 70, "f": 1.5, "i": -(2**63)},
        {"s": "x" * 64, "b": True, "set": ["z", "a"], "x.list.element": "own", "x": ["other"]},
        {"s": "a", "f": float("inf"), "long": "y" * 10_000, "bytes": b"\xff"},
        {"i": 2**63 - 1, "b": False, "when": BEGIN + timedelta(microseconds=999)},
    ]
    lake.append([event(t, s) for t, s in enumerate(said, 1)], writer="w", version=1)
    for file in lake.snapshot().files():
        rows = pa.Table.from_batches(lake.scan()).to_pylist()
        log = pa.table(lake.snapshot().table.get_add_actions(flatten=True)).to_pylist()
        (about,) = (each for each in log if each["path"] == file)
        rows = [row for row in rows if row["day"] == about["partition.day"]]
        assert about["num_records"] == len(rows)
        for name in lake.schema().names:
            if name == "day":
                continue
            values = [row[name] for row in rows if row[name] is not None]
            assert about[f"null_count.{name}"] == len(rows) - len(values), name
            least, greatest = about.get(f"min.{name}"), about.get(f"max.{name}")
            if isinstance(least, datetime):  # the log has milliseconds
                least, greatest = (when.astimezone(UTC) for when in (least, greatest))
                greatest += timedelta(milliseconds=1)
            if least is not None:
                assert all(least <= value for value in values), name
            if greatest is not None:
                assert all(value <= greatest for value in values), name
            if name in ("tick", "stream", "s", "t", "i") and values:
                assert least is not None
                assert greatest is not None
            assert (least is None) == (greatest is None) or name in ("last", "f")


def test_times_and_texts_that_the_log_cuts_are_found(lake: Lake) -> None:
    late = BEGIN + timedelta(microseconds=999)
    long = "ä" * 100
    said = Notification({"when": late, "text": long, "ends": "\U0010ffff" * 40})
    lake.append([Archived("paris", 1, late, said)], writer="a", version=1)
    for text in (
        f"when = TIMESTAMP '{late.isoformat()}'",
        f"text = '{long}'",
        f"text > '{long[:-1]}'",
        f"ends = '{said['ends']}'",
    ):
        assert len(list(lake.events(text))) == 1, text
    assert len(list(lake.events(since=late))) == 1
    assert list(lake.events(since=late + timedelta(microseconds=1))) == []
    assert list(lake.events(until=late)) == []


def test_texts_of_which_parquet_says_nothing_are_found(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing of a row group with very long ones: then others cannot speak for the file."""
    monkeypatch.setattr("tidings.lakes.files.ROW_GROUP", 2)
    texts = ["a", "b", "z" * 5_000, "z"]
    said = [event(n, {"s": s}, step=1e-3) for n, s in enumerate(texts, 1)]
    lake.append(said, writer="a", version=1)
    assert len(lake.snapshot().files()) == 1
    assert [e.tick for e in lake.events("s LIKE 'z%'")] == [3, 4]


def test_a_text_that_was_cut_may_be_any_that_begins_so() -> None:
    cut = "x" * 32  # as Spark writes it
    file = {"num_records": 1, "null_count.rest": 1, "null_count.s": 0, "min.s": cut, "max.s": cut}
    columns = {"s": {"string": "s"}}
    assert may_match(file, Filter.parse(f"s = '{cut}7'"), columns)
    assert not may_match(file, Filter.parse("s > 'y'"), columns)
    assert not may_match(file, Filter.parse("s < 'x'"), columns)


def test_a_stream_whose_name_was_cut_may_be_any_that_begins_so() -> None:
    window = Window.of(None, {"s" * 40: 2})
    ticks = {"min.tick": 1, "max.tick": 2}
    for name, may_hold in (("s" * 32, True), ("s" * 10, False)):
        assert window.may_hold({"min.stream": name, "max.stream": name, **ticks}) is may_hold


def test_events_of_a_large_file_are_in_order_though_few_are_read_at_a_time(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "ROW_GROUP", 16)
    monkeypatch.setattr(order, "_AT_ONCE", 7)
    for version in range(1, 21):
        ticks = range(version * 10, version * 10 + 10)
        two = [e for s in ("paris", "rome") for e in some(ticks, stream=s)]
        lake.append(two, writer="a", version=version)
    lake.compact()
    assert len(lake.snapshot().files()) == 1
    read = 0
    search = lake.snapshot().search("n < 205", None, None)

    def counted(group: Any) -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in Search.read(search, group):
            read += batch.num_rows
            yield batch

    monkeypatch.setattr(search, "read", counted)
    found = []
    for number, each in enumerate(order.in_order(search), start=1):
        found.append((each.tick, each.stream))
        assert read <= number + 80
    assert found == [(tick, stream) for tick in range(10, 205) for stream in ("paris", "rome")]


def test_events_come_in_the_order_of_their_streams(lake: Lake) -> None:
    streams = {name: some(range(1, 101), stream=name, step=0.01) for name in ("a", "b", "c")}
    random = Random(5)
    for version in range(1, 21):  # streams are archived as they arrive: at different paces
        name = random.choice([n for n in streams if streams[n]])
        taken, streams[name] = streams[name][:20], streams[name][20:]
        lake.append(taken, writer="a", version=version)
        if not any(streams.values()):
            break
    found = list(lake.events())
    assert len(found) == 300
    for name in "abc":
        assert [e.tick for e in found if e.stream == name] == list(range(1, 101))
    assert [e.time for e in found] == sorted(e.time for e in found)
