"""A tiny experiment, whose answer is known: how many heads, and how often the closed form of
identity tables holds for random sets, without any broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from tidings.experiments import Experiment, Panel, Point
from tidings.experiments.compare import Expected, Finding
from tidings.experiments.experiment import Results
from tidings.experiments.rebeca.closed_forms import Market, identity_entries
from tidings.experiments.rebeca.tree import BrokerTree

TREE = BrokerTree(levels=2, fan_out=2)


class Draw(Point, frozen=True, kw_only=True):
    clients: int
    stocks: int = 40


class Sets(Experiment[Draw]):
    """Distinct wishes behind each link, drawn as plain sets."""

    name = "sets"
    title = "Distinct wishes behind each link"
    source = "closed forms"
    runs = 8
    quantities = {"entries": "distinct wishes, summed over directed links"}  # noqa: RUF012
    panels = (
        Panel(
            quantity="entries",
            x="clients",
            title="wishes",
            x_label="clients at each local broker",
            y_label="entries",
        ),
    )

    def points(self, *, full: bool) -> Sequence[Draw]:
        return [Draw(clients=n) for n in ((1, 2, 5, 20) if full else (1, 5))]

    def weight(self, point: Draw) -> float:
        return point.clients

    def measure(self, point: Draw, seed: int) -> Mapping[str, float]:
        rng = Random(seed)
        wishes = {
            local: {s for _ in range(point.clients) for s in rng.sample(range(point.stocks), 4)}
            for local in TREE.locals
        }
        everyone = set(TREE.locals)
        total = 0
        for lower in TREE.links:
            below = {local for local in TREE.locals if lower in TREE.way_up(local)}
            for side in (below, everyone - below):
                total += len(set().union(*(wishes[local] for local in side)))
        return {"entries": total}

    def expected(self, point: Draw, quantity: str) -> Expected | None:
        market = Market(point.clients, point.stocks, wishes=4)
        return Expected(value=identity_entries(TREE, market), source="closed form")

    def findings(self, results: Results) -> Sequence[Finding]:
        few, many = results.mean("entries", clients=1), results.mean("entries", clients=5)
        return [
            Finding(
                claim="more clients, more entries",
                source="nobody",
                holds=few < many,
                evidence=f"{few:.0f} and {many:.0f}",
            )
        ]


class Breaks(Sets):
    """Fails where there are five clients."""

    name = "breaks"

    def measure(self, point: Draw, seed: int) -> Mapping[str, float]:
        if point.clients == 5:
            raise ValueError("five is too many")
        return super().measure(point, seed)
