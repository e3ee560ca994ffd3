"""What an event costs a broker that has from a thousand to a million subscriptions.

Each asks for one of 1 000 symbols and a range of prices, the narrower the more of them there are,
so that an event finds one subscription on average however many there are: what grows is only the
work of finding it. A hundred connections share them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from bench.broker.crowd import Batch, Crowd
from bench.broker.servers import CROWDS_CORE, Server, broker, pin
from bench.broker.tongue import Ear, Line, publications
from bench.report import Target, console, save, short, show, show_targets
from tidings.events import Filter, Notification
from tidings.protocol.requests import Accepted
from tidings.workloads import interval
from tidings.workloads.conditions import Equal, Range, filter_of
from tidings.workloads.quotes import PRICE, REBECA_SYMBOLS, symbol

_CONNECTIONS = 100
_BATCH = 250
_AHEAD = 16
_WARM = 5_000
_MOST = 4.0
"""How many times more an event may cost with the most subscriptions than with the fewest."""


@dataclass(frozen=True)
class Cost:
    """The number of subscriptions at one broker."""

    subscriptions: int
    deliveries: float
    """Of an event, on average."""
    cpu: float
    """Seconds of the broker for an event."""
    rate: float
    """Events a second."""
    subscribing: float
    """Seconds of the broker for each subscription, until it is accepted."""
    memory: float
    """Bytes for each."""
    missing: int


class Prices:
    """Symbols and ranges of prices, in steps, and how many match an event."""

    def __init__(self, count: int) -> None:
        random = Random(1)
        steps = max(1, PRICE.count * REBECA_SYMBOLS // max(count, REBECA_SYMBOLS))
        self._rows = []
        for _ in range(count):
            first = random.randint(0, PRICE.count - steps)
            self._rows.append((random.randrange(REBECA_SYMBOLS), first, first + steps - 1))
        self._firsts: dict[str, list[int]] = {}
        self._lasts: dict[str, list[int]] = {}
        for number, first, last in self._rows:
            self._firsts.setdefault(symbol(number), []).append(first)
            self._lasts.setdefault(symbol(number), []).append(last)
        for each in (*self._firsts.values(), *self._lasts.values()):
            each.sort()

    def filters(self, start: int) -> Iterator[tuple[str, Filter]]:
        """Every hundredth, from this one on, with its id."""
        for at in range(start, len(self._rows), _CONNECTIONS):
            number, first, last = self._rows[at]
            bounds = Range("price", first / PRICE.scale, last / PRICE.scale)
            yield f"s{at}", filter_of((Equal("symbol", symbol(number)), bounds))

    def matches(self, notification: Notification) -> int:
        """How many of them."""
        name = str(notification.attributes["symbol"])
        step = round(notification.attributes["price"] * PRICE.scale)  # type: ignore[operator]
        begun = bisect_right(self._firsts.get(name, []), step)
        return begun - bisect_left(self._lasts.get(name, []), step)


def run(*, quick: bool, full: bool = False, out: Path) -> int:
    console.rule("subscriptions: one broker on one core, over loopback")
    sizes = [1_000, 10_000, 100_000, 1_000_000][: 2 if quick else 4 if full else 3]
    events = 10_000 if quick else 60_000
    notifications = list(interval().notifications(_WARM + events))
    pin(CROWDS_CORE)
    try:
        costs = [_measured(size, notifications) for size in sizes]
    finally:
        pin(None)
    show(
        "One event, and one subscription",
        [
            "subscriptions",
            "broker µs/event",
            "events/s",
            "deliveries/event",
            "broker µs/subscribe",
            "bytes each",
            "missing",
        ],
        [
            [
                short(cost.subscriptions),
                short(cost.cpu * 1e6),
                short(cost.rate),
                f"{cost.deliveries:.2f}",
                short(cost.subscribing * 1e6),
                short(cost.memory),
                str(cost.missing),
            ]
            for cost in costs
        ],
    )
    targets = [
        Target(
            f"CPU of an event: {short(sizes[-1])} of {short(sizes[0])} subscriptions",
            costs[-1].cpu / costs[0].cpu,
            _MOST,
            "×",
            at_most=True,
        )
    ]
    show_targets(targets)
    save(out, "subscriptions", {"costs": [asdict(cost) for cost in costs]}, targets)
    _plot(out, costs)
    return sum(cost.missing != 0 for cost in costs)


def _measured(size: int, notifications: list[Notification]) -> Cost:
    prices = Prices(size)
    matches = [prices.matches(each) for each in notifications]
    with broker() as server:
        _prime(server, notifications[:_WARM])
        before, began = server.resident, server.cpu
        crowd = Crowd((Line(server.port, "publisher").socket, Ear()))
        for n in range(_CONNECTIONS):
            line = Line(server.port, f"subscriber-{n}")
            line.subscribe(prices.filters(n), durable=False)
            crowd.join(line.socket, Ear())
        subscribing = server.cpu - began
        try:
            warm = _batches(notifications[:_WARM], matches, 0)
            server.settle()
            crowd.run(warm, ahead=_AHEAD)
            server.settle()
            memory = (server.resident - before) / size
            rest = _batches(notifications[_WARM:], matches, _WARM)
            found = crowd.run(rest, ahead=_AHEAD, cpu=lambda: server.cpu)
        finally:
            crowd.leave()
    return Cost(
        size,
        found.sent / found.events,
        found.broker / found.events,
        found.events / found.seconds,
        subscribing / size,
        memory,
        found.missing,
    )


def _prime(server: Server, notifications: list[Notification]) -> None:
    """Let it load and compile all that it will need: that is no cost of any subscription."""
    publisher, line = Line(server.port, "primer"), Line(server.port, "primed")
    line.subscribe(Prices(2_000).filters(0), durable=False)
    publisher.socket.sendall(b"".join(publications(notifications, 1, _BATCH)))
    last = 0
    while last < len(notifications):
        accepted = [m.number for m in publisher.hear(60.0) if isinstance(m, Accepted)]
        last = max([last, *accepted])
    publisher.socket.close()
    line.socket.close()
    server.settle()


def _batches(some: list[Notification], matches: list[int], first: int) -> list[Batch]:
    frames = publications(some, first + 1, _BATCH)
    found = []
    for at, frame in zip(range(0, len(some), _BATCH), frames, strict=True):
        count = len(some[at : at + _BATCH])
        found.append(Batch(frame, count, sum(matches[first + at : first + at + count])))
    return found


def _plot(out: Path, costs: list[Cost]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    sizes = [cost.subscriptions for cost in costs]
    panels[0].semilogx(sizes, [cost.cpu * 1e6 for cost in costs], "o-")
    panels[0].set_ylabel("µs of the broker / event")
    panels[1].loglog(sizes, [cost.memory * cost.subscriptions / 1e6 for cost in costs], "o-")
    panels[1].set_ylabel("MB of memory for them")
    panels[0].set_ylim(bottom=0)
    for panel in panels:
        panel.set_xlabel("subscriptions")
        panel.grid(visible=True, alpha=0.3)
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(out / f"subscriptions.{kind}", dpi=140)
    pyplot.close(figure)
