"""An experiment: which points to measure, how to measure one, and what should come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tidings.experiments.compare import Expected, Finding, Summary


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement depends on: plain parameters, and the number of the `run`.

    Points that differ only in their `run` are repetitions, with seeds of their own.
    """

    run: int = 0


P = TypeVar("P", bound=Point)


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One plot: a quantity against a parameter, a line for each combination of the others."""

    quantity: str
    x: str
    """The parameter on the horizontal axis."""
    against: str = ""
    """Or another quantity there; the parameter then only leads from point to point of a line."""
    title: str
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    where: Mapping[str, Any] = {}
    """Only points with these parameters."""


class Experiment(Generic[P]):
    """What is measured, and what it is compared with. The docstring opens the report.

    An experiment has no state, and Spark sends it to other processes by name: define it at the
    top of a module.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """One line, for a list."""
    source: ClassVar[str]
    """The paper, and where in it."""
    runs: ClassVar[int] = 5
    """How often each point is measured, unless somebody asks otherwise."""
    quantities: ClassVar[Mapping[str, str]]
    """What `measure` returns: a name, and what it means with its unit."""
    panels: ClassVar[Sequence[Panel]] = ()

    def points(self, *, full: bool) -> Sequence[P]:
        """The points, each once; `full` for the sizes of the paper."""
        raise NotImplementedError

    def measure(self, point: P, seed: int) -> Mapping[str, float]:
        """One measurement, which depends on nothing but the point and the seed."""
        raise NotImplementedError

    def weight(self, point: P) -> float:
        """How long a point takes, compared with others: the longest are begun first."""
        return 1.0

    def expected(self, point: P, quantity: str) -> Expected | None:
        """What should come out, if anybody knows."""
        return None

    def findings(self, results: Results) -> Sequence[Finding]:
        """What the paper says in words, held against what came out."""
        return ()


def repeated(points: Sequence[P], runs: int) -> list[P]:
    """Each point as often as asked, with the number of the run."""
    return [msgspec.structs.replace(point, run=run) for run in range(runs) for point in points]


def seed_of(experiment: str, point: Point) -> int:
    """A seed that depends on the parameters and the run, not on which other points there are.

    >>> seed_of("example", Point(run=0)) == seed_of("example", Point(run=0))
    True
    >>> seed_of("example", Point(run=0)) == seed_of("example", Point(run=1))
    False
    """
    described = msgspec.json.encode([experiment, msgspec.to_builtins(point)])
    return int.from_bytes(sha256(described).digest()[:6], "big")


def parameters(point: Point) -> dict[str, Any]:
    """What distinguishes a point from others, without the number of the run."""
    fields = msgspec.structs.asdict(point)
    del fields["run"]
    return fields


def described(point: Point) -> str:
    """A point in one line.

    >>> class Coin(Point, frozen=True, kw_only=True):
    ...     tosses: int
    >>> described(Coin(tosses=3, run=2))
    'tosses=3, run=2'
    """
    fields = parameters(point) | {"run": point.run}
    return ", ".join(f"{name}={value!r}" for name, value in fields.items())


class Results:
    """The summaries of one experiment, to look up what came out where."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self.summaries = tuple(summaries)

    def where(self, quantity: str, **wanted: Any) -> list[Summary]:
        """The summaries of a quantity at points with these parameters, in the points' order."""
        return [
            summary
            for summary in self.summaries
            if summary.quantity == quantity
            and all(summary.parameters.get(name) == value for name, value in wanted.items())
        ]

    def mean(self, quantity: str, **wanted: Any) -> float:
        """The mean of the only summary that fits; `LookupError` if there is another number."""
        found = self.where(quantity, **wanted)
        if len(found) != 1:
            raise LookupError(f"{len(found)} results have {wanted} and {quantity}, not one")
        return found[0].mean
