"""Processes: what the system says of one and of all that it has started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """One process, as it is now."""

    name: str
    parent: int
    seconds: float
    """Of processor time so far, also of children that have ended."""
    resident: int
    """Bytes in memory."""


def family(pid: int | None = None) -> dict[int, Process]:
    """A process, this one unless another is named, and all that it has started."""
    everybody: dict[int, Process] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError):  # it has ended
                everybody[int(path.name)] = _read(path / "stat")
    found = [os.getpid() if pid is None else pid]
    for member in found:  # grows meanwhile
        found += [child for child, about in everybody.items() if about.parent == member]
    return {member: everybody[member] for member in found if member in everybody}


def _read(stat: Path) -> Process:
    text = stat.read_text(encoding="ascii", errors="replace")
    name, _, rest = text.partition("(")[2].rpartition(") ")
    fields = rest.split()
    ticks = sum(map(int, fields[11:15]))
    return Process(name, int(fields[1]), ticks / _TICK, int(fields[21]) * _PAGE)


def used(pid: int | None = None) -> float:
    """Seconds of processor time so far, of a process and all that it has started.

    It only grows, so the greatest of some looks is right: one that ends while others are looked at
    is missing, and its parent does not count it yet.
    """
    uncounted = _uncounted.setdefault(os.getpid() if pid is None else pid, {})
    return max(_used(family(pid), uncounted) for _ in range(3))


_uncounted: dict[int, dict[int, float]] = {}
"""Of each that was asked about, what was last seen of those of its family whose parent will never
count them: Spark's Python."""


def _used(members: dict[int, Process], uncounted: dict[int, float]) -> float:
    for pid, member in members.items():
        if _ignores_children(member.parent):
            uncounted[pid] = member.seconds
    gone = uncounted.keys() - members.keys()
    return sum(m.seconds for m in members.values()) + sum(uncounted[pid] for pid in gone)


def _ignores_children(pid: int) -> bool:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1)
    return False
