"""REBECA's evaluation: table sizes, overhead, locality and imperfect merging.

G. Mühl, "Large-Scale Content-Based Publish/Subscribe Systems", TU Darmstadt 2002, chapter 6. The
curves of its figures are not in its text, so what is expected here are the closed forms, which
agree with every figure that the text does print.

All experiments run on the same tree (`BrokerTree`), with one producer at the root. A subscription
is for a stock, or for a stock and a range of prices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import ClassVar, Final

from tidings.events import Filter
from tidings.experiments.closed_forms import (
    ACTIVE,
    Locality,
    Market,
    covering_entries,
    identity_entries,
    identity_overhead,
    simple_entries,
    simple_overhead,
    united_entries,
)
from tidings.experiments.compare import Expected, Finding, all_hold, is_more, printed
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.experiments.report import figure
from tidings.experiments.tree import ROOT, BrokerTree
from tidings.node import Settings
from tidings.simulation import Client, Simulation
from tidings.workloads.conditions import Equal, Range, filter_of
from tidings.workloads.quotes import symbol

TREE: Final = BrokerTree()
STOCKS: Final = 1000
WISHES: Final = 10
"""Different subscriptions of each client."""
THESIS: Final = "Mühl 2002"
CLOSED_FORM: Final = "closed form (see closed_forms.py)"
STRATEGIES: Final = ("simple", "identity", "covering", "merging")


# -- clients and what they want ----------------------------------------------------------------


class Wishes:
    """Draws what clients want: `WISHES` different stocks each, of a range of them.

    Prices are floats, not cents: two clients never ask for quite the same range.
    """

    def __init__(self, rng: Random, kind: str) -> None:
        self._rng = rng
        self._kind = kind

    def draw(self, stocks: range) -> list[Filter]:
        """The subscriptions of one client."""
        return [self._filter(symbol(stock)) for stock in self._rng.sample(stocks, WISHES)]

    def _filter(self, stock: str) -> Filter:
        match self._kind:
            case "stock":
                return filter_of((Equal("symbol", stock),))
            case "around 50":
                low, high = 50 - 50 * self._rng.random(), 50 + 50 * self._rng.random()
            case _:
                low = 80 * self._rng.random()
                high = low + 20
        return filter_of((Equal("symbol", stock), Range("price", low, high)))


def kind_of(strategy: str) -> str:
    """Which subscriptions a strategy is measured with: those that it can reduce."""
    if strategy.startswith("imperfect"):
        return "20 wide"
    return "stock" if strategy in ("simple", "identity") else "around 50"


class Population:
    """A network with a producer and many clients, each with its wishes, active or not."""

    def __init__(
        self,
        strategy: str,
        *,
        advertisements: bool,
        seed: int,
        clients: int,
        active: float,
        where: Mapping[str, range],
    ) -> None:
        """`clients` at each local broker of `where`, which want stocks of its range."""
        self._rng = Random(seed)
        settings = Settings(
            subscriptions=strategy, advertisements="identity" if advertisements else None
        )
        self.sim = Simulation(TREE.topology, settings, seed=seed)
        self.sim.settle()
        self.producer = self.sim.client("producer", at=ROOT)
        if advertisements:
            self.producer.advertise(Filter.all())
            self.sim.settle()
        wishes = Wishes(self._rng, kind_of(strategy))
        self._clients: list[tuple[Client, list[Filter]]] = []
        for local, stocks in where.items():
            for number in range(clients):
                client = self.sim.client(f"{local}.{number}", at=local)
                client.keeps = False
                self._clients.append((client, wishes.draw(stocks)))
        for client, wanted in self._clients:
            if self._rng.random() < active:
                self._subscribe_at_once(client, wanted)

    def _subscribe_at_once(self, client: Client, wanted: Sequence[Filter]) -> None:
        """All in one message: the tables are those of subscribing one by one, made faster."""
        client.subscriptions.update((f"w{at}", wish) for at, wish in enumerate(wanted))
        client.attach()
        self.sim.settle()

    def entries(self) -> dict[str, int]:
        """How many subscriptions of neighbours each broker holds."""
        return self.sim.table_sizes()

    def overhead(self, toggles: int) -> float:
        """Control messages for one subscription or unsubscription, while random clients toggle."""
        before = self.sim.traffic.control
        for client, wanted in self._rng.choices(self._clients, k=toggles):
            if client.subscriptions:
                for id in list(client.subscriptions):
                    client.unsubscribe(id)
                    self.sim.settle()
            else:
                for wish in wanted:
                    client.subscribe(wish)
                    self.sim.settle()
        return (self.sim.traffic.control - before) / (toggles * WISHES)

    def carried(self) -> float:
        """Messages between brokers for one notification, over one of each stock."""
        before = self.sim.traffic.events
        for stock in range(STOCKS):
            self.producer.publish({"symbol": symbol(stock), "price": 50.0})
        self.sim.settle()
        return (self.sim.traffic.events - before) / STOCKS


EVERYWHERE: Final = {local: range(STOCKS) for local in TREE.locals}


def toggles_for(strategy: str, *, advertisements: bool) -> int:
    """How many clients to toggle in one measurement: more where a change costs little time, and
    few where it always costs the same or where nothing exact is known to compare with."""
    if advertisements:
        return 300 if strategy in ("simple", "identity") else 100
    return {"simple": 10, "identity": 150}.get(strategy, 40)


def clients_for(subscriptions: float, locals_: int) -> int:
    """How many clients at each local broker have so many subscriptions in all."""
    return round(subscriptions / (locals_ * WISHES))


# -- table sizes -------------------------------------------------------------------------------


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
        return _entries(point.strategy, point.subscriptions, point.advertisements)

    def measure(self, point: TablePoint, seed: int) -> Mapping[str, float]:
        clients = clients_for(point.subscriptions, len(TREE.locals))
        network = Population(
            point.strategy,
            advertisements=point.advertisements,
            seed=seed,
            clients=clients,
            active=1.0,
            where=EVERYWHERE,
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
            return Expected(
                value=_entries(point.strategy, point.subscriptions, point.advertisements),
                source=CLOSED_FORM,
            )
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


def _entries(strategy: str, subscriptions: float, advertisements: bool) -> float:
    market = Market.of(subscriptions, len(TREE.locals))
    toward = ROOT if advertisements else None
    match strategy:
        case "simple":
            return simple_entries(TREE, market, toward)
        case "covering":
            return covering_entries(TREE, market, toward)
        case _:
            return identity_entries(TREE, market, toward)


# -- overhead ----------------------------------------------------------------------------------


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
        kept = _entries(point.strategy, point.active, point.advertisements)
        return kept + 100 * (1 if point.advertisements else 30)

    def measure(self, point: OverheadPoint, seed: int) -> Mapping[str, float]:
        clients = clients_for(point.active / ACTIVE, len(TREE.locals))
        network = Population(
            point.strategy,
            advertisements=point.advertisements,
            seed=seed,
            clients=clients,
            active=ACTIVE,
            where=EVERYWHERE,
        )
        toggles = toggles_for(point.strategy, advertisements=point.advertisements)
        return {"messages": network.overhead(toggles)}

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


# -- locality ----------------------------------------------------------------------------------


class LocalityPoint(Point, frozen=True, kw_only=True):
    """The width of the ranges that the root's parts want, and the subscriptions active."""

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
            clients=clients_for(point.active / ACTIVE, len(where)),
            active=ACTIVE,
            where=where,
        )
        entries = sum(network.entries().values())
        saved = len(TREE.links) - network.carried()
        messages = network.overhead(toggles_for("identity", advertisements=point.advertisements))
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


# -- imperfect merging -------------------------------------------------------------------------


class ImperfectPoint(Point, frozen=True, kw_only=True):
    """How much longer than its parts together a merger may be, and the subscriptions active."""

    factor: float
    advertisements: bool
    active: int


_GAP: Final = 20 / 80
"""Two ranges 20 wide, which begin between 0 and 80, do not touch if they begin further apart."""


class Imperfect(Experiment[ImperfectPoint]):
    """What it helps to merge ranges of prices that do not quite fit together.

    Each subscription is for a stock and a range of prices 20 wide, anywhere from 0 to 100. Ranges
    become one if that is at most so many times as long as they are together: at a factor of 1 only
    if nothing is added, at 2.5 always. Half of the clients are active on average.
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
            x_label="a merger is at most so many times as long as its parts, f",
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
            clients=clients_for(point.active / ACTIVE, len(TREE.locals)),
            active=ACTIVE,
            where=EVERYWHERE,
        )
        return {
            "entries": sum(network.entries().values()),
            "messages": network.overhead(
                toggles_for("imperfect", advertisements=point.advertisements)
            ),
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
