"""The archive alone: answers for the node itself."""

from __future__ import annotations

from typing import Any

from tidings.events import Filter, Notification
from tidings.node.archive import Archive
from tidings.protocol.host import Span
from tidings.protocol.messages import Event, Fetch, Fetched


def test_thousands_of_parts_are_taken_one_after_the_other() -> None:
    """Each part makes the node ask for the next one; that must not be a call within a call."""
    count, answers = 3_000, list[Fetched]()

    def back(answer: Fetched) -> None:
        answers.append(answer)
        if not answer.is_live:
            archive.answer(asked(answer.upto))

    def asked(since: int) -> Fetch:
        return Fetch("paris", since, 0.0, Filter.all(), 1, ())

    node: Any = None  # nobody else is asked or told
    archive = Archive(node, {"paris": Span()}, back)
    archive.part_limit = 10
    said = [Event("paris", n, Notification({"text": "x" * 20})) for n in range(1, count + 1)]
    archive.log.extend(said)
    archive.answer(asked(0))
    assert [answer.upto for answer in answers] == list(range(1, count + 1))
    assert [event for answer in answers for event in answer.events] == said
