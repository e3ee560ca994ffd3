"""The node: one broker as a pure state machine. Inputs and the time go in, effects come out.

No clock, no socket, no thread and no randomness live here: the broker on the network and the
simulator are hosts of the same class, and whatever happens to one can be replayed in the other.
"""

from tidings.node.node import Node
from tidings.node.settings import Settings

__all__ = ["Node", "Settings"]
