"""A neighbour is a node on one lane: what is kept of it on another lane is another one's."""

from __future__ import annotations

from tidings.delivery.ways import Ways
from tidings.events import Filter
from tidings.node.ports import Neighbour
from tidings.overlay import Link
from tidings.protocol.messages import Way
from tidings.routing.tables import Tables


def test_one_node_on_two_lanes_is_two_neighbours() -> None:
    link = Link(1, pause=1.0, delay=1.0)
    near, again = (Neighbour("rome", 1, "peer", link, lane=lane) for lane in (0, 1))
    ways = Ways[Neighbour]("paris", {"paris": ""})
    ways.told(near, {"rome": Way(("rome",))})
    ways.told(again, {"oslo": Way(("oslo", "rome"))})
    assert (ways.via("rome"), ways.via("oslo")) == (near, again)
    assert ways.lost(near) == ["rome"]
    tables = Tables[Neighbour]()
    for each in (near, again):
        tables.open(each, "covering")
    tables.change(near, {Filter.all(): 1})
    assert dict(tables.told(again)) == {Filter.all(): 1}
    assert not tables.told(near)
    near.joined, near.told = 1, again.told
    assert (near.view, again.view) == ((1, 0), (0, 0))
