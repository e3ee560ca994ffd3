"""Interrupts: Ctrl-C and SIGTERM, kept from breaking into what is said to Java.

A program that speaks to Java (by py4j) waits for an answer in the middle of a conversation.
Interrupted there, it prints pages; interrupted while Java starts, it leaves a Java behind that
never ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tidings.events import TidingsError

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopped(TidingsError):  # noqa: N818
    """What was going on was stopped from outside."""


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Signals that come while the context lasts do at its end what they would have done.

    Only those that a function of Python's handles: a program that leaves them to the system wants
    no delay. If something fails after one has come, that is `Stopped`: Ctrl-C and SIGTERM often
    go to other processes, too. The handlers at the end are those of the beginning; where others
    are set meanwhile, call what is given, to hold back what comes from then on.

    In another thread than the main one it does nothing, since signals do not disturb it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    came: list[int] = []

    def hold() -> None:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, lambda number, _: came.append(number))

    hold()
    try:
        yield hold
    except Exception as problem:
        if not came:
            raise
        raise Stopped("stopped in the middle of a conversation with Java") from problem
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it is not Python's
                signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
