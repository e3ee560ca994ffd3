"""How fast texts become canonical filters, and whether that stays so after a million of them."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from lark import Lark

from bench.memory import resident
from bench.report import Target, console, save, short, show, show_targets
from tidings import Filter
from tidings.events import language
from tidings.workloads import WORKLOADS

_MORE = 2_000


def run(*, quick: bool, out: Path) -> int:
    console.rule("filters: from text to canonical form, on one core")
    warm_up = 1_000
    sample = 2_000 if quick else 20_000
    texts = {name: [*make().texts(warm_up + sample)] for name, make in WORKLOADS.items()}
    texts["all mixed"] = [*_mixed(warm_up + sample)]
    lark = Lark((Path(language.__file__).parent / "filters.lark").read_text(), parser="lalr")

    speeds: dict[str, dict[str, float]] = {}
    for name, lines in texts.items():
        _speed(Filter.parse, lines[:warm_up])
        speeds[name] = {
            "tidings": _speed(Filter.parse, lines[warm_up:]),
            "lark alone": _speed(lark.parse, lines[: sample // 10]),
        }
    show(
        f"Filters per second ({sample:,} texts each; lark alone builds a tree and no filter)",
        ["workload", "tidings", "lark alone", "ratio", "characters"],
        [
            [
                name,
                short(speed["tidings"]),
                short(speed["lark alone"]),
                f"{speed['tidings'] / speed['lark alone']:.1f}×",
                f"{sum(map(len, texts[name])) / len(texts[name]):.0f}",
            ]
            for name, speed in speeds.items()
        ],
    )

    total = 40_000 if quick else 1_000_000
    first, last, grown, traced = _endurance(total)
    console.print(
        f"After {total:,} filters: {short(last)}/s, at the start {short(first)}/s; "
        f"the process grew by {grown / 2**20:.1f} MiB, "
        f"and {_MORE:,} filters more leave {traced / 1024:.1f} KiB behind."
    )
    targets = [
        Target("filters/s, all mixed", speeds["all mixed"]["tidings"], 20_000, "/s"),
        Target(
            f"speed after {short(total)} filters, of that at the start",
            last / first,
            0.95,
            "×",
            note="0.05 for noise",
        ),
        Target(f"growth over {short(total)} filters", grown / 2**20, 8, " MiB", at_most=True),
    ]
    show_targets(targets)
    data = {"speeds": speeds, "endurance": [total, first, last, grown, traced]}
    save(out, "filters", data, targets)
    return 0


def _mixed(n: int) -> Iterator[str]:
    """All workloads in turn."""
    streams = [make().texts(n) for make in WORKLOADS.values()]
    return islice((text for row in zip(*streams, strict=True) for text in row), n)


def _speed(parse: Callable[[str], object], texts: list[str]) -> float:
    """Texts per second of processor time, the best of three thirds: others use the machine too."""
    best = 0.0
    for third in (texts[0::3], texts[1::3], texts[2::3]):
        start = time.process_time()
        for text in third:
            parse(text)
        best = max(best, len(third) / (time.process_time() - start))
    return best


def _endurance(total: int) -> tuple[float, float, int, int]:
    """Speed at the start and after `total` filters that nobody keeps; what the process grew by;
    and what some more of them leave behind."""
    sample = [*_mixed(max(2 * _MORE, total // 20))]
    _consume(sample[:1000])
    first = max(_speed(Filter.parse, sample) for _ in range(4))  # one alone varies by a tenth
    gc.collect()
    before = resident()
    _consume(_mixed(total))
    gc.collect()
    grown = resident() - before
    last = max(_speed(Filter.parse, sample) for _ in range(4))
    tracemalloc.start()
    _consume(sample[:_MORE])
    gc.collect()
    traced, _ = tracemalloc.get_traced_memory()
    _consume(sample[_MORE : 2 * _MORE])
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    return first, last, grown, traced


def _consume(texts: Iterable[str]) -> None:
    for text in texts:
        Filter.parse(text)
