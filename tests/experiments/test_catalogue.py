"""Every experiment of the catalogue is complete, and measures what it says."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.experiments import (
    EXPERIMENTS,
    Experiment,
    UnknownExperimentError,
    adaptive,
    find,
    stabilisation,
)
from tidings.experiments.experiment import parameters, repeated, seed_of
from tidings.experiments.rebeca import population

each = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)


@each
def test_it_says_what_it_is(experiment: Experiment[Any]) -> None:
    assert find(experiment.name) is experiment
    assert experiment.title
    assert experiment.source
    assert experiment.__doc__
    assert experiment.runs > 1


@each
def test_its_points_differ_and_so_do_their_seeds(experiment: Experiment[Any]) -> None:
    for full in (False, True):
        points = repeated(experiment.points(full=full), 3)
        assert len(set(points)) == len(points)
        assert len({seed_of(experiment.name, point) for point in points}) == len(points)


@each
def test_its_plots_show_quantities_and_parameters_that_exist(experiment: Experiment[Any]) -> None:
    point = experiment.points(full=False)[0]
    for panel in experiment.panels:
        assert panel.quantity in experiment.quantities
        assert {panel.x, *panel.where} <= set(parameters(point))
        assert any(
            all(getattr(point, name) == value for name, value in panel.where.items())
            for point in experiment.points(full=True)
        )


@each
@pytest.mark.slow
def test_a_point_yields_the_quantities_and_the_same_ones_again(
    experiment: Experiment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(population, "toggles_for", lambda *_, **__: 2)
    monkeypatch.setattr(stabilisation, "FAILURES", 1)
    monkeypatch.setattr(adaptive, "EVENTS", 50)
    monkeypatch.setattr(adaptive, "CHANGES", 3)
    point = min(experiment.points(full=False), key=experiment.weight)
    seed = seed_of(experiment.name, point)
    found = experiment.measure(point, seed)
    assert found
    assert set(found) <= set(experiment.quantities)
    assert experiment.measure(point, seed) == found


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownExperimentError, match="did you mean rebeca-tables"):
        find("rebecca-tables")
    with pytest.raises(UnknownExperimentError, match="there are rebeca-tables, "):
        find("x")
