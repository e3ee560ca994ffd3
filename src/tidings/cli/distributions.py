"""Pictures of statistics: how the values of each attribute are distributed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib
import numpy as np

from tidings.experiments.plots import STYLE
from tidings.routing.statistics import Attribute, Distribution, Statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST: Final = 12
"""Attributes in the picture."""
_ACROSS: Final = 3
_BARS: Final = 10
_GIVEN: Final = 4


def draw(statistics: Statistics, path: Path) -> Path:
    """Numbers and times as the share of events up to a value, strings as bars; as SVG."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    ranked = sorted(statistics.attributes.items(), key=lambda item: (-item[1].present, item[0]))
    shown = [(n, a) for n, a in ranked if a.number or a.time or a.strings][:_MOST]
    across = max(1, min(_ACROSS, len(shown)))
    down = max(1, -(-len(shown) // across))
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            down, across, figsize=(4.6 * across, 3.4 * down), squeeze=False, layout="constrained"
        )
        for (name, known), place in zip(shown, axes.flat, strict=False):
            _draw(statistics, name, known, place)
        for place in axes.flat[len(shown) :]:
            place.axis("off")
        figure.suptitle(f"{statistics.events:,} events", fontsize=11)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
    return path


def _draw(statistics: Statistics, name: str, known: Attribute, place: Axes) -> None:
    ordered = known.number or known.time
    place.set_title(f"{name} ({known.present:.0%} of events)", fontsize=10)
    if ordered is None:
        top = sorted(known.strings.items(), key=_by_share)[:_BARS][::-1]
        place.barh([_short(text) for text, _ in top], [share for _, share in top], color="C0")
        place.set_xlabel("share of events", fontsize=8)
        return
    _line(place, ordered, "all", is_time=known.number is None, color="black")
    for other, value, part in _given(statistics, name):
        found = part.number if known.number else part.time
        if found is not None:
            label = f"{other} = {_short(value)}"
            _line(place, found, label, is_time=known.number is None, linewidth=0.8)
    if place.get_legend_handles_labels()[1] != ["all"]:
        place.legend(fontsize=7, frameon=False)
    place.set_ylabel("share up to a value", fontsize=8)
    place.set_ylim(0.0, 1.02)


def _given(statistics: Statistics, name: str) -> list[tuple[str, str, Attribute]]:
    """The attribute given the most frequent values of another one, if that is known."""
    for other, values in statistics.given.items():
        strings = statistics.attributes[other].strings if other in statistics.attributes else {}
        ranked = sorted(strings.items(), key=_by_share)
        some = [(other, v, values[v][name]) for v, _ in ranked if name in values.get(v, {})]
        if some:
            return some[:_GIVEN]
    return []


def _by_share(item: tuple[str, float]) -> tuple[float, str]:
    return -item[1], item[0]


def _line(place: Axes, known: Distribution, label: str, *, is_time: bool, **style: Any) -> None:
    shares = np.linspace(0.0, 1.0, len(known.quantiles))
    values: Any = known.quantiles
    if is_time:
        values = [datetime.fromtimestamp(q, UTC) for q in known.quantiles]
        place.tick_params(axis="x", rotation=30, labelsize=7)
    place.plot(values, shares, label=label, **style)


def _short(text: str) -> str:
    return text if len(text) <= 16 else text[:15] + "…"
