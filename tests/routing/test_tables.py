"""Tables: neighbours are told what the others want, and damage is found and mended."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import STRATEGIES, quotes
from tidings.events import Filter
from tidings.routing import reduce
from tidings.routing.tables import Tables

PORTS = ("client", "north", "south")
changes = st.lists(
    st.tuples(st.sampled_from(PORTS), st.booleans(), quotes), min_size=1, max_size=12
)


def told(tables: Tables[str], wanted: dict[str, Counter[Filter]], who: str, strategy: str) -> bool:
    others: Counter[Filter] = Counter()
    for port, table in wanted.items():
        if port != who:
            others += table
    return dict(tables.told(who)) == reduce(strategy, others)


@given(changes, st.sampled_from(sorted(STRATEGIES)))
def test_each_neighbour_is_told_the_reduction_of_what_the_others_want(
    steps: list[tuple[str, bool, Filter]], strategy: str
) -> None:
    tables = Tables[str]()
    for neighbour in ("north", "south"):
        tables.open(neighbour, strategy)
    wanted: dict[str, Counter[Filter]] = {port: Counter() for port in PORTS}
    held: dict[str, Counter[Filter]] = {n: Counter(tables.told(n)) for n in ("north", "south")}
    for port, more, filter_ in steps:
        if more:
            tables.change(port, {filter_: 1})
            wanted[port][filter_] += 1
        else:
            tables.change(port, removed={filter_: 1})
            wanted[port] -= Counter({filter_: 1})
        for neighbour, table in held.items():
            change = tables.drain(neighbour)
            table.subtract(change.removed)
            table.update(change.added)
            assert +table == Counter(tables.told(neighbour))
            assert told(tables, wanted, neighbour, strategy)
    assert tables.audit()


@given(changes)
def test_an_audit_mends_whatever_does_not_fit_the_tables(
    steps: list[tuple[str, bool, Filter]],
) -> None:
    tables = Tables[str]()
    tables.open("north", "covering")
    tables.open("south", "covering")
    for port, _, filter_ in steps:
        tables.change(port, {filter_: 1})
    tables.drain("north")
    tables.drain("south")
    assert tables.audit()
    strange = Filter.parse("strange = 1")
    tables.wanted["client"] = {strange: 2}
    assert not tables.audit()
    wanted = {port: Counter(table) for port, table in tables.wanted.items()}
    assert told(tables, wanted, "north", "covering")
    assert told(tables, wanted, "south", "covering")
    assert tables.audit()


@given(changes, quotes, st.booleans())
def test_what_overlaps_something_wanted_is_wanted_whatever_comes_and_goes(
    steps: list[tuple[str, bool, Filter]], asked: Filter, is_damaged: bool
) -> None:
    tables = Tables[str]()
    for port, more, filter_ in steps:
        tables.change(port, {filter_: 1} if more else {}, {} if more else {filter_: 1})
        for each in (asked, filter_):
            wanted = [f for table in tables.wanted.values() for f in table]
            assert tables.overlap(each) == any(other.overlaps(each) for other in wanted)
    strange = Filter.parse("strange = 1")
    if is_damaged:
        tables.wanted["client"] = {strange: 1}
        assert not tables.audit()
        assert tables.overlap(strange)


def test_a_change_that_damage_makes_impossible_mends_it() -> None:
    tables = Tables[str]()
    tables.open("north", "identity")
    tables.wanted["client"] = {Filter.parse("x = 1"): 1}
    tables.change("client", removed={Filter.parse("x = 1"): 1})
    assert tables.repairs == 1
    assert dict(tables.told("north")) == {}


def test_an_audit_mends_an_index_of_overlaps_that_has_lost_a_filter() -> None:
    tables, wanted = Tables[str](), Filter.parse("x = 1")
    tables.change("client", {wanted: 1})
    assert tables.overlap(wanted)
    assert tables._overlaps is not None
    tables._overlaps.remove(wanted)
    assert not tables.overlap(wanted)
    assert not tables.audit()
    assert tables.overlap(wanted)
