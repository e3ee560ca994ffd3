"""Streams come by the tree, wherever it leads by now, and are told anew where it was broken."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidings.delivery.ways import NOWHERE, Ways
from tidings.protocol.messages import Path, Way

NODES = tuple("abcdef")


class Neighbour(NamedTuple):
    """A neighbour, as far as ways know it."""

    name: str


NEAR = {name: Neighbour(name) for name in NODES}
A, C = NEAR["a"], NEAR["c"]
Pair = tuple[str, str]


class ChangingTree(RuleBasedStateMachine):
    """Nodes tell each other ways over links that come and go, but never form a cycle."""

    @initialize()
    def begin(self) -> None:
        self.ways: dict[str, Ways[Neighbour]] = {name: Ways(name, {name: ""}) for name in NODES}
        self.links: dict[Pair, deque[dict[str, Way]]] = {}
        """For each direction what is on it."""
        self.anew: set[tuple[str, str]] = set()
        """Streams that have begun anew, at whom."""

    @rule(a=st.sampled_from(NODES), b=st.sampled_from(NODES))
    def link(self, a: str, b: str) -> None:
        if b not in self.reached(a):
            for here, there in ((a, b), (b, a)):
                self.links[here, there] = deque([self.ways[here].to_tell(NEAR[there])])

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        a, b = data.draw(st.sampled_from(sorted(self.links)))
        del self.links[a, b], self.links[b, a]
        for here, there in ((a, b), (b, a)):
            self.tell(here, self.ways[here].lost(NEAR[there]))

    @precondition(lambda self: any(self.links.values()))
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(sorted(p for p, q in self.links.items() if q))))

    @rule()
    def settle(self) -> None:
        for _ in range(10_000):
            busy = [pair for pair, queue in self.links.items() if queue]
            if not busy:
                break
            self.deliver(busy[0])
        else:
            raise AssertionError("ways are told round and round")
        for name, ways in self.ways.items():
            near = self.reached(name)
            assert set(ways.streams) == set(near)
            for stream, path in near.items():
                assert ways.path(stream) == path
                assert ways.via(stream) is (NEAR[path[-2]] if stream != name else None)

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        """A link begins anew; so does, all the way down, whatever came by it."""
        self.settle()
        self.anew.clear()
        a, b = data.draw(st.sampled_from(sorted(self.links)))
        behind = {n for n, path in self.reached(a).items() if b in path}
        for here, there in ((a, b), (b, a)):
            self.tell(here, self.ways[here].lost(NEAR[there]))
            self.links[here, there].append(self.ways[here].to_tell(NEAR[there]))
        self.settle()
        for name in self.reached(a):
            for stream in self.reached(a):
                if (name in behind) != (stream in behind):
                    assert (name, stream) in self.anew

    @invariant()
    def nobody_is_on_a_way_twice(self) -> None:
        for ways in getattr(self, "ways", {}).values():
            for stream in ways.streams:
                assert len(set(ways.path(stream))) == len(ways.path(stream))

    def deliver(self, pair: Pair) -> None:
        sender, receiver = pair
        told = self.links[pair].popleft()
        self.tell(receiver, self.ways[receiver].told(NEAR[sender], told))

    def tell(self, name: str, streams: list[str]) -> None:
        self.anew.update((name, stream) for stream in streams)
        if streams:
            for (here, there), queue in self.links.items():
                if here == name:
                    queue.append(self.ways[name].to_tell(NEAR[there], streams))

    def reached(self, start: str) -> dict[str, Path]:
        """The truth: all that hang together with a node, and the way from there to here."""
        found, todo = {start: (start,)}, [start]
        for name in todo:
            for here, there in self.links:
                if here == name and there not in found:
                    found[there] = (there, *found[name])
                    todo.append(there)
        return found


TestChangingTree = ChangingTree.TestCase
TestChangingTree.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_way_that_leads_through_oneself_is_no_way() -> None:
    ways: Ways[Neighbour] = Ways("b", {"b": ""})
    assert ways.told(A, {"c": Way(("c", "b", "a"))}) == []
    assert ways.via("c") is None


def test_a_stream_that_is_told_again_begins_anew_though_its_way_is_the_same() -> None:
    ways: Ways[Neighbour] = Ways("b", {"b": ""})
    assert ways.told(A, {"a": Way(("a",))}) == ["a"]
    assert ways.told(A, {"a": Way(("a",))}) == ["a"]
    assert ways.told(C, {"a": Way(("a", "d", "c"))}) == []
    assert ways.via("a") is A


def test_a_neighbour_is_not_told_of_what_comes_by_it() -> None:
    ways: Ways[Neighbour] = Ways("b", {"b": ""})
    ways.told(A, {"a": Way(("a",))})
    assert ways.to_tell(A) == {"b": Way(("b",))}
    assert ways.to_tell(A, ["a"]) == {"a": NOWHERE}


def test_of_two_nodes_of_one_name_the_first_is_kept_to_while_it_is_told_of() -> None:
    ways: Ways[Neighbour] = Ways("b", {"b": ""}, instance="mine")
    first, other = Way(("p", "x", "a"), "1", "first"), Way(("p", "c"), "2", "other")
    assert ways.told(A, {"p": first}) == ["p"]
    assert ways.told(C, {"p": other}) == [], "though its way is shorter"
    assert ways.way("p") == Way(("p", "x", "a", "b"), "1", "first")
    assert ways.doubles() == {"p": {"first": ("p", "x", "a", "b"), "other": ("p", "c", "b")}}
    assert ways.told(A, {"p": NOWHERE}) == ["p"]
    assert ways.way("p").instance == "other"
    assert ways.doubles() == {}


def test_another_node_of_ones_own_name_is_noticed_and_never_taken() -> None:
    ways: Ways[Neighbour] = Ways("p", {"p": "1"}, instance="mine")
    assert ways.told(A, {"p": Way(("p", "a"), "2", "other"), "p~2": Way(("p", "a"))}) == []
    assert set(ways.streams) == {"p"}
    assert ways.doubles()["p"]["other"] == ("p", "a", "p")
    assert ways.told(A, {"p": Way(("p", "a"), "1", "mine"), "p~2": NOWHERE}) == []
    assert ways.doubles() == {}, "it is this node, told of by way of others"
