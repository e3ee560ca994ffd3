"""Who wants an event: remembered answers are those that the filters give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.events import Filter, Notification
from tidings.routing.tables import Tables

FILTERS = [
    Filter.parse(text)
    for text in (
        "s = 'a'",
        "s = 'b'",
        "x = 1",
        "x = TRUE",
        "NOT EXISTS s",
        "TRUE",
        "s = 'a' OR y = 'a'",
    )
]
EVENTS = [
    Notification(event)
    for event in ({"s": "a"}, {"s": "b"}, {"x": 1}, {"x": True}, {"y": "a", "s": "c"}, {"x": "1"})
]
steps = st.lists(
    st.tuples(st.sampled_from(["one", "other"]), st.sampled_from(FILTERS), st.booleans()),
    max_size=12,
)


@given(steps)
def test_remembered_answers_are_right_after_every_change(
    changes: list[tuple[str, Filter, bool]],
) -> None:
    tables = Tables[str]()
    for port, filter_, more in changes:
        tables.change(port, {filter_: 1} if more else {}, {} if more else {filter_: 1})
        for event in EVENTS * 2:
            wanted = {p for p, t in tables.wanted.items() if any(f.matches(event) for f in t)}
            assert tables.match(event) == wanted
