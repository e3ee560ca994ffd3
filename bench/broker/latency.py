"""How long an event is on its way through a chain of brokers, and how long until a new
subscription has started: beside Zhao's figures of 2006 for Gryphon (thesis, New York University).

Every broker is a process, and a hop is a link between two of them. One event each five
milliseconds is published at one end and delivered at the other. A subscription has started once
it is accepted, which means that from a definite place on it hears everything, of every stream.
"""

from __future__ import annotations

import os
import select
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

from msgspec.msgpack import Decoder

from bench.broker.servers import Server, chain
from bench.broker.tongue import Heard, Line
from bench.report import Target, console, save, short, show, show_targets
from tidings.events import Filter, Notification
from tidings.protocol.requests import Accepted, Publish, Refused, Subscribe

_RATE = 200.0
_SPACING = 0.02
"""Seconds between two new subscriptions, at least."""
_PATIENCE = 60.0

GRYPHON = {1: (3.29, 19.0, 28.56), 4: (6.27, 19.0, 38.46), 7: (9.21, 19.0, 48.57)}
"""By hops, in milliseconds: delivery, start if covered at the broker, start if not. On 500 MHz
machines, one for each broker, over 100 Mbit/s Ethernet; a start includes 2.5 ms of waiting for
the next event, and delivery was without a sync to disk."""

_notification = Decoder(dict[str, int | float | str]).decode


@dataclass(frozen=True)
class Times:
    """Milliseconds: the median, and what 99 of 100 stay below."""

    p50: float
    p99: float
    samples: int

    @classmethod
    def of(cls, seconds: list[float]) -> Times:
        cuts = quantiles(seconds, n=100, method="inclusive")
        return cls(cuts[49] * 1e3, cuts[98] * 1e3, len(seconds))

    def __str__(self) -> str:
        return f"{short(self.p50)} / {short(self.p99)}"


@dataclass(frozen=True)
class Latencies:
    """Of one chain."""

    delivery: Times
    covered: Times
    distinct: Times


class _Stage:
    """A publisher at one end of a chain, a subscriber at the other, and one clock for both."""

    def __init__(self, first: Server, last: Server) -> None:
        self._publisher = Line(first.port, "publisher")
        self._subscriber = Line(last.port, "subscriber")
        self._subscriber.subscribe([("all", Filter.parse("kind = 0"))], durable=False)
        self._sent: list[float] = []
        self._next = time.monotonic()
        self.delivery: list[float] = []
        self._accepted: dict[str, float] = {}

    def play(self, seconds: float = 0.0, *, until: str = "") -> None:
        """Publish on time and listen, for this time or until something is accepted."""
        end = time.monotonic() + (seconds or _PATIENCE)
        while time.monotonic() < end and not (until and until in self._accepted):
            now = time.monotonic()
            if now >= self._next:
                self._publish(now)
            lines = {line.socket: line for line in (self._publisher, self._subscriber)}
            wait = max(0.0, min(self._next, end) - time.monotonic())
            for ready in select.select(list(lines), [], [], wait)[0]:
                self._listen(lines[ready])
        if until and until not in self._accepted:
            raise RuntimeError(f"{until} was not accepted within {_PATIENCE:g} seconds")

    def _publish(self, now: float) -> None:
        self._next = max(self._next + 1 / _RATE, now)
        self._sent.append(time.monotonic())
        number = len(self._sent)
        event = {"kind": 0, "number": number, "price": 17.05, "symbol": "DIS"}
        self._publisher.say([Publish(number, (Notification(event),))])

    def _listen(self, line: Line) -> None:
        for message in line.hear(0.0):
            if isinstance(message, Heard):
                number = _notification(message.event.notification)["number"]
                if "all" in message.ids:
                    self.delivery.append(time.monotonic() - self._sent[int(number) - 1])
            elif isinstance(message, Accepted):
                self._accepted[message.id] = time.monotonic()
            elif isinstance(message, Refused):
                raise RuntimeError(f"{message.id} was refused: {message.reason}")

    def wait_until_heard(self) -> None:
        """Until the brokers have found each other."""
        end = time.monotonic() + _PATIENCE
        while not self.delivery and time.monotonic() < end:
            self.play(0.2)
        if not self.delivery:
            raise RuntimeError("nothing arrives at the end of the chain")
        self.play(2.0)  # all of them know of all streams by then

    def start(self, id: str, filter: Filter) -> float:
        """Subscribe to this, too; seconds until it is accepted."""
        begun = time.monotonic()
        self._subscriber.say([Subscribe(id, filter)])
        self.play(until=id)
        self.play(_SPACING)
        return self._accepted[id] - begun

    def close(self) -> None:
        self._publisher.socket.close()
        self._subscriber.socket.close()


def run(*, quick: bool, full: bool = False, out: Path) -> int:
    console.rule("latency: chains of brokers, over loopback")
    hops = (1, 4) if quick else (1, 4, 7)
    seconds, starts = (2.0, 30) if quick else (30.0, 400) if full else (6.0, 100)
    found = {}
    sync = _sync()
    for each in hops:
        with chain(each + 1) as servers:
            found[each] = _measured(servers, seconds, starts)
    show(
        f"Milliseconds, p50 / p99, at {_RATE:g} events a second; in brackets, Gryphon's means",
        ["hops", "delivery", "start, covered", "start, not covered"],
        [
            [
                str(each),
                f"{one.delivery} ({GRYPHON[each][0]})",
                f"{one.covered} (~{GRYPHON[each][1]:g})",
                f"{one.distinct} ({GRYPHON[each][2]})",
            ]
            for each, one in found.items()
        ],
    )
    console.print(
        f"A sync of the disk takes {sync} ms; each event waits for one, at its first broker."
    )
    note = f"of which {short(sync.p50)} for a sync"
    targets = [
        Target(
            f"{what}, {each} hops, p50",
            getattr(one, name).p50,
            limit,
            " ms",
            at_most=True,
            note=note if name == "delivery" else "",
        )
        for each, one in found.items()
        for what, name, limit in (
            ("delivery", "delivery", GRYPHON[each][0]),
            ("start, covered", "covered", GRYPHON[each][1]),
            ("start, not covered", "distinct", GRYPHON[each][2]),
        )
    ]
    near, far = min(found), max(found)
    slope = (found[far].delivery.p50 - found[near].delivery.p50) / (far - near)
    then = (GRYPHON[far][0] - GRYPHON[near][0]) / (far - near)
    targets.append(Target("delivery, each further hop", slope, then, " ms", at_most=True))
    show_targets(targets)
    data = {str(each): asdict(one) for each, one in found.items()}
    save(out, "latency", {"latencies": data, "sync": asdict(sync), "gryphon": GRYPHON}, targets)
    _plot(out, found)
    return 0


def _sync() -> Times:
    """What the disk takes for a sync of a little data, where the brokers' stores are."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            file.write(bytes(4096))
            file.flush()
            begun = time.monotonic()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - begun)
    return Times.of(times)


def _measured(servers: list[Server], seconds: float, starts: int) -> Latencies:
    stage = _Stage(servers[0], servers[-1])
    try:
        stage.wait_until_heard()
        for server in servers:
            server.settle()  # meanwhile nothing is published
        stage.play(1.0)
        stage.delivery.clear()
        stage.play(seconds)
        delivery = Times.of(stage.delivery)
        covered, distinct = [], []
        for n in range(starts):
            own = f"number > {10**9 + n}"
            covered.append(stage.start(f"c{n}", Filter.parse(f"kind = 0 AND {own}")))
            distinct.append(stage.start(f"d{n}", Filter.parse(f"kind = {n + 1}")))
        return Latencies(delivery, Times.of(covered), Times.of(distinct))
    finally:
        stage.close()


def _plot(out: Path, found: dict[int, Latencies]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    names = [("delivery", "delivery"), ("start, covered", "covered")]
    names.append(("start, not covered", "distinct"))
    for at, (panel, (title, name)) in enumerate(zip(panels, names, strict=True)):
        for quantile, style in (("p50", "o-"), ("p99", ".--")):
            times = [getattr(getattr(one, name), quantile) for one in found.values()]
            panel.semilogy(list(found), times, style, color="C0", label=f"tidings, {quantile}")
        then = [GRYPHON[each][at] for each in found]
        panel.semilogy(list(found), then, "s:", color="C7", label="Gryphon 2006, mean")
        panel.set_title(title)
        panel.set_xlabel("hops")
        panel.set_ylabel("ms")
        panel.set_xticks(list(found))
        panel.grid(visible=True, alpha=0.3)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(out / f"latency.{kind}", dpi=140)
    pyplot.close(figure)
