"""`tidings network`: ask brokers how they are, and show the network they form."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidings.broker.operations.status import LinkStatus, Status, ask
from tidings.cli.complaints import counted
from tidings.cli.terminal import output
from tidings.client.dialling import tls_context
from tidings.delivery.ages import FORGOTTEN, IDLE
from tidings.events import TidingsError
from tidings.protocol.addresses import Address, parse_address, parse_url
from tidings.protocol.epochs import broker_of, epoch_of
from tidings.simulation.drawing import draw
from tidings.simulation.topology import Link, Topology

_PAUSE: Final = 2.0
_MOST: Final = 1000
"""Brokers that are asked, at most."""


class NetworkStatus(NamedTuple):
    """What the brokers of a network have told."""

    brokers: dict[str, Status]
    silent: dict[str, str]
    """Those that are known and have not answered, and why."""


def show_network(
    url: str, *, token: str | None, authority: Path | None, watch: bool, picture: Path | None
) -> None:
    """Print what a broker and all that can be reached from it say about themselves."""
    where = parse_url(url)
    trust = tls_context(where, authority)
    start = where.addresses[0]
    if picture is not None and not picture.parent.is_dir():
        raise TidingsError(f"{picture}: there is no folder {picture.parent}")
    if watch:
        asyncio.run(_watch(start, token, trust, picture))
        return
    found = asyncio.run(explore(start, token=token, trust=trust))
    _draw(found, picture)
    output().print(_shown(found))


async def _watch(
    start: Address, token: str | None, trust: ssl.SSLContext | None, picture: Path | None
) -> None:
    with Live(console=output(), auto_refresh=False) as live:
        while True:
            begun = monotonic()
            found = await explore(start, token=token, trust=trust)
            _draw(found, picture)
            live.update(_shown(found), refresh=True)
            await asyncio.sleep(max(0.2, _PAUSE - (monotonic() - begun)))


async def explore(
    start: Address, *, token: str | None = None, trust: ssl.SSLContext | None = None
) -> NetworkStatus:
    """Ask a broker, then its neighbours, then theirs; `TidingsError` if the first is silent.

    All are asked from here, with the same token; whoever does not know it counts as silent.
    """
    first = await ask(start, token=token, trust=trust)
    found = NetworkStatus({first.broker: first}, {})
    new = [first]
    while new and len(found.brokers) < _MOST:
        wanted = {
            link.name: link
            for status in new
            for link in status.links
            if link.name not in found.brokers and link.name not in found.silent
        }
        new = []
        answers = await asyncio.gather(
            *(_ask(link, token, trust) for link in wanted.values()), return_exceptions=True
        )
        for name, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Status):
                found.brokers[answer.broker] = answer
                new.append(answer)
            elif isinstance(answer, TidingsError):
                found.silent[name] = str(answer)
            else:
                raise answer
    return found


async def _ask(link: LinkStatus, token: str | None, trust: ssl.SSLContext | None) -> Status:
    if link.address is None:
        raise TidingsError("it dials others, and its own address is not known")
    status = await ask(parse_address(link.address), token=token, trust=trust)
    if status.broker != link.name:
        raise TidingsError(f"the broker at {link.address} is {status.broker}")
    return status


# -- tables ------------------------------------------------------------------------------------


def _shown(found: NetworkStatus) -> Group:
    parts: list[Table | Text] = [_brokers(found)]
    if any(status.links for status in found.brokers.values()):
        parts += [Text(), _links(found.brokers)]
    if any(status.principals for status in found.brokers.values()):
        parts += [Text(), _principals(found.brokers)]
        parts += [Text(line, style="yellow") for line in _unused(found.brokers)]
    troubled = {n: s.trouble for n, s in found.brokers.items() if s.trouble is not None}
    for name, why in {**troubled, **found.silent}.items():
        parts.append(Text(f"{name}: {why}", style="yellow"))
    for name, status in found.brokers.items():
        parts += [Text(f"{name}: {warning}", style="yellow") for warning in status.warnings]
        if status.lake is not None and status.lake.trouble is not None:
            parts.append(
                Text(f"{name}: no event is let go of: {status.lake.trouble}", style="yellow")
            )
    return Group(*parts)


def _table(*columns: str, words: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < words else "right", no_wrap=True)
    return table


def _brokers(found: NetworkStatus) -> Table:
    table = _table(
        "broker", "address", "up for", "sessions", "subscriptions", "kept", "in/s", "out/s",
        words=2,
    )  # fmt: skip
    for name, status in sorted(found.brokers.items()):
        table.add_row(
            Text(name, style="red" if status.trouble else "green"),
            status.address,
            _time(status.uptime),
            str(status.sessions),
            str(status.subscriptions),
            str(status.last - status.first + 1),
            f"{status.rates.get('published', 0):.0f}",
            f"{status.rates.get('delivered', 0):.0f}",
        )
    for name in sorted(found.silent):
        table.add_row(Text(name, style="red"), Text("no answer", style="red"))
    return table


def _links(brokers: Mapping[str, Status]) -> Table:
    links = [link for status in brokers.values() for link in status.links]
    is_hierarchy = any(link.role != "peer" for link in links)
    words = ["link", "", *["role"] * is_hierarchy, "state"]
    table = _table(*words, "wants", "advertises", "queue", "stream upto", words=len(words))
    for name, status in sorted(brokers.items()):
        for link in status.links:
            own = [s for s in status.streams if broker_of(s) == link.name]
            stream = status.streams[max(own, key=epoch_of)] if own else None
            state = "down" if not link.is_up else "in the tree" if link.is_in_tree else "spare"
            table.add_row(
                name,
                f"← {link.name}",
                *[link.role] * is_hierarchy,
                Text(state, style="" if link.is_up else "red"),
                str(link.subscriptions),
                str(link.advertisements),
                str(link.queue),
                "?" if stream is None or stream.upto < 0 else str(stream.upto),
            )
    return table


def _principals(brokers: Mapping[str, Status]) -> Table:
    table = _table("principal", "at", "durables", "may be", "publishers", "may be", words=2)
    for broker, status in sorted(brokers.items()):
        for each in status.principals:
            is_full = each.durables >= status.durables or each.publishers >= status.publishers
            table.add_row(
                Text(each.name, style="red" if is_full else ""),
                broker,
                str(each.durables),
                str(status.durables),
                str(each.publishers),
                str(status.publishers),
            )
    return table


def _unused(brokers: Mapping[str, Status]) -> list[str]:
    """What nobody uses, and will be forgotten."""
    return [
        f"{broker}: nobody has used these durable subscriptions of {each.name} for {IDLE} days, "
        f"and after {FORGOTTEN} they are forgotten: {', '.join(each.names)}"
        + (f" and {each.idle - len(each.names)} more" if each.idle > len(each.names) else "")
        for broker, status in sorted(brokers.items())
        for each in status.principals
        if each.idle
    ]


def _time(seconds: float) -> str:
    """Roughly, in the largest unit that fits.

    >>> _time(59), _time(7300), _time(86400 * 3)
    ('59 s', '2 h', '3 d')
    """
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


# -- pictures ----------------------------------------------------------------------------------


def _draw(found: NetworkStatus, picture: Path | None) -> None:
    if picture is not None:
        picture.write_text(drawn(found), encoding="utf-8")


def drawn(found: NetworkStatus) -> str:
    """The network as SVG; circles grow with what brokers want of each other."""
    ends: dict[frozenset[str], bool] = {}
    for name, status in found.brokers.items():
        for link in status.links:
            pair = frozenset((name, link.name))
            ends[pair] = ends.get(pair, False) or (link.is_up and link.is_in_tree)
    links = {pair: Link(min(pair), max(pair)) for pair in ends}
    names = tuple(sorted({*found.brokers, *found.silent}))
    return draw(
        Topology(names, tuple(links.values())),
        tables={
            name: sum(link.subscriptions for link in status.links)
            for name, status in found.brokers.items()
        },
        traffic={},
        tree=[(link.a, link.b) for pair, link in links.items() if ends[pair]],
        down=sorted(found.silent),
        title=counted(len(found.brokers), "broker"),
    )
