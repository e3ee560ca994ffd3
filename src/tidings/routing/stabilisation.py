"""Stabilisation: how two ends of a link find out that they differ, and mend it.

    sender ── Check(digest) ─────────▶ receiver    equal: nothing more is said
    sender ◀─ Differ(bucket digests) ─ receiver    else: which part?
    sender ── Repair(those buckets) ─▶ receiver    only the parts that differ

A link keeps order, so each comparison is between what was told and what has come of it, whatever
else is under way.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.events import Filter
from tidings.protocol.digest import buckets, digest, fineness, part
from tidings.protocol.messages import Check, Differ, Repair, View


def check(table: int, view: View, told: Mapping[Filter, int]) -> Check:
    """Ask whether the other end holds what it was told."""
    return Check(table, view, digest(told))


def compare(message: Check, view: View, held: Mapping[Filter, int]) -> Differ | None:
    """What to answer: nothing if it does."""
    if digest(held) == message.digest:
        return None
    return Differ(message.table, view, buckets(held, fineness(held)))


def repair(message: Differ, view: View, told: Mapping[Filter, int]) -> Repair:
    """The content of the buckets that differ, as they are now."""
    number = len(message.buckets)
    mine = buckets(told, number)
    which = tuple(n for n in range(number) if mine[n] != message.buckets[n])
    return Repair(message.table, view, number, which, part(told, number, which))


def repaired(message: Repair, held: Mapping[Filter, int]) -> dict[Filter, int]:
    """What to hold from now on."""
    wrong = part(held, message.buckets, message.which)
    return {f: n for f, n in held.items() if f not in wrong} | message.content
