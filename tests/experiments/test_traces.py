"""What Spark finds in traces, against plain Python on the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tidings.experiments import Experiment, Panel, Point, conduct
from tidings.experiments.sweep import QUANTITIES, analyse, trace_of
from tidings.node import Settings
from tidings.simulation import Simulation
from tidings.simulation.topology import random_tree
from tidings.simulation.trace import traced

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traces")]


class Size(Point, frozen=True, kw_only=True):
    brokers: int


class Chatter(Experiment[Size]):
    """A few brokers, and clients that want some of what is published."""

    name = "chatter"
    title = "Chatter"
    source = "nobody"
    runs = 2
    quantities = {"packets": "all that arrived"}  # noqa: RUF012
    panels = (
        Panel(quantity="packets", x="brokers", title="", x_label="brokers", y_label="packets"),
    )

    def points(self, *, full: bool) -> Sequence[Size]:
        return [Size(brokers=4), Size(brokers=9)]

    def measure(self, point: Size, seed: int) -> Mapping[str, float]:
        rng = Random(seed)
        tree = random_tree(point.brokers, seed, latency=0.01)
        sim = Simulation(tree, Settings(subscriptions="imperfect:9"), seed=seed)
        clients = [sim.client(f"client of {name}", at=name) for name in tree.nodes]
        for client in clients:
            low = rng.randrange(90)
            client.subscribe(f"price BETWEEN {low} AND {low + 5}")
        sim.settle()
        for _ in range(30):
            rng.choice(clients).publish({"price": rng.randrange(100)})
        sim.settle()
        return {"packets": sim.traffic.packets}


def plainly(trace: list[dict[str, Any]]) -> dict[str, float]:
    """The definitions, once more."""
    event = [(r["stream"], r["tick"]) for r in trace]
    carried = [(e, r) for e, r in zip(event, trace, strict=True) if r["what"] == "event"]
    begun = {e: r["time"] for e, r in zip(event, trace, strict=True) if r["what"] == "publish"}
    onward = {
        (e, r["source"])
        for e, r in zip(event, trace, strict=True)
        if r["what"] in ("event", "hear")
    }
    links = Counter(
        (r["source"], r["target"]) for r in trace if r["what"] in ("event", "update", "other")
    )
    delays = [
        r["time"] - begun[e] for e, r in zip(event, trace, strict=True) if r["what"] == "hear"
    ]
    return {
        "hops": len(carried) / len(begun),
        "in vain": sum((e, r["target"]) not in onward for e, r in carried) / len(carried),
        "delay": median(delays),
        "busiest link": max(links.values()) / links.total(),
    }


def test_spark_finds_what_the_definitions_say(spark: Any, tmp_path: Path) -> None:
    chatter = Chatter()
    for number, brokers in enumerate((4, 9)):
        with traced(trace_of(tmp_path, number)):
            chatter.measure(Size(brokers=brokers), seed=number)
    found: dict[int, dict[str, float]] = {}
    for row in analyse(spark, tmp_path).to_pylist():
        found.setdefault(row["point"], {})[row["quantity"]] = row["value"]
    for number in (0, 1):
        expected = plainly(parquet.read_table(trace_of(tmp_path, number)).to_pylist())
        assert {n: found[number][n] for n in expected} == pytest.approx(expected)
        assert found[number]["delay of 99 %"] >= found[number]["delay"]
        assert 0 < found[number]["in vain"] < 1


def test_a_traced_experiment_reports_what_was_found(spark: Any, tmp_path: Path) -> None:
    outcome = conduct(Chatter(), tmp_path, runs=2, traces=True)
    told = {(c.summary.parameters["brokers"], c.summary.quantity) for c in outcome.comparisons}
    assert told == {(n, quantity) for n in (4, 9) for quantity in ("packets", *QUANTITIES)}
    assert all(c.summary.runs == 2 for c in outcome.comparisons)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "*in vain*: " in report
    assert "tidings experiment chatter --runs 2 --traces" in report
    assert len(list((tmp_path / "traces").rglob("*.parquet"))) == 4
