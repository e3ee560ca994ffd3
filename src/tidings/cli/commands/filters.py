"""Commands about filters and events: explain, match, tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.complaints import failures_told
from tidings.cli.options import SchemaFile, argument, declared_in, option

commands = typer.Typer()


@commands.command()
def explain(
    filter: Annotated[str, argument("FILTER", "A filter, in quotes.")],
    other: Annotated[str | None, argument("OTHER", "Another one, to compare with.")] = None,
    schema: SchemaFile = None,
) -> None:
    """Show what a filter admits, or how two filters relate.

    For one filter: its normal form, what each attribute may be, drawn as intervals on a line,
    and a notification that matches. In the pictures ● belongs to the interval and ○ does not.

    For two filters: whether one covers the other, whether they overlap, what both admit, and
    their merger if one conjunction can say it.

    \b
    Examples:
      tidings explain "price < 50 OR price > 60"
      tidings explain "subject UNDER 'economy' AND tags CONTAINS 'us'"
      tidings explain "change < 0" "symbol = 'DIS' AND change < -1"
    """
    with failures_told():
        from tidings.events import Filter

        declared = declared_in(schema)
        first = Filter.parse(filter, schema=declared)
        second = None if other is None else Filter.parse(other, schema=declared)

        # Not before the filters are right: an error needs no pictures, and answers sooner.
        from tidings.cli.explain import explain_filter, explain_pair
        from tidings.cli.terminal import output

        if second is None:
            explain_filter(first, output())
        else:
            explain_pair(first, second, output(), schema=declared)


@commands.command()
def match(
    filter: Annotated[
        str | None, argument("FILTER", "A filter, in quotes; not with --filters.")
    ] = None,
    files: Annotated[
        list[str] | None, argument("FILE", "Files of events; none, or -, is stdin.")
    ] = None,
    filters: Annotated[
        Path | None,
        option("--filters FILE", "Many filters: one on each line, or a key, a tab and a filter."),
    ] = None,
    schema: SchemaFile = None,
) -> None:
    """Print the events that a filter, or one of many, admits.

    Events are JSON objects, one on each line: plain attributes or CloudEvents. Lines that match
    are printed as they came, as soon as they came; blank lines are skipped. At the end, stderr
    tells how many matched.

    A line that is no event is reported on stderr with its number and passed over; after ten
    of them, the others are only counted.

    With --filters, an event that matches is printed after the keys of the filters it matches:
    a JSON array and a tab. A filter without a key has the number of its line as key. All of
    them are looked up at once, so a hundred thousand are no trouble.

    \b
    Exit codes:
      0  something matched
      1  nothing matched
      2  a line or a file could not be read, or a filter is wrong

    \b
    Examples:
      tidings match "symbol = 'DIS' AND change < 0" quotes.jsonl
      tail -f quotes.jsonl | tidings match "price > 100"
      tidings match "type = 'order.placed' AND data.total >= 1000" < cloudevents.jsonl
      tidings match --filters desks.tsv quotes.jsonl
    """
    if filter is None and filters is None:
        raise typer.BadParameter("give a filter, or a file of filters with --filters")
    names = files or []
    if filters is not None and filter is not None:
        names = [filter, *names]  # then even the first is a file of events
    with failures_told():
        from tidings.cli.match import match_files, match_many

        if filters is not None:
            code = match_many(filters, names or ["-"], schema=declared_in(schema))
        else:
            assert filter is not None
            code = match_files(filter, names or ["-"], schema=declared_in(schema))
    raise typer.Exit(code)


@commands.command()
def tour() -> None:
    """Take a tour of filters: two minutes to read, nothing to prepare."""
    from tidings.cli.terminal import output
    from tidings.cli.tour import guide

    with failures_told():
        guide(output())
