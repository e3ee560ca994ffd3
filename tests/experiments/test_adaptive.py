"""Adaptive merging in a small market: what the experiment claims, as far as that is certain."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tidings.events import Filter
from tidings.experiments import adaptive
from tidings.experiments.adaptive import FIXED, LEARNT, PERFECT, AdaptiveMerging, AdaptivePoint
from tidings.experiments.compare import Summary
from tidings.experiments.experiment import Results, parameters
from tidings.routing import reduce


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, size in {"BROKERS": 5, "SUBSCRIPTIONS": 12, "EVENTS": 150, "CHANGES": 3}.items():
        monkeypatch.setattr(adaptive, name, size)
    for name, size in {"SYMBOLS": 4, "LEARNT_FROM": 3_000}.items():
        monkeypatch.setattr(adaptive, name, size)
    adaptive.learn.cache_clear()
    yield
    adaptive.learn.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_learning_makes_tables_smaller_and_wastes_little() -> None:
    experiment = AdaptiveMerging()
    found = {
        (rule, limit): experiment.measure(AdaptivePoint(rule=rule, limit=limit), 1)
        for rule, limit in ((PERFECT, 1.0), (FIXED, 3.0), (LEARNT, 0.0), (LEARNT, 0.01))
    }
    perfect, fixed = found[PERFECT, 1.0], found[FIXED, 3.0]
    free, learnt = found[LEARNT, 0.0], found[LEARNT, 0.01]
    assert perfect["waste"] == 0.0
    assert perfect["learning"] == fixed["learning"] == 0
    assert learnt["learning"] > 0
    assert learnt["intervals"] < free["intervals"] <= perfect["intervals"]
    assert free["waste"] < 0.01
    assert learnt["waste"] < fixed["waste"]
    assert learnt["bytes"] < perfect["bytes"]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_what_is_learnt_tells_a_common_price_from_a_rare_one() -> None:
    market, learnt = adaptive.Market(0), adaptive.learn(0)
    rng = Random("prices")
    prices = [e["price"] for e in (market.event(rng) for _ in range(900)) if e["symbol"] == "S0"]
    usual = sorted(prices)[len(prices) // 2]
    rare = usual - 30 if usual > 50 else usual + 30
    for price, is_closed in ((usual, False), (rare, True)):
        sides = f"symbol = 'S0' AND price BETWEEN {price - 2} AND {price - 1}"
        other = f"symbol = 'S0' AND price BETWEEN {price + 1} AND {price + 2}"
        wanted = {Filter.parse(text): 1 for text in (sides, other)}
        (told,) = reduce("learnt:0.01", wanted, learnt)
        between = Filter.parse(f"symbol = 'S0' AND price BETWEEN {price - 2} AND {price + 2}")
        assert (told == between) is is_closed


def test_its_findings_follow_from_its_figures() -> None:
    experiment = AdaptiveMerging()
    points = experiment.points(full=False)

    def figures(point: AdaptivePoint) -> dict[str, float]:
        waste = {PERFECT: 0.0, FIXED: 0.3, LEARNT: 0.1}.get(point.rule, 0.2)
        return {"waste": waste, "intervals": 1_000.0 - points.index(point)}

    summaries = [
        Summary(parameters=parameters(p), quantity=name, mean=mean, deviation=0.0, runs=3)
        for p in points
        for name, mean in figures(p).items()
    ]
    verdicts = [finding.holds for finding in experiment.findings(Results(summaries))]
    assert verdicts == [True, True, True, False]
