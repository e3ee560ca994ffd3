"""What is published together is kept together or not at all, whatever else is asked."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import Append, Reply, Request, Store
from tidings.protocol.requests import Advertise, Attach, Publish, Refused

STRICT = Settings(advertisements="covering")
MAY = Filter.parse("x < 6")


def begun() -> Node:
    node = Node("paris", STRICT)
    node.start(0.0)
    node.handle(Request("desk/a", Attach()), 0.0)
    node.handle(Request("desk/a", Advertise("a", MAY)), 0.0)
    return node


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 7), min_size=1, max_size=6),
            st.booleans(),
            st.sampled_from([(), ("a", "b", "c", "a", "d", "e"), ("f", "", "", "b", "g", "h")]),
        ),
        max_size=8,
    )
)
def test_one_that_is_refused_keeps_out_all_that_belong_to_it(doings: Any) -> None:
    node, log, number, known = begun(), [], 1, set[str]()
    for values, is_whole, ids in doings:
        said = tuple(Notification({"x": x, "number": number + n}) for n, x in enumerate(values))
        body = Publish(number, said, is_whole, ids[: len(said)])
        effects = node.handle(Request("desk/a", body), 1.0)
        kept = [each for e in effects if isinstance(e, Append) for each in e.events]
        answers = [e.answer for e in effects if isinstance(e, Reply)]
        refused = {int(each.id) for each in answers if isinstance(each, Refused)}
        firsts: dict[str, int] = {}
        new = []
        for n in range(len(values)):
            id = body.ids[n] if body.ids else ""
            if id not in known and firsts.setdefault(id or f"none {n}", n) == n:
                new.append(number + n)
        wrong = {n for n in new if values[n - number] >= 6}
        if is_whole and wrong:
            assert kept == []
            assert refused >= set(new)
        else:
            due = [n for n in new if n not in wrong]
            assert [event.notification["number"] for event in kept] == due
            assert refused & set(new) == wrong
            known |= {body.ids[n - number] for n in due if body.ids} - {""}
            runs = answers[-1].kept
            places = {run.number + i: run.tick + i for run in runs for i in range(run.count)}
            assert [places[n] for n in due] == [event.tick for event in kept]
        assert [event.tick for event in kept] == [len(log) + n + 1 for n in range(len(kept))]
        log += kept
        number += len(values)


def test_one_commit_keeps_all_of_it() -> None:
    body = Publish(1, tuple(Notification({"x": 1}) for _ in range(5)), is_whole=True)
    effects = begun().handle(Request("desk/a", body), 1.0)
    assert [len(e.events) for e in effects if isinstance(e, Append)] == [5]
    kinds = [type(e).__name__ for e in effects if not isinstance(e, Store)]
    assert kinds == ["Append", "Sync", "Reply"]


def test_what_belongs_together_and_was_kept_in_part_is_refused() -> None:
    node = begun()
    one = Publish(1, (Notification({"x": 1}),))
    node.handle(Request("desk/a", one), 1.0)
    both = Publish(1, (Notification({"x": 1}), Notification({"x": 2})), is_whole=True)
    effects = node.handle(Request("desk/a", both), 2.0)
    refused = [e.answer for e in effects if isinstance(e, Reply) and isinstance(e.answer, Refused)]
    assert [each.id for each in refused] == ["2"]
    assert not any(isinstance(e, Append) for e in effects)
