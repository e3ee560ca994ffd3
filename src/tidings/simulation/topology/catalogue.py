"""The catalogue: generators by the names that scenario files call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from tidings.events.errors import TidingsError
from tidings.simulation.topology.network import Topology
from tidings.simulation.topology.random_shapes import (
    preferential,
    random_graph,
    random_tree,
    transit_stub,
    waxman,
)
from tidings.simulation.topology.shapes import balanced, grid, line, ring, router_tree, single, star

GENERATORS: Final[dict[str, Callable[..., Topology]]] = {
    generator.__name__: generator
    for generator in (
        single,
        line,
        star,
        balanced,
        router_tree,
        random_tree,
        ring,
        random_graph,
        waxman,
        transit_stub,
        preferential,
        grid,
    )
}
"""The generators by the names that a scenario file calls them."""


def topology(kind: str, **parameters: object) -> Topology:
    """The topology that a generator makes of these parameters.

    A kind that does not exist, and a parameter that is unknown, missing, or of the wrong type or
    size, is reported by name, together with what would be right.

    >>> topology("waxman", nodes=100, seed=1).nodes[-1]
    'b99'
    >>> topology("line", node=5)
    Traceback (most recent call last):
    tidings.events.errors.TidingsError: topology 'line': unknown parameter 'node', did you mean \
'nodes'? It takes nodes, latency (0.01), cost (1.0)
    """
    generator = GENERATORS.get(kind)
    if generator is None:
        raise TidingsError(
            f"unknown topology {kind!r}{_nearest(kind, GENERATORS)} "
            f"There are {', '.join(GENERATORS)}"
        )
    signature = inspect.signature(generator, eval_str=True)
    fault = _fault(signature, parameters)
    if fault is not None:
        raise TidingsError(f"topology {kind!r}: {fault} It takes {_spelt(signature)}")
    try:
        return generator(**parameters)
    except TidingsError as error:
        raise TidingsError(f"topology {kind!r}: {error}") from None


def _fault(signature: inspect.Signature, given: Mapping[str, object]) -> str | None:
    """What is wrong with the parameters, or None."""
    takes = signature.parameters
    for name in given:
        if name not in takes:
            return f"unknown parameter {name!r}{_nearest(name, takes)}"
    for name, parameter in takes.items():
        if name not in given:
            if parameter.default is parameter.empty:
                return f"parameter {name!r} is missing."
            continue
        try:
            msgspec.convert(given[name], parameter.annotation)
        except msgspec.ValidationError as error:
            return f"parameter {name!r}: {error}."
    return None


def _nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: which known one is near, if any."""
    near = get_close_matches(name, list(names), n=1)
    return f", did you mean {near[0]!r}?" if near else "."


def _spelt(signature: inspect.Signature) -> str:
    """The parameters of a generator, each with its default.

    >>> _spelt(inspect.signature(random_tree))
    'nodes, seed, latency (0.01), cost (1.0)'
    """
    return (
        ", ".join(
            name if p.default is p.empty else f"{name} ({p.default})"
            for name, p in signature.parameters.items()
        )
        or "none"
    )
