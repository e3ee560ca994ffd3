"""Overhead: what one change of one subscription costs, in messages between brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tidings.experiments.compare import Expected, Finding, all_hold, is_more
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.experiments.rebeca.closed_forms import (
    ACTIVE,
    Market,
    identity_overhead,
    simple_overhead,
    table_entries,
)
from tidings.experiments.rebeca.population import CLOSED_FORM, STRATEGIES, THESIS, TREE, Population
from tidings.experiments.rebeca.tree import ROOT


class OverheadPoint(Point, frozen=True, kw_only=True):
    """A strategy, with or without advertisements, and the subscriptions active on average."""

    strategy: str
    advertisements: bool
    active: int


class Overhead(Experiment[OverheadPoint]):
    """What one change of one subscription costs, in messages between brokers.

    Random clients become active and subscribe to their ten wishes, or inactive and unsubscribe
    from them, so that half of them are active on average. Counted are the messages that change a
    table, for each single subscription or unsubscription. Of covering and merging no closed form
    is known: there, only what the thesis says in words is compared.
    """

    name = "rebeca-overhead"
    title = "Control messages for a single (un)subscription"
    source = f"{THESIS}, chapter 6, figures 6.5 to 6.7"
    quantities: ClassVar[Mapping[str, str]] = {"messages": "control messages for one change"}
    panels = tuple(
        Panel(
            quantity="messages",
            x="active",
            title=f"{'with' if ads else 'without'} advertisements",
            x_label="subscriptions active on average",
            y_label="control messages for one change",
            log_x=True,
            where={"advertisements": ads},
        )
        for ads in (False, True)
    )

    def points(self, *, full: bool) -> Sequence[OverheadPoint]:
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys(STRATEGIES, (335, 670, 1_675))
        sizes["identity"] += (3_350, 6_700, 67_000)
        if full:
            sizes = dict.fromkeys(STRATEGIES, (335, 670, 1_675, 3_350, 6_700, 16_750, 67_000))
        return [
            OverheadPoint(strategy=strategy, advertisements=ads, active=x)
            for strategy, xs in sizes.items()
            for ads in (False, True)
            for x in xs
        ]

    def weight(self, point: OverheadPoint) -> float:
        toward = ROOT if point.advertisements else None
        kept = table_entries(TREE, point.strategy, point.active, toward)
        return kept + 100 * (1 if point.advertisements else 30)

    def measure(self, point: OverheadPoint, seed: int) -> Mapping[str, float]:
        network = Population(
            point.strategy,
            advertisements=point.advertisements,
            seed=seed,
            subscriptions=point.active,
            active=ACTIVE,
        )
        return {"messages": network.overhead()}

    def expected(self, point: OverheadPoint, quantity: str) -> Expected | None:
        toward = ROOT if point.advertisements else None
        market = Market.of(point.active / ACTIVE, len(TREE.locals))
        match point.strategy:
            case "simple":
                return Expected(value=simple_overhead(TREE, toward), source=CLOSED_FORM)
            case "identity":
                return Expected(value=identity_overhead(TREE, market, toward), source=CLOSED_FORM)
        return None  # how often a change is covered, or changes a merger, has no closed form

    def findings(self, results: Results) -> Sequence[Finding]:
        def messages(strategy: str, x: int, ads: bool = False) -> float:
            return results.mean("messages", strategy=strategy, advertisements=ads, active=x)

        xs = sorted(
            {s.parameters["active"] for s in results.where("messages", strategy="covering")}
        )
        few, many = xs[0], xs[-1]
        pairs = [("covering", "identity"), ("merging", "covering")]
        slower, higher = (
            {x: (messages(one, x), messages(other, x)) for x in xs} for one, other in pairs
        )
        near = {x: (messages("covering", x), messages("covering", x, True)) for x in xs}
        alike = {x: (messages("merging", x, True), messages("covering", x, True)) for x in xs}

        def merging_costs_more(ads: bool) -> bool | None:
            merging, covering = (
                results.where("messages", strategy=name, advertisements=ads)
                for name in ("merging", "covering")
            )
            return all_hold(is_more(a, b) for a, b in zip(merging, covering, strict=True))

        def told(found: Mapping[int, tuple[float, float]]) -> str:
            return ", ".join(f"{a:.3g} and {b:.3g} at x = {x:,}" for x, (a, b) in found.items())

        return [
            Finding(
                claim="covering of ranges drops more slowly than identity of stocks",
                source=f"{THESIS}, figures 6.5 to 6.7",
                holds=all(a > b for a, b in slower.values())
                and slower[many][0] / slower[few][0] > slower[many][1] / slower[few][1],
                evidence=told(slower),
            ),
            Finding(
                claim="covering approaches its own curve with advertisements only slowly, so"
                " advertisements stay useful",
                source=f"{THESIS}, figures 6.5 to 6.7",
                holds=all(a > 2 * b for a, b in near.values()),
                evidence=told(near),
            ),
            Finding(
                claim="merging costs somewhat more than covering without advertisements",
                source=f"{THESIS}, figures 6.5 to 6.7",
                holds=merging_costs_more(False),
                evidence=told(higher),
                why_not="Presumably because a change that leaves a merger as it is costs nothing"
                " here: a broker sends the difference to what it told before, while the thesis"
                " cancels the merger and makes it anew. The thesis names no cause either.",
            ),
            Finding(
                claim="with advertisements, merging costs slightly more than covering",
                source=f"{THESIS}, figures 6.5 to 6.7",
                holds=merging_costs_more(True),
                evidence=told(alike),
            ),
        ]
