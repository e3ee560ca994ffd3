from __future__ import annotations

import time

from typer.testing import CliRunner

from tests.cli.conftest import Run
from tidings.cli.app import app
from tidings.cli.tour import QUOTES
from tidings.events import Filter


def test_the_tour_shows_matching_covering_merging_and_an_error() -> None:
    done = CliRunner().invoke(app, ["tour"], catch_exceptions=False)
    assert done.exit_code == 0
    for words in (
        "✓ symbol DIS   price  112.4",
        "The first covers the second.",
        "price NOT BETWEEN 100 AND 200",
        "change < 0 excludes change > 5",
        "'BETWEN' is no operator",
        "^",
    ):
        assert words in done.output


def test_the_tour_marks_just_what_matches() -> None:
    shown = CliRunner().invoke(app, ["tour"]).output
    marked = shown.partition("\n2. ")[0].count("✓")
    falling = Filter.parse("symbol = 'DIS' AND change < 0")
    assert marked == sum(falling.matches(quote) for quote in QUOTES)


def test_the_tour_fits_80_columns_and_takes_no_time(tidings: Run) -> None:
    start = time.monotonic()
    done = tidings("tour")
    assert time.monotonic() - start < 20  # a loaded machine; on a free one it is half a second
    told = [
        line for line in done.stdout.splitlines() if "$" not in line and "no operator" not in line
    ]
    assert max(map(len, told)) <= 80
