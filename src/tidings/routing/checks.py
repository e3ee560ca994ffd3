"""Checks: both ends of a link compare what was told with what is held, and mend what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidings.protocol.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Check, Differ, Repair
from tidings.protocol.parts import Kernel, Neighbour, Part
from tidings.routing import stabilisation
from tidings.routing.exchange import Exchange
from tidings.routing.tables import NOTHING


class Checks(Part):
    """Digests of tables are sent now and then; while they agree, ever more rarely."""

    def __init__(self, kernel: Kernel, exchange: Exchange, *, shortest: float, longest: float):
        """The seconds between two checks of a link: at first, and when all has long been well."""
        self._kernel, self._exchange = kernel, exchange
        self._shortest, self._longest = shortest, max(shortest, longest)

    def messages(self) -> Mapping[type, Callable[[Any, Any], None]]:
        return {Check: self._checked, Differ: self._differ, Repair: self._repair}

    def look_after(self, patience: float) -> None:
        now = self._kernel.now
        for neighbour in list(self._kernel.neighbours.values()):
            if not now < neighbour.check_at <= now + self._longest:
                neighbour.check_at = now + self._period(neighbour)
                neighbour.checks += 1
                for table in (ADVERTISEMENTS, SUBSCRIPTIONS):
                    tables = self._exchange.tables(table)
                    if tables is not None and tables.has(neighbour):
                        told = tables.told(neighbour)
                        check = stabilisation.check(table, neighbour.view, told)
                        self._kernel.send(neighbour, check)

    def _period(self, neighbour: Neighbour) -> float:
        doubled = self._shortest * 2.0 ** min(neighbour.checks, 64)
        return max(self._shortest, min(doubled, self._longest))

    def _soon(self, neighbour: Neighbour) -> None:
        neighbour.checks = 0
        neighbour.check_at = min(neighbour.check_at, self._kernel.now + self._shortest)

    def _checked(self, neighbour: Neighbour, message: Check) -> None:
        tables = self._exchange.tables(message.table)
        if tables is not None and neighbour.sees(message.view):
            held = tables.wanted.get(neighbour, NOTHING)
            answer = stabilisation.compare(message, neighbour.view, held)
            if answer is not None:
                self._soon(neighbour)  # whatever befell it may have befallen us
                self._kernel.send(neighbour, answer)

    def _differ(self, neighbour: Neighbour, message: Differ) -> None:
        tables = self._exchange.tables(message.table)
        if tables is not None and neighbour.sees(message.view) and tables.has(neighbour):
            self._soon(neighbour)
            told = tables.told(neighbour)
            self._kernel.send(neighbour, stabilisation.repair(message, neighbour.view, told))

    def _repair(self, neighbour: Neighbour, message: Repair) -> None:
        tables = self._exchange.tables(message.table)
        if tables is not None and neighbour.sees(message.view):
            held = tables.wanted.get(neighbour, NOTHING)
            whole = stabilisation.repaired(message, held)
            self._exchange.replace(message.table, neighbour, whole)
            self._kernel.parts.repaired(neighbour)
