"""A failing run becomes small, and can be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.runs import scenario
from tests.simulation.shrinking import explain, fails, play, shrink
from tidings.delivery import AtMostOnce
from tidings.simulation.guarantees import Violation
from tidings.simulation.scenario import Scenario


def test_steps_and_nodes_that_do_not_matter_are_left_out() -> None:
    drawn = scenario(1, "acyclic", faults="all")

    def publishes_at_b4(run: Scenario) -> bool:
        joined = any(s.do == "join" and s.node == "b4" for s in run.steps)
        return joined and any(s.do == "publish" for s in run.steps) and "b4" in run.topology().nodes

    assert publishes_at_b4(drawn)
    small = shrink(drawn, publishes_at_b4)
    assert sorted(s.do for s in small.steps) == ["join", "publish"]
    assert small.topology().nodes == ("b4",)


@pytest.mark.slow
def test_a_broken_node_gives_a_small_run_that_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(AtMostOnce, "_last_tick", lambda self, stream: 0)
    seed = next(
        n
        for n in range(200)
        if fails(scenario(n, "ring", "flooding", faults="crashes", at_most_once=True))
    )
    said = explain(
        scenario(seed, "ring", "flooding", faults="crashes", at_most_once=True), tmp_path
    )
    command = said.splitlines()[-1]
    assert command.startswith("Replay it: tidings simulate --check ")
    kept = Scenario.load(command.split()[-1])
    assert len(kept.steps) <= 20
    with pytest.raises(Violation) as violation:
        play(kept)
    assert str(violation.value) in said
    monkeypatch.undo()
    play(kept)
