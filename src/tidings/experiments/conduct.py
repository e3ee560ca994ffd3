"""Conducting an experiment: from its points to its report, with Spark in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidings.experiments.compare import Comparison, Expected, Finding, Summary, compare
from tidings.experiments.experiment import Experiment, P, Results, repeated
from tidings.experiments.report import markdown
from tidings.experiments.sweep import QUANTITIES


@dataclass(frozen=True)
class Outcome:
    """What an experiment yielded, and the files that tell it."""

    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    files: tuple[Path, ...]


def conduct(
    experiment: Experiment[P],
    out: Path,
    *,
    full: bool = False,
    runs: int | None = None,
    master: str = "local[*]",
    traces: bool = False,
    begun: Callable[[int], Callable[[int], None]] = lambda total: lambda count: None,
) -> Outcome:
    """Measure all points on Spark, compare, and write measurements, plots and report to `out`.

    With `traces`, all that travelled in the simulations is kept in `out`, and what Spark finds
    there is reported, too.

    `begun` is told how many measurements there are once Spark is ready, and returns what is told
    how many of them have finished. If one fails, `ExperimentError` names it, after the
    measurements of the others and the whole tracebacks have been written.
    """
    import pyarrow.parquet as parquet

    from tidings.experiments.plots import draw
    from tidings.experiments.sweep import summarise, sweep
    from tidings.spark.sessions import session_for_python

    points = repeated(experiment.points(full=full), experiment.runs if runs is None else runs)
    out.mkdir(parents=True, exist_ok=True)
    with session_for_python(f"tidings {experiment.name}", master=master) as spark:
        folder = _emptied(out / "traces") if traces else None
        swept = sweep(experiment, points, spark, begun(len(points)), traces=folder)
        measured = out / "measurements.parquet"
        parquet.write_table(swept.measurements, measured)
        failures = out / "failures.txt"
        failures.unlink(missing_ok=True)
        if (error := swept.error()) is not None:
            failures.write_text(error.details, encoding="utf-8")
            raise error
        summaries = summarise(swept.measurements, spark)
    comparisons = [compare(s, _expected(experiment, points, s)) for s in summaries]
    findings = list(experiment.findings(Results(summaries)))
    plots = draw(experiment, points, summaries, out)
    report = out / "report.md"
    report.write_text(
        markdown(
            experiment,
            comparisons,
            findings,
            command=_command(experiment.name, full=full, runs=runs, traces=traces),
            quantities={**experiment.quantities, **(QUANTITIES if traces else {})},
            picture=plots[0].name if plots else None,
        ),
        encoding="utf-8",
    )
    return Outcome(tuple(comparisons), tuple(findings), (report, *plots, measured))


def _expected(experiment: Experiment[P], points: list[P], summary: Summary) -> Expected | None:
    """What was expected of a summary: what is expected of a point with its parameters."""
    if summary.quantity not in experiment.quantities:
        return None  # it is from the traces
    given = summary.parameters
    point = next(
        p for p in points if all(getattr(p, name) == value for name, value in given.items())
    )
    return experiment.expected(point, summary.quantity)


def _emptied(folder: Path) -> Path:
    """A folder without the traces of an earlier time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder.absolute()


def _command(name: str, *, full: bool, runs: int | None, traces: bool) -> str:
    options = [
        *(["--full"] if full else []),
        *([] if runs is None else [f"--runs {runs}"]),
        *(["--traces"] if traces else []),
    ]
    return " ".join([f"tidings experiment {name}", *options])
