"""Plots: what came out as points with error bars, what was expected as lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from tidings.experiments.compare import Summary
from tidings.experiments.experiment import Experiment, P, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_MARKERS: Final = "osD^vP*X<>"
_BETWEEN: Final = 60  # points of a line
_ALONE: Final[dict[str, Any]] = {"linestyle": "none", "marker": "_", "markersize": 18}
STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "tidings",  # with it, and without the date, equal plots are equal files
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
"""How all our plots look; for `pyplot.rc_context`."""


def draw(
    experiment: Experiment[P], points: Sequence[P], summaries: Sequence[Summary], out: Path
) -> list[Path]:
    """All panels that there are figures for in one picture, as SVG and as PNG."""
    panels = [panel for panel in experiment.panels if _lines(panel, summaries)]
    if not panels:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    across = min(2, len(panels))
    down = -(-len(panels) // across)
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            down, across, figsize=(6.4 * across, 4.6 * down), squeeze=False, layout="constrained"
        )
        for panel, place in zip(panels, axes.flat, strict=False):
            _draw_panel(experiment, panel, points, summaries, place)
        for place in axes.flat[len(panels) :]:
            place.axis("off")
        figure.suptitle(f"{experiment.title}\n{experiment.source}", fontsize=11)
        figure.supxlabel("bars: standard error of the mean", fontsize=8)
        paths = [out / f"{experiment.name}.svg", out / f"{experiment.name}.png"]
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=130)
        pyplot.close(figure)
    return paths


def _draw_panel(
    experiment: Experiment[P],
    panel: Panel,
    points: Sequence[P],
    summaries: Sequence[Summary],
    place: Axes,
) -> None:
    lines = _lines(panel, summaries)
    told = _telling(list(lines))
    anything_expected = False
    for at, (key, found) in enumerate(lines.items()):
        colour = f"C{at % 10}"
        label = ", ".join(_label(name, value) for name, value in key if name in told)
        xs = _xs(panel, found, summaries)
        place.errorbar(
            xs,
            [summary.mean for summary in found],
            yerr=[summary.error or 0.0 for summary in found],
            fmt=_MARKERS[at % len(_MARKERS)],
            markersize=5,
            capsize=3,
            color=colour,
            label=label or "measured",
            zorder=3,
        )
        expected = _expected_line(experiment, panel, points, found)
        if expected:
            anything_expected = True
            # Known here and there only: a line would claim to know what is in between.
            style = {"linewidth": 1.2} if len(expected) == _BETWEEN else _ALONE
            place.plot(*zip(*expected, strict=True), color=colour, **style)
        elif len(found) > 1:  # nothing to compare with: only lead the eye from point to point
            place.plot(xs, [s.mean for s in found], color=colour, linewidth=0.8, linestyle=":")
    if anything_expected:
        place.plot([], [], color="black", linewidth=1.2, label="expected")
    place.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.log_x:
        place.set_xscale("log")
        _plain_numbers(place.xaxis)
    if panel.log_y:
        place.set_yscale("log")
        _plain_numbers(place.yaxis)
    else:
        place.set_ylim(0.0, 1.05 * place.get_ylim()[1])  # nothing that we measure is negative
        place.yaxis.set_major_formatter(_number)
    if lines:
        # Below the axes, where it can't cover a point.
        place.legend(
            fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False
        )


def _plain_numbers(axis: Axis) -> None:
    """3,000 instead of a power of ten, on a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.set_major_formatter(_number)
    axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: float) -> str:
    return f"{value:,.12g}"


def _xs(panel: Panel, found: Sequence[Summary], summaries: Sequence[Summary]) -> list[float]:
    """Where points are on the horizontal axis."""
    if not panel.against:
        return [summary.parameters[panel.x] for summary in found]
    means = [(s.parameters, s.mean) for s in summaries if s.quantity == panel.against]
    return [next(mean for given, mean in means if given == s.parameters) for s in found]


_Key = tuple[tuple[str, Any], ...]


def _lines(panel: Panel, summaries: Sequence[Summary]) -> dict[_Key, list[Summary]]:
    """The summaries that a panel shows, by their parameters other than x, in order of x."""
    lines: dict[_Key, list[Summary]] = {}
    for summary in summaries:
        given = summary.parameters
        if summary.quantity != panel.quantity:
            continue
        if any(given[name] != value for name, value in panel.where.items()):
            continue
        key = tuple((name, value) for name, value in given.items() if name != panel.x)
        lines.setdefault(key, []).append(summary)
    for found in lines.values():
        found.sort(key=lambda summary: summary.parameters[panel.x])
    return lines


def _telling(keys: Sequence[_Key]) -> set[str]:
    """The parameters that are not the same of all lines."""
    values: dict[str, set[Any]] = {}
    for key in keys:
        for name, value in key:
            values.setdefault(name, set()).add(value)
    return {name for name, found in values.items() if len(found) > 1}


def _label(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"{'with' if value else 'without'} {name}"
    if isinstance(value, str):
        return value
    return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.3g}"


def _expected_line(
    experiment: Experiment[P], panel: Panel, points: Sequence[P], found: Sequence[Summary]
) -> list[tuple[float, float]]:
    """The expected figures along the range of x, if there are any."""
    if panel.against:
        return []
    example = next(
        point
        for point in points
        if all(getattr(point, name) == value for name, value in found[0].parameters.items())
    )
    first, last = found[0].parameters[panel.x], found[-1].parameters[panel.x]
    space = np.geomspace if panel.log_x else np.linspace
    line = []
    for x in space(first, last, _BETWEEN).tolist() if first != last else [first]:
        point = msgspec.structs.replace(example, **{panel.x: x})
        expected = experiment.expected(point, panel.quantity)
        if expected is not None:
            line.append((x, expected.value))
    return line
