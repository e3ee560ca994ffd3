"""Links: one connection to each neighbour, whichever of the two has dialled it.

Both ends may dial, and may do so at the same time. Of two connections between the same brokers
the one survives that the broker with the smaller name has dialled; of two that the same broker
has dialled, the later, since the earlier must be dead. Both ends decide alike, each by itself,
as soon as they see the second connection.

Neighbours come and go while the broker runs, as the overlay of its node decides: `meet`, `part`.

A broker that dials says what the other one is to it, and is refused if that does not fit what it is
here. It also says which process it is. If another process comes under the name of one
that is linked, the first keeps its place while it answers: it may have been left behind by a
restart, but there may also be two brokers of one name, which must not take turns.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from random import random
from time import monotonic
from typing import Any, Final

from tidings.broker.configuration import NeighbourEntry
from tidings.broker.doors.connection import Connection
from tidings.broker.host import Host
from tidings.client.tls import tls_trouble
from tidings.events import TidingsError
from tidings.overlay import Role
from tidings.protocol.addresses import parse_place
from tidings.protocol.host import LinkDown, LinkUp, Received
from tidings.protocol.messages import Frame, Offer
from tidings.protocol.requests import Refused
from tidings.protocol.wire import Ping, Pong, Welcome, greeting

_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.1
"""Seconds until a neighbour is dialled for the second time; each pause is twice the last."""
_LONGEST_PAUSE: Final = 15.0
"""Seconds between two attempts to dial a neighbour, at most."""
_MOST: Final = 256 << 20
"""Bytes that a neighbour may leave unread; beyond them a new link, and fetching, serve it better.
To read nothing from it instead, as from clients, would not do: two that do so wait for ever."""
_CONTEST: Final = 2.0
"""Seconds that a neighbour has to answer when another process comes under its name."""
_RECENT: Final = 60.0
"""Seconds for which a name counts as contested after another process came under it."""
_PATIENCE: Final = 10.0
"""Seconds that a neighbour has to answer when dialled."""
_OPPOSITE: Final[Mapping[str, Role]] = {"peer": "peer", "parent": "child", "child": "parent"}
"""What a broker is to a neighbour, by what the neighbour is to it."""


class Links:
    """The neighbours of a broker, and how to reach them."""

    def __init__(
        self,
        name: str,
        neighbours: MutableMapping[str, NeighbourEntry],
        host: Host,
        *,
        connection: Callable[[Callable[[Connection], None]], Connection],
        trust: Callable[[NeighbourEntry], ssl.SSLContext],
    ) -> None:
        """`neighbours` are those that were configured, and change as the links do; `trust` says
        how to talk TLS to one."""
        self._name = name
        self._neighbours = neighbours
        self._configured = dict(neighbours)
        self._host = host
        self._connection = connection
        self._address: str | None = None
        """Where this broker can be reached, once it dials."""
        self._trust = trust
        self._up: dict[str, tuple[Connection, str]] = {}
        """For each neighbour the connection, and who dialled it."""
        self._instances: dict[str, object] = {}
        """Which process each neighbour is, of those that have dialled."""
        self._contested: dict[str, tuple[str, float]] = {}
        """Where another process came from under a neighbour's name, and when last."""
        self._unfit: dict[str, tuple[str, float]] = {}
        """Why a neighbour was refused that is configured otherwise, and when last."""
        self._ended: dict[str, asyncio.Event] = {name: asyncio.Event() for name in neighbours}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.addresses = {n: each.address for n, each in neighbours.items()}
        """Where neighbours can be reached, as far as it is known."""

    def start(self, address: str) -> None:
        """Dial all neighbours whose address is known, again and again.

        `address` is where this broker can be reached, for neighbours to know; without a host in
        it, where they see it.
        """
        self._address = address
        for name in self._neighbours:
            self._begin_dialling(name)

    def _begin_dialling(self, name: str) -> None:
        neighbour = self._neighbours[name]
        if self._address is not None and neighbour.address is not None:
            self._tasks[name] = asyncio.create_task(
                self._keep_dialling(name, neighbour.address, neighbour)
            )

    async def stop(self) -> None:
        """Dial no more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # -- neighbours come and go: see `Linker` -------------------------------------------------

    def meet(self, name: str, address: str) -> None:
        neighbour = self._configured.get(name, NeighbourEntry(address=address or None))
        if self._neighbours.get(name) == neighbour:
            return
        self._end_dialling(name)
        self._neighbours[name] = neighbour
        self._ended.setdefault(name, asyncio.Event())
        self.addresses[name] = neighbour.address
        self._begin_dialling(name)

    def part(self, name: str) -> None:
        self._end_dialling(name)
        self._neighbours.pop(name, None)
        for kept in (self._ended, self.addresses, self._instances, self._contested, self._unfit):
            kept.pop(name, None)
        connection, _ = self._up.pop(name, (None, ""))
        if connection is not None:
            del self._host.links[name]
            connection.lost = lambda: None
            connection.farewell(f"{name} is no neighbour of {self._name} any longer")
            _log.info("parted from %s", name)

    def begin(self) -> None:
        for name in self._neighbours.keys() - self._configured.keys():
            self.part(name)
        for name in self._configured:
            self.meet(name, "")

    def _end_dialling(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    def is_up(self, name: str) -> bool:
        """Whether there is a connection."""
        return name in self._up

    def waiting(self, name: str) -> int:
        """How many bytes a neighbour has yet to take."""
        found = self._up.get(name)
        return 0 if found is None else found[0].waiting

    # -- one connection for each ---------------------------------------------------------------

    @property
    def contested(self) -> dict[str, tuple[str, str]]:
        """The neighbours under whose name another process has come lately: where both are."""
        late = monotonic() - _RECENT
        return {
            name: (self._up[name][0].address, other)
            for name, (other, at) in self._contested.items()
            if at > late and name in self._up
        }

    @property
    def unfit(self) -> list[str]:
        """Why neighbours were refused lately that are configured otherwise than here."""
        late = monotonic() - _RECENT
        return [reason for reason, at in self._unfit.values() if at > late]

    def _options(self, neighbour: NeighbourEntry) -> dict[str, str | int | bool | None]:
        """What this broker says to a neighbour that it dials."""
        node = self._host.node
        return {
            "address": self._address,
            "instance": node.instance,
            "role": neighbour.role,
            "tree": node.settings.tree,
        }

    def objection(self, name: str, options: Mapping[str, object]) -> str | None:
        """Why a neighbour that says this in its greeting does not fit this broker; if so."""
        ours, theirs = self._neighbours[name].role, str(options.get("role", "peer"))
        fitting = _OPPOSITE.get(theirs, "peer")
        reason = None
        if theirs != _OPPOSITE[ours]:
            reason = (
                f"{name} has {self._name} as its {theirs}, and {self._name} has {name} as its "
                f'{ours}: under [neighbours], {self._name} needs `role = "{fitting}"` for {name}, '
                f'or {name} `role = "{_OPPOSITE[ours]}"` for {self._name}'
            )
        elif bool(options.get("tree", self._has_tree)) is not self._has_tree:
            one, other = (self._name, name) if self._has_tree else (name, self._name)
            reason = (
                f"{one} agrees on a tree with its neighbours, and {other} does not: all brokers of "
                "a network need the same `tree` under [routing], and in one with parents and "
                "children that is `tree = false`"
            )
        if reason is not None:
            self._unfit[name] = (reason, monotonic())
        return reason

    @property
    def _has_tree(self) -> bool:
        return self._host.node.settings.tree

    def adopt(
        self,
        name: str,
        connection: Connection,
        *,
        dialled_by: str,
        address: object = None,
        instance: object = None,
    ) -> str | None:
        """Take a connection for the link, in the place of another if need be; or why not."""
        if name not in self._neighbours:  # parted from while it was dialled
            return f"{name} is no neighbour of {self._name} any longer"
        before = self._up.get(name)
        if before is not None:
            known = self._instances.get(name)
            if instance is not None and known is not None and instance != known:
                return self._contest(name, before[0], connection)
            if dialled_by != before[1] and dialled_by != min(self._name, name):
                return f"{self._name} and {name} are linked already"
            before[0].lost = lambda: None
            before[0].farewell("another connection has taken the place of this one")
        if isinstance(address, str) and address and self._neighbours[name].address is None:
            self.addresses[name] = _reachable(address, connection.address)
        self._unfit.pop(name, None)
        self._up[name] = (connection, dialled_by)
        self._instances[name] = instance
        connection.label = f"broker {name}"
        connection.most = _MOST
        connection.receive = lambda messages, size: self._receive(name, connection, messages, size)
        connection.lost = lambda: self._lost(name)
        self._ended[name].clear()
        self._host.links[name] = connection
        _log.info(
            "linked with %s at %s, in version %d", name, connection.address, connection.version
        )
        self._host.handle(LinkUp(name))
        return None

    def _contest(self, name: str, before: Connection, connection: Connection) -> str:
        """Find out whether a neighbour is there, under whose name another process has come."""
        asked = monotonic()
        before.send([Ping()])

        def judge() -> None:
            if self._up.get(name, (None,))[0] is not before:
                return
            if before.heard_at >= asked:
                self._contested[name] = (connection.address, asked)
            else:
                before.cut_off("says nothing while another process comes under its name")

        asyncio.get_running_loop().call_later(_CONTEST, judge)
        return (
            f"another broker {name} is linked with {self._name} already, from {before.address}; "
            "each broker needs a name of its own"
        )

    def _lost(self, name: str) -> None:
        del self._up[name], self._host.links[name]
        self._ended[name].set()
        _log.warning("lost the link with %s", name)
        self._host.handle(LinkDown(name))

    def _receive(self, name: str, connection: Connection, messages: list[Any], size: int) -> None:
        host = self._host
        for message in messages:
            kind = message.__class__
            if kind is Frame or kind is Offer:
                host.handle(Received(name, message))
            elif kind is Ping:
                host.post(connection, Pong(message.number))
            elif kind is Refused:
                _log.warning("%s ends the link: %s", name, message.reason)
                connection.close()
            elif kind is not Pong:
                connection.refuse(f"a broker has no business to say {kind.__name__}")
                return
        host.took(size, hold=connection.hold, resume=connection.go_on)

    # -- dialling ------------------------------------------------------------------------------

    async def _keep_dialling(self, name: str, address: str, neighbour: NeighbourEntry) -> None:
        pause, told = _FIRST_PAUSE, ""
        while True:
            if self.is_up(name):
                await self._ended[name].wait()
                pause, told = _FIRST_PAUSE, ""
            else:
                try:
                    await self._dial(name, address, neighbour)
                    continue
                except (OSError, TidingsError, TimeoutError) as problem:
                    what = str(problem) or type(problem).__name__
                    if what != told and not self.is_up(name):
                        _log.warning("cannot link with %s at %s: %s", name, address, what)
                        told = what
            await asyncio.sleep(pause * (0.5 + random() / 2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _dial(self, name: str, where: str, neighbour: NeighbourEntry) -> None:
        """Connect, greet and adopt; an error says why it was in vain."""
        address, is_encrypted = parse_place(where)
        options = self._options(neighbour)
        hello = greeting("broker", self._name, _token(neighbour), options)
        answered: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

        def made(connection: Connection) -> None:
            connection.label = f"broker {name}"
            connection.receive = lambda messages, size: answer(messages)
            connection.lost = lambda: answer([])
            connection.send([hello])

        def answer(messages: list[Any]) -> None:
            if not answered.done():
                answered.set_result(messages)
                if messages and messages[0].__class__ is Welcome:
                    welcome(messages)

        def welcome(messages: list[Any]) -> None:
            # At once, not when the task goes on: the frames that follow must find the link.
            connection.version = messages[0].version
            if messages[0].broker == name:
                refusal.append(self.adopt(name, connection, dialled_by=self._name))
                if refusal == [None]:
                    connection.receive(messages[1:], 0)

        refusal: list[str | None] = []
        connection = self._connection(made)
        named = (neighbour.server_name or address.host) if is_encrypted else None
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    *address,
                    ssl=self._trust(neighbour) if is_encrypted else None,
                    server_hostname=named,
                )
                messages = await answered
            if refusal == [None]:
                return
            raise TidingsError(refusal[0] if refusal and refusal[0] else _reason(messages, name))
        except ssl.SSLError as problem:
            connection.forget()
            raise TidingsError(tls_trouble(problem)) from None
        except BaseException:
            connection.forget()
            raise


def _reachable(told: str, seen: str) -> str:
    """Where a neighbour says it can be reached: `:PORT`, at the address where it is seen.

    >>> _reachable("tidings+tls://:7411", "192.0.2.7:50123"), _reachable("rome:1", "192.0.2.7:5")
    ('tidings+tls://192.0.2.7:7411', 'rome:1')
    """
    scheme, separator, place = told.rpartition("://")
    if place.startswith(":"):
        place = seen.rpartition(":")[0] + place
    return scheme + separator + place


def _reason(messages: list[Any], name: str) -> str:
    match messages:
        case [Refused(reason=reason), *_]:
            return str(reason)
        case [Welcome(broker=broker), *_]:
            return f"the broker there is {broker}, not {name}"
        case []:
            return "it hung up without a word"
        case _:
            return "what answers there is no broker of this version"


def _token(neighbour: NeighbourEntry) -> str | None:
    if neighbour.own_token_file is None:
        return None
    try:
        return Path(neighbour.own_token_file).read_text(encoding="utf-8").strip()
    except OSError as problem:
        said = f"cannot read {neighbour.own_token_file}: {problem.strerror}"
        raise TidingsError(said) from None
