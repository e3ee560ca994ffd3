"""The gate: lets in clients and brokers that have greeted, or says why not, and looks after them.

Hello ──▶ admitted? ──┬── client ──▶ a `ClientSession`
                      ├── broker ──▶ one of the `Links`
                      └── client that asks for the status: told, and seen off

A connection that has not greeted yet is with the `Arrivals`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from secrets import token_hex
from time import monotonic, time
from typing import Final

from tidings.broker.configuration import ClientLimits
from tidings.broker.doors.admission import Admission, UnwelcomeError
from tidings.broker.doors.certificates import Authorities
from tidings.broker.doors.client_session import ClientSession
from tidings.broker.doors.connection import Connection
from tidings.broker.doors.decoding import ClientDecoder, Decoding
from tidings.broker.doors.links import Links
from tidings.broker.host import Host
from tidings.broker.operations.status import ASK, Status
from tidings.broker.tokens import Grant, Tokens
from tidings.events import Schema
from tidings.protocol.requests import Refused
from tidings.protocol.wire import (
    ACCESS,
    UNLIMITED,
    Hello,
    MessageDecoder,
    Ping,
    Welcome,
    WireLimits,
    common,
)

_log = logging.getLogger(__name__)

_PATIENCE: Final = 5.0
"""Seconds to answer what was said by somebody whose token has expired."""
_STALLED: Final = 20
"""Times `silence` after which a client that has stopped reading is cut off."""
# Neighbours are trusted with more than clients: a table or a part of a log is one message.
_LINK_FRAME: Final = 256 << 20
"""Bytes of a neighbour's frame, at most."""
_LINK_MEMORY: Final = 32 << 20
"""Bytes that wait for a neighbour to read them, before its connection counts as full."""


class Gate:
    """All connections of a broker."""

    def __init__(
        self,
        name: str,
        host: Host,
        admission: Admission,
        authorities: Authorities,
        limits: ClientLimits,
        status: Callable[[], Status],
        *,
        lake: str | None = None,
        schema: Schema | None = None,
    ) -> None:
        self._name = name
        self._schema = schema
        self._lake = lake
        self._host = host
        self._admission = admission
        self._authorities = authorities
        self._limits = limits
        self._status = status
        self.links: Links | None = None
        self.connections: set[Connection] = set()
        self._grants: dict[Connection, Grant] = {}
        """The tokens by which clients and neighbours were let in."""
        self.is_closing = False
        self._threads = ThreadPoolExecutor(2, "tidings-decode")
        # How many attributes are too many is for the session to say, which refuses only one event.
        most = WireLimits(attributes=limits.frame)
        self._clients = Decoding(ClientDecoder(most), self._threads)
        # A neighbour speaks for many clients, and may have joined their filters.
        trusted = replace(UNLIMITED, attributes=most.attributes)
        self._neighbours = Decoding(MessageDecoder(trusted), self._threads)
        self._task: asyncio.Task[None] | None = None
        self._emptied: asyncio.Future[None] | None = None

    def dialled(self, made: Callable[[Connection], None]) -> Connection:
        """The protocol for a connection to a neighbour."""

        def begin(connection: Connection) -> None:
            self._watch(connection)
            made(connection)

        return self._connection(begin, is_link=True)

    def _connection(self, made: Callable[[Connection], None], *, is_link: bool) -> Connection:
        limits = self._limits
        return Connection(
            made,
            decoding=self._neighbours if is_link else self._clients,
            frame=_LINK_FRAME if is_link else limits.frame,
            memory=_LINK_MEMORY if is_link else limits.memory,
            metrics=self._host.metrics,
        )

    # -- coming in -----------------------------------------------------------------------------

    def _watch(self, connection: Connection) -> None:
        self.connections.add(connection)
        connection.gone = self._gone

    def _gone(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._grants.pop(connection, None)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    def greeted(self, transport: asyncio.Transport, hello: Hello, size: int) -> Refused | None:
        """Let in the sender of a Hello, in a frame of this size, or say why not."""
        shown = self._authorities.shown(transport.get_extra_info("ssl_object"))
        try:
            admitted = self._admission.admit(hello, shown, time())
        except UnwelcomeError as problem:
            return Refused(ACCESS, str(problem))
        is_link, asks = hello.role == "broker", hello.options.get(ASK) == "status"
        if self.is_closing:
            return Refused("", "the broker is shutting down")
        if not is_link and not asks and len(self._host.sessions) >= self._limits.connections:
            most = self._limits.connections
            return Refused("", f"{self._name} has all the {most} clients that it may have")
        connection = self._connection(self._watch, is_link=is_link)
        connection.version = common(hello)
        connection.take_over(transport, size)
        if admitted.grant is not None:
            self._grants[connection] = admitted.grant
        if is_link:
            self._let_broker_in(connection, hello)
        elif asks:
            connection.send([self._status()])
            connection.close()
        else:
            self._let_client_in(connection, hello, admitted.principal)
        connection.go_on()
        return None

    def _let_client_in(self, connection: Connection, hello: Hello, principal: str) -> None:
        name = hello.name or token_hex(8)
        connection.send([self._welcome(connection, principal)])
        ClientSession(
            connection,
            self._host,
            principal=principal,
            name=name,
            limits=self._limits,
            may_deliver=self._admission.may_deliver(principal),
            schema=self._schema,
            may_erase=self._admission.may_erase(principal),
        ).open()

    def _let_broker_in(self, connection: Connection, hello: Hello) -> None:
        assert self.links is not None
        refusal = self.links.objection(hello.name, hello.options) or self.links.adopt(
            hello.name,
            connection,
            dialled_by=hello.name,
            address=hello.options.get("address"),
            instance=hello.options.get("instance"),
        )
        if refusal is not None:
            connection.farewell(refusal)
            return
        connection.send(
            [self._welcome(connection)]
        )  # before all that the node has to say: see `Host`

    def _welcome(self, connection: Connection, principal: str = "") -> Welcome:
        limits = self._limits
        told = {
            "frame": limits.frame,
            "attributes": limits.attributes,
            "subscriptions": limits.subscriptions,
        }
        return Welcome(connection.version, self._name, told, self._lake, principal)

    # -- keeping alive -------------------------------------------------------------------------

    def start(self) -> None:
        """Look after the connections, until `close`."""
        self._task = asyncio.create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._limits.silence / 4))
            self._look(monotonic())

    def _look(self, now: float) -> None:
        """Ask those that are silent, and cut off those that do not answer."""
        silence = self._limits.silence
        for connection in list(self.connections):
            if connection.is_closing:
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
            elif connection.asked_at is not None:
                if now - connection.asked_at > silence:
                    connection.cut_off(f"has been silent for {quiet:.0f} seconds")
            elif quiet > silence:
                connection.asked_at = now
                connection.send([Ping()])

    def _patience(self, connection: Connection) -> float:
        """A client may sleep; a neighbour that takes nothing is better replaced by another way."""
        is_link = connection.memory >= _LINK_MEMORY
        return (2 if is_link else _STALLED) * self._limits.silence

    def check_tokens(self, tokens: Tokens) -> None:
        """End the connections whose token has expired, or is known no longer.

        What was read before is done, and answered first; what was not is not done.
        """
        now = time()
        for connection, grant in list(self._grants.items()):
            objection = tokens.objection(grant, now)
            if objection is not None:
                del self._grants[connection]
                connection.hold()
                connection.log_refusal(objection)
                self._host.dismiss(connection, Refused(ACCESS, objection))
                # Also if the disk is full, and what was read before cannot be answered.
                loop = asyncio.get_running_loop()
                loop.call_later(_PATIENCE, connection.farewell, objection)

    # -- the end -------------------------------------------------------------------------------

    def hold(self) -> None:
        """Read nothing more: what clients say from now on they will say to the next broker."""
        self.is_closing = True
        for connection in self.connections:
            connection.hold()

    async def close(self, within: float) -> None:
        """Close all connections, with all that was sent to them if they take it in time."""
        if self._task is not None:
            self._task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
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
