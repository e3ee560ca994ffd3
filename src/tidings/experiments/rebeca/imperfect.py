"""Imperfect merging: what it helps to merge ranges that do not quite fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from tidings.experiments.compare import Expected, Finding, all_hold, is_more
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.experiments.rebeca.closed_forms import ACTIVE, Market, identity_entries, united_entries
from tidings.experiments.rebeca.population import (
    CLOSED_FORM,
    STOCKS,
    THESIS,
    TREE,
    WISHES,
    Population,
)
from tidings.experiments.rebeca.tree import ROOT
from tidings.experiments.report import figure


class ImperfectPoint(Point, frozen=True, kw_only=True):
    """How many times as long as its parts a merger may be, and the subscriptions active."""

    factor: float
    advertisements: bool
    active: int


_GAP: Final = 20 / 80
"""How far apart two ranges may begin and still touch, as a share of where they may begin.

They are 20 wide and begin between 0 and 80.
"""


class Imperfect(Experiment[ImperfectPoint]):
    """What it helps to merge ranges of prices that do not quite fit together.

    Each subscription is for a stock and a range of prices 20 wide, anywhere from 0 to 100. Ranges
    become one, a merger, if it is at most f times as long as they are together: at f = 1 only if
    nothing is added, at 2.5 always. Half of the clients are active on average.
    """

    name = "rebeca-imperfect"
    title = "Imperfect merging: smaller tables for unwanted notifications"
    source = f"{THESIS}, section 6.5.2, figures 6.20 and 6.21"
    quantities: ClassVar[Mapping[str, str]] = {
        "entries": "subscriptions of neighbours that all brokers hold together, Σ|R|",
        "messages": "control messages for one change",
    }
    panels = tuple(
        Panel(
            quantity=quantity,
            x="factor",
            title=title,
            x_label="how many times as long as its parts a merger may be, f",
            y_label=label,
        )
        for quantity, title, label in (
            ("entries", "tables", "entries in all tables, Σ|R|"),
            ("messages", "overhead", "control messages for one change"),
        )
    )

    def points(self, *, full: bool) -> Sequence[ImperfectPoint]:
        every = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5)
        chosen = (
            [(x, ads, every) for x in (335, 1_675, 6_700, 16_750) for ads in (False, True)]
            if full
            else [(1_675, False, (1.0, 2.5)), (6_700, True, (1.0, 1.5, 2.0, 2.5))]
        )
        return [
            ImperfectPoint(factor=factor, advertisements=ads, active=x)
            for x, ads, factors in chosen
            for factor in factors
        ]

    def weight(self, point: ImperfectPoint) -> float:
        return point.active * (1 if point.advertisements else 10)

    def measure(self, point: ImperfectPoint, seed: int) -> Mapping[str, float]:
        network = Population(
            f"imperfect:{point.factor}",
            advertisements=point.advertisements,
            seed=seed,
            subscriptions=point.active,
            active=ACTIVE,
        )
        return {
            "entries": sum(network.entries().values()),
            "messages": network.overhead(),
        }

    def expected(self, point: ImperfectPoint, quantity: str) -> Expected | None:
        if quantity != "entries" or point.factor not in (1.0, 2.5):
            return None
        clients = point.active / ACTIVE / (len(TREE.locals) * WISHES)
        market = Market(clients, STOCKS, WISHES * ACTIVE)  # half as likely to want a stock, now
        toward = ROOT if point.advertisements else None
        if point.factor == 1.0:
            value = united_entries(TREE, market, _GAP, toward)
        else:
            value = identity_entries(TREE, market, toward)
        return Expected(value=value, source=CLOSED_FORM)

    def findings(self, results: Results) -> Sequence[Finding]:
        measured = {
            (s.parameters["advertisements"], s.parameters["active"]) for s in results.summaries
        }
        combinations = [{"active": x, "advertisements": a} for a, x in sorted(measured)]

        def shrinks(quantity: str, **where: object) -> bool | None:
            """From the least to the greatest factor."""
            found = results.where(quantity, **where)
            return is_more(found[0], found[-1])

        tables = [[s.mean for s in results.where("entries", **where)] for where in combinations]
        costs = [[s.mean for s in results.where("messages", **where)] for where in combinations]
        slower = [
            cost[-1] / cost[0] > table[-1] / table[0]
            for table, cost in zip(tables, costs, strict=True)
        ]

        def told(series: Sequence[Sequence[float]]) -> str:
            return ", ".join(
                f"{figure(means[0])} to {figure(means[-1])} at x = {where['active']:,}"
                f"{' with advertisements' if where['advertisements'] else ''}"
                for where, means in zip(combinations, series, strict=True)
            )

        return [
            Finding(
                claim="tables shrink as mergers may be less perfect",
                source=f"{THESIS}, figure 6.20",
                holds=all_hold(shrinks("entries", **where) for where in combinations),
                evidence=told(tables),
            ),
            Finding(
                claim="overhead falls, but only slowly: less than the tables shrink",
                source=f"{THESIS}, figure 6.21",
                holds=all_hold([*(shrinks("messages", **w) for w in combinations), *slower]),
                evidence=told(costs),
            ),
        ]
