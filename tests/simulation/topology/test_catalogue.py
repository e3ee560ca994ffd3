"""Generators by name, and what is said of a wrong description."""

from __future__ import annotations

import pytest

from tidings.events.errors import TidingsError
from tidings.simulation.topology import GENERATORS, Link, topology

PARAMETERS = {
    "nodes": 12,
    "seed": 1,
    "fanout": 2,
    "depth": 2,
    "m": 2,
    "width": 2,
    "height": 3,
    "transit_domains": 2,
    "transit_nodes": 2,
    "stubs_per_transit": 1,
    "stub_nodes": 2,
}
NEEDS = {
    "single": (),
    "line": ("nodes",),
    "star": ("nodes",),
    "balanced": ("fanout", "depth"),
    "router_tree": (),
    "random_tree": ("nodes", "seed"),
    "ring": ("nodes",),
    "random_graph": ("nodes", "seed"),
    "waxman": ("nodes", "seed"),
    "transit_stub": (
        "transit_domains",
        "transit_nodes",
        "stubs_per_transit",
        "stub_nodes",
        "seed",
    ),
    "preferential": ("nodes", "m", "seed"),
    "grid": ("width", "height"),
}


@pytest.mark.parametrize("kind", GENERATORS)
def test_every_generator_can_be_called_by_name(kind: str) -> None:
    given_parameters = {name: PARAMETERS[name] for name in NEEDS[kind]}
    assert topology(kind, **given_parameters) == GENERATORS[kind](**given_parameters)
    for name in given_parameters:
        rest = {other: value for other, value in given_parameters.items() if other != name}
        with pytest.raises(TidingsError, match=f"'{kind}': parameter '{name}' is missing"):
            topology(kind, **rest)


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("waxmann", {"nodes": 3}, "unknown topology 'waxmann', did you mean 'waxman'?"),
        ("cube", {}, "unknown topology 'cube'. There are single, line, "),
        ("single", {"nodes": 3}, "unknown parameter 'nodes'. It takes none"),
        ("line", {"nods": 3}, "unknown parameter 'nods', did you mean 'nodes'?"),
        ("line", {"nodes": "3"}, "parameter 'nodes': Expected `int`, got `str`"),
        ("line", {"nodes": 3.5}, "parameter 'nodes': Expected `int`, got `float`"),
        ("line", {"nodes": True}, "parameter 'nodes': Expected `int`, got `bool`"),
        ("line", {"nodes": 0}, "topology 'line': nodes must be at least 1, not 0"),
        ("line", {"nodes": 2, "cost": -1}, "topology 'line': link b0 – b1: cost"),
    ],
)
def test_a_wrong_description_is_answered_with_what_would_be_right(
    kind: str, parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(TidingsError) as caught:
        topology(kind, **parameters)
    assert said in str(caught.value)


def test_a_whole_number_will_do_for_a_latency() -> None:
    assert topology("line", nodes=2, latency=1).links == (Link("b0", "b1", 1.0),)
