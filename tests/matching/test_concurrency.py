"""Readers beside writers: every answer is that of one version, and never an older one than before.

Threads switch as often as the interpreter can, and folding, merging and relearning go on all the
time. Each test asks for something that holds in every version and in no mixture of two.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tidings.events import Filter, Notification
from tidings.matching import Index, index, warm

EVENT = Notification({"a": 1, "b": 1, "s": "it", "t": ["x", "y"]})
TABLE = pa.table({"a": [1], "b": [1], "s": ["it"], "t": [["x", "y"]]})
BOTH = [  # pairs of filters that the event satisfies, to be flipped between
    (Filter.parse("a = 1"), Filter.parse("b = 1")),
    (Filter.parse("s = 'it'"), Filter.parse("s LIKE '%t' OR a > 0")),
    (Filter.parse("t CONTAINS 'x'"), Filter.parse("t OVERLAPS ('x', 'y') AND a != 2")),
    (Filter.all(), Filter.parse("EXISTS s OR b < 7")),
]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Switch threads all the time, lay out soon."""
    warm.wait()
    monkeypatch.setattr(index, "_LAY_OUT", 200)
    monkeypatch.setattr(index, "_LAY_OUT_EACH", 1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def beside(
    write: Callable[[], None], *reads: Callable[[], None], readers: int = 3, warm_up: int = 3
) -> None:
    """Call the reads over and over, in several threads, until the writing is done."""
    done, problems = threading.Event(), list[BaseException]()
    begun = threading.Barrier(readers * len(reads) + 1)

    def keep_reading(read: Callable[[], None]) -> None:
        try:
            for _ in range(warm_up):
                read()
            begun.wait()
            while not done.is_set() and not problems:
                read()
        except BaseException as problem:
            problems.append(problem)
            begun.abort()

    threads = [
        threading.Thread(target=keep_reading, args=(read,), daemon=True)
        for read in reads
        for _ in range(readers)
    ]
    for thread in threads:
        thread.start()
    try:
        begun.wait()
        write()
    except threading.BrokenBarrierError:
        pass
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]


def keep_house(index: Index) -> Callable[[], None]:
    """Fold, merge and learn anew, all the time."""

    def once() -> None:
        index._fold()
        with index._lock:
            for segment in index._state.segments:
                segment._chosen[:] = -1  # as if nothing were found by its values yet
            index._learn()

    return once


def ask(index: Index, way: str) -> list[Any]:
    match way:
        case "match":
            return index.match(EVENT)
        case "table":
            return list(index.match_batch(TABLE)[1].to_pylist())
        case "list":
            return list(index.match_batch([EVENT])[1].to_pylist())
        case "some":
            return index.match_some([EVENT, EVENT])[1]
    raise AssertionError(way)


WAYS = ["match", "table", "list", "some"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at_rest", [False, True], ids=["with folds", "without folds"])
def test_a_replaced_filter_is_there_once_all_the_time(way: str, at_rest: bool) -> None:
    index = Index()
    index.add_many((n, pair[0]) for n, pair in enumerate(BOTH))
    index._fold()

    def flip() -> None:
        for turn in range(60):
            for n, pair in enumerate(BOTH):
                index.replace(n, pair[turn % 2])

    def read() -> None:
        assert sorted(ask(index, way)) == list(range(len(BOTH)))

    beside(flip, read, *([] if at_rest else [keep_house(index)]), readers=2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [40, index._BULK], ids=["fresh", "as a segment"])
def test_what_is_added_together_appears_together_and_goes_one_by_one(way: str, size: int) -> None:
    index = Index()
    block = [(n, BOTH[n % len(BOTH)][n % 2]) for n in range(size)]

    def write() -> None:
        for _ in range(6):
            index.add_many(block)
            for key in range(size):
                index.remove(key)

    def read() -> None:
        found = set(ask(index, way))
        first = min(found, default=size)
        assert found == set(range(first, size)), "some of those that were added together"

    beside(write, read, readers=2)


def test_what_was_added_before_the_question_is_found() -> None:
    index = Index()
    texts = ["a >= 1", "a = 1", "s = 'it'", "t CONTAINS 'x'", "TRUE"]
    added = 0

    def write() -> None:
        nonlocal added
        for n in range(400):
            index.add(n, Filter.parse(texts[n % len(texts)]))
            added = n + 1

    def read() -> None:
        before = added
        missing = set(range(before)).difference(index.match(EVENT))
        assert not missing

    beside(write, read, readers=4)


def test_what_was_removed_before_the_question_is_not_found() -> None:
    index = Index()
    index.add_many((n, BOTH[n % len(BOTH)][n % 2]) for n in range(1_500))
    removed = 0

    def write() -> None:
        nonlocal removed
        for n in range(1_500):
            index.remove(n)
            removed = n + 1

    def read() -> None:
        before = removed
        found = index.match(EVENT)
        assert min(found, default=before) >= before

    beside(write, read, readers=3)
    assert index.match(EVENT) == []


def test_no_reader_sees_time_go_backwards() -> None:
    index = Index()
    index.add(0, Filter.all())
    latest = threading.local()

    def write() -> None:
        for n in range(1, 400):
            index.add(n, BOTH[n % len(BOTH)][n % 2])
            index.remove(n - 1)

    def read() -> None:
        found = sorted(index.match(EVENT))
        assert found, "there is always one"
        assert len(found) <= 2
        assert found[-1] - found[0] < 2
        assert found[0] >= getattr(latest, "seen", 0)
        latest.seen = found[0]

    beside(write, read, keep_house(index), readers=2)


def test_many_readers_of_one_segment_do_not_disturb_each_other() -> None:
    index = Index()
    index.add_many((n, Filter.parse(f"a >= {n} OR s = 'it{n}'")) for n in range(200))
    index._fold()
    expected = {n: [*range(n + 1), n + 100] for n in range(100)}

    def read() -> None:
        for n in range(0, 100, 7):
            event = Notification({"a": n, "s": f"it{n + 100}"})
            assert sorted(index.match(event)) == expected[n]

    def write() -> None:
        for _ in range(100):
            read()

    beside(write, read, readers=4)


def test_learning_does_not_disturb_readers() -> None:
    """It ranks the values of a segment once more, while others look them up."""
    index = Index()
    index.add_many((n, Filter.parse(f"s >= 's{n:04}' AND a > {2**60 + n}")) for n in range(1_500))
    event = Notification({"s": "s0700", "a": 2**60 + 500})

    def read() -> None:
        assert sorted(index.match(event)) == list(range(500))

    def write() -> None:
        for _ in range(15):
            index._learn()

    beside(write, read, readers=2)


def test_writers_wait_for_each_other_and_nothing_is_lost() -> None:
    index = Index()

    def writer(first: int) -> Callable[[], None]:
        def write() -> None:
            for n in range(first, first + 100):
                index.add(n, BOTH[n % 4][0])
                index.replace(n, BOTH[n % 4][1])
                if n % 2:
                    index.remove(n)

        return write

    threads = [threading.Thread(target=writer(1_000 * n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        index.match(EVENT)
    for thread in threads:
        thread.join()
    expected = [1_000 * t + n for t in range(4) for n in range(0, 100, 2)]
    assert sorted(index.match(EVENT)) == expected
    assert len(index) == len(expected)
