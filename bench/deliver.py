"""How long a bulk subscription waits for an event: from its publication to its delivery.

One broker, the publisher, Spark with all that it starts, and the subscribers share the machine.
Quotes are published at a steady rate in a process of its own, each with the time of its
publication; REBECA's quote intervals are subscribed to in bulk, and some hundred of the names are
listened to, durably, by one more process. Of an inbox, what counts is when a batch was committed.

Every delivery that a listener hears is compared with what its filter matches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.broker.servers import broker
from bench.processes import used
from bench.report import Target, console, save, short, show, show_targets
from tidings import Index, Notification, connect_sync
from tidings.spark.bulk.registrations import registration
from tidings.spark.delivering.deliver import deliver
from tidings.spark.delivering.tally import DeliverReport
from tidings.spark.sessions import session_for_python
from tidings.workloads import interval

RATE = 10_000
LISTENERS = 100
_DISTINCT = 20_000
_STEP = 0.01
"""Seconds between two lists of events that are published."""
_WARM = 20.0
"""Seconds at full rate before anything is measured: Java compiles what it does often."""
_QUIET = 15.0
"""Seconds without a delivery after which all is delivered."""
_PROGRAM = [sys.executable, "-m", "bench.deliver"]


@dataclass(frozen=True)
class Case:
    """What is measured."""

    way: str
    subscriptions: int
    cores: int

    def __str__(self) -> str:
        cores = "core" if self.cores == 1 else "cores"
        return f"{self.way}, {self.subscriptions:,} subscriptions, {self.cores} {cores}"


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    start: float
    """Seconds from the start of Spark to the first delivery."""
    events: float
    """Per second, as they were read."""
    delivered: float
    """Names per second that an event was delivered to."""
    batches: float
    """Per second."""
    processor: float
    """Seconds of processor time per second: of Spark, its Python, the publisher and listeners."""
    broker: float
    """The same of the broker."""
    p50: float
    p90: float
    p99: float
    samples: int
    wrong: int


def run(*, quick: bool, out: Path) -> int:
    seconds = 10.0 if quick else 40.0
    sizes = (1_000,) if quick else (10_000, 100_000)
    console.rule(f"deliver: {RATE:,} events a second to bulk subscriptions")
    cases = [Case("publish", size, 2) for size in sizes]
    cases += [] if quick else [Case("publish", sizes[0], 1), Case("inbox", sizes[0], 2)]
    found: dict[Case, Outcome] = {}
    waits: dict[Case, Any] = {}
    for case in cases:
        found[case], waits[case] = _outcome(case, seconds)
    show(
        f"Seconds from publication to delivery, at {RATE:,} events a second",
        ["", "p50", "p90", "p99", "events/s", "delivered/s", "batches/s", "CPU", "broker", "start"],
        [
            [
                str(case),
                *(f"{value:.2f}" for value in (o.p50, o.p90, o.p99)),
                *(short(value) for value in (o.events, o.delivered, o.batches)),
                *(f"{value:.2f}" for value in (o.processor, o.broker)),
                f"{o.start:.0f} s",
            ]
            for case, o in found.items()
        ],
    )
    wrong = sum(o.wrong for o in found.values())
    if wrong:
        console.print(f"[bold red]{wrong} deliveries are wrong or missing")
    first = found[cases[0]]
    measured = None if quick else first.p50
    load = f"load average {os.getloadavg()[0]:.1f}"
    targets = [Target("deliver: half within", measured, 1.0, " s", at_most=True, note=load)]
    show_targets(targets)
    save(out, "deliver", {"figures": {str(c): asdict(o) for c, o in found.items()}}, targets)
    _plot(out, waits)
    return int(wrong > 0)


def _outcome(case: Case, seconds: float) -> tuple[Outcome, Any]:
    """Run the case: warm up, measure, and look at what was heard."""
    filters = dict(enumerate(interval().filters(case.subscriptions)))
    with (
        TemporaryDirectory(prefix="tidings-bench-") as place,
        broker(core=None) as server,
        connect_sync(f"tidings://127.0.0.1:{server.port}") as client,
    ):
        url, folder = f"tidings://127.0.0.1:{server.port}", Path(place)
        client.publish_each(registration(f"desk-{n}", f) for n, f in filters.items())
        inbox = folder / "inbox" if case.way == "inbox" else None
        began = time.perf_counter()
        with (
            session_for_python("bench", master=f"local[{case.cores}]") as spark,
            _delivering(spark, url, folder / "deliver", inbox) as told,
        ):
            while not told().delivered:  # the first batches start Python, and make an index
                client.publish_each(_quotes(RATE // 10, -1))
                time.sleep(0.5)
            start = time.perf_counter() - began
            _publish(url, _WARM)
            _settle(told)
            before, at, when = (used(), server.cpu, told()), time.perf_counter(), time.time()
            with _listening(url, folder) as heard:
                _publish(url, seconds)
                spent = time.perf_counter() - at
                after = (used(), server.cpu, told())
                _settle(told)
        samples = _heard_late(heard) if inbox is None else _committed_late(inbox)
        wrong = _wrong(heard, filters) if inbox is None else 0
    samples = samples[samples[:, 0] > when]
    steady = samples[samples[:, 0] > when + seconds / 4]
    cuts = np.percentile(steady[:, 1], [50, 90, 99]) if len(steady) else [9e9] * 3
    one, two = before[2], after[2]
    broker_used = after[1] - before[1]
    return Outcome(
        start,
        (two.events - one.events) / spent,
        (two.delivered - one.delivered) / spent,
        (two.batches - one.batches) / spent,
        (after[0] - before[0] - broker_used) / spent,  # the broker is one of what it has started
        broker_used / spent,
        *map(float, cuts),
        len(steady),
        wrong,
    ), samples


@contextmanager
def _delivering(spark: Any, url: str, folder: Path, inbox: Path | None) -> Iterator[Any]:
    reports, stop = [DeliverReport()], threading.Event()
    thread = threading.Thread(
        target=deliver,
        args=(spark, url, folder),
        kwargs={"inbox": inbox, "progress": reports.append, "stop": stop},
    )
    thread.start()
    try:
        yield lambda: reports[-1]
    finally:
        stop.set()
        thread.join()


@contextmanager
def _listening(url: str, folder: Path) -> Iterator[Path]:
    """A process that writes down what it hears."""
    heard = folder / "heard.jsonl"
    listener = subprocess.Popen(
        [*_PROGRAM, "listen", url, str(heard)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert listener.stdout is not None
    listener.stdout.readline()
    yield heard
    listener.communicate()  # nothing more is said to it, so it ends


def _publish(url: str, seconds: float) -> None:
    subprocess.run([*_PROGRAM, "feed", url, str(seconds)], check=True)


def _settle(told: Any) -> None:
    """Wait until nothing more is delivered."""
    before = -1
    while told().delivered != before:
        before = told().delivered
        time.sleep(_QUIET)


def feed(url: str, seconds: float) -> None:
    """Publish at the rate."""
    with connect_sync(url) as client:
        began, sent, count = time.monotonic(), 0, int(RATE * seconds)
        waiting: Any = None
        while sent < count:
            due = min(count, int((time.monotonic() - began) * RATE))
            if due > sent:
                work = client.publish_soon(list(_quotes(due - sent, sent)))
                sent = due
                if waiting is not None:
                    waiting.result()
                waiting = work
            time.sleep(_STEP)
        waiting.result()


_QUOTES: list[dict[str, Any]] = []


def _quotes(count: int, first: int) -> Iterator[Notification]:
    """Events with their numbers, from `first` on; a number below 0 is of the warm-up."""
    if not _QUOTES:
        _QUOTES.extend(pa.table(interval().columns(_DISTINCT)).to_pylist())
    now = time.time()
    for n in range(count):
        said = Notification.__new__(Notification)  # making it is not what is measured
        number = first + n if first >= 0 else -1
        said.attributes = {**_QUOTES[(first + n) % _DISTINCT], "n": number, "at": now}
        said.packed = None
        yield said


def listen(url: str, out: str) -> None:
    """Write down who heard of what, when."""
    with open(out, "w", encoding="utf-8") as file, connect_sync(url) as client:
        lock = threading.Lock()

        def heard(name: str, event: Any) -> None:
            if event["n"] >= 0:
                now = time.time()
                with lock:
                    file.write(json.dumps([name, event["n"], now, now - event["at"]]) + "\n")
            event.ack()

        for n in range(LISTENERS):
            name = f"desk-{n}"
            client.subscribe(
                "TRUE",
                bulk=name,
                durable=f"bulk-{name}",
                callback=lambda event, name=name: heard(name, event),
            )
        print("listening", flush=True)
        sys.stdin.read()


def _heard_late(heard: Path) -> Any:
    rows = [json.loads(line) for line in heard.read_text(encoding="utf-8").splitlines()]
    return np.array([[when, late] for _, _, when, late in rows]).reshape(-1, 2)


def _wrong(heard: Path, filters: dict[int, Any]) -> int:
    """How many are missing, or were heard wrongly or twice, up to the last that was heard."""
    rows = [json.loads(line) for line in heard.read_text(encoding="utf-8").splitlines()]
    found = {(name, n) for name, n, _, _ in rows}
    index = Index()
    index.add_many((f"desk-{n}", filters[n]) for n in range(min(LISTENERS, len(filters))))
    last = max((n for _, n in found), default=_DISTINCT)
    matches = [index.match(said) for said in _quotes(_DISTINCT, 0)]
    wanted = {(name, n) for n in range(last + 1) for name in matches[n % _DISTINCT]}
    return len(rows) - len(found) + len(found ^ wanted)


def _committed_late(inbox: Path) -> Any:
    """When rows were committed, and how long after they had been published."""
    found = []
    for path in sorted((inbox / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        when = next(a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a) / 1e3
        for file in (a["add"]["path"] for a in actions if "add" in a and a["add"]["dataChange"]):
            times = pq.read_table(inbox / file, columns=["time"])["time"].cast(pa.int64())
            late = when - times.to_numpy() / 1e6
            found.append(np.column_stack([np.full(len(late), when), late]))
    return np.concatenate(found)


def _plot(out: Path, waits: dict[Case, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(7, 4.4), layout="constrained")
    for case, samples in waits.items():
        late = np.sort(samples[:, 1])
        style = "--" if case.cores == 1 else "-"  # it may lie on that of two
        panel.plot(late, np.linspace(0, 1, len(late)), style, label=str(case))
    panel.axvline(1.0, color="grey", linewidth=0.8)
    panel.set(xlabel="seconds from publication to delivery", ylabel="share", xscale="log")
    panel.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    panel.grid(visible=True, which="both", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    for kind in ("svg", "png"):
        figure.savefig(out / f"deliver.{kind}", dpi=140)
    pyplot.close(figure)


if __name__ == "__main__":
    what, where, more = sys.argv[1:]
    if what == "feed":
        feed(where, float(more))
    else:
        listen(where, more)
