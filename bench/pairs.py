"""`python -m bench.pairs OTHER [NAME …] [--pairs 5] [--quick]`: what is slower here than there?

Runs benchmarks in turns, in this checkout and in another one, each by its own `.venv` and its own
`bench`. Machines get faster and slower by the minute, so only two runs that follow each other are
compared: a pair gives a ratio for each figure, and who goes first alternates. A figure is slower
if nearly all pairs say so (a sign test) and the median says that somebody would notice.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import console, short, show

HERE = Path(__file__).parent.parent
_NOTICED = 0.02
"""By what share a figure has to change before it is worth a word."""
_CHANCE = 1 / 16
"""How often a figure that has not changed may look so: five pairs of five are just enough."""

Costs = Mapping[str, float]
"""Figures of one run of a benchmark, by name, in seconds: less is better."""


def _routing(data: Any) -> Iterator[tuple[str, float]]:
    for workload, strategies in data["costs"].items():
        for strategy, costs in strategies.items():
            for held, fill, _, mean, *_ in costs:
                yield f"{workload}, {strategy}, {short(held)}: fill", fill
                yield f"{workload}, {strategy}, {short(held)}: change", mean


def _simulation(data: Any) -> Iterator[tuple[str, float]]:
    return ((f"{name}: message", 1 / rate) for name, rate in data["rates"].items())


def _throughput(data: Any) -> Iterator[tuple[str, float]]:
    for kind in ("live", "durable"):
        run = data[kind]["run"]
        yield f"{kind}: event", run["seconds"] / run["events"]
        yield f"{kind}: event, CPU", run["broker"] / run["events"]
        for frame, rate in data[kind]["by_frame"].items():
            yield f"{kind}: event, of {frame} in a frame", 1 / rate


def _latency(data: Any) -> Iterator[tuple[str, float]]:
    for hops, found in data["latencies"].items():
        for what in ("delivery", "covered", "distinct"):
            yield f"{hops} hops: {what}", found[what]["p50"] / 1e3


def _subscriptions(data: Any) -> Iterator[tuple[str, float]]:
    for cost in data["costs"]:
        for what in ("cpu", "subscribing"):
            yield f"{short(cost['subscriptions'])}: {what}", cost[what]


COSTS: dict[str, Callable[[Any], Iterator[tuple[str, float]]]] = {
    "routing": _routing,
    "simulation": _simulation,
    "throughput": _throughput,
    "latency": _latency,
    "subscriptions": _subscriptions,
}


def verdict(ratios: list[float]) -> str:
    """Of what a figure costs here by what it costs there, one ratio for each pair."""
    more = sum(ratio > 1 for ratio in ratios)
    agree = max(more, len(ratios) - more)
    ways = sum(comb(len(ratios), number) for number in range(agree, len(ratios) + 1))
    middle = median(ratios)
    if 2 * ways / 2 ** len(ratios) > _CHANCE or abs(middle - 1) < _NOTICED:
        return "noise"
    return "slower" if middle > 1 else "faster"


def rows(pairs: list[tuple[Costs, Costs]]) -> Iterator[list[str]]:
    """A line for each figure that every run has; of a pair, the first run is this checkout's."""
    for name in pairs[0][0]:
        if all(name in here and there.get(name) for here, there in pairs):
            ratios = [here[name] / there[name] for here, there in pairs]
            now = median(here[name] for here, _ in pairs)
            before = median(there[name] for _, there in pairs)
            spread = f"{min(ratios):.3f} … {max(ratios):.3f}"
            middle = f"{median(ratios):.3f}"
            yield [name, short(before), short(now), middle, spread, verdict(ratios)]


def _run(checkout: Path, name: str, *, quick: bool) -> Costs:
    with tempfile.TemporaryDirectory() as out:
        command = [checkout / ".venv/bin/python", "-m", "bench", name, "--out", out]
        command += ["--quick"] if quick else []
        began = time.monotonic()
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name} in {checkout}: {done.stdout}{done.stderr}")
        console.print(f"{name} in {checkout}: {time.monotonic() - began:.0f} s")
        data = json.loads(Path(out, f"{name}.json").read_text(encoding="utf-8"))
    return dict(COSTS[name](data))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout of tidings, with its .venv")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COSTS)}")
    parser.add_argument("--pairs", type=int, default=5, help="how many; fewer than 5 prove nothing")
    parser.add_argument("--quick", action="store_true", help="small sizes, few events")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - COSTS.keys():
        parser.error(f"nothing is known of {', '.join(unknown)}, only of {', '.join(COSTS)}")
    checkouts = [HERE, arguments.other.absolute()]
    for name in arguments.names or COSTS:
        pairs = []
        for number in range(arguments.pairs):
            turns = checkouts if number % 2 else checkouts[::-1]
            costs = {turn: _run(turn, name, quick=arguments.quick) for turn in turns}
            pairs.append((costs[checkouts[0]], costs[checkouts[1]]))
        title = f"{name}: {arguments.pairs} pairs; seconds there, here, and the ratio"
        show(title, ["", "there", "here", "ratio", "from … to", "verdict"], rows(pairs))


if __name__ == "__main__":
    main()
