"""Stopping: what Ctrl-C and SIGTERM do to commands.

One that is interrupted exits with 130, or 143 after SIGTERM, as a shell reports of a program that
a signal has ended. Those that serve until they are stopped, brokers for example, exit with 0 when
they have come to their end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import typer

from tidings.cli.complaints import remark

_SIGNALLED: Final = 128
"""A shell adds this to the number of the signal that has ended a program."""


def stopped_by_signals() -> threading.Event:
    """Is set by Ctrl-C or SIGTERM, so that what is under way can come to its end."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # only the main thread may
            signal.signal(number, lambda *_: stop.set())
    return stop


@contextmanager
def stops_told(how: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM interrupt what is under way, and it is said how to go on."""
    before = signal.getsignal(signal.SIGTERM)
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt as problem:
        remark(f"\nstopped; {how}")
        raise typer.Exit(exit_code(problem)) from None
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


def exit_code(problem: KeyboardInterrupt) -> int:
    """What a command exits with that was interrupted."""
    return _SIGNALLED + int(problem.args[0] if problem.args else signal.SIGINT)


def interrupt(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C does, but it can be told which it was."""
    raise KeyboardInterrupt(number)
