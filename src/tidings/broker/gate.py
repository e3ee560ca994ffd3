"""The gate: greets whoever connects, lets them in or tells them why not, and sees who has left.

Hello ──▶ admitted? ──┬── client ──▶ a session behind its `Border`
                      ├── broker ──▶ one of the `Links`
                      └── client that asks for the status: told, and seen off
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from secrets import token_hex
from time import monotonic
from typing import Any, Final

from tidings.broker.admission import Admission, UnwelcomeError
from tidings.broker.border import Border
from tidings.broker.configuration import Limits
from tidings.broker.connection import Connection
from tidings.broker.host import Host
from tidings.broker.links import Links
from tidings.broker.status import ASK, Status
from tidings.node.wire import ACCESS, VERSION, Hello, Ping, Reader, Welcome, WireLimits

_log = logging.getLogger(__name__)

_GREETING: Final = 10.0
"""Whoever connects has so many seconds to say who they are."""
_STALLED: Final = 20
"""A client that has stopped reading is given so many times the usual patience."""
_LINK_FRAME: Final = 256 << 20
_LINK_MEMORY: Final = 32 << 20
"""Neighbours are trusted with more than clients: a table or a part of a log is one message."""


class Gate:
    """All connections of a broker."""

    def __init__(
        self,
        name: str,
        host: Host,
        admission: Admission,
        limits: Limits,
        status: Callable[[], Status],
        *,
        lake: str | None = None,
    ) -> None:
        self._name = name
        self._lake = lake
        self._host = host
        self._admission = admission
        self._limits = limits
        self._status = status
        self.links: Links | None = None
        self.connections: set[Connection] = set()
        self.is_closing = False
        # How many attributes are too many is for the border to say, which refuses only one event.
        self._reader = Reader(WireLimits(attributes=limits.frame))
        self._task: asyncio.Task[None] | None = None
        self._emptied: asyncio.Future[None] | None = None

    def accepted(self) -> Connection:
        """The protocol for a connection that comes in."""
        return Connection(
            self._made,
            reader=self._reader,
            frame=self._limits.frame,
            memory=self._limits.memory,
            counts=self._host.counts,
        )

    def dialled(self, made: Callable[[Connection], None]) -> Connection:
        """The protocol for a connection to a neighbour."""

        def begin(connection: Connection) -> None:
            self._watch(connection)
            made(connection)

        return Connection(
            begin,
            reader=self._reader,
            frame=_LINK_FRAME,
            memory=_LINK_MEMORY,
            counts=self._host.counts,
        )

    # -- coming in -----------------------------------------------------------------------------

    def _watch(self, connection: Connection) -> None:
        self.connections.add(connection)
        connection.gone = self._gone

    def _gone(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    def _made(self, connection: Connection) -> None:
        self._watch(connection)
        if self.is_closing:
            connection.farewell("the broker is shutting down")
        elif len(self.connections) > self._limits.connections:
            connection.refuse(
                f"{self._name} has all the {self._limits.connections} connections that it may have"
            )
        else:
            connection.receive = lambda messages, size: self._greeted(connection, messages, size)

    def _greeted(self, connection: Connection, messages: list[Any], size: int) -> None:
        if not messages:
            return
        hello = messages[0]
        if not isinstance(hello, Hello):
            connection.refuse("the first message must be Hello")
            return
        try:
            principal = self._admission.admit(hello, connection.certificate)
        except UnwelcomeError as problem:
            connection.label = f"{hello.role} {hello.name!r}"
            connection.refuse(str(problem), id=ACCESS)
            return
        if hello.role == "broker":
            self._let_broker_in(connection, hello)
        elif hello.options.get(ASK) == "status":
            connection.send([self._status()])
            connection.close()
        else:
            self._let_client_in(connection, hello, principal)
        if len(messages) > 1 and not connection.is_closing:
            connection.receive(messages[1:], size)

    def _let_client_in(self, connection: Connection, hello: Hello, principal: str) -> None:
        name = hello.name or token_hex(8)
        connection.send([self._welcome()])
        Border(connection, self._host, principal=principal, name=name, limits=self._limits).open()

    def _let_broker_in(self, connection: Connection, hello: Hello) -> None:
        assert self.links is not None
        refusal = self.links.adopt(
            hello.name, connection, dialled_by=hello.name, address=hello.options.get("address")
        )
        if refusal is not None:
            connection.farewell(refusal)
            return
        connection.enlarge(frame=_LINK_FRAME, memory=_LINK_MEMORY)
        connection.send([self._welcome()])  # before all that the node has to say: see `Host`

    def _welcome(self) -> Welcome:
        limits = self._limits
        told = {
            "frame": limits.frame,
            "attributes": limits.attributes,
            "subscriptions": limits.subscriptions,
        }
        return Welcome(VERSION, self._name, told, self._lake)

    # -- keeping alive -------------------------------------------------------------------------

    def start(self) -> None:
        """Look after the connections, until `close`."""
        self._task = asyncio.create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._limits.silence / 4))
            self._look(monotonic())

    def _look(self, now: float) -> None:
        """Ask those who are silent, and cut off those who do not answer."""
        silence = self._limits.silence
        for connection in list(self.connections):
            if connection.is_closing:
                continue
            if not connection.label:
                if now - connection.opened_at > _GREETING:
                    connection.refuse(f"nobody has said Hello for {_GREETING:g} seconds")
                continue
            quiet = now - connection.heard_at
            if connection.is_full:
                if connection.waited[0] != connection.waiting:
                    connection.waited = (connection.waiting, now)
                elif now - connection.waited[1] > self._patience(connection):
                    connection.cut_off("has stopped reading")
            elif connection.is_held:
                if quiet > silence / 4:
                    connection.send(
                        [Ping()]
                    )  # it cannot be heard, but should hear that we are here
            elif quiet > 2 * silence and connection.is_asked:
                connection.cut_off(f"has been silent for {quiet:.0f} seconds")
            elif quiet > silence and not connection.is_asked:
                connection.is_asked = True
                connection.send([Ping()])

    def _patience(self, connection: Connection) -> float:
        """A client may sleep; a neighbour that takes nothing is in nobody's interest."""
        is_link = connection.memory >= _LINK_MEMORY
        return (2 if is_link else _STALLED) * self._limits.silence

    # -- the end -------------------------------------------------------------------------------

    def hold(self) -> None:
        """Read nothing more: what clients say from now on they will say to the next broker."""
        self.is_closing = True
        for connection in self.connections:
            connection.hold()

    async def close(self, within: float) -> None:
        """See everybody off, with all that was sent to them if they take it in time."""
        if self._task is not None:
            self._task.cancel()
        for connection in list(self.connections):
            connection.farewell("the broker is shutting down")
        if self.connections:
            self._emptied = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(within):
                    await self._emptied
            except TimeoutError:
                for connection in list(self.connections):
                    connection.cut_off("has not read what it was sent")
                await asyncio.sleep(0)  # they are told in the next turn
