"""Shapes without chance, from one broker alone to a tree of routers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tidings.events.errors import TidingsError
from tidings.simulation.topology.network import Link, Topology


def numbered(nodes: int) -> tuple[str, ...]:
    """The names of this number of brokers.

    >>> numbered(3)
    ('b0', 'b1', 'b2')
    """
    return tuple(f"b{i}" for i in range(nodes))


def joined(
    nodes: int,
    pairs: Iterable[tuple[int, int]],
    latency: float,
    cost: float,
    places: list[tuple[float, float]] | None = None,
) -> Topology:
    """Numbered brokers and links between these pairs, which all have this latency and cost."""
    names = numbered(nodes)
    links = tuple(Link(names[i], names[j], latency, cost) for i, j in pairs)
    positions = None if places is None else dict(zip(names, places, strict=True))
    return Topology(names, links, positions=positions)


def at_least(least: int, **parameters: int) -> None:
    """Refuse parameters that are less than this, by name."""
    for name, value in parameters.items():
        if value < least:
            raise TidingsError(f"{name} must be at least {least}, not {value}")


def single() -> Topology:
    """One broker alone: the centralised service."""
    return Topology(numbered(1), ())


def line(nodes: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """Brokers in a row: b0 – b1 – b2 – …"""
    at_least(1, nodes=nodes)
    return joined(nodes, ((i, i + 1) for i in range(nodes - 1)), latency, cost)


def star(nodes: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """All brokers around b0, which is one of the `nodes`."""
    at_least(1, nodes=nodes)
    return joined(nodes, ((0, i) for i in range(1, nodes)), latency, cost)


def ring(nodes: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """Brokers in a circle, at least three."""
    at_least(3, nodes=nodes)
    places = [_on_circle(i / nodes) for i in range(nodes)]
    return joined(nodes, ((i, (i + 1) % nodes) for i in range(nodes)), latency, cost, places)


def grid(width: int, height: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """Brokers in rows and columns, each linked with those beside, above and below it.

    >>> grid(3, 2).neighbours("b1")
    ('b0', 'b2', 'b4')
    """
    at_least(1, width=width, height=height)
    places = [(float(x), float(y)) for y in range(height) for x in range(width)]
    right = [(i, i + 1) for i in range(width * height) if (i + 1) % width]
    down = [(i, i + width) for i in range(width * (height - 1))]
    return joined(width * height, sorted(right + down), latency, cost, places)


def balanced(fanout: int, depth: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """A tree in which every broker fewer than `depth` links from b0 has `fanout` more below it.

    >>> len(balanced(fanout=2, depth=3)), balanced(fanout=2, depth=3).neighbours("b1")
    (15, ('b0', 'b3', 'b4'))
    """
    at_least(1, fanout=fanout)
    at_least(0, depth=depth)
    nodes = sum(fanout**level for level in range(depth + 1))
    return joined(nodes, (((i - 1) // fanout, i) for i in range(1, nodes)), latency, cost)


def router_tree(
    levels: int = 4, fanout: int = 3, *, latency: float = 0.01, cost: float = 1.0
) -> Topology:
    """A tree of routers r0, r1, … with local brokers l0, l1, … hanging on them.

    One local broker hangs on each router that has routers below it, and two on each other. With
    four levels and three routers below each this is the network on which Rebeca was evaluated.

    >>> network = router_tree()
    >>> len(network), network.neighbours("r0"), network.neighbours("r39")
    (107, ('r1', 'r2', 'r3', 'l0'), ('r12', 'l65', 'l66'))
    """
    at_least(1, levels=levels, fanout=fanout)
    routers = [f"r{i}" for i in range(sum(fanout**level for level in range(levels)))]
    inner = len(routers) - fanout ** (levels - 1)
    links = [
        Link(routers[(i - 1) // fanout], routers[i], latency, cost) for i in range(1, len(routers))
    ]
    hosts = [router for i, router in enumerate(routers) for _ in range(1 if i < inner else 2)]
    links += [Link(router, f"l{i}", latency, cost) for i, router in enumerate(hosts)]
    return Topology((*routers, *(f"l{i}" for i in range(len(hosts)))), tuple(links))


def _on_circle(turn: float) -> tuple[float, float]:
    """A point of a circle, clockwise from the top; rounded, as machines differ in a sine's end."""
    angle = 2 * math.pi * turn
    return round(math.sin(angle), 6), round(-math.cos(angle), 6)
