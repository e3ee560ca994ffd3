"""Failures: what went wrong in a task, out of all that Java and Python say of it."""

from __future__ import annotations

import re
from typing import Final

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
