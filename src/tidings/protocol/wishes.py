"""Wishes: what a client wants and advertises, as tables and as a digest."""

from __future__ import annotations

from collections.abc import Mapping

from tidings.events import Filter
from tidings.protocol.digest import digest


def count(filters: Mapping[str, Filter]) -> dict[Filter, int]:
    """A table of what is there under several ids."""
    table: dict[Filter, int] = {}
    for each in filters.values():
        table[each] = table.get(each, 0) + 1
    return table


def summary(subscriptions: Mapping[str, Filter], advertisements: Mapping[str, Filter]) -> int:
    """A digest by which client and node find out whether they mean the same session."""
    return digest(count(subscriptions)) ^ (digest(count(advertisements)) * 3 & (1 << 64) - 1)
