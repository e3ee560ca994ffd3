"""The overlay: whom a node talks to, how a conversation is kept, and which links form the tree.

A node knows its overlay by one small protocol, `Trees`, of which there are two so far: `Fixed`
links and a `Tree` that nodes agree on. What travels over the links is no concern of this room.
"""

from tidings.overlay.link import Link
from tidings.overlay.tree import Tree
from tidings.overlay.trees import Fixed, Join, Leave, Meet, Move, Quit, Role, Say, Trees

__all__ = ["Fixed", "Join", "Leave", "Link", "Meet", "Move", "Quit", "Role", "Say", "Tree", "Trees"]
