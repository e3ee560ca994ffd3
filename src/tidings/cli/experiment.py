"""`tidings experiment`: what the papers measured, measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tidings.cli.complaints import remark
from tidings.cli.progress import bars
from tidings.cli.terminal import output
from tidings.experiments import EXPERIMENTS, Experiment, Outcome, conduct
from tidings.experiments.report import rows, tally

_WIDEST = 120
_ALWAYS = ("measured", "expected", "verdict")
_NUMBERS = ("measured", "runs", "expected")
_COLOURS = {"agrees": "green", "differs": "bold red", "undecided": "yellow", "—": "bright_black"}


def list_experiments(console: Console) -> None:
    """One line for each experiment."""
    widest = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        console.print(f"{name:{widest}}  {experiment.title}")
    remark("\nrun one: tidings experiment NAME")


def run_experiment(
    experiment: Experiment[Any],
    out: Path,
    *,
    full: bool,
    runs: int | None,
    master: str,
    traces: bool,
) -> None:
    """Conduct an experiment; print what came out and which files tell it."""
    with _bar(experiment.name) as begun:
        outcome = conduct(
            experiment, out, full=full, runs=runs, master=master, traces=traces, begun=begun
        )
    show(experiment, outcome, output())
    for path in outcome.files:
        output().print(str(path))


def show(experiment: Experiment[Any], outcome: Outcome, console: Console) -> None:
    """Everything that came out as tables; what is the same in all rows is said once."""
    header, found = rows(outcome.comparisons)
    columns = dict(zip(header, zip(*found, strict=True), strict=True))
    same = {name: cells[0] for name, cells in columns.items() if len({*cells}) == 1}
    shown = [name for name in header if name not in same or name in _ALWAYS]
    table = Table(
        title=f"{experiment.title}\n{experiment.source}",
        title_justify="left",
        caption=", ".join(f"{name}: {same[name]}" for name in same if name not in _ALWAYS) or None,
        caption_justify="left",
        box=SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in shown:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for at in range(len(found)):
        cells = [columns[name][at] for name in shown]
        table.add_row(*map(Text, cells[:-1]), Text(cells[-1], style=_COLOURS[cells[-1]]))
    console.width = max(console.width, _WIDEST)  # rather a wrapped line than a cut figure
    console.print(table)
    for finding in outcome.findings:
        verdict = finding.verdict.value
        console.print(Text.assemble((f"{verdict}: ", _COLOURS[verdict]), finding.claim))
        console.print(Text(f"  {finding.evidence}", style="bright_black"))
    console.print(tally(outcome.comparisons, outcome.findings))


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Shows how many measurements are done, on stderr, if somebody is looking."""
    with bars(MofNCompleteColumn(), TimeElapsedColumn()) as shown:
        if shown is None:
            yield lambda total: lambda count: None
            return
        bar = shown.add_task("starting Spark", total=None)

        def begun(total: int) -> Callable[[int], None]:
            shown.update(bar, description=name, total=total)
            return lambda count: shown.update(bar, completed=count)

        yield begun
