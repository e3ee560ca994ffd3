"""Naming: what strategies are called, and what follows the colon in their names."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tidings.events import TidingsError

STRATEGIES: Final[dict[str, str]] = {
    "flooding": "everything, always: the neighbour's table never changes",
    "simple": "every filter as often as it is wanted",
    "identity": "every distinct filter once",
    "covering": "the conjunctions that no other one covers",
    "merging": "those, joined wherever the union is again a conjunction",
    "imperfect:F": "as merging, and near intervals become one up to F times as long as they are",
    "learnt:S": "as merging, and gaps are closed that at most the share S of all events falls into",
    "bounded:N": "as merging, widened as much as it takes to be N filters at most",
}
"""All strategies, in the order of how much they reduce. F is a number from 1 on, S one from 0 to 1,
N a whole number from 2 on: "imperfect:1.5", "learnt:0.001", "bounded:1000"."""


class Strategy(NamedTuple):
    """A strategy's name, taken apart; `factor` is 1, others are 0 where they don't apply."""

    name: str
    factor: float = 1.0
    share: float = 0.0
    most: int = 0

    @property
    def learns(self) -> bool:
        """Whether it heeds statistics."""
        return self.name == "learnt"

    @classmethod
    def parse(cls, text: str) -> Strategy:
        """Read a strategy; `TidingsError` says what it may be.

        >>> Strategy.parse("bounded:100").most
        100
        """
        name, colon, parameter = text.partition(":")
        if text in STRATEGIES and not colon:
            return cls(text)
        if name == "imperfect":
            return cls(name, factor=_factor(parameter))
        if name == "learnt":
            return cls(name, share=_share(parameter))
        if name == "bounded":
            return cls(name, most=_most(parameter))
        raise TidingsError(f"no strategy {text!r}; there are {', '.join(STRATEGIES)}")


def _number(parameter: str) -> float:
    try:
        return float(parameter)
    except ValueError:
        return math.nan


def _factor(parameter: str) -> float:
    factor = _number(parameter)
    if not 1 <= factor < math.inf:
        raise TidingsError(
            f"imperfect:F takes a number from 1 on, such as imperfect:1.5, not {parameter!r}"
        )
    return factor


def _share(parameter: str) -> float:
    share = _number(parameter)
    if not 0 <= share <= 1:
        raise TidingsError(
            f"learnt:S takes a number from 0 to 1, such as learnt:0.001, not {parameter!r}"
        )
    return share


def _most(parameter: str) -> int:
    # isdecimal alone would let digits of other scripts through, and int() signs and blanks
    if not (parameter.isascii() and parameter.isdecimal()) or int(parameter) < 2:
        raise TidingsError(
            f"bounded:N takes a whole number from 2 on, such as bounded:1000, not {parameter!r}"
        )
    return int(parameter)
