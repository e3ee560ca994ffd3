"""The checks are worth something: each way to get routing wrong is caught by random runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.runs import Patch, scenario
from tests.simulation.shrinking import play
from tidings.delivery import AtMostOnce
from tidings.events import Filter
from tidings.node.ports import Neighbour
from tidings.protocol.messages import Update
from tidings.protocol.parts import Session
from tidings.routing import Change, reduce
from tidings.routing.checks import Checks
from tidings.routing.exchange import Exchange
from tidings.routing.tables import Tables
from tidings.simulation.guarantees import Violation

pytestmark = pytest.mark.slow

SEEDS = range(200)


def violations(*args: Any, **settings: Any) -> Iterator[str]:
    """What is found wrong in a number of random runs."""
    for seed in SEEDS:
        try:
            play(scenario(seed, *args, at_most_once=True, **settings))
        except Violation as violation:
            yield str(violation)


def is_caught(*args: Any, **settings: Any) -> bool:
    return next(violations(*args, **settings), None) is not None


def test_a_covering_change_in_two_messages(patch: Patch) -> None:
    def tell(self: Exchange, table: int, neighbour: Neighbour) -> None:
        tables = self.tables(table)
        if tables is None or not tables.has(neighbour) or not neighbour.is_open:
            return
        added, removed = tables.drain(neighbour)
        for message in (
            Update(table, neighbour.view, {}, removed),
            Update(table, neighbour.view, added, {}),
        ):
            if message.added or message.removed:
                self._send(neighbour, message)

    patch(Exchange, "_tell", tell)
    assert is_caught("acyclic", "covering", "subscriptions", "none")


def test_filters_removed_by_who_asked_for_them_instead_of_by_content(patch: Patch) -> None:
    want, tell, update = Exchange.want, Exchange._tell, Exchange._updated

    def remember(self: Exchange, session: Session, added: Any, removed: Any) -> None:
        self.asked = [*removed, *added]
        want(self, session, added, removed)

    def tell_with_ids(self: Exchange, table: int, neighbour: Neighbour) -> None:
        drain = Tables.drain

        def named(tables: Tables[Any], who: Any) -> Change:
            return Change(
                *(_named(part, getattr(self, "asked", [])) for part in drain(tables, who))
            )

        Tables.drain = named
        try:
            tell(self, table, neighbour)
        finally:
            Tables.drain = drain

    def update_by_id(self: Exchange, neighbour: Neighbour, message: Update) -> None:
        self.asked = [*message.added, *message.removed]
        held = {id(f) for f in self.wanted(neighbour)}
        removed = {f: n for f, n in message.removed.items() if id(f) in held}
        update(self, neighbour, Update(message.table, message.view, message.added, removed))

    patch(Exchange, "want", remember)
    patch(Exchange, "_tell", tell_with_ids)
    patch(Exchange, "_updated", update_by_id)
    assert is_caught("line", "identity", "subscriptions", "none")


def _named(part: dict[Filter, int], asked: list[Filter]) -> dict[Filter, int]:
    """The same filters, as the objects of whoever asked last."""
    return {next((a for a in asked if a == f), f): n for f, n in part.items()}


def test_uncovered_filters_sent_back_to_where_they_came_from(patch: Patch) -> None:
    drain = Tables.drain

    def with_own(self: Tables[Any], neighbour: Any) -> Change:
        change = drain(self, neighbour)
        uncovered = {
            f: 1
            for f in self.wanted.get(neighbour, {})
            if any(gone.covers(f) for gone in change.removed) and f not in change.removed
        }
        return Change(change.added | uncovered, change.removed)

    patch(Tables, "drain", with_own)
    assert is_caught("acyclic", "covering", "subscriptions", "none")


def test_local_entries_merged_imperfectly(patch: Patch) -> None:
    change = Tables.change

    def widened(self: Tables[Any], port: Any, added: Any, removed: Any) -> Change:
        if isinstance(port, Session) and len(self.wanted.get(port, {})) > 2:
            wide = reduce("bounded:2", self.wanted[port])
            for filter_ in list(self.wanted[port]):
                change(self, port, {}, {filter_: 1})
            change(self, port, wide, {})
        return change(self, port, added, removed)

    patch(Tables, "change", widened)
    assert is_caught("line", "bounded:3", "subscriptions", "none")


def test_subscriptions_not_sent_again_on_a_new_advertisement(patch: Patch) -> None:
    restrict = Tables.restrict

    def only_less(self: Tables[Any], neighbour: Any, change: Change) -> None:
        if not change.added:
            restrict(self, neighbour, change)

    patch(Tables, "restrict", only_less)
    assert is_caught("acyclic", "covering", "advertisements", "none")


def test_no_exchange_of_digests(patch: Patch) -> None:
    patch(Checks, "look_after", lambda self, patience: None)
    assert is_caught("acyclic", "covering", "subscriptions", "all")


def test_streams_that_are_not_remembered(patch: Patch) -> None:
    patch(AtMostOnce, "_last_tick", lambda self, stream: 0)
    found = violations("graph", "flooding", "subscriptions", "crashes")
    assert any("twice" in what for what in found)
