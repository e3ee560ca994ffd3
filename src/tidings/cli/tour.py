"""`tidings tour`: a first use of filters, told step by step. Everything it shows is computed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tidings.cli.explain import ASIDE, HEADING, NAME, relation, show_conjunction
from tidings.events import Filter, FilterError, Notification

QUOTES: Final = tuple(
    Notification({"symbol": symbol, "price": price, "change": change, "tags": tags})
    for symbol, price, change, tags in (
        ("DIS", 112.4, -4.0, ["media", "us"]),
        ("DIS", 115.1, 2.7, ["media", "us"]),
        ("SAP", 241.9, -1.2, ["software", "eu"]),
        ("NFLX", 58.3, -0.6, ["media", "us"]),
        ("ASML", 703.0, 11.5, ["chips", "eu"]),
    )
)


def guide(out: Console) -> None:
    """Print the tour."""
    tour = _Tour(out)
    tour.say("A publisher says what happened. Here are five quotes, as notifications:")
    tour.show_quotes()

    tour.step("A filter says what you want to hear")
    falling = tour.parse("symbol = 'DIS' AND change < 0")
    tour.show_quotes(falling)
    tour.say("A filter is a set of notifications: it tells for each attribute what it may be.")
    show_conjunction(falling.conjunctions[0], out)

    tour.step("However it is written, it is the same filter")
    wordy = tour.parse("NOT (change >= 0 OR symbol <> 'DIS')")
    same = "the same as" if wordy == falling else "not"
    tour.say(f"This is {same} the filter above. Its normal form:")
    tour.show_filter(str(wordy))
    tour.say(f"and its key, the same on every machine: {wordy.key}")

    tour.step("One filter can cover another")
    general = tour.parse("change <= 0")
    tour.show_filter(str(falling))
    tour.compare(general, falling)
    tour.say("Whoever gets all that the first asks for need not be asked for the second.")

    tour.step("Two filters can merge into one")
    cheap, dear = tour.parse("price < 100"), tour.parse("price > 200")
    merged = cheap.merge(dear)
    assert merged is not None
    tour.say("The merger admits exactly what either of them admits:")
    tour.show_filter(str(merged))
    show_conjunction(merged.conjunctions[0], out)
    tour.show_quotes(merged)

    tour.step("Sets, patterns and absence are part of it")
    media = tour.parse("tags CONTAINS 'media' AND symbol LIKE '%S' AND NOT EXISTS halted")
    tour.show_quotes(media)

    tour.step("A filter that can never match says why")
    never = tour.parse("change < 0 AND symbol = 'DIS' AND change > 5")
    tour.say("; ".join(never.reasons))

    tour.step("A mistake is shown where it is")
    tour.parse_wrong("symbol = 'DIS' AND price BETWEN 50 AND 60")

    tour.step("Your turn")
    tidings = _program()
    tour.show_commands(
        f'{tidings} explain "price < 100 OR price > 200"',
        f"echo '{QUOTES[0].to_json()}' | {tidings} match \"change < 0\"",
        f"{tidings} --help",
    )
    tour.say("docs/filters.md describes the whole language.")


def _program() -> str:
    """How the reader can call this program from here."""
    if shutil.which("tidings"):
        return "tidings"
    script, here = Path(sys.executable).parent / "tidings", Path.cwd()
    return str(script.relative_to(here) if script.is_relative_to(here) else script)


class _Tour:
    """Writes the tour's parts, and keeps count of its steps."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.steps = 0

    def step(self, title: str) -> None:
        self.steps += 1
        self.out.print(Text(f"{self.steps}. {title}", HEADING), end="\n\n")

    def say(self, words: str) -> None:
        self.out.print(Text(words), end="\n\n")

    def parse(self, text: str) -> Filter:
        self.show_filter(text)
        return Filter.parse(text)

    def parse_wrong(self, text: str) -> None:
        try:
            self.parse(text)
        except FilterError as problem:
            for line in str(problem).splitlines():
                self.out.print(Text(f"    {line}", "red"))
            self.out.print()

    def show_filter(self, text: str) -> None:
        self.out.print(Text(f"    {text}", NAME), end="\n\n")

    def show_commands(self, *commands: str) -> None:
        for command in commands:
            self.out.print(Text.assemble(("    $ ", ASIDE), (command, NAME)))
        self.out.print()

    def compare(self, first: Filter, second: Filter) -> None:
        verdict, remark = relation(first, second)
        self.say(f"{verdict} {remark}")

    def show_quotes(self, wanted: Filter | None = None) -> None:
        """The quotes, one on each line; those that match are marked."""
        for quote in QUOTES:
            matches = wanted is None or wanted.matches(quote)
            mark = "  " if wanted is None else "✓ " if matches else "  "
            line = (
                f"  {mark}symbol {quote['symbol']:<5} price {quote['price']:>6}  "
                f"change {quote['change']:>5}  tags {', '.join(sorted(quote['tags']))}"
            )
            self.out.print(Text(line, "" if matches else ASIDE))
        self.out.print()
