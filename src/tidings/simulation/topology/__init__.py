"""Topologies: which brokers there are, which links join them, and how slow and dear each link is.

Here are the network itself, a connected graph that cannot change, and generators of the shapes
that experiments with brokers use, from one broker alone to models of the internet. Equal arguments
give equal topologies on every machine, and a seed keeps its meaning from version to version. Pure:
nothing here knows of nodes, messages or time beyond the numbers on a link.
"""

from tidings.simulation.topology.catalogue import GENERATORS, topology
from tidings.simulation.topology.network import Link, Topology, hierarchical
from tidings.simulation.topology.random_shapes import (
    preferential,
    random_graph,
    random_tree,
    transit_stub,
    waxman,
)
from tidings.simulation.topology.shapes import balanced, grid, line, ring, router_tree, single, star

__all__ = [
    "GENERATORS",
    "Link",
    "Topology",
    "balanced",
    "grid",
    "hierarchical",
    "line",
    "preferential",
    "random_graph",
    "random_tree",
    "ring",
    "router_tree",
    "single",
    "star",
    "topology",
    "transit_stub",
    "waxman",
]
