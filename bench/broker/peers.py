"""Content-based delivery beside brokers that route by topic: what does a wanted event cost?

Each of 10, 100 and 1 000 subscribers wants 0.1 % of the stream, by a range of prices. The same
events and interests for every system, the broker on one core and all clients on the other. See
`systems` for how each of them is used. The figure is the number of wanted events that arrive for
each second of CPU, of the broker and all clients together: it does not matter who waits for whom.
"""

from __future__ import annotations

import resource
import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

from bench.broker.crowd import Batch, Crowd, Run
from bench.broker.servers import CROWDS_CORE, NotInstalledError, Server, pin
from bench.broker.systems import SLICE, SYSTEMS, System, Want, bucket
from bench.report import Target, console, save, short, show, show_targets
from tidings.events import Notification
from tidings.workloads import sparse
from tidings.workloads.quotes import PRICE

_BATCH = 100
_PART, _FEWEST = 30_000, 300
"""Deliveries of a part where everybody is sent everything; it has no fewer events."""
_EVENTS = 60_000
_ON_THE_WAY = 100_000
"""Deliveries that may be on their way where everybody is sent everything, about."""


class Interest:
    """What this many subscribers want, and how often each event is to be sent."""

    def __init__(self, subscribers: int) -> None:
        random = Random(1)
        self.wants = [Want(random.randint(0, PRICE.count - SLICE)) for _ in range(subscribers)]
        self._firsts = sorted(want.first for want in self.wants)
        self._touching: dict[int, int] = {}
        for want in self.wants:
            for each in want.buckets:
                self._touching[each] = self._touching.get(each, 0) + 1

    def wanted(self, notification: Notification) -> int:
        """By how many."""
        step = round(notification.attributes["price"] * PRICE.scale)  # type: ignore[operator]
        return bisect_right(self._firsts, step) - bisect_right(self._firsts, step - SLICE)

    def sent(self, notification: Notification, system: System) -> int:
        """To how many this system sends it."""
        if system.floods:
            return len(self.wants)
        if system.name == "tidings":
            return self.wanted(notification)
        return self._touching.get(bucket(notification), 0)


def run(*, quick: bool, full: bool = False, out: Path) -> int:
    console.rule("peers: wanted events for each second of CPU, over loopback")
    _allow_many_files()
    sizes = (10, 100) if quick else (10, 100, 1_000)
    seconds = 0.5 if quick else 8.0 if full else 2.5
    events = list(sparse().notifications(_EVENTS))
    found: dict[str, dict[int, Run]] = {}
    wrong = 0
    pin(CROWDS_CORE)
    try:
        for system in SYSTEMS:
            for size in sizes:
                try:
                    one = _measured(system, Interest(size), events, seconds)
                except NotInstalledError as problem:
                    console.print(f"[yellow]{system.name} is left out: {problem}")
                    break
                found.setdefault(system.name, {})[size] = one
                wrong += one.missing != 0
    finally:
        pin(None)
    _tell(found, sizes)
    targets = _targets(found, sizes)
    show_targets(targets)
    data = {n: {s: asdict(r) for s, r in runs.items()} for n, runs in found.items()}
    how = {system.name: system.how for system in SYSTEMS}
    save(out, "peers", {"runs": data, "how": how, "packages": _versions()}, targets)
    _plot(out, found)
    return wrong


def _measured(
    system: System, interest: Interest, events: Sequence[Notification], seconds: float
) -> Run:
    """Parts of the stream, one after the other, until the time is up; the first is a warm-up."""
    subscribers = len(interest.wants)
    part = max(_FEWEST, _PART // subscribers) if system.floods else _PART // 10
    ahead = max(1, (_ON_THE_WAY // subscribers if system.floods else _ON_THE_WAY // 25) // _BATCH)
    runs: list[Run] = []
    with system.start() as server:
        crowd = _gathered(system, server, interest)
        try:
            server.settle()
            at = _play(crowd, system, interest, events[:part], 0, ahead).events
            server.settle()
            before = server.cpu
            while sum(each.seconds for each in runs) < seconds and at + part <= len(events):
                one = _play(crowd, system, interest, events[at : at + part], at, ahead)
                runs.append(one)
                at += one.events
            server.settle()
            return _sum(runs, server.cpu - before)
        finally:
            crowd.leave()


def _play(
    crowd: Crowd,
    system: System,
    interest: Interest,
    events: Sequence[Notification],
    first: int,
    ahead: int,
) -> Run:
    batches = []
    for start in range(0, len(events), _BATCH):
        some = events[start : start + _BATCH]
        sent = sum(interest.sent(each, system) for each in some)
        batches.append(Batch(system.encoded(some, first + start + 1), len(some), sent))
    found = crowd.run(batches, ahead=ahead, patience=10.0)
    wrong = abs(sum(map(interest.wanted, events)) - found.wanted)
    return replace(found, missing=max(wrong, found.missing))


def _sum(runs: Sequence[Run], broker: float) -> Run:
    names = ("events", "seconds", "sent", "wanted", "bytes", "clients", "missing")
    return Run(**{n: sum(getattr(run, n) for run in runs) for n in names}, broker=broker)


def _gathered(system: System, server: Server, interest: Interest) -> Crowd:
    crowd = Crowd(system.publisher(server.port))
    for number, want in enumerate(interest.wants):
        crowd.join(*system.subscriber(server.port, number, want))
    return crowd


def _rate(run: Run) -> float:
    return run.wanted / (run.broker + run.clients)


def _tell(found: dict[str, dict[int, Run]], sizes: Sequence[int]) -> None:
    show(
        "How each is used: its fast mode, at most once, but for ours",
        ["", "used as"],
        [[system.name, system.how] for system in SYSTEMS if system.name in found],
    )
    for size in sizes:
        show(
            f"{size} subscribers, each of whom wants 0.1 % by a range",
            [
                "",
                "wanted/CPU s",
                "broker µs/event",
                "clients µs/event",
                "events/s",
                "bytes sent/event",
                "missing",
            ],
            [
                [
                    name,
                    short(_rate(r)),
                    short(r.broker / r.events * 1e6),
                    short(r.clients / r.events * 1e6),
                    short(r.events / r.seconds),
                    short(r.bytes / r.events),
                    str(r.missing),
                ]
                for name, runs in found.items()
                if (r := runs.get(size)) is not None
            ],
        )


def _targets(found: dict[str, dict[int, Run]], sizes: Sequence[int]) -> list[Target]:
    targets = []
    ours = found["tidings"]
    for size in sizes:
        for name, runs in found.items():
            if name == "tidings" or size not in runs:
                continue
            knows = "buckets" in name and not name.startswith("rabbitmq")
            if size >= 100 and not knows:
                targets.append(
                    Target(
                        f"wanted events per CPU second, {size} subscribers, beside {name}",
                        _rate(ours[size]) / _rate(runs[size]),
                        1.0,
                        "×",
                    )
                )
    return targets


def _plot(out: Path, found: dict[str, dict[int, Run]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    colours: dict[str, Any] = {}
    for name, runs in found.items():
        kind = name.partition(",")[0]
        style = {
            "linestyle": "--" if "buckets" in name else "-",
            "linewidth": 2.4 if name == "tidings" else 1.4,
            "marker": "o" if name == "tidings" else ".",
            "color": colours.setdefault(kind, f"C{len(colours)}"),
            "label": name,
        }
        panels[0].loglog(list(runs), [_rate(r) for r in runs.values()], **style)
        panels[1].loglog(list(runs), [r.bytes / r.events for r in runs.values()], **style)
    panels[0].set_ylabel("wanted events / s of CPU, broker and clients")
    panels[1].set_ylabel("bytes sent by the broker / event published")
    for panel in panels:
        panel.set_xlabel("subscribers, each of whom wants 0.1 %")
        panel.grid(visible=True, which="major", alpha=0.3)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(out / f"peers.{kind}", dpi=140)
    pyplot.close(figure)


def _versions() -> list[str]:
    """Of the packages of the others, where Debian's tools know them."""
    command = ["dpkg-query", "-W", "mosquitto", "nats-server", "rabbitmq-server"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.splitlines()
    except OSError:
        return []


def _allow_many_files() -> None:
    """A connection is an open file, here and in the brokers that are started from here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
