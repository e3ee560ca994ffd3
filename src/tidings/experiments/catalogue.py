"""The catalogue: all experiments by name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

from tidings.events.errors import TidingsError
from tidings.experiments.adaptive import AdaptiveMerging
from tidings.experiments.experiment import Experiment
from tidings.experiments.rebeca import Imperfect, LocalInterests, Overhead, Tables
from tidings.experiments.siena import Scalability
from tidings.experiments.stabilisation import Outages

_ALL: Final[tuple[Experiment[Any], ...]] = (
    Tables(),
    Overhead(),
    LocalInterests(),
    Imperfect(),
    Scalability(),
    Outages(),
    AdaptiveMerging(),
)

EXPERIMENTS: Final = {experiment.name: experiment for experiment in _ALL}
"""In the order in which to read them."""


class UnknownExperimentError(TidingsError):
    """There is no experiment of that name."""


def find(name: str) -> Experiment[Any]:
    """The experiment of that name; the error names those that are spelt similarly."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = get_close_matches(name, EXPERIMENTS, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(EXPERIMENTS)}"
    raise UnknownExperimentError(f"there is no experiment {name!r}; {hint}")
