"""The tree of brokers that the REBECA experiments run on, and who is behind which link.

Clients are never at a router: they are at local brokers, each of which hangs off one router.

::

                 r0 ── l0                 one local broker at each inner router
             ┌───┼────────┐
            r1   r2       r3 ── l3
                      ┌───┼───┐
                     …    …  r12          two at each leaf router (here: of three levels)
                              ├── l21
                              └── l22
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tidings.simulation.topology import Topology, router_tree

ROOT: Final = "r0"


@dataclass(frozen=True)
class BrokerTree:
    """Routers on `levels` levels with `fan_out` children each, and their local brokers.

    >>> tree = BrokerTree()
    >>> len(tree.locals), len(tree.topology), len(tree.links)
    (67, 107, 106)
    """

    levels: int = 4
    fan_out: int = 3

    @cached_property
    def topology(self) -> Topology:
        return router_tree(self.levels, self.fan_out)

    @cached_property
    def locals(self) -> tuple[str, ...]:
        """The brokers that clients are at."""
        return tuple(node for node in self.topology.nodes if node.startswith("l"))

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Each link by its lower end."""
        return tuple(node for node in self.topology.nodes if node != ROOT)

    @cached_property
    def _ways(self) -> dict[str, tuple[str, ...]]:
        return {node: way[::-1] for node, way in self.topology.paths_from(ROOT).items()}

    def way_up(self, broker: str) -> tuple[str, ...]:
        """The broker, the router above it, and so on up to the root.

        >>> BrokerTree().way_up("l66")
        ('l66', 'r39', 'r12', 'r3', 'r0')
        """
        return self._ways[broker]

    def level(self, broker: str) -> int:
        """How many links are between a broker and the root."""
        return len(self._ways[broker]) - 1

    @cached_property
    def below(self) -> Counter[str]:
        """How many local brokers are in the part of the tree that begins at a broker."""
        return Counter(up for local in self.locals for up in self.way_up(local))

    def behind(self, toward: str | None = None) -> list[int]:
        """For each directed link that subscriptions cross: the local brokers they come from.

        Both directions of every link; or, given the broker that all notifications come from,
        only the direction that leads to it, as advertisements achieve.

        >>> tree = BrokerTree()
        >>> len(tree.behind()), len(tree.behind(toward=ROOT)), max(tree.behind())
        (212, 106, 66)
        """
        everywhere = len(self.locals)
        found: list[int] = []
        for lower in self.links:
            leads_up = toward is None or lower not in self.way_up(toward)
            if leads_up:
                found.append(self.below[lower])
            if toward is None or not leads_up:
                found.append(everywhere - self.below[lower])
        return found

    def distance(self, one: str, other: str) -> int:
        """How many links are between two brokers.

        >>> BrokerTree().distance("l65", "l66"), BrokerTree().distance("l0", "l3")
        (2, 3)
        """
        return len(set(self.way_up(one)) ^ set(self.way_up(other)))

    def subnet(self, broker: str) -> int | None:
        """Which of the root's parts a broker is in, from 0; None of the root and its local one.

        >>> BrokerTree().subnet("l66"), BrokerTree().subnet("l0")
        (2, None)
        """
        way = self.way_up(broker)
        part = way[-2] if len(way) > 1 else ROOT
        return int(part[1:]) - 1 if part.startswith("r") and part != ROOT else None
