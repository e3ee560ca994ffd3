"""Diagnostics: the lines that a broker writes about itself, one for each thing worth knowing.

On a terminal a line is a sentence; elsewhere it is a JSON object with the fields `time`, `level`,
`broker` and `message`, and where they apply `session`, `event` and `error`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

_FIELDS: Final = ("session", "event")
"""Fields that a log record may carry as `extra`."""


def set_up(broker: str, *, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Write what tidings logs to stderr, or to a stream."""
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(Sentences() if target.isatty() else JSONLines(broker))
    root = logging.getLogger("tidings")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


class Sentences(logging.Formatter):
    """A record as a sentence, for people."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        sign = {"WARNING": "! ", "ERROR": "!! ", "CRITICAL": "!! "}.get(record.levelname, "")
        text = f"{at} {sign}{_printable(record.getMessage())}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


# A library for structured logs would need this list of fields and a form for people as well.
class JSONLines(logging.Formatter):
    """A record as a JSON object, for programs."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "broker": self._broker,
            "message": record.getMessage(),
        }
        line |= {f: getattr(record, f) for f in _FIELDS if hasattr(record, f)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _printable(text: str) -> str:
    """The text without control characters: strangers choose some of the words."""
    return "".join(c if c.isprintable() else "·" for c in text)
