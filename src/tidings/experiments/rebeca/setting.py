"""The setting: the tree, the stocks and the strategies that all four experiments share.

All run on the same tree, with one producer at the root. A subscription is for a stock, or for a
stock and a range of prices.
"""

from __future__ import annotations

from typing import Final

from tidings.experiments.rebeca.tree import BrokerTree

TREE: Final = BrokerTree()
STOCKS: Final = 1000
"""Stocks that there are."""
WISHES: Final = 10
"""Different subscriptions of each client."""
EVERYWHERE: Final = {local: range(STOCKS) for local in TREE.locals}
"""Clients at every local broker, each of which may want any stock."""
STRATEGIES: Final = ("simple", "identity", "covering", "merging")
THESIS: Final = "Mühl 2002"
CLOSED_FORM: Final = "closed form (see closed_forms.py)"
"""The source of a figure that was computed rather than printed."""
