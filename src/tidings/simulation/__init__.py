"""The simulation: a host of nodes in virtual time that can break anything.

It runs the same `Node` as the broker does, with links, stores and clients that fail when and how
a scenario says, and checks what must hold at every step. Nothing here looks at a clock or at
chance outside the seed it was given.
"""

from tidings.simulation.clients import Client
from tidings.simulation.simulation import Conditions, Simulation
from tidings.simulation.topology import Link, Topology
from tidings.simulation.trace import Traffic

__all__ = ["Client", "Conditions", "Link", "Simulation", "Topology", "Traffic"]
