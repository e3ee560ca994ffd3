"""A node goes on from what was frozen of it, and so does each of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.node.inputs import anything
from tidings.node import Node, Settings
from tidings.protocol.frozen import freeze, thaw
from tidings.protocol.host import Deliver, Effect

SETTINGS = {
    "at most once": Settings(advertisements="merging", check=1.0, lease=3.0),
    "from a log": Settings(check=1.0, subscriptions="merging"),
    "in a tree": Settings(tree=True, advertisements="identity", check=1.0),
    "learning": Settings(subscriptions="learnt:0.1"),
}


def started(settings: Settings) -> Node:
    node = Node("b1", settings, neighbours={"b0": "peer", "b2": "peer"})
    node.start(0.0)
    return node


def done(effects: list[Effect]) -> tuple[list[Effect], set[tuple[str, str, int, frozenset[str]]]]:
    """Effects in order, but for deliveries: an index finds filters in no order of its own."""
    told = [each for each in effects if isinstance(each, Deliver)]
    others = [each for each in effects if not isinstance(each, Deliver)]
    return others, {(e.session, e.event.stream, e.event.tick, frozenset(e.ids)) for e in told}


def inputs(seed: int) -> Iterator[tuple[Any, float]]:
    random = Random(seed)
    for number in range(200):
        yield anything(random, number), number / 10


@pytest.mark.parametrize("kind", SETTINGS)
def test_what_was_frozen_goes_on_as_it_would_have(kind: str) -> None:
    node = started(SETTINGS[kind])
    other: Node = thaw(freeze(node))
    for number, (happened, now) in enumerate(inputs(1)):
        assert done(other.handle(happened, now)) == done(node.handle(happened, now))
        if number % 20 == 0:
            state = freeze(node)
            other = thaw(state)
            assert freeze(other) == state
            assert hash(freeze(other)) == hash(state)


@pytest.mark.parametrize("kind", SETTINGS)
def test_each_part_can_be_made_from_what_was_frozen_of_it(kind: str) -> None:
    node = started(SETTINGS[kind])
    for happened, now in inputs(2):
        node.handle(happened, now)
    for part in node.parts.all:
        others = [each for each in node.parts.all if each is not part]
        outside = (node, *others, *node.neighbours.values(), *node.sessions.values())
        again = thaw(freeze(part, *outside), *outside)
        assert again is not part
        assert freeze(again, *outside) == freeze(part, *outside)
        assert list(again.audit([])) == list(part.audit([]))


def test_what_lies_in_a_closure_cannot_be_frozen() -> None:
    hidden = 1
    with pytest.raises(TypeError, match="holds something"):
        freeze([lambda: hidden])
    with pytest.raises(TypeError, match="holds something"):
        freeze([[].append])
