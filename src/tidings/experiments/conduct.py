"""Conducting an experiment: from its points to its report, with Spark in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidings.experiments.compare import Comparison, Expected, Finding, Summary, compare
from tidings.experiments.experiment import Experiment, P, Results, repeated
from tidings.experiments.report import markdown


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
    begun: Callable[[int], Callable[[int], None]] = lambda total: lambda count: None,
) -> Outcome:
    """Measure all points on Spark, compare, and write measurements, plots and report to `out`.

    `begun` is told how many measurements there are once Spark is ready, and returns what is told
    how many of them have finished. If one fails, `ExperimentError` names it, after the
    measurements of the others and the whole tracebacks have been written.
    """
    import pyarrow.parquet as parquet

    from tidings.experiments.plots import draw
    from tidings.experiments.sweep import summarise, sweep
    from tidings.spark import session

    points = repeated(experiment.points(full=full), experiment.runs if runs is None else runs)
    out.mkdir(parents=True, exist_ok=True)
    with session(f"tidings {experiment.name}", master=master, work_is_in_python=True) as spark:
        swept = sweep(experiment, points, spark, begun(len(points)))
        measured = out / "measurements.parquet"
        parquet.write_table(swept.measurements, measured)
        traces = out / "failures.txt"
        traces.unlink(missing_ok=True)
        if (error := swept.error()) is not None:
            traces.write_text(error.details, encoding="utf-8")
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
            command=_command(experiment.name, full=full, runs=runs),
            picture=plots[0].name if plots else None,
        ),
        encoding="utf-8",
    )
    return Outcome(tuple(comparisons), tuple(findings), (report, *plots, measured))


def _expected(experiment: Experiment[P], points: list[P], summary: Summary) -> Expected | None:
    """What was expected of a summary: what is expected of a point with its parameters."""
    given = summary.parameters
    point = next(
        p for p in points if all(getattr(p, name) == value for name, value in given.items())
    )
    return experiment.expected(point, summary.quantity)


def _command(name: str, *, full: bool, runs: int | None) -> str:
    return f"tidings experiment {name}{' --full' if full else ''}" + (
        "" if runs is None else f" --runs {runs}"
    )
