"""Ctrl-C and SIGTERM while somebody speaks to Java."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType

import pytest

from tidings.spark.interrupts import Stopped, held_back


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that were handled."""
    numbers: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        numbers.append(number)

    before = {n: signal.signal(n, hear) for n in (signal.SIGINT, signal.SIGTERM)}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_they_wait_for_the_end(heard: list[int], number: int) -> None:
    with held_back():
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert heard == []
    assert heard == [number], "twice is once"


def test_ctrl_c_interrupts_at_the_end() -> None:
    done: list[str] = []

    def interrupted() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done


def test_the_handlers_at_the_end_are_those_of_the_beginning(heard: list[int]) -> None:
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with held_back() as hold:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark does
        hold()
        signal.raise_signal(signal.SIGINT)
        assert heard == []
    assert heard == [signal.SIGINT]
    with suppress(ZeroDivisionError), held_back():
        raise ZeroDivisionError
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_what_fails_after_one_has_come_was_stopped(heard: list[int]) -> None:
    def failing() -> None:
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            raise ConnectionError("Java is gone, too")

    with pytest.raises(Stopped):
        failing()
    assert heard == [signal.SIGTERM]


def test_where_one_is_left_to_the_system_there_is_no_delay(heard: list[int]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with held_back():
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
