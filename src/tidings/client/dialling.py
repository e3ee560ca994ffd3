"""Dialling: finding a broker that lets the client in, whom to believe, and staying in touch."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

import msgspec

from tidings.client.connection import LARGEST, Connection
from tidings.client.errors import AccessDenied, ConnectionFailed, ConnectionTimedOut, Fenced
from tidings.client.tls import tls_trouble
from tidings.client.token import Token, token_of
from tidings.events import TidingsError
from tidings.protocol.addresses import Address, Url
from tidings.protocol.requests import Refused
from tidings.protocol.wire import ACCESS, Hello, Welcome

_log = logging.getLogger("tidings.client")

PATIENCE: Final = 10.0
"""Seconds for a broker to answer a greeting, and to take leave."""
_NOBODY: Final = "nobody listens there"
_FIRST_PAUSE: Final = 0.1
"""Seconds until a broker is dialled for the second time; each pause is twice the last."""
_LONGEST_PAUSE: Final = 10.0
"""Seconds between two attempts to dial a broker, at most."""
_SILENCE: Final = 15.0
"""Seconds after which a silent broker is asked for a sign of life; twice that, and it is gone."""

OnStatus = Callable[[bool, str], object]
"""Called with whether there is a connection, and a sentence that says what happened."""


class Dialler:
    """Makes connections to a broker, one after another.

    Its user sets `begin`, which is called with each new connection and its welcome, and `ping`,
    which asks the broker for a sign of life.
    """

    def __init__(
        self,
        url: Url,
        hello: Hello,
        *,
        token: Token,
        tls: ssl.SSLContext | None,
        on_status: OnStatus | None,
    ) -> None:
        self._url = url
        self._hello = hello
        self._token = token
        self._tls = tls
        self._on_status = on_status
        self._was_lost = False
        self.begin: Callable[[Connection, Welcome], None] = lambda connection, welcome: None
        self.ping: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self._hello.name

    async def first(
        self, wait: float, check: Callable[[Connection], Awaitable[None]]
    ) -> Connection:
        """The first connection that passes the check; `ConnectionFailed` after `wait` seconds."""
        until = monotonic() + wait
        pause, is_told = _FIRST_PAUSE, False
        token_of(self._token)  # if it cannot be read, that has nothing to do with the broker
        while True:
            try:
                connection = await self._dial()
                await check(connection)
                return connection
            except ConnectionFailed as problem:
                left = until - monotonic()
                if left <= 0:
                    hint = "\nIs it running? This starts one: tidings up"
                    raise type(problem)(
                        f"no broker can be reached at {problem}"
                        + (hint if _NOBODY in str(problem) else "")
                    ) from None
                if not is_told:
                    is_told = True
                    self._tell(False, f"no broker can be reached yet at {problem}")
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, 1.0)

    async def stay(self, connection: Connection) -> None:
        """Stay connected for ever; `TidingsError` if that is pointless."""
        pause = _FIRST_PAUSE
        while True:
            since = monotonic()
            await self._watch(connection)
            if connection.is_taken_over:
                raise Fenced(
                    f"another process has come under the name {self.name!r}; "
                    "what was being published may be kept or not"
                )
            if connection.is_denied and not self._has_another_token():
                raise AccessDenied(connection.gone.result())
            self._say(False, f"lost the connection: {connection.gone.result()}")
            # A connection that does not last is no better than none.
            lasted = monotonic() - since > _LONGEST_PAUSE
            pause = _FIRST_PAUSE if lasted else min(2 * pause, _LONGEST_PAUSE)
            connection = await self._again(pause)

    def _has_another_token(self) -> bool:
        """Whether the file of the token has another one by now."""
        try:
            return token_of(self._token) != self._hello.token
        except TidingsError:
            return False

    async def _watch(self, connection: Connection) -> None:
        """Until the connection is gone."""
        while not connection.gone.done():
            await asyncio.wait([connection.gone], timeout=_SILENCE / 3)
            silent = monotonic() - connection.heard_at
            if silent > 2 * _SILENCE:
                connection.abort(f"the broker has said nothing for {silent:.0f} seconds")
            elif silent > _SILENCE:
                self.ping()

    async def _again(self, pause: float) -> Connection:
        while True:
            # Not all clients of a broker that was restarted should come back at once.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                return await self._dial("connected again")
            except ConnectionFailed as problem:
                _log.info("still no connection: %s", problem)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _dial(self, done: str = "connected") -> Connection:
        """Try all addresses once; `done` is what it says then."""
        try:
            self._hello = msgspec.structs.replace(self._hello, token=token_of(self._token))
        except TidingsError as problem:
            raise ConnectionFailed(str(problem)) from None
        problems: list[ConnectionFailed] = []
        for address in self._url.addresses:
            try:
                connection, welcome = await dial(
                    address, self._hello, tls=self._tls, within=PATIENCE
                )
            except ConnectionFailed as problem:
                problems.append(problem)
                continue
            self.begin(connection, welcome)
            self._say(True, f"{done} to broker {welcome.broker} at {address}")
            return connection
        all_late = all(isinstance(problem, ConnectionTimedOut) for problem in problems)
        error = ConnectionTimedOut if all_late else ConnectionFailed
        raise error("; ".join(map(str, problems)))

    def _say(self, is_connected: bool, what: str) -> None:
        # Warnings are printed where nobody has set up logging. There, who is told of a loss is told
        # of its end, too; who hears of both by `on_status` says it in its own way.
        is_news = self._was_lost or not is_connected
        is_printed = is_news and self._on_status is None
        ending = "" if is_connected else "; trying again"
        _log.log(logging.WARNING if is_printed else logging.INFO, "%s%s", what, ending)
        self._was_lost = not is_connected
        self._tell(is_connected, what)

    def _tell(self, is_connected: bool, what: str) -> None:
        if self._on_status is not None:
            try:
                self._on_status(is_connected, what)
            except Exception:
                _log.exception("on_status has failed")


async def dial(
    address: Address, hello: Hello, *, tls: ssl.SSLContext | None, within: float
) -> tuple[Connection, Welcome]:
    """Connect to a broker; `ConnectionFailed` or `AccessDenied` says why not."""
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(within):
            _, connection = await loop.create_connection(
                Connection,
                address.host,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            )
            connection.send([hello])
            greeting = await connection.greeting
    except TimeoutError:
        late = f"{address}: no answer within {within:g} seconds"
        problem: ConnectionFailed = ConnectionTimedOut(late)
    except ssl.SSLError as failure:
        problem = ConnectionFailed(f"{address}: {tls_trouble(failure)}")
    except ConnectionRefusedError:
        problem = ConnectionFailed(f"{address}: {_NOBODY}")
    except OSError as failure:
        problem = ConnectionFailed(f"{address}: {failure.strerror or failure}")
    except BaseException:
        if connection is not None:
            connection.abort("given up")
        raise
    else:
        return connection, _welcome(greeting, connection, address, is_encrypted=tls is not None)
    if connection is not None:
        connection.abort("given up")
    raise problem


def _welcome(
    greeting: Any, connection: Connection, address: Address, *, is_encrypted: bool
) -> Welcome:
    if isinstance(greeting, Welcome):
        connection.version = greeting.version
        connection.largest = greeting.limits.get("frame", LARGEST)
        return greeting
    reason = connection.gone.result() if connection.gone.done() else "it does not greet"
    connection.abort("given up")
    if isinstance(greeting, Refused):
        # A broker that is full or about to stop may let us in later; a wrong token stays wrong.
        error = AccessDenied if greeting.id == ACCESS else ConnectionFailed
        raise error(f"{address}: {greeting.reason}")
    if greeting is None and is_encrypted:
        reason += ", as it does if it does not trust a certificate that it is shown"
    raise ConnectionFailed(f"{address}: {reason}")
