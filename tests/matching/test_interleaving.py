"""Readers between any two steps of a writer, and writers between any two steps of a reader.

Threads that run freely seldom meet at the one place where it matters. Here one thread goes step by
step (a line, or a single instruction) and another does all of its work between two of them. Every
answer must be that of one version: the one before the change or the one after it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import tidings.matching
from tests.matching.engines import tuned
from tidings.events import Filter, Notification
from tidings.matching import Index, index, warm
from tidings.matching import segment as segment_module
from tidings.matching.segment import Segment

HOUSE = os.path.dirname(tidings.matching.__file__)
PUBLISHING, RANKING = index.__file__, segment_module.__file__
EVENT = Notification({"a": 1, "b": 1, "s": "it", "t": ["x", "y"]})
FILTERS = [
    Filter.parse(text)
    for text in (
        *("a = 1", "b >= 1", "s = 'it'", "s LIKE '%t' OR a > 0", "t CONTAINS 'x'", "TRUE"),
        *("EXISTS s OR b < 7", "a = 2", "s > 'x'", "t OVERLAPS ('y', 'z') AND a != 3"),
    )
]
KEYS = [*range(10), *range(100, 105), *range(200, 203), "new", *(("new", n) for n in range(10))]
Action = Callable[[], Any]


@contextmanager
def interrupted(
    between: Action, *, by: str = "line", within: str = HOUSE, only: int | None = None
) -> Iterator[list[int]]:
    """Do something in another thread between the steps that this thread takes in the package.

    `by` is "line" or "opcode"; with `only`, just before that step. The list counts the steps.
    """
    steps = [0]
    with ThreadPoolExecutor(1) as other:

        def trace(frame: FrameType, what: str, _: object) -> Any:
            if not frame.f_code.co_filename.startswith(within):
                return None
            frame.f_trace_opcodes = by == "opcode"
            if what == by:
                if only is None or steps[0] == only:
                    other.submit(between).result(timeout=20)
                steps[0] += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield steps
        finally:
            sys.settrace(before)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    warm.wait()
    monkeypatch.setattr(index, "_BULK", 4)


def an_index() -> Index:
    """A segment and fresh filters, sorted and not, of all kinds."""
    with tuned("postings"):
        found = Index()
        found.add_many(enumerate(FILTERS))
        found._fold()
        for n, filter_ in enumerate(FILTERS[::2]):
            found.add(100 + n, filter_)
        found.match(EVENT)
        for n, filter_ in enumerate(FILTERS[:3]):
            found.add(200 + n, filter_)
    return found


def relearn(found: Index) -> None:
    asked = Segment.is_worth_relearning
    Segment.is_worth_relearning = lambda *_: True  # type: ignore[method-assign]
    try:
        found._learn()
    finally:
        Segment.is_worth_relearning = asked  # type: ignore[method-assign]


def sort_what_is_fresh(found: Index) -> None:
    with found._lock:
        found._state.fresh.index(found._state.entries)


CHANGES: dict[str, Callable[[Index], Any]] = {
    "add": lambda i: i.add("new", Filter.all()),
    "add some": lambda i: i.add_many((("new", n), FILTERS[n]) for n in range(3)),
    "add a segment": lambda i: i.add_many((("new", n), f) for n, f in enumerate(FILTERS)),
    "remove a fresh one": lambda i: i.remove(100),
    "remove a folded one": lambda i: i.remove(0),
    "replace a fresh one": lambda i: i.replace(100, FILTERS[1]),
    "replace a folded one": lambda i: i.replace(0, FILTERS[1]),
    "replace by one that fails": lambda i: i.replace(5, FILTERS[7]),
    "fold": lambda i: i._fold(),
    "relearn": relearn,
    "sort what is fresh": sort_what_is_fresh,
}
QUESTIONS: dict[str, Callable[[Index], list[Any]]] = {
    "match": lambda i: i.match(EVENT),
    "match some": lambda i: i.match_some([EVENT, EVENT])[1],
}


def answers(
    found: Index, questions: dict[str, Callable[[Index], list[Any]]]
) -> dict[str, list[Any]]:
    return {name: sorted(ask(found), key=repr) for name, ask in questions.items()}


@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_between_any_two_steps_of_a_writer_sees_one_version(change: str) -> None:
    found, changed = an_index(), an_index()
    before = answers(changed, QUESTIONS)
    CHANGES[change](changed)
    after = answers(changed, QUESTIONS)
    seen: dict[str, list[list[Any]]] = {name: [] for name in QUESTIONS}

    def ask_all() -> None:
        for name, answer in answers(found, QUESTIONS).items():
            if not seen[name] or seen[name][-1] != answer:
                seen[name].append(answer)

    large = change in ("fold", "relearn", "add a segment")  # elsewhere only new things are touched
    with interrupted(
        ask_all, by="line" if large else "opcode", within=PUBLISHING if large else HOUSE
    ):
        CHANGES[change](found)
    ask_all()
    for name, versions in seen.items():
        expected = [before[name]] if before[name] == after[name] else [before[name], after[name]]
        assert versions in (expected, expected[1:]), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "change"),
    [
        *(("match", c) for c in CHANGES),
        *(("match some", c) for c in ("fold", "replace a folded one")),
    ],
)
def test_a_writer_between_any_two_steps_of_a_reader_leaves_it_one_version(
    question: str, change: str
) -> None:
    ask = QUESTIONS[question]
    found = an_index()
    before = sorted(ask(found), key=repr)
    CHANGES[change](found)
    allowed = [before, sorted(ask(found), key=repr)]
    step, steps = 0, 1
    while step < steps:
        found = an_index()

        def change_it(found: Index = found) -> None:
            if found._lock.acquire(blocking=False):  # else the reader is looking after the index
                CHANGES[change](found)
                found._lock.release()

        within = HOUSE if question == "match" else PUBLISHING
        with interrupted(change_it, within=within, only=step) as counted:
            answer = ask(found)
        steps = counted[0]
        assert sorted(answer, key=repr) in allowed, f"interrupted at step {step}"
        step += 1


@pytest.mark.slow
def test_another_reader_may_take_what_one_is_about_to_take() -> None:
    found = an_index()
    found._fold()
    expected = sorted(found.match(EVENT))
    (segment,) = found._state.segments

    def read_and_hold_on() -> None:
        segment._pool.clear()

    step, steps = 0, 1
    while step < steps:
        with interrupted(read_and_hold_on, by="opcode", only=step) as counted:
            assert sorted(segment.source.keys[segment.match(EVENT.attributes, 0)]) == expected
        steps, step = counted[0], step + 1


def test_relearning_between_any_two_steps_of_a_reader_does_not_disturb_it() -> None:
    laid_out = an_index()
    expected = sorted(laid_out.match(EVENT))

    with interrupted(laid_out._learn, by="line"):
        assert sorted(laid_out.match(EVENT)) == expected


@pytest.mark.slow
def test_a_reader_between_any_two_steps_of_relearning_sees_the_same_as_ever() -> None:
    laid_out = an_index()
    expected = sorted(laid_out.match(EVENT))

    def read() -> None:
        assert sorted(laid_out.match(EVENT)) == expected

    with interrupted(read, within=RANKING):
        laid_out._learn()
