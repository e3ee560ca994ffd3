"""Work: how much may be spent on a filter that somebody else has written.

To bring a filter into its canonical form, its parts are compared with each other, so a short text
can ask for a lot of work. Whoever reads such a text sets a limit; the algebra says in advance what
it is about to do, in steps of about a microsecond. Without a limit nothing is counted.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final


class Budget:
    """Steps that may be taken."""

    __slots__ = ("left", "steps")

    def __init__(self, steps: int) -> None:
        self.steps = self.left = steps


class TooMuchWorkError(Exception):
    """More steps are needed than a budget has."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(f"it takes more than {budget.steps} steps")
        self.budget = budget


_BUDGETS: Final[ContextVar[tuple[Budget, ...]]] = ContextVar("budgets", default=())


class limited:  # noqa: N801 - it reads like a function, and is entered for every frame
    """Let what is done within take at most this many steps, and no more than limits around it.

    >>> with limited(10) as budget:
    ...     spend(7)
    ...     budget.left
    3
    """

    __slots__ = ("_budget", "_token")

    def __init__(self, steps: int) -> None:
        self._budget = Budget(steps)

    def __enter__(self) -> Budget:
        self._token = _BUDGETS.set((*_BUDGETS.get(), self._budget))
        return self._budget

    def __exit__(self, *_: object) -> None:
        _BUDGETS.reset(self._token)


def spend(steps: int) -> None:
    """Say that this many steps are about to be taken; `TooMuchWorkError` if they must not be."""
    for budget in _BUDGETS.get():
        budget.left -= steps
        if budget.left < 0:
            raise TooMuchWorkError(budget)
