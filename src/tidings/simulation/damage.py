"""Damage: what a broken memory might do to a node's tables."""

from __future__ import annotations

from random import Random

from tidings.events import Filter
from tidings.node import Node


def damage(node: Node, random: Random) -> None:
    """Put in what nobody wants and lose what somebody wants, so that nothing computed fits."""
    for tables in (node.subscriptions, node.advertisements):
        if tables is None:
            continue
        for table in tables.wanted.values():
            for filter_ in [f for f in table if random.random() < 0.5]:
                del table[filter_]
            if random.random() < 0.5:
                table[_junk(random)] = random.randint(1, 3)


def _junk(random: Random) -> Filter:
    return Filter.parse(f"x = {random.randint(0, 9)} AND junk = {random.randint(0, 99)}")
