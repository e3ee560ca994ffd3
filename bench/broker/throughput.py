"""How many events one broker keeps, matches and delivers in a second, on one core.

Ten thousand subscriptions on a hundred connections, two of which an event matches on average.
The broker has a core to itself, the publisher and all subscribers share the other. Every
delivery is accounted for: figures of a broker that loses some would mean nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from bench.broker.crowd import Batch, Crowd, Run
from bench.broker.servers import CROWDS_CORE, Server, broker, pin
from bench.broker.tongue import Ear, Line, publications
from bench.report import Target, console, save, short, show, show_targets
from tidings.events import Filter, Notification
from tidings.matching import Index, warm
from tidings.workloads import sparse

_SKEW = 0.6
"""Popular stocks: so skewed, an event matches 2 of 10 000 sparse filters on average."""
_FRAME = 250
"""Publications in a frame, for the figures; the plot shows what others would make of it."""
_FRAMES = (1, 10, 100, 1_000)
_AHEAD = 4_000
"""Events that may be on their way: a quarter of what our client library allows."""
_ACKNOWLEDGE = 1.0
"""Seconds between two acknowledgements of a durable subscription."""
_WARM = 5_000
_WANTED = {"live": 50_000, "durable": 25_000}


class Load(NamedTuple):
    """Who wants what, and what happens."""

    subscriptions: list[tuple[str, Filter]]
    notifications: list[Notification]
    matches: list[int]
    """Of each notification."""

    def batches(self, which: range, frame: int = _FRAME) -> list[Batch]:
        """Some of the events in frames for the publisher, numbered by their places."""
        some = self.notifications[which.start : which.stop]
        matches = self.matches[which.start : which.stop]
        return [
            Batch(data, len(some[at : at + frame]), sum(matches[at : at + frame]))
            for at, data in zip(
                range(0, len(some), frame),
                publications(some, which.start + 1, frame),
                strict=True,
            )
        ]


def load(subscriptions: int, events: int) -> Load:
    """The workload: filters with ids, and events with how many of the filters match each."""
    workload = sparse(skew=_SKEW)
    filters = [(f"s{n}", f) for n, f in enumerate(workload.filters(subscriptions))]
    notifications = list(workload.notifications(events))
    warm.wait()
    index = Index()
    index.add_many(filters)
    return Load(filters, notifications, [len(index.match(n)) for n in notifications])


def gather(server: Server, load: Load, connections: int, *, durable: bool) -> Crowd:
    """The publisher and all subscribers, who have been accepted."""
    publisher = Line(server.port, "publisher")
    crowd = Crowd((publisher.socket, Ear()))
    for n in range(connections):
        line = Line(server.port, f"subscriber-{n}")
        line.subscribe(load.subscriptions[n::connections], durable=durable)
        crowd.join(line.socket, Ear(acknowledges=durable))
    return crowd


@dataclass(frozen=True)
class Outcome:
    """Of one kind of subscription."""

    run: Run
    memory: int
    """Bytes of the broker, at the end."""
    by_frame: dict[int, float]
    """Events a second, by the number of publications in a frame."""


def measured(load: Load, connections: int, *, durable: bool, more: int) -> Outcome:
    """One run after a warm-up, and then one for each size of frame, of this many events."""
    with broker() as server:
        crowd = gather(server, load, connections, durable=durable)

        def play(which: range, frame: int = _FRAME) -> Run:
            return crowd.run(
                load.batches(which, frame),
                ahead=max(2, _AHEAD // frame),
                cpu=lambda: server.cpu,
                pause=_ACKNOWLEDGE if durable else 0.0,
            )

        try:
            server.settle()
            play(range(_WARM))
            server.settle()
            at = len(load.notifications) - more * len(_FRAMES)
            found = play(range(_WARM, at))
            memory = server.resident
            by_frame = {}
            for frame in _FRAMES:
                one = play(range(at, at + more), frame)
                by_frame[frame] = one.events / one.seconds
                at += more
            return Outcome(found, memory, by_frame)
        finally:
            crowd.leave()


def run(*, quick: bool, full: bool = False, out: Path) -> int:
    subscriptions, connections = 10_000, 100
    events, more = (20_000, 2_000) if quick else (600_000, 50_000) if full else (150_000, 20_000)
    console.rule("throughput: one broker on one core, over loopback")
    work = load(subscriptions, _WARM + events + more * len(_FRAMES))
    per_event = sum(work.matches) / len(work.matches)
    pin(CROWDS_CORE)
    try:
        found = {
            kind: measured(work, connections, durable=kind == "durable", more=more)
            for kind in _WANTED
        }
    finally:
        pin(None)
    runs = {kind: one.run for kind, one in found.items()}
    show(
        f"{short(subscriptions)} subscriptions on {connections} connections, "
        f"{per_event:.2f} deliveries of an event of 8 attributes",
        [
            "",
            "events/s",
            "deliveries/s",
            "broker µs/event",
            "events/s of its CPU",
            "crowd µs/event",
            "MB",
            "missing",
        ],
        [
            [
                kind,
                short(r.events / r.seconds),
                short(r.sent / r.seconds),
                short(r.broker / r.events * 1e6),
                short(r.events / r.broker),
                short(r.clients / r.events * 1e6),
                short(found[kind].memory / 1e6),
                str(r.missing),
            ]
            for kind, r in runs.items()
        ],
    )
    show(
        "Events a second, by the number of publications in a frame",
        ["", *map(short, _FRAMES)],
        [[kind, *map(short, one.by_frame.values())] for kind, one in found.items()],
    )
    kept = "kept on disk before they are delivered"
    notes = {"live": kept, "durable": f"{kept}; acknowledged once a second"}
    targets = [
        Target(f"events a second, {kind}", r.events / r.seconds, _WANTED[kind], note=notes[kind])
        for kind, r in runs.items()
    ]
    show_targets(targets)
    save(out, "throughput", {kind: asdict(one) for kind, one in found.items()}, targets)
    _plot(out, found)
    return sum(r.missing != 0 for r in runs.values())


def _plot(out: Path, found: dict[str, Outcome]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(5.6, 3.8), layout="constrained")
    for at, (kind, one) in enumerate(found.items()):
        points = dict(sorted({**one.by_frame, _FRAME: one.run.events / one.run.seconds}.items()))
        panel.semilogx(list(points), list(points.values()), "o-", color=f"C{at}", label=kind)
        wanted = f"wanted, {kind}"
        panel.axhline(_WANTED[kind], linestyle=":", color=f"C{at}", label=wanted)
    panel.set_xlabel("publications in a frame")
    panel.set_ylabel("events / s")
    panel.set_ylim(bottom=0)
    panel.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(out / f"throughput.{kind}", dpi=140)
    pyplot.close(figure)
