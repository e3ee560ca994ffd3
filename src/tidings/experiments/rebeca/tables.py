"""Table sizes and overhead: what each way of routing holds, and what a change costs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tidings.experiments.compare import Expected, Finding, all_hold, is_more, printed
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


class TablePoint(Point, frozen=True, kw_only=True):
    """A strategy, with or without advertisements, and the subscriptions of all clients."""

    strategy: str
    advertisements: bool
    subscriptions: int


class Tables(Experiment[TablePoint]):
    """How many subscriptions of their neighbours all brokers hold, for each way of routing.

    The tree has 40 routers and 67 local brokers. Each client wants ten different stocks of a
    thousand (simple and identity routing) or a range of prices around 50 of each (covering and
    merging). There is one producer, at the root; with advertisements it has advertised everything.
    """

    name = "rebeca-tables"
    title = "Sizes of routing tables, for eight ways of routing"
    source = f"{THESIS}, chapter 6, figures 6.2 to 6.4, table 6.2"
    quantities: ClassVar[Mapping[str, str]] = {
        "entries": "subscriptions of neighbours that all brokers hold together, Σ|R|",
        "share at level 0": "entries at the root router, as a share of all subscriptions",
        "share at level 1": "the same of a router one level below, on average",
        "share at level 2": "two levels below",
        "share at level 3": "three levels below",
    }
    panels = tuple(
        Panel(
            quantity="entries",
            x="subscriptions",
            title=f"{'with' if ads else 'without'} advertisements",
            x_label="subscriptions of all clients, x",
            y_label="entries in all tables, Σ|R|",
            log_x=True,
            log_y=True,
            where={"advertisements": ads},
        )
        for ads in (False, True)
    )

    def points(self, *, full: bool) -> Sequence[TablePoint]:
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys(STRATEGIES, (670, 3_350))
        sizes["identity"] += (13_400,)
        if full:
            sizes = dict.fromkeys(STRATEGIES, (670, 3_350, 13_400, 33_500, 67_000, 134_000))
        return [
            TablePoint(strategy=strategy, advertisements=ads, subscriptions=x)
            for strategy, xs in sizes.items()
            for ads in (False, True)
            for x in xs
        ]

    def weight(self, point: TablePoint) -> float:
        toward = ROOT if point.advertisements else None
        return table_entries(TREE, point.strategy, point.subscriptions, toward)

    def measure(self, point: TablePoint, seed: int) -> Mapping[str, float]:
        network = Population(
            point.strategy,
            advertisements=point.advertisements,
            seed=seed,
            subscriptions=point.subscriptions,
        )
        sizes = network.entries()
        found: dict[str, float] = {"entries": sum(sizes.values())}
        if point.strategy == "simple" and point.advertisements:
            for level in range(TREE.levels):
                there = [
                    size
                    for broker, size in sizes.items()
                    if broker not in TREE.locals and TREE.level(broker) == level
                ]
                found[f"share at level {level}"] = sum(there) / len(there) / point.subscriptions
        return found

    def expected(self, point: TablePoint, quantity: str) -> Expected | None:
        if quantity == "entries":
            toward = ROOT if point.advertisements else None
            value = table_entries(TREE, point.strategy, point.subscriptions, toward)
            return Expected(value=value, source=CLOSED_FORM)
        shares = {"0": "1.00", "1": "0.33", "2": "0.10", "3": "0.03"}
        return printed(shares[quantity[-1]], f"{THESIS}, table 6.2")

    def findings(self, results: Results) -> Sequence[Finding]:
        def entries(strategy: str, x: int, ads: bool = False) -> float:
            return results.mean("entries", strategy=strategy, advertisements=ads, subscriptions=x)

        xs = sorted({s.parameters["subscriptions"] for s in results.summaries})
        common = [x for x in xs if x <= 3_350]
        few, many = common[0], common[-1]
        largest = max(
            s.parameters["subscriptions"]
            for s in results.where("entries", strategy="identity", advertisements=True)
        )
        factor = [entries("simple", x) / entries("simple", x, True) for x in common]
        first, last = (
            entries("identity", x) / entries("identity", x, True) for x in (few, largest)
        )
        return [
            Finding(
                claim="with simple routing, advertisements save a factor of 28.4 at any size",
                source=f"{THESIS}, figures 6.2 to 6.4",
                holds=all(abs(f - 28.4) < 0.05 for f in factor),
                evidence=", ".join(
                    f"{f:.2f} at x = {x:,}" for f, x in zip(factor, common, strict=True)
                ),
            ),
            Finding(
                claim="with identity routing, that factor falls towards 2",
                source=f"{THESIS}, figures 6.2 to 6.4",
                holds=2 < last < first < 28.4,
                evidence=f"{first:.1f} at x = {few:,}, {last:.2f} at x = {largest:,}",
            ),
            Finding(
                claim="covering of ranges needs larger tables than identity of stocks, and grows"
                " more slowly than simple routing",
                source=f"{THESIS}, figures 6.2 to 6.4",
                holds=all(
                    entries("identity", x) < entries("covering", x) < entries("simple", x)
                    for x in common
                ),
                evidence=f"{entries('identity', many):,.0f}, {entries('covering', many):,.0f} and"
                f" {entries('simple', many):,.0f} entries at x = {many:,}",
            ),
            Finding(
                claim="merging of ranges needs the tables of identity of stocks",
                source=f"{THESIS}, figures 6.2 to 6.4",
                holds=all(
                    abs(entries("merging", x) / entries("identity", x) - 1) < 0.02 for x in common
                ),
                evidence=f"{entries('merging', many):,.0f} and {entries('identity', many):,.0f}"
                f" entries at x = {many:,}",
            ),
        ]


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
