"""Matching: which of a million filters does this event satisfy?

`Index` answers with compiled kernels over compact arrays, `Scan` by asking every filter; both obey
`Matcher` and pass the same tests. Nothing here knows of networks or delivery. numba and pyarrow
are imported only when they are first needed.
"""

from tidings.matching.index import Index
from tidings.matching.matcher import Matcher, Scan

__all__ = ["Index", "Matcher", "Scan"]
