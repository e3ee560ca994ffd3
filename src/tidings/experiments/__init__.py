"""Experiments: what the papers measured, measured again on this code, and compared.

An experiment lists points, measures one of them, and says what should come out and who says so;
`conduct` has Spark measure them all and writes the report. What is measured runs in the
simulator; nothing that a broker decides is decided here, and no figure is written down that was
measured with this code.
"""

from tidings.experiments.catalogue import EXPERIMENTS, UnknownExperimentError, find
from tidings.experiments.conduct import Outcome, conduct
from tidings.experiments.experiment import Experiment, Panel, Point

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Outcome",
    "Panel",
    "Point",
    "UnknownExperimentError",
    "conduct",
    "find",
]
