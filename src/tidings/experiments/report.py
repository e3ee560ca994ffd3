"""The report of an experiment: everything that came out beside what was expected, in Markdown."""

from __future__ import annotations

import inspect
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from tidings.experiments.compare import Comparison, Finding, Verdict, student_bound
from tidings.experiments.experiment import Experiment


def figure(number: float) -> str:
    """A figure with the digits that matter.

    >>> figure(136898.2), figure(106.0), figure(3.7313432), figure(0.04812)
    ('136,898', '106', '3.73', '0.0481')
    """
    if abs(number) >= 1000 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.3g}"


def with_error(comparison: Comparison) -> str:
    """A mean, and the standard error of it."""
    error = comparison.summary.error
    mean = figure(comparison.summary.mean)
    return mean if not error else f"{mean} ± {float(f'{error:.2g}'):,.6g}"


def verdict_of(comparison: Comparison) -> str:
    """What the table says of a comparison."""
    return "—" if comparison.verdict is None else comparison.verdict.value


def rows(comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    """A header, and a row for each comparison."""
    names = list(comparisons[0].summary.parameters) if comparisons else []
    header = [*names, "quantity", "measured", "runs", "expected", "verdict"]
    return header, [
        [
            *(_cell(comparison.summary.parameters[name]) for name in names),
            comparison.summary.quantity,
            with_error(comparison),
            str(comparison.summary.runs),
            "—" if comparison.expected is None else figure(comparison.expected.value),
            verdict_of(comparison),
        ]
        for comparison in comparisons
    ]


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return figure(value) if isinstance(value, int | float) else str(value)


def tally(comparisons: Sequence[Comparison], findings: Sequence[Finding]) -> str:
    """How much agrees, in one line."""
    counts = Counter(c.verdict for c in comparisons if c.verdict is not None)
    parts = []
    if counts:
        parts.append(
            f"{counts[Verdict.AGREES]} of {counts.total()} expected figures agree"
            + "".join(
                f", {counts[verdict]} {word}"
                for verdict, word in ((Verdict.DIFFERS, "differ"), (Verdict.UNDECIDED, "undecided"))
                if counts[verdict]
            )
        )
    if findings:
        held = sum(finding.verdict is Verdict.AGREES for finding in findings)
        parts.append(f"{held} of {len(findings)} findings in words agree")
    return "; ".join(parts) or "there is nothing to compare with"


def markdown(
    experiment: Experiment[Any],
    comparisons: Sequence[Comparison],
    findings: Sequence[Finding],
    *,
    command: str,
    picture: str | None,
    quantities: Mapping[str, str] | None = None,
) -> str:
    """The whole report."""
    return "\n".join(
        [
            f"# {experiment.title}",
            "",
            f"*{experiment.source}*",
            "",
            inspect.cleandoc(experiment.__doc__ or ""),
            "",
            f"Printed by `{command}` with {_versions()}.",
            "",
            f"**{tally(comparisons, findings)[:1].upper()}{tally(comparisons, findings)[1:]}.**",
            "",
            *([f"![{experiment.title}]({picture})", ""] if picture else []),
            *_findings(findings),
            *_figures(quantities or experiment.quantities, comparisons),
            *_sources(comparisons),
        ]
    )


def _versions() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("tidings", "pyspark", "numpy"))
    return f"Python {platform.python_version()}, {packages}"


def _findings(findings: Sequence[Finding]) -> Iterable[str]:
    if not findings:
        return
    yield "## What the paper says in words"
    yield ""
    for finding in findings:
        said = f"{finding.claim} ({finding.source})"
        yield f"- **{finding.verdict.value}**: {said}. Ours: {finding.evidence}."
        if finding.verdict is Verdict.DIFFERS and finding.why_not:
            yield f"  {finding.why_not}"
    yield ""


def _figures(quantities: Mapping[str, str], comparisons: Sequence[Comparison]) -> Iterable[str]:
    yield "## Figures"
    yield ""
    for name, meaning in quantities.items():
        yield f"- *{name}*: {meaning}"
    yield ""
    yield (
        "± is the standard error of the mean. A figure *agrees* if it is not further from what was"
        " expected than chance and rounding explain: as many standard errors as Student's"
        " distribution allows a right figure in 99.7 % of cases" + _allowed(comparisons)
    )
    yield ""
    header, found = rows(comparisons)
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in found:
        yield f"| {' | '.join(row)} |"
    yield ""


def _allowed(comparisons: Sequence[Comparison]) -> str:
    """How many standard errors that is; with very few runs, so many that nearly all agrees."""
    counts = sorted({comparison.summary.runs for comparison in comparisons})
    told = ", ".join(f"{student_bound(n):.1f} for {n} runs" for n in counts if n > 1)
    return f" ({told})." if told else "."


def _sources(comparisons: Sequence[Comparison]) -> Iterable[str]:
    """Where the expected figures are from."""
    sources: dict[str, set[str]] = {}
    for comparison in comparisons:
        if comparison.expected is not None:
            quantities = sources.setdefault(comparison.expected.source, set())
            quantities.add(comparison.summary.quantity)
    if sources:
        yield "## Where the expected figures are from"
        yield ""
        for source, quantities in sources.items():
            yield f"- {', '.join(sorted(quantities))}: {source}"
        yield ""
