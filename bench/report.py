"""The report: tables in the terminal, figures and plots in a directory."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True)
class Target:
    """Something promised, and what was measured of it; None if this run did not measure it."""

    what: str
    measured: float | None
    wanted: float
    unit: str = ""
    at_most: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        met = self.measured <= self.wanted if self.at_most else self.measured >= self.wanted
        return "met" if met else "missed"


def show_targets(targets: Iterable[Target]) -> None:
    table = Table("target", "wanted", "measured", "verdict", "", title="Targets")
    for target in targets:
        verdict = target.verdict
        colour = {"met": "green", "missed": "bold red"}.get(verdict, "yellow")
        table.add_row(
            target.what,
            f"{'≤' if target.at_most else '≥'} {short(target.wanted)}{target.unit}",
            "—" if target.measured is None else f"{short(target.measured)}{target.unit}",
            f"[{colour}]{verdict}",
            target.note,
        )
    console.print(table)


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose first column holds names and the others numbers."""
    table = Table(title=title)
    for at, name in enumerate(header):
        table.add_column(name, justify="left" if at == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def short(number: float) -> str:
    """Three digits are enough of any figure.

    >>> short(1234567), short(20_000), short(0.123456), short(7)
    ('1.23M', '20k', '0.123', '7')
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.9995 * unit:
            return f"{number / unit:#.3g}".rstrip("0").rstrip(".") + letter
    return f"{number:.3g}"


def save(out: Path, name: str, data: Mapping[str, Any], targets: Sequence[Target]) -> None:
    """Write the figures as JSON, with what they were measured on."""
    out.mkdir(parents=True, exist_ok=True)
    verdicts = [{**asdict(target), "verdict": target.verdict} for target in targets]
    whole = {"machine": _machine(), **data, "targets": verdicts}
    (out / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def _machine() -> dict[str, Any]:
    packages = [
        "numpy",
        "numba",
        "pyarrow",
        "lark",
        "duckdb",
        "clipspy",
        "hyperscan",
        "rule-engine",
    ]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


Curves = Mapping[str, Mapping[str, Mapping[int, float]]]
"""For each workload, for each engine: events per second by number of filters."""


def plot(out: Path, curves: Curves) -> list[Path]:
    """Events per second against number of filters, one panel for each workload."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    engines = list(dict.fromkeys(engine for lines in curves.values() for engine in lines))
    colours = dict(zip(engines, pyplot.get_cmap("tab10").colors, strict=False))
    across = min(3, len(curves) + 1)
    down = -(-(len(curves) + 1) // across)
    figure, panels = pyplot.subplots(down, across, figsize=(4.2 * across, 3.4 * down), sharex=True)
    panels = list(panels.flat)
    handles: dict[str, Any] = {}
    for panel, (workload, lines) in zip(panels, curves.items(), strict=False):
        for engine, points in lines.items():
            ours = engine.startswith("tidings")
            (handles[engine],) = panel.loglog(
                list(points),
                list(points.values()),
                marker="o" if ours else ".",
                linewidth=2.4 if ours else 1.2,
                linestyle="--" if "1 thread" in engine else "-",
                color=colours[engine],
                label=engine,
            )
        panel.set_title(workload)
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.set_xlabel("filters")
        panel.set_ylabel("events / s")
    for panel in panels[len(curves) :]:
        panel.axis("off")
    ordered = {engine: handles[engine] for engine in engines if engine in handles}
    panels[len(curves)].legend(ordered.values(), ordered.keys(), loc="center", frameon=False)
    figure.tight_layout()
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "matching.svg", out / "matching.png"]
    for path in paths:
        figure.savefig(path, dpi=140)
    pyplot.close(figure)
    return paths
