"""What the demonstration shows: brokers, desks, what they hear and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidings.broker.operations.status import Status
from tidings.cli.complaints import counted

if TYPE_CHECKING:
    from tidings.cli.demo.chronicle import Answer
    from tidings.cli.demo.demonstration import Demonstration, Desk

_NEWS = 4
"""Pieces of news that are shown."""


def scene(demonstration: Demonstration) -> RenderableType:
    """One look at everything."""
    length = f" of {demonstration.seconds:g}" if demonstration.seconds is not None else ""
    published = sum(demonstration.published.values())
    heading = Text.assemble(
        ("tidings  ", "bold"),
        f"{demonstration.elapsed:.0f}{length} s   {published} trades published in ",
        " and ".join(demonstration.published),
    )
    return Group(
        heading,
        _brokers(demonstration),
        _desks(demonstration),
        _lake(demonstration),
        _news(demonstration),
    )


def _brokers(demonstration: Demonstration) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("broker")
    table.add_column("links (═ in the tree)")
    for column in ("logged", "published/s", "delivered/s", "desks", "wanted by neighbours"):
        table.add_column(column, justify="right")
    for name in demonstration.network.ports:
        status = demonstration.status.get(name)
        if status is None:
            table.add_row(Text(name, "bold red"), Text("down", "red"))
            continue
        table.add_row(
            Text(name, "bold"),
            _links(status),
            f"{status.last}",
            f"{status.rates.get('published', 0.0):.0f}",
            f"{status.rates.get('delivered', 0.0):.0f}",
            f"{status.subscriptions}",
            f"{sum(link.subscriptions for link in status.links)}",
        )
    return table


def _links(status: Status) -> Text:
    text = Text()
    for link in status.links:
        if text:
            text.append("  ")
        if not link.is_up:
            text.append(f"✗ {link.name}", "red")
        elif link.is_in_tree:
            text.append(f"═ {link.name}", "green")
        else:
            text.append(f"─ {link.name}", "dim")
    return text


def _desks(demonstration: Demonstration) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("desk", no_wrap=True)
    table.add_column("at", no_wrap=True)
    table.add_column("wants to hear")
    table.add_column("heard", justify="right")
    table.add_column("last heard, and by which way")
    for desk in demonstration.desks:
        table.add_row(
            Text(desk.name, "bold" if desk.is_connected else "bold red"),
            desk.at,
            Text(str(desk.filter), "cyan"),
            f"{len(desk.heard)}" + (" ●" if desk.durable else ""),
            _last(demonstration, desk),
        )
    table.caption = "● durable: its broker remembers how far it is"
    return table


def _last(demonstration: Demonstration, desk: Desk) -> Text:
    if not desk.is_connected:
        return Text("no connection", "red")
    if not desk.heard:
        return Text("nothing yet", "dim")
    event = desk.heard[-1]
    named = [name for c in desk.filter.conjunctions for name in c.constraints]
    shown = ["symbol", *(n for n in dict.fromkeys(named) if n != "symbol")]
    text = Text(no_wrap=True, overflow="ellipsis")
    for name in shown:
        value = event.get(name)
        plain = ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
        style = "bold" if name in named else ""  # these are why it heard of it
        text.append(f"{plain} ", style)
    status = demonstration.status.get(desk.at)
    if status is not None and event.stream in status.streams:
        text.append("  " + " → ".join(status.streams[event.stream].path), "dim")
    return text


def _lake(demonstration: Demonstration) -> Text:
    chronicle = demonstration.chronicle
    if chronicle.problem is not None:
        return Text(f"no lake: {chronicle.problem}\n", "dim", no_wrap=True, overflow="ellipsis")
    behind = max(0, sum(demonstration.published.values()) - chronicle.events)
    return Text.assemble(
        ("lake", "bold"),
        f"  {counted(chronicle.events, 'trade')} in {counted(chronicle.files, 'file')}, ",
        f"{behind} behind what is published\n",
    )


def _news(demonstration: Demonstration) -> Text:
    text = Text()
    for moment, what in demonstration.news[-_NEWS:]:
        text.append(f"{moment:5.1f} s  ", "dim")
        text.append(what + "\n")
    return text


def summary(demonstration: Demonstration) -> RenderableType:
    """What came of it: published, wanted, heard."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("desk", no_wrap=True)
    table.add_column("wants to hear", overflow="fold")
    for column in ("was to hear", "has heard"):
        table.add_column(column, justify="right")
    table.add_column("")
    for desk in demonstration.desks:
        verdict = Text("exactly", "green") if desk.is_right else Text("WRONG", "red")
        table.add_row(
            desk.name,
            str(desk.filter),
            str(len(desk.expected)),
            str(len(desk.heard)),
            verdict,
        )
    published = sum(demonstration.published.values())
    heard = sum(len(desk.heard) for desk in demonstration.desks)
    last = Text(f"{published} trades published, each on disk before the next; {heard} heard. ")
    if all(desk.is_right for desk in demonstration.desks):
        last.append(
            "Each once, in order: nobody missed anything, nobody heard anything else.", "green"
        )
    else:
        last.append("Somebody did not hear what was to be heard.", "red")
    return Group(table, last)


def question(demonstration: Demonstration, desk: Desk) -> Text:
    """What is asked of history."""
    chronicle = demonstration.chronicle
    if chronicle.problem is not None:
        return Text(f"There is no history to ask: {chronicle.problem}", "yellow")
    return Text.assemble(
        f"The lake has {counted(chronicle.events, 'trade')} in "
        f"{counted(chronicle.files, 'file')}. Asking it for ",
        (str(desk.filter), "cyan"),
        ", on Spark…",
    )


def reply(demonstration: Demonstration, desk: Desk, answer: Answer | None) -> Text:
    """What history knows, next to what was heard when it happened."""
    if answer is None:
        return Text()
    live = {event.id for event in desk.heard}
    text = Text(f"{len(answer.ids)} trades, says {answer.by}, {answer.seconds:.1f} s; ")
    if answer.ids == live:
        text.append(f"the same {len(live)} that {desk.name!r} heard live.", "green")
    else:
        text.append(f"but {desk.name!r} heard {len(live)} live, and others.", "red")
    return text
