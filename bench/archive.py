"""How many events per second get from a broker's log into a lake, each once.

A real broker on loopback has a million quotes of eight attributes on its disk, published before.
They are archived into a new lake each time: by this program itself, without Java, and by Spark with
one task at a time and with two. Broker, Spark and Python share the machine's cores. The start of
Spark is not counted, nor is a small round before, in which it starts its Python.

Besides the time by the clock, what an event costs of the processor is told, in this program, in
Spark and in the broker together: others may use the machine, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.broker.servers import Server, broker
from bench.processes import used
from bench.report import Target, console, save, short, show, show_targets
from tidings import connect_sync
from tidings.lakes.lake import Lake
from tidings.spark.archiving.archive import archive
from tidings.workloads import sparse

WAYS = ("none", "local[1]", "local[2]")
WANTED = 100_000
_DISTINCT = 100_000
"""Different events, which are published again and again."""


@dataclass(frozen=True)
class Outcome:
    """What archiving came to, in one way."""

    events: int
    seconds: float
    commits: int
    processor: float
    """Seconds, of everything together."""
    broker: float
    """Those of the broker alone."""
    bytes: int
    """Of the lake's files."""
    wrong: int
    """Ticks that are missing or there twice."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def run(*, quick: bool, out: Path) -> int:
    events = 100_000 if quick else 1_000_000
    console.rule(f"archive: {short(events)} events from a broker's log into a lake")
    with broker(core=None) as server:
        published = _publish(server, events)
        found = {way: _archived(server, way, events) for way in WAYS}
    show(
        "Into a lake, each event once",
        ["", "events/s", "seconds", "commits", "µs/event", "of them the broker's", "B/event", "✗"],
        [
            [
                way if way != "none" else "no Spark",
                short(one.rate),
                f"{one.seconds:.1f}",
                str(one.commits),
                short(one.processor / one.events * 1e6),
                short(one.broker / one.events * 1e6),
                short(one.bytes / one.events),
                str(one.wrong),
            ]
            for way, one in found.items()
        ],
    )
    targets = [
        Target(
            f"events a second into a lake, {'without Spark' if way == 'none' else way}",
            None if quick else found[way].rate,
            WANTED,
            note=f"on {os.cpu_count()} cores, with the broker",
        )
        for way in ("none", "local[2]")
    ]
    show_targets(targets)
    figures = {way: asdict(one) for way, one in found.items()}
    save(out, "archive", {"published": published, "figures": figures}, targets)
    _plot(out, found)
    return sum(one.wrong for one in found.values())


def _publish(server: Server, events: int) -> float:
    """Fill the broker's log; events per second."""
    notifications = list(sparse().notifications(min(events, _DISTINCT)))
    start = time.perf_counter()
    with connect_sync(f"tidings://127.0.0.1:{server.port}") as client:
        for _ in range(events // len(notifications)):
            client.publish_each(notifications)
    server.settle()
    return events / (time.perf_counter() - start)


def _archived(server: Server, way: str, events: int) -> Outcome:
    url = f"tidings://127.0.0.1:{server.port}"
    with TemporaryDirectory(prefix="tidings-bench-") as folder, _spark(way) as spark:
        if spark is not None:
            archive(url, Lake(f"{folder}/warm"), spark=spark, batch=1_000, until={"bench": 4_000})
        lake = Lake(f"{folder}/lake")
        before, brokers = used(), server.cpu
        start = time.perf_counter()
        report = archive(url, lake, spark=spark, until={"bench": events})
        seconds = time.perf_counter() - start
        spent, brokers = used() - before, server.cpu - brokers
        ticks = [t for batch in lake.scan() for t in batch["tick"].to_pylist()]
        return Outcome(
            report.events,
            seconds,
            report.commits,
            spent,
            brokers,
            sum((lake.path / name).stat().st_size for name in lake.snapshot().files()),
            len(set(range(1, events + 1)) ^ set(ticks)) + len(ticks) - len(set(ticks)),
        )


@contextmanager
def _spark(way: str) -> Iterator[Any]:
    if way == "none":
        yield None
        return
    from tidings.spark.sessions import session_for_python

    with session_for_python("bench", master=way) as started:
        yield started


def _plot(out: Path, found: dict[str, Outcome]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")
    names = ["no Spark" if way == "none" else way for way in found]
    panel.bar(names, [one.rate for one in found.values()], color=["C0", "C1", "C1"], width=0.6)
    panel.axhline(WANTED, linestyle=":", color="black", label="wanted")
    panel.set_ylabel("events / s into a lake")
    panel.grid(visible=True, axis="y", alpha=0.3)
    panel.legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(out / f"archive.{kind}", dpi=140)
    pyplot.close(figure)
