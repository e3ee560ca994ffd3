"""A node's logs alone: answers for the node itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tidings.delivery.logs import Logs
from tidings.delivery.promises import Promises
from tidings.events import Filter, Notification
from tidings.protocol.host import Span
from tidings.protocol.messages import Event, Fetch, Fetched


def test_thousands_of_parts_are_taken_one_after_the_other() -> None:
    """Each part makes the node ask for the next one; that is no call within a call."""
    count, answers = 3_000, list[Fetched]()
    soon = deque[Callable[[], None]]()

    def back(answer: Fetched) -> None:
        answers.append(answer)
        if not answer.is_live:
            soon.append(lambda: logs.answer(asked(answer.upto)))

    def asked(since: int) -> Fetch:
        return Fetch("paris", since, 0.0, Filter.all(), 1, ())

    nobody: Any = None  # is asked or told
    logs = Logs(nobody, nobody, {"paris": Span()}, Promises(reserved=0.0), back)
    logs.part_limit = 10
    said = [Event("paris", n, Notification({"text": "x" * 20})) for n in range(1, count + 1)]
    logs.log.extend(said)
    logs.answer(asked(0))
    while soon:
        soon.popleft()()
    assert [answer.upto for answer in answers] == list(range(1, count + 1))
    assert [event for answer in answers for event in answer.events] == said
