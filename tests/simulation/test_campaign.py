"""A campaign tries every kind of trial, finds what fails, and says how to see it again."""

from __future__ import annotations

import pytest

from tests.simulation.campaign import STEPS, STRATEGIES, Case, main
from tidings.delivery.reading import Reading


def test_seeds_that_follow_each_other_stand_for_every_kind_of_trial() -> None:
    cases = [Case.of(seed) for seed in range(400)]
    assert {case.strategy for case in cases} == set(STRATEGIES)
    assert {case.steps for case in cases} == set(STEPS)
    assert {case.at_most_once for case in cases} == {True, False}
    assert len({(case.network, case.faults, case.semantics) for case in cases}) > 100


def test_a_campaign_without_a_failure_says_how_many_were_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--trials", "3", "--first", "5", "--processes", "1"]) == 0
    assert "3 trials at the seeds 5 to 7" in capsys.readouterr().out


@pytest.mark.slow
def test_a_campaign_prints_what_fails_and_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Reading, "resume", lambda self, flow: self._probe(flow))
    options = ["--first", "0", "--trials", "60", "--most", "1", "--processes", "1"]
    assert main(options) == 1
    said = capsys.readouterr().out
    assert "FAILED scenario(" in said
    seed = said.split("Replay it: make campaign FIRST=")[1].split()[0]
    assert main(["--first", seed, "--trials", "1"]) == 1
    monkeypatch.undo()
    assert main(["--first", seed, "--trials", "1"]) == 0


@pytest.mark.slow
def test_a_campaign_tries_the_same_in_several_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--first", "5", "--trials", "4", "--processes", "2"]) == 0
    assert "4 done, 0 failed" in capsys.readouterr().out
