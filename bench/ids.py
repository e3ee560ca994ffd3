"""What it takes to remember the ids of a million publications: `python -m bench.ids`."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from tidings.delivery.ids import Ids, Place, digest_of

COUNT = 1_000_000
TOGETHER = 100


def memory() -> int:
    """The bytes that this process has."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def main() -> None:
    """Remember them, and find some."""
    ids, before, began = Ids(), memory(), perf_counter()
    for tick in range(0, COUNT, TOGETHER):
        some = range(tick, tick + TOGETHER)
        ids.keep("desk", [(digest_of(f"{n}"), Place("paris", n + 1, 1.0)) for n in some], hour=0)
    seconds = perf_counter() - began
    print(f"{(memory() - before) / COUNT:.0f} bytes of memory for an id")
    print(f"{seconds / COUNT * 1e6:.1f} µs to remember one")
    began = perf_counter()
    for n in range(0, COUNT, 100):
        assert ids.find("desk", digest_of(f"{n}")) is not None
    print(f"{(perf_counter() - began) / (COUNT // 100) * 1e6:.1f} µs to find one")


if __name__ == "__main__":
    main()
