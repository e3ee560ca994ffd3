"""The lines that a broker writes about itself, for programs and for people."""

from __future__ import annotations

import io
import json
import logging

from tidings.broker.operations.diagnostics import JSONLines, Sentences, set_up


def record(**extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": "lost %s\x1b[2J", "args": ("rome",), "levelno": 30})
    made.levelname = "WARNING"
    made.__dict__.update(extra)
    return made


def test_lines_are_for_programs() -> None:
    line = json.loads(JSONLines("paris").format(record(session="ann", event="paris:7")))
    assert line["message"] == "lost rome\x1b[2J"
    assert (line["broker"], line["session"], line["event"]) == ("paris", "ann", "paris:7")


def test_sentences_are_for_people_and_cannot_upset_the_terminal() -> None:
    text = Sentences().format(record())
    assert text.endswith("! lost rome·[2J")
    assert "\x1b" not in text


def test_logs_go_to_the_stream_and_nowhere_else() -> None:
    logger = logging.getLogger("tidings")
    before = (logger.handlers[:], logger.level, logger.propagate)
    stream = io.StringIO()
    try:
        set_up("paris", stream=stream)
        logging.getLogger("tidings.broker.x").info("hello")
        assert json.loads(stream.getvalue())["message"] == "hello"
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
