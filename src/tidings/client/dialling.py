"""Dialling: finding a broker that lets the client in, whom to believe, and staying in touch."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

from tidings.client.connection import LARGEST, Connection
from tidings.client.errors import AccessDenied, ConnectionFailed, ConnectionTimedOut, Fenced
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
        tls: ssl.SSLContext | None,
        on_status: OnStatus | None,
    ) -> None:
        self._url = url
        self._hello = hello
        self._tls = tls
        self._on_status = on_status
        self.begin: Callable[[Connection, Welcome], None] = lambda connection, welcome: None
        self.ping: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self._hello.name

    @property
    def has_choice(self) -> bool:
        """Whether the client may come to one broker today, and to another one tomorrow."""
        return len(self._url.addresses) > 1

    async def first(
        self, wait: float, check: Callable[[Connection], Awaitable[None]]
    ) -> Connection:
        """The first connection that passes the check; `ConnectionFailed` after `wait` seconds."""
        until = monotonic() + wait
        pause = _FIRST_PAUSE
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
            if connection.is_denied:
                raise AccessDenied(connection.gone.result())
            self._say(False, f"lost the connection: {connection.gone.result()}")
            # A connection that does not last is no better than none.
            lasted = monotonic() - since > _LONGEST_PAUSE
            pause = _FIRST_PAUSE if lasted else min(2 * pause, _LONGEST_PAUSE)
            connection = await self._again(pause)

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
        # A warning nobody has asked for is printed, and who hears of it by `on_status` says it.
        is_known = is_connected or self._on_status is not None
        _log.log(logging.INFO if is_known else logging.WARNING, "%s", what)
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
    except ssl.SSLCertVerificationError as failure:
        problem = ConnectionFailed(
            f"{address}: its certificate is not to be trusted: {failure.verify_message}"
        )
    except ssl.SSLError as failure:
        problem = ConnectionFailed(f"{address}: {_no_tls(failure)}")
    except ConnectionRefusedError:
        problem = ConnectionFailed(f"{address}: {_NOBODY}")
    except OSError as failure:
        problem = ConnectionFailed(f"{address}: {failure.strerror or failure}")
    except BaseException:
        if connection is not None:
            connection.abort("given up")
        raise
    else:
        return connection, _welcome(greeting, connection, address)
    if connection is not None:
        connection.abort("given up")
    raise problem


def _no_tls(failure: ssl.SSLError) -> str:
    if failure.reason == "WRONG_VERSION_NUMBER":  # of what is no TLS at all
        return "the broker there speaks no TLS: write tidings:// instead of tidings+tls://"
    return f"no TLS can be agreed on: {failure.reason}"


def _welcome(greeting: Any, connection: Connection, address: Address) -> Welcome:
    if isinstance(greeting, Welcome):
        connection.largest = greeting.limits.get("frame", LARGEST)
        return greeting
    reason = connection.gone.result() if connection.gone.done() else "it does not greet"
    connection.abort("given up")
    if isinstance(greeting, Refused):
        # A broker that is full or about to stop may let us in later; a wrong token stays wrong.
        error = AccessDenied if greeting.id == ACCESS else ConnectionFailed
        raise error(f"{address}: {greeting.reason}")
    raise ConnectionFailed(f"{address}: {reason}")


Tls: TypeAlias = ssl.SSLContext | str | Path | None
"""A context, or the file of the authority that signed the broker's certificate."""


def tls_context(url: Url, tls: Tls) -> ssl.SSLContext | None:
    """How to encrypt, or None; `TidingsError` if the two contradict each other."""
    if not url.is_encrypted:
        if tls is not None:
            raise TidingsError("tls= was given, but the address says no TLS: use tidings+tls://")
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    try:
        return ssl.create_default_context(cafile=None if tls is None else str(tls))
    except (OSError, ssl.SSLError) as problem:
        said = problem.strerror or str(problem)
        raise TidingsError(f"{tls}: cannot be used as a certificate authority: {said}") from None
