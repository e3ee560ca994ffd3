"""Traces hold all that travelled, once, and nothing is different because of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from tidings.node import Settings
from tidings.simulation import Simulation
from tidings.simulation.simulation import Conditions
from tidings.simulation.topology import line
from tidings.simulation.trace import current, traced


def play() -> Simulation:
    sim = Simulation(line(4), Settings(), seed=5, conditions=Conditions(loss=0.1, duplication=0.1))
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b3")
    reader.subscribe("price < 10")
    sim.settle()
    for price in range(20):
        writer.publish({"price": price})
    sim.settle()
    return sim


def rows(path: Path) -> list[dict[str, Any]]:
    return parquet.read_table(path).to_pylist()


def test_a_trace_tells_what_traffic_counts(tmp_path: Path) -> None:
    with traced(tmp_path / "trace.parquet"):
        sim = play()
    found = rows(tmp_path / "trace.parquet")
    kinds = Counter(row["what"] for row in found)
    assert kinds["publish"] == 20
    assert kinds["hear"] == 10 == len(sim.clients["reader"].heard)
    assert kinds["event"] == sim.traffic.events
    assert kinds["update"] == sim.traffic.control
    assert sum(row["filters"] for row in found) == sim.traffic.filters
    between = [row for row in found if row["what"] in ("event", "update", "other")]
    assert Counter((row["source"], row["target"]) for row in between) == sim.traffic.by_link
    assert [row["time"] for row in found] == sorted(row["time"] for row in found)


def test_an_event_can_be_followed(tmp_path: Path) -> None:
    with traced(tmp_path / "trace.parquet"):
        play()
    way = [r for r in rows(tmp_path / "trace.parquet") if (r["stream"], r["tick"]) == ("b3", 3)]
    assert dict.fromkeys((r["what"], r["source"], r["target"]) for r in way) == dict.fromkeys(
        [
            ("publish", "writer", "b3"),
            ("event", "b3", "b2"),
            ("event", "b2", "b1"),
            ("event", "b1", "b0"),
            ("hear", "b0", "reader"),
        ]
    )


def test_several_simulations_share_a_file_and_tracing_changes_nothing(tmp_path: Path) -> None:
    alone = play()
    with traced(tmp_path / "trace.parquet"):
        traced_ones = [play(), play()]
    assert current() is None
    assert {sim.steps for sim in traced_ones} == {alone.steps}
    found = rows(tmp_path / "trace.parquet")
    first, second = ([r for r in found if r["simulation"] == n] for n in (1, 2))
    assert [{**r, "simulation": 0} for r in first] == [{**r, "simulation": 0} for r in second]


def test_nothing_that_travelled_is_an_empty_trace(tmp_path: Path) -> None:
    with traced(tmp_path / "trace.parquet"):
        pass
    assert rows(tmp_path / "trace.parquet") == []
