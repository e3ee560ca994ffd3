"""`tidings pipeline statistics`: what a lake's events are like, as files, pictures and events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as parquet

from tidings.cli.complaints import counted, remark, shortened
from tidings.cli.match import read_filters
from tidings.cli.progress import ProgressLine, progress
from tidings.cli.stopping import stops_told
from tidings.cli.terminal import output
from tidings.client import Login
from tidings.events import Filter, Notification
from tidings.lakes.committed import existing
from tidings.lakes.lake import Lake
from tidings.routing.statistics import ABOUT, Attribute, Distribution, time_of
from tidings.spark.bulk.registrations import ALL, Registrations
from tidings.spark.sessions import session_or_none
from tidings.spark.statistics.selectivity import broker_of, one_broker
from tidings.spark.statistics.statistics import Findings, statistics

_SHOWN: Final = 20
"""Rows of a table in the report."""
_PUBLISHED: Final = 1_000
"""Filters, and as many mergers and overlaps, that are published."""
_STRINGS: Final = 5


@stops_told("the same command begins anew")
def tell_statistics(
    lake: Path,
    out: Path,
    *,
    filters: Path | None,
    publish: Login | None,
    master: str,
) -> None:
    """Compute, write everything to `out`, and publish it if asked to; a summary on stdout."""
    opened = existing(lake)
    if publish is not None:
        with publish.plain():
            pass  # somebody is there: what takes long is not done for nothing
    wanted = {} if filters is None else wanted_by(filters)
    out.mkdir(parents=True, exist_ok=True)
    line = ProgressLine()
    line.starting(master)
    with session_or_none("tidings statistics", master=master) as spark:
        found = statistics(
            spark,
            opened,
            wanted,
            owner=broker_of if filters is None or _registrations(filters) is None else one_broker,
            progress=lambda done, total: line.count(done, total, "events"),
        )
    line.clear()
    asked = "" if filters is None else f" --filters {filters}"
    paths = write(found, out, f"tidings pipeline statistics --lake {lake} --out {out}{asked}")
    remark(
        f"{counted(found.events, 'event')}, "
        f"{counted(len(found.statistics.attributes), 'attribute')}, "
        f"{counted(len(wanted), 'filter')} in {found.seconds:.1f} s, "
        f"{found.rate:,.0f} events a second"
    )
    for path in paths:
        output().print(str(path), soft_wrap=True)
    if publish is not None:
        count = publish_all(found, publish)
        remark(f"{counted(count, 'event')} about them published")


def wanted_by(path: Path) -> dict[str, Filter]:
    """The filters of a file, or of a lake of registrations: the bulk subscriptions in force.

    The folder in which `deliver` keeps that lake will do, too.
    """
    if (lake := _registrations(path)) is not None:
        return dict(Registrations().hear(Lake(lake).events(ALL)).added)
    with progress() as shown:
        return {str(key): f for key, f in read_filters(path, None, shown)}


def _registrations(path: Path) -> Path | None:
    """The lake of registrations in a folder, if there is one."""
    places = (path, path / "registrations")
    return next((place for place in places if (place / "_delta_log").is_dir()), None)


# -- events ----------------------------------------------------------------------------------------


def publish_all(found: Findings, login: Login) -> int:
    """Publish what brokers learn from, and the rest for whoever listens; how many events."""
    events = list(_events(found))
    with login.plain() as client:
        client.advertise(f"EXISTS {ABOUT}")
        return client.publish_each(iter(events))


def _events(found: Findings) -> Iterator[Notification]:
    yield found.statistics.notification()
    tables = {"selectivity": found.filters, "merger": found.mergers, "overlap": found.overlaps}
    for kind, table in tables.items():
        if table is not None:
            for row in table.slice(0, _PUBLISHED).to_pylist():
                yield Notification({ABOUT: kind, **row})


# -- files -----------------------------------------------------------------------------------------


def write(found: Findings, out: Path, command: str) -> list[Path]:
    """The report, the tables and the picture; what was written, the report first.

    Those of another time that would not be made now are deleted.
    """
    report, text = out / "report.md", out / "statistics.json"
    text.write_text(found.statistics.text() + "\n", encoding="utf-8")
    paths = [report, text]
    tables = {"filters": found.filters, "mergers": found.mergers, "overlaps": found.overlaps}
    for name, table in tables.items():
        path = out / f"{name}.parquet"
        path.unlink(missing_ok=True)
        if table is not None:
            parquet.write_table(table, path)
            paths.append(path)
    picture = _drawn(found, out / "distributions.svg")
    if picture is not None:
        paths.insert(1, picture)
    report.write_text("\n".join(_report(found, command, picture)) + "\n", encoding="utf-8")
    return paths


def _drawn(found: Findings, path: Path) -> Path | None:
    path.unlink(missing_ok=True)
    if not found.statistics.attributes:
        return None
    try:
        from tidings.cli.distributions import draw
    except ImportError as problem:
        remark(f"no pictures ({problem}); try: pip install 'tidings[experiments]'")
        return None
    return draw(found.statistics, path)


def _report(found: Findings, command: str, picture: Path | None) -> Iterator[str]:
    yield "# What a lake's events are like"
    yield ""
    yield f"{found.events:,} events, read in {found.seconds:.1f} s. Printed by `{command}`."
    yield ""
    if picture is not None:
        yield f"![Distributions]({picture.name})"
        yield ""
    yield "## Attributes"
    yield ""
    known = sorted(found.statistics.attributes.items(), key=lambda item: (-item[1].present, item))
    rows = [(name, f"{a.present:.1%}", _numbers(a), _times(a), _strings(a)) for name, a in known]
    yield from _table(("attribute", "events", "numbers", "times", "strings"), rows)
    given = found.statistics.given
    if given:
        pairs = sorted({(n, o) for o, values in given.items() for v in values.values() for n in v})
        told = ", ".join(f"{name} by {other}" for name, other in pairs)
        yield f"Known apart, since they go together: {told}."
        yield ""
    yield from _filters(found)


def _filters(found: Findings) -> Iterator[str]:
    sections: tuple[tuple[str, str, Any, tuple[str, ...]], ...] = (
        ("Filters", "The share of all events that each matches.", found.filters, _FILTERS),
        ("Mergers", _MERGERS_MEAN, found.mergers, _MERGERS),
        ("Overlaps", _OVERLAPS_MEAN, found.overlaps, _OVERLAPS),
    )
    for title, meaning, table, names in sections:
        if table is None or not table.num_rows:
            continue
        yield f"## {title}"
        yield ""
        yield meaning
        yield ""
        rows = table.slice(0, _SHOWN).to_pylist()
        yield from _table(names, [[_cell(row[name]) for name in names] for row in rows])
        if table.num_rows > _SHOWN:
            yield f"And {table.num_rows - _SHOWN:,} more, in `{title.lower()}.parquet`."
            yield ""


_FILTERS: Final = ("key", "broker", "filter", "events", "share")
_MERGERS: Final = (
    "broker",
    "filter",
    "attribute",
    "low",
    "high",
    "inside_share",
    "wasted_share",
    "estimate",
)
_OVERLAPS: Final = ("one", "other", "events", "share", "alike")
_MERGERS_MEAN: Final = (
    "Gaps that could be closed, the cheapest first. *inside* is the share of all events that fall"
    " into one, *wasted* of those that no filter of the broker wants, *estimate* what the"
    " statistics say of *inside*."
)
_OVERLAPS_MEAN: Final = "What two brokers both want; *alike* is its share of what either wants."


def _table(header: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        cells = (shortened(cell, len(cell)).replace("|", "¦") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str("—" if value is None else value)


def _numbers(known: Attribute) -> str:
    return "" if known.number is None else _spread(known.number, lambda q: f"{q:,.6g}")


def _times(known: Attribute) -> str:
    return "" if known.time is None else _spread(known.time, _when)


def _when(seconds: float) -> str:
    return time_of(seconds).isoformat(sep=" ")[:19]


def _spread(known: Distribution, spoken: Any) -> str:
    least, middle, greatest = (known.quantiles[at] for at in (0, len(known.quantiles) // 2, -1))
    return f"{spoken(least)} … {spoken(middle)} … {spoken(greatest)}"


def _strings(known: Attribute) -> str:
    some = [f"{text} {share:.1%}" for text, share in islice(known.strings.items(), _STRINGS)]
    more = len(known.strings) - _STRINGS
    return ", ".join(some) + (f", {more} more" if more > 0 else "")
