"""REBECA's evaluation: table sizes, overhead, locality and imperfect merging.

G. Mühl, "Large-Scale Content-Based Publish/Subscribe Systems", TU Darmstadt 2002, chapter 6. Here
are its four experiments, with the setting that they share and the closed forms that say what they
must measure. The curves of its figures are not in its text, so what is expected are the closed
forms, which agree with every figure that the text does print. Another paper's experiments have a
module or a folder of their own.
"""

from tidings.experiments.rebeca.imperfect import Imperfect
from tidings.experiments.rebeca.locality import LocalInterests
from tidings.experiments.rebeca.tables import Overhead, Tables

__all__ = ["Imperfect", "LocalInterests", "Overhead", "Tables"]
