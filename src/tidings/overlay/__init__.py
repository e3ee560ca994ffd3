"""The overlay: which neighbours a broker talks to, and how a link keeps its word.

`Link` makes an ordered, lossless conversation out of frames that may be lost, doubled or
overtaken; `Tree` lets brokers in any connected network agree on one tree, and mend it. Both are
pure: they are told the time, and say what to send. Nothing here knows of filters or events.
"""

from tidings.overlay.link import Link
from tidings.overlay.tree import Tree

__all__ = ["Link", "Tree"]
