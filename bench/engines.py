"""The engines: one function each, all of the same shape.

A function takes `Filters`, loads them into its engine and returns `Matcher`s, usually one. A
matcher has three steps, of which only the second is timed: `encode` as many events as the engine
likes them, `match` them, and say the `counts` of matches of each event.

An engine that cannot express the filters raises `Unsupported`. Where several formulations are
plausible, all are here and the best one counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from tidings import Filter, Notification
from tidings.workloads import Among, Condition, Equal, Prefix, Range, Workload
from tidings.workloads.conditions import Conditions, filter_of


class Unsupported(Exception):  # noqa: N818 - nothing went wrong
    """The engine cannot express such filters."""


class Filters:
    """The filters to load: as conditions, and as ours."""

    def __init__(self, conditions: list[Conditions]) -> None:
        self.conditions = conditions

    @cached_property
    def filters(self) -> list[Filter]:
        return [filter_of(c) for c in self.conditions]

    @cached_property
    def kinds(self) -> set[type]:
        return {type(c) for conditions in islice(self.conditions, 1000) for c in conditions}


class Events:
    """The events to match: as dictionaries, as notifications, as a table."""

    def __init__(self, workload: Workload, count: int) -> None:
        self.dicts = [*workload.events(count)]
        self.table = workload.table(count)

    @cached_property
    def notifications(self) -> list[Notification]:
        return [*map(Notification, self.dicts)]


class Matcher(NamedTuple):
    """One way to match events."""

    label: str
    encode: Callable[[Events, int], Any]
    match: Callable[[Any], Any]
    counts: Callable[[Any, int], list[int]]
    how: str = ""
    """The formulation, where there are several."""
    is_batch: bool = True
    """Whether it takes all events at once."""


def one_by_one(
    label: str, encode: Callable[[Events, int], list[Any]], one: Callable[[Any], Any], how: str = ""
) -> Matcher:
    """A matcher for an engine that takes one event at a time; `one` returns its matches, or how
    many there were."""

    def match(events: list[Any]) -> list[Any]:
        return [one(event) for event in events]

    def counts(found: list[Any], _: int) -> list[int]:
        return [f if isinstance(f, int) else len(f) for f in found]

    return Matcher(label, encode, match, counts, how, is_batch=False)


def count_rows(rows: Any, events: int) -> list[int]:
    """How often each event's number is among the rows."""
    return np.bincount(np.asarray(rows), minlength=events).tolist()


# -- ours ------------------------------------------------------------------------------------


def tidings(filters: Filters) -> list[Matcher]:
    from tidings.matching import Index

    index = Index()
    index.add_many(enumerate(filters.filters))
    return [
        one_by_one("tidings match", lambda events, n: events.notifications[:n], index.match),
        Matcher(
            "tidings match_batch",
            lambda events, n: events.table.slice(0, n),
            index.match_batch,
            lambda found, n: count_rows(found[0], n),
        ),
    ]


def _compile_kernels() -> None:
    from tidings.matching import warm

    warm.wait()


def brute_force(filters: Filters) -> list[Matcher]:
    ours = filters.filters

    def one(notification: Notification) -> list[int]:
        return [key for key, f in enumerate(ours) if f.matches(notification)]

    return [one_by_one("brute force", lambda events, n: events.notifications[:n], one)]


# -- duckdb: filters are rows, matching is a join ----------------------------------------------


def duckdb_one_join(filters: Filters) -> list[Matcher]:
    """One table: a filter that does not ask for a quantity has ±∞ as its bounds."""
    if Among in filters.kinds:
        raise Unsupported
    names = {c.name: None for cs in filters.conditions[:1000] for c in cs if isinstance(c, Range)}
    padded = []
    for conditions in filters.conditions:
        asked = {c.name: c for c in conditions}
        rest = {name: asked.pop(name, Range(name, None, None)) for name in names}
        padded.append((*asked.values(), *rest.values()))
    return _duckdb(padded, "one table")


def duckdb_by_shape(filters: Filters) -> list[Matcher]:
    """A table for each set of attributes asked for: no comparison is made in vain. (Lists as bit
    masks in one table, or compared with list_contains, take ten to fifty times as long.)"""
    return _duckdb(filters.conditions, "a table for each shape")


class _Shape(NamedTuple):
    """What filters of one table have in common: for each condition its name and, if it is a
    prefix, its length; if it is a range, -1."""

    conditions: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, conditions: Conditions) -> _Shape:
        return cls(tuple((c.name, cls._kind(c)) for c in conditions))

    @staticmethod
    def _kind(condition: Condition) -> int:
        if isinstance(condition, Range):
            return -1
        return len(condition.text) if isinstance(condition, Prefix) else 0

    @property
    def has_names(self) -> bool:
        return any(kind >= 0 for _, kind in self.conditions)

    def join(self, table: str) -> str:
        on = []
        for name, kind in self.conditions:
            if kind < 0:
                on.append(f"e.{name} BETWEEN f.{name}_low AND f.{name}_high")
            else:
                on.append(f"{f'left(e.{name}, {kind})' if kind else f'e.{name}'} = f.{name}")
        return f"SELECT e.row, f.key FROM events e JOIN {table} f ON {' AND '.join(on)}"

    def nested_loop(self, table: str) -> str:
        """The same join, spelt so that the planner takes no sort-based one, which is slower."""
        select, _, on = self.join(table).partition(" ON ")
        return f"{select} ON ({on}) OR f.key < 0"


def _duckdb(conditions: Iterable[Conditions], how: str) -> list[Matcher]:
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    by_shape: dict[_Shape, list[tuple[int, Conditions]]] = defaultdict(list)
    for key, asked in enumerate(conditions):
        by_shape[_Shape.of(asked)].append((key, asked))
    tables = {f"filters_{number}": shape for number, shape in enumerate(by_shape)}
    for (name, shape), rows in zip(tables.items(), by_shape.values(), strict=True):
        connection.register("loading", pa.table(_columns(shape, rows)))
        source = "loading"
        for listed in {c.name for _, asked in rows[:1000] for c in asked if isinstance(c, Among)}:
            source = f"(SELECT * REPLACE (unnest({listed}) AS {listed}) FROM {source})"
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}")
        connection.unregister("loading")
    default_threads = connection.sql("SELECT current_setting('threads')").fetchall()[0][0]
    queries = {how: " UNION ALL ".join(shape.join(table) for table, shape in tables.items())}
    if not any(shape.has_names for shape in tables.values()):
        loops = (shape.nested_loop(table) for table, shape in tables.items())
        queries[f"{how}, nested loop"] = " UNION ALL ".join(loops)

    def encoder(threads: int) -> Callable[[Events, int], Any]:
        def encode(events: Events, n: int) -> None:
            connection.execute(f"SET threads = {threads}")
            table = events.table.slice(0, n)
            connection.register("events", table.append_column("row", pa.array(range(n))))

        return encode

    def matcher(label: str, threads: int, how: str) -> Matcher:
        return Matcher(
            label,
            encoder(threads),
            lambda _: connection.sql(queries[how]).to_arrow_table(),
            lambda found, n: count_rows(found["row"], n),
            how,
        )

    threads = {"duckdb": default_threads, "duckdb, 1 thread": 1}
    return [matcher(label, t, how) for how in queries for label, t in threads.items()]


def _columns(shape: _Shape, rows: list[tuple[int, Conditions]]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"key": [key for key, _ in rows]}
    inf = float("inf")
    for at, (name, kind) in enumerate(shape.conditions):
        column = [asked[at] for _, asked in rows]
        if kind < 0:
            columns[f"{name}_low"] = [-inf if c.low is None else float(c.low) for c in column]
            columns[f"{name}_high"] = [inf if c.high is None else float(c.high) for c in column]
        elif any(isinstance(c, Among) for c in column):
            columns[name] = [c.values if isinstance(c, Among) else (c.value,) for c in column]
        else:
            columns[name] = [c[1] for c in column]
    return columns


# -- clipspy: an event is a fact that fires rules ------------------------------------------------


def clips_rules(filters: Filters) -> list[Matcher]:
    """A rule for each filter."""
    environment = _clips()
    for key, conditions in enumerate(filters.conditions):
        asked = " ".join(map(_clips_pattern, conditions))
        environment.build(f"(defrule filter-{key} (quote {asked}) =>)")
    return [_clips_matcher(environment, "rules")]


def clips_facts(filters: Filters) -> list[Matcher]:
    """A fact for each filter, and one rule that joins."""
    if Among in filters.kinds:
        raise Unsupported
    environment = _clips()
    names = sorted({c.name for cs in filters.conditions[:1000] for c in cs if type(c) is Range})
    equal = "(symbol ?symbol)" if Equal in filters.kinds else ""
    bounds = [f"(slot {n}-low (default -1e300)) (slot {n}-high (default 1e300))" for n in names]
    environment.build(f"(deftemplate filter (slot key) (slot symbol) {' '.join(bounds)})")
    bind = " ".join(f"({n}-low ?{n}-low) ({n}-high ?{n}-high)" for n in names)
    test = " ".join(f"({n} ?{n}&:(<= ?{n}-low ?{n} ?{n}-high))" for n in names)
    environment.build(f"(defrule match (filter {equal} {bind}) (quote {equal} {test}) =>)")
    template = environment.find_template("filter")
    symbol = _clips_symbol()
    for key, conditions in enumerate(filters.conditions):
        slots: dict[str, Any] = {"key": key}
        for c in conditions:
            if isinstance(c, Equal):
                slots[c.name] = symbol(c.value)
            elif isinstance(c, Range):
                slots |= {} if c.low is None else {f"{c.name}-low": c.low}
                slots |= {} if c.high is None else {f"{c.name}-high": c.high}
        template.assert_fact(**slots)
    return [_clips_matcher(environment, "facts")]


def _clips() -> Any:
    import clips

    environment = clips.Environment()
    slots = "symbol exchange sector price change spread dividend volume"
    environment.build(f"(deftemplate quote {' '.join(f'(slot {s})' for s in slots.split())})")
    return environment


def _clips_symbol() -> Any:
    import clips

    return clips.Symbol


def _clips_matcher(environment: Any, how: str) -> Matcher:
    template = environment.find_template("quote")
    symbol = _clips_symbol()

    def encode(events: Events, n: int) -> list[dict[str, Any]]:
        return [
            {name: symbol(v) if isinstance(v, str) else v for name, v in event.items()}
            for event in events.dicts[:n]
        ]

    def one(event: dict[str, Any]) -> int:
        fact = template.assert_fact(**event)
        fired: int = environment.run()
        fact.retract()
        return fired

    return one_by_one("clipspy", encode, one, how)


def _clips_pattern(condition: Condition) -> str:
    match condition:
        case Equal(name, value):
            return f"({name} {value})"
        case Among(name, values):
            return f"({name} {'|'.join(values)})"
        case Prefix(name, text):
            return f'({name} ?{name}&:(eq (sub-string 1 {len(text)} ?{name}) "{text}"))'
        case Range(name, None, high):
            return f"({name} ?{name}&:(<= ?{name} {high}))"
        case Range(name, low, None):
            return f"({name} ?{name}&:(>= ?{name} {low}))"
        case Range(name, low, high):
            return f"({name} ?{name}&:(<= {low} ?{name} {high}))"


# -- hyperscan: an event is a line, a filter is a regular expression -----------------------------


def hyperscan(filters: Filters) -> list[Matcher]:
    import hyperscan as hs

    if Range in filters.kinds:
        raise Unsupported
    database = hs.Database(mode=hs.HS_MODE_BLOCK)
    expressions = [_hyperscan_expression(conditions) for conditions in filters.conditions]
    count = len(expressions)
    flags = [hs.HS_FLAG_SINGLEMATCH] * count
    database.compile(expressions=expressions, ids=[*range(count)], elements=count, flags=flags)

    def encode(events: Events, n: int) -> list[bytes]:
        return [f"{e['symbol']};{e['exchange']};{e['sector']};".encode() for e in events.dicts[:n]]

    def one(line: bytes) -> list[int]:
        found: list[int] = []
        database.scan(line, match_event_handler=lambda key, *_: found.append(key))
        return found

    return [one_by_one("hyperscan", encode, one)]


def _hyperscan_expression(conditions: Conditions) -> bytes:
    fields = {"symbol": "", "exchange": "", "sector": ""}
    for condition in conditions:
        match condition:
            case Equal(name, value):
                fields[name] = value
            case Among(name, values):
                fields[name] = f"(?:{'|'.join(values)})"
            case Prefix(name, text):
                fields[name] = f"{text}[^;]*"
    while not [*fields.values()][-1]:
        fields.popitem()  # nothing is asked of it
    return f"^{';'.join(field or '[^;]*' for field in fields.values())};".encode()


# -- rule-engine: an event is tried on one rule after the other ----------------------------------


def rule_engine(filters: Filters) -> list[Matcher]:
    import rule_engine as engine

    rules = [engine.Rule(" and ".join(map(_rule, cs))) for cs in filters.conditions]

    def one(event: dict[str, Any]) -> list[int]:
        return [key for key, rule in enumerate(rules) if rule.matches(event)]

    return [one_by_one("rule-engine", lambda events, n: events.dicts[:n], one)]


def _rule(condition: Condition) -> str:
    match condition:
        case Equal(name, value):
            return f"{name} == '{value}'"
        case Among(name, values):
            return f"{name} in [{', '.join(map(repr, values))}]"
        case Prefix(name, text):
            return f"{name}.starts_with('{text}')"
        case Range(name, None, high):
            return f"{name} <= {high}"
        case Range(name, low, None):
            return f"{name} >= {low}"
        case Range(name, low, high):
            return f"{name} >= {low} and {name} <= {high}"


# -- all of them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """An engine: its formulations, the lines it has in the table."""

    loaders: tuple[Callable[[Filters], list[Matcher]], ...]
    labels: tuple[str, ...]
    takes_filters: bool = False
    """Whether it loads ours, which are then made before its time starts."""
    growth: int = 10
    """How many times as long loading takes with ten times as many filters, about."""
    prepare: Callable[[], None] = lambda: None
    """What a process does once, before anything is timed."""


ENGINES = {
    "tidings": Engine(
        (tidings,),
        ("tidings match", "tidings match_batch"),
        takes_filters=True,
        prepare=_compile_kernels,
    ),
    "duckdb": Engine((duckdb_one_join, duckdb_by_shape), ("duckdb", "duckdb, 1 thread")),
    "clipspy": Engine((clips_rules, clips_facts), ("clipspy",), growth=30),
    "hyperscan": Engine((hyperscan,), ("hyperscan",), growth=20),
    "rule-engine": Engine((rule_engine,), ("rule-engine",)),
    "brute force": Engine((brute_force,), ("brute force",), takes_filters=True),
}

PER_EVENT = ("clipspy", "hyperscan", "rule-engine", "brute force")
"""The labels of peers that take one event at a time."""
