"""Pictures of statistics: how the values of each attribute are distributed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from warnings import catch_warnings, filterwarnings

import matplotlib
import numpy as np

from tidings.cli.complaints import counted, shortened
from tidings.experiments.plots import STYLE
from tidings.routing.statistics import Attribute, Distribution, Statistics, time_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST: Final = 12
"""Attributes in the picture."""
_ACROSS: Final = 3
_BARS: Final = 10
_TICKS: Final = 5
_GIVEN: Final = 4
_FIRST: Final = 1000
"""The first year that is drawn: a time before stands for "always", and would take all the room."""
_LAST: Final = 9000
"""The year before which all that is drawn lies: a later time stands for "never". An axis with room
for its margins could not end at the last day that there is."""
_LONGEST: Final = 16
"""Characters of a string that are shown."""


def draw(statistics: Statistics, path: Path) -> Path:
    """Numbers and times as the share of events up to a value, strings as bars; as SVG."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({**STYLE, "text.parse_math": False}), catch_warnings():
        filterwarnings("ignore", "Glyph", UserWarning)  # readers of the SVG have other fonts
        drawn = figure(statistics)
        drawn.savefig(path, metadata={"Date": None})
        pyplot.close(drawn)
    return path


def figure(statistics: Statistics) -> Figure:
    """The picture, in the style that there is now."""
    from matplotlib import pyplot

    ranked = sorted(statistics.attributes.items(), key=lambda item: (-item[1].present, item[0]))
    shown = [(n, a) for n, a in ranked if a.number or a.time or a.strings][:_MOST]
    across = max(1, min(_ACROSS, len(shown)))
    down = max(1, -(-len(shown) // across))
    drawn, axes = pyplot.subplots(
        down, across, figsize=(4.6 * across, 3.4 * down), squeeze=False, layout="constrained"
    )
    for (name, known), place in zip(shown, axes.flat, strict=False):
        _draw(statistics, name, known, place)
    for place in axes.flat[len(shown) :]:
        place.axis("off")
    drawn.suptitle(counted(statistics.events, "event"), fontsize=11)
    return drawn


def _draw(statistics: Statistics, name: str, known: Attribute, place: Axes) -> None:
    ordered = known.number or known.time
    place.set_title(f"{shortened(name, 2 * _LONGEST)} ({known.present:.0%} of events)", fontsize=10)
    if ordered is None:
        top = sorted(known.strings.items(), key=_by_share)[:_BARS][::-1]
        labels = [shortened(text, _LONGEST) for text, _ in top]
        place.barh(range(len(top)), [share for _, share in top], color="C0", tick_label=labels)
        place.set_xlabel("share of events", fontsize=8)
        return
    _line(place, ordered, "all", is_time=known.number is None, color="black")
    for other, value, part in _given(statistics, name):
        found = part.number if known.number else part.time
        if found is not None:
            label = f"{other} = {shortened(value, _LONGEST)}"
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
    points: list[tuple[Any, float]]
    points = list(zip(known.quantiles, np.linspace(0.0, 1.0, len(known.quantiles)), strict=True))
    if is_time:
        points = [(time_of(q), share) for q, share in points]
        points = [(when, share) for when, share in points if _FIRST <= when.year < _LAST]
        if len(points) < len(known.quantiles):
            place.set_xlabel(f"others are before {_FIRST} or from {_LAST} on", fontsize=8)
        place.tick_params(axis="x", rotation=30, labelsize=7)
    else:  # as many as fit, however long they are
        place.locator_params(axis="x", nbins=_TICKS)
        place.tick_params(axis="x", labelsize=8)
    place.plot([at for at, _ in points], [share for _, share in points], label=label, **style)
