"""Jobs: what Spark does for us, so that it can be stopped; and why it has failed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from tidings.spark.interrupts import Stopped, held_back

if TYPE_CHECKING:
    from pyspark import SparkContext

_GLANCE: Final = 0.1
"""Seconds between two looks at how it goes."""
_PATIENCE: Final = 5.0
"""Seconds that tasks have to finish by themselves when they are told to stop."""
_NUMBERS: Final = count(1)

Found = TypeVar("Found")


def carry_out(
    context: SparkContext,
    work: Callable[[], Found],
    what: str,
    *,
    stop: threading.Event | None = None,
    told: Callable[[], None] = lambda: None,
) -> Found:
    """What `work` returns, which has Spark do something; `what` that is, is told to Spark.

    It is done in another thread, so that Ctrl-C finds this one waiting: then the tasks are
    cancelled, and no longer run soon after. If `stop` is set, they may finish within some seconds
    first, and it is `Stopped` if they do not. `told` is called now and then, and at the end.
    """
    from pyspark import InheritableThread

    found: list[Found] = []
    failures: list[BaseException] = []
    group = f"tidings {next(_NUMBERS)}"

    def job() -> None:
        try:
            # Not `interruptOnCancel`: Java would leave a task at once, and Python, which goes on
            # with it for some seconds, complain that nobody listens.
            context.setJobGroup(group, what)
            found.append(work())
        except BaseException as problem:
            failures.append(problem)

    thread = InheritableThread(target=job, name=f"tidings {what}", daemon=True)
    try:
        with held_back():
            thread.start()
        while thread.is_alive() and not (stop is not None and stop.is_set()):
            thread.join(_GLANCE)
            told()
        thread.join(_PATIENCE)
    finally:
        with held_back():
            while thread.is_alive():  # it may have been about to begin
                context.cancelJobGroup(group)
                thread.join(_GLANCE)
    if failures and stop is not None and stop.is_set():
        raise Stopped("stopped while Spark was at work")
    if failures:
        raise failures[0]
    return found[0]


# -- what went wrong ---------------------------------------------------------------------------

_CAUSE: Final = re.compile(r"(?!org\.|java\.|py4j\.|pyspark\.|Identifier: )(?:\w+\.)*[A-Z]\w+: ")
"""How a line begins that tells of an exception of Python's, and not of a query's identifier."""
_JAVA: Final = re.compile(r": (?:[\w$]+\.)+[A-Z][\w$]*: (.+)")
"""How py4j tells of an exception of Java's."""
_OURS: Final = re.compile(r"tidings\.[\w.]+: ")


def cause(problem: BaseException | None) -> str:
    """What went wrong, in a sentence; of what is not ours, with its class."""
    if problem is None:
        return "it was stopped by somebody else"
    lines = str(problem).splitlines()
    for line in reversed(lines):
        if _CAUSE.match(line):
            return _OURS.sub("", line)
    said = next(filter(None, map(_JAVA.fullmatch, lines)), None)
    if said is not None:
        return said[1]
    return lines[0] if lines else repr(problem)
