"""Locality: what it helps that neighbours want similar things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from tidings.experiments.compare import Expected, Finding, all_hold, is_more
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.experiments.rebeca.closed_forms import ACTIVE, Locality
from tidings.experiments.rebeca.population import CLOSED_FORM, THESIS, TREE, Population
from tidings.experiments.rebeca.tree import ROOT


class LocalityPoint(Point, frozen=True, kw_only=True):
    """The share of the stocks that each of the root's parts wants, and the subscriptions active."""

    share: float
    advertisements: bool
    active: int


class LocalInterests(Experiment[LocalityPoint]):
    """What it helps that neighbours want similar things, with identity routing.

    Clients below each of the root's three children want stocks of a range of their own: disjoint
    thirds at a share of 1/3, all the same at 1. The root's own local broker has no clients. Half
    of the clients are active on average, as in the experiment on overhead. Saved payload is what
    flooding would send and filtering does not; break-even is how many notifications there must be
    for each change of a subscription for the filtering to pay.
    """

    name = "rebeca-locality"
    title = "Local interests: tables, overhead, and what filtering saves"
    source = f"{THESIS}, section 6.5.1, figures 6.8 to 6.19"
    quantities: ClassVar[Mapping[str, str]] = {
        "entries": "subscriptions of neighbours that all brokers hold together, Σ|R|",
        "messages": "control messages for one change",
        "saved": "share of the messages of flooding that filtering saves",
        "break-even": "notifications for one change at which saved messages equal control messages",
    }
    panels = tuple(
        Panel(
            quantity=quantity,
            x="share",
            title=title,
            x_label="share of the stocks that each part of the tree wants, d",
            y_label=label,
            log_y=log,
        )
        for quantity, title, label, log in (
            ("entries", "tables", "entries in all tables, Σ|R|", False),
            ("messages", "overhead", "control messages for one change", True),
            ("saved", "saved payload", "share of flooding's messages saved", False),
            ("break-even", "break-even", "notifications for one change", True),
        )
    )

    def points(self, *, full: bool) -> Sequence[LocalityPoint]:
        shares = (1 / 3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0) if full else (1 / 3, 0.5, 0.75, 1.0)
        sizes = (330, 3_300, 16_500, 66_000) if full else (660, 6_600)
        return [
            LocalityPoint(share=share, advertisements=ads, active=x)
            for x in sizes
            for ads in (False, True)
            for share in shares
        ]

    def weight(self, point: LocalityPoint) -> float:
        return point.active * (1 if point.advertisements else 10)

    def measure(self, point: LocalityPoint, seed: int) -> Mapping[str, float]:
        local = Locality(TREE, point.share)
        where = {}
        for broker in local.locals:
            part = TREE.subnet(broker)
            assert part is not None
            where[broker] = range(*local.ranges[part])
        network = Population(
            "identity",
            advertisements=point.advertisements,
            seed=seed,
            subscriptions=point.active,
            active=ACTIVE,
            where=where,
        )
        entries = sum(network.entries().values())
        saved = len(TREE.links) - network.carried()
        messages = network.overhead()
        return {
            "entries": entries,
            "messages": messages,
            "saved": saved / len(TREE.links),
            "break-even": messages / saved,
        }

    def expected(self, point: LocalityPoint, quantity: str) -> Expected | None:
        local = Locality(TREE, point.share)
        market = local.market(point.active / ACTIVE)
        toward = ROOT if point.advertisements else None
        saved = local.saved(market)
        match quantity:
            case "entries":
                value = local.entries(market, toward)
            case "messages":
                value = local.overhead(market, toward)
            case "saved":
                value = saved / len(TREE.links)
            case _:
                value = local.overhead(market, toward) / saved
        return Expected(value=value, source=CLOSED_FORM)

    def findings(self, results: Results) -> Sequence[Finding]:
        def rising(quantity: str, **where: object) -> bool | None:
            found = results.where(quantity, **where)
            return all_hold(is_more(wide, narrow) for narrow, wide in pairwise(found))

        sizes = sorted({s.parameters["active"] for s in results.summaries})
        shares = sorted({s.parameters["share"] for s in results.summaries})
        combinations = [{"active": x, "advertisements": a} for x in sizes for a in (False, True)]
        most = {"active": sizes[-1], "advertisements": True}
        saved = {s.parameters["share"]: s.mean for s in results.where("saved", **most)}
        even = {
            share: [
                results.mean("break-even", share=share, active=x, advertisements=True)
                for x in (sizes[0], sizes[-1])
            ]
            for share in (shares[0], shares[-1])
        }
        drops = {share: few / many for share, (few, many) in even.items()}
        return [
            Finding(
                claim="tables are smaller the more local the interests are",
                source=f"{THESIS}, 6.5.1",
                holds=all_hold(rising("entries", **where) for where in combinations),
                evidence=", ".join(
                    f"{s.mean:,.0f} at d = {s.parameters['share']:.3g}"
                    for s in results.where("entries", **most)
                ),
                why_not="With few subscriptions and no advertisements, the closed form itself does"
                " not rise from each share to the next.",
            ),
            Finding(
                claim="the saved payload falls towards 1 - d as subscriptions become more",
                source=f"{THESIS}, 6.5.1",
                holds=all(mean >= 1 - share for share, mean in saved.items()),
                evidence=", ".join(f"{mean:.3f} at d = {d:.3g}" for d, mean in saved.items()),
            ),
            Finding(
                claim="with identity routing the break-even falls as subscriptions become more,"
                " and faster with more locality",
                source=f"{THESIS}, 6.5.1",
                holds=all(drop > 1 for drop in drops.values())
                and drops[shares[0]] > drops[shares[-1]],
                evidence=", ".join(
                    f"from {few:.3g} to {many:.3g} at d = {share:.3g}"
                    for share, (few, many) in even.items()
                ),
            ),
        ]
