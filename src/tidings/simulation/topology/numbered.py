"""Numbered brokers: b0, b1, b2 and so on, which the generators join to networks."""

from __future__ import annotations

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
