"""A campaign: random runs of every kind, at seeds that were never tried before.

    python -m tests.simulation.campaign --trials 20000

A seed decides everything: the network, the strategy, the semantics, what breaks, how many steps
there are, and whether events are delivered from logs or at most once. So a failure is replayed,
and made small, from its seed: `--first SEED --trials 1`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from random import Random, SystemRandom
from time import monotonic
from types import FrameType
from typing import Final

from tests.simulation import runs
from tests.simulation.random_runs import DAMAGE, FAULTS
from tests.simulation.shrinking import play, shrink
from tidings.simulation.guarantees import Violation
from tidings.simulation.scenario import Scenario

STRATEGIES: Final = (*runs.STRATEGIES, "learnt:0.2")
STEPS: Final = (20, 40, 60, 80, 160)
PATIENCE: Final = 120.0
"""Seconds of processor time after which a trial counts as one that does not end."""
FRESH: Final = 1 << 40
"""A campaign begins at a random seed below this, and above all that tests use."""
_CHUNK: Final = 20
_EVERY: Final = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Case:
    """What one seed stands for."""

    seed: int
    at_most_once: bool
    """Events are delivered at most once; else from logs."""
    network: str
    strategy: str
    semantics: str
    faults: str
    steps: int

    @classmethod
    def of(cls, seed: int) -> Case:
        """The same for the same seed."""
        random = Random(f"campaign {seed}")
        return cls(
            seed,
            random.random() < 0.25,
            random.choice(list(runs.NETWORKS)),
            random.choice(STRATEGIES),
            random.choice(list(runs.SEMANTICS)),
            random.choice((*FAULTS, DAMAGE)),
            random.choice(STEPS),
        )

    def __str__(self) -> str:
        what = self.seed, self.network, self.strategy, self.semantics, self.faults
        return f"scenario{what} with steps={self.steps}, at_most_once={self.at_most_once}"

    def scenario(self) -> Scenario:
        """What happens."""
        what = self.seed, self.network, self.strategy, self.semantics, self.faults
        return runs.scenario(*what, steps=self.steps, at_most_once=self.at_most_once)

    def problem(self, scenario: Scenario | None = None) -> str | None:
        """What does not hold; None if all is well."""
        try:
            with _patience():
                play(self.scenario() if scenario is None else scenario)
        except Violation as violation:
            return str(violation)
        except Exception as error:  # our own mistakes count, wherever they are
            return f"{type(error).__name__}: {error}"
        return None

    def explanation(self) -> str:
        """The few steps that are enough to fail, with the settings they need."""
        small = shrink(self.scenario(), lambda scenario: self.problem(scenario) is not None)
        steps = "\n".join(f"  {step}" for step in small.steps)
        return f"{self.problem(small)}\n  {small.network}\n  {small.settings}\n{steps}"


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign, and say what it found; 1 if that was anything."""
    options = _options(arguments)
    first: int = options.first
    seeds = range(first, first + options.trials)
    print(f"{len(seeds):,} trials at the seeds {seeds[0]} to {seeds[-1]}", flush=True)
    failures = []
    for failure in islice(_failures(seeds, options.processes), options.most):
        failures.append(failure)
        seed, problem = failure
        print(f"FAILED {Case.of(seed)}\n  {problem}", flush=True)
    for seed, _ in failures:
        print(f"\n{Case.of(seed)}\n  {Case.of(seed).explanation()}")
        print(f"Replay it: make campaign FIRST={seed} TRIALS=1", flush=True)
    return 1 if failures else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.campaign",
        description="Run random trials of every kind at seeds that were never tried before.",
    )
    parser.add_argument("--trials", type=_positive, default=2000, help="how many (2000)")
    parser.add_argument(
        "--first", type=int, help="the first seed; the others follow it (default: a random one)"
    )
    parser.add_argument(
        "--processes", type=_positive, default=os.cpu_count(), help="at a time (one for each core)"
    )
    parser.add_argument(
        "--most", type=_positive, default=5, help="failures after which it is given up (5)"
    )
    options = parser.parse_args(arguments)
    if options.first is None:
        options.first = SystemRandom().randrange(1 << 30, FRESH)
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _failures(seeds: range, processes: int) -> Iterator[tuple[int, str]]:
    """What fails, as soon as it has; how far it is, now and then."""
    begun = said = monotonic()
    failed = 0
    with _checked(seeds, processes) as outcomes:
        for done, (seed, problem) in enumerate(outcomes, start=1):
            if problem is not None:
                failed += 1
                yield seed, problem
            now = monotonic()
            if now - said > _EVERY or done == len(seeds):
                said = now
                rate = done / (now - begun)
                print(f"{done:>7,} done, {failed} failed, {rate:.1f} a second", flush=True)


@contextmanager
def _checked(seeds: range, processes: int) -> Iterator[Iterable[tuple[int, str | None]]]:
    if processes == 1 or len(seeds) == 1:
        yield map(_check, seeds)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield pool.imap_unordered(_check, seeds, chunksize=_CHUNK)


def _check(seed: int) -> tuple[int, str | None]:
    return seed, Case.of(seed).problem()


@contextmanager
def _patience() -> Iterator[None]:
    """Within this, processor time is limited; waiting does not count."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"not at its end after {PATIENCE:.0f} seconds of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # with its processes
    sys.exit(main())
