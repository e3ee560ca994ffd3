"""The host of a session: the connections, timers and waiting tasks that the pure session needs.

        verbs: publish, subscribe, …
           │ ask the session            ▲ wait for news
           ▼                            │
       ┌────────────────────────────────────┐
       │   Session (pure)                   │
       └────────────────────────────────────┘
           │ outgoing()                 ▲ receive()
           ▼                            │
        Connection, one after another, made by the Dialler

A verb asks the session for something, says `soon()` so that it is sent, and waits with
`wait(thing)` until the session has changed what it asked for.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final

from tidings.client.connection import Connection
from tidings.client.dialling import PATIENCE, Dialler
from tidings.client.errors import AccessDenied, ClientClosed, ConnectionFailed, ConnectionTimedOut
from tidings.client.reading import Reading
from tidings.client.session import DurableRequest, Session, Standing
from tidings.client.waiting import settle
from tidings.events import TidingsError
from tidings.protocol.requests import Detach, Refused
from tidings.protocol.wire import Welcome

_log = logging.getLogger("tidings.client")

_ACKNOWLEDGE_AFTER: Final = 0.2
"""Seconds for which acknowledgements of events gather."""
_MANY: Final = 1_000
"""Acknowledged events that are told to the broker without waiting for more."""
_SILENCE_AFTER: Final = 5.0
"""Seconds for which acknowledgements of mere silence gather: to hear of it again costs little."""
_AGAIN: Final = 0.5
"""Seconds after which a subscription is asked for again that was refused for now."""
_BREATH: Final = 0.02
"""Seconds that a program gets to read, before what comes next may be too much for it."""


class SessionHost:
    """Keeps a session connected to a broker, and wakes the tasks that wait for its answers."""

    def __init__(self, session: Session, dialler: Dialler) -> None:
        self.session: Final = session
        self.lake: str | None = None
        """The folder of a lake that the broker has told of."""
        self.principal = ""
        """Who the broker takes this client for."""
        self._dialler = dialler
        self._dialler.begin = self._begin
        self._dialler.ping = self._ping
        self._connection: Connection | None = None
        self._news = News()
        self._runner: asyncio.Task[None] | None = None
        self._is_due = False
        """Whether `_pump` will be called in this turn of the loop."""
        self._acknowledging: asyncio.TimerHandle | None = None
        self._paused: asyncio.TimerHandle | None = None
        self._trying: asyncio.TimerHandle | None = None

    # -- beginning and end ---------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._dialler.name

    @property
    def is_open(self) -> bool:
        """Whether it has been connected once, and stays so as well as it can."""
        return self._runner is not None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def open(self, wait: float) -> None:
        """Connect; `ConnectionFailed` if no broker answers for `wait` seconds."""
        self._loop = asyncio.get_running_loop()
        try:
            first = await self._dialler.first(wait, self._attached)
        except BaseException:
            if self._connection is not None:
                self._connection.abort("given up")
            raise
        self._runner = asyncio.create_task(self._run(first), name="tidings client")

    def detach(self, *, forget: bool) -> None:
        """Tell the broker, if there is one, that this was all; perhaps also to forget the name."""
        if self._connection is not None:
            self._connection.send([Detach(forget=forget)])
            self._connection.close()

    async def close(self) -> None:
        """End the connection, and everything that still waits, with `ClientClosed`."""
        if self._runner is not None:
            self._runner.cancel()
            with suppress(asyncio.CancelledError):
                await self._runner
        if (connection := self._connection) is not None:
            connection.close()
            await asyncio.wait([connection.gone], timeout=1)  # TLS takes leave in both directions
            connection.abort("the client was closed")
        for timer in (self._acknowledging, self._trying):
            if timer is not None:
                timer.cancel()
        self._end(ClientClosed("the client was closed"))

    def check(self) -> None:
        """Raise what it has ended with, or `ClientClosed` if it was never opened."""
        self._news.check()
        if self._runner is None:
            raise ClientClosed("the client is not connected yet: use `async with`, or await it")

    def _end(self, problem: TidingsError) -> None:
        reason = self._news.close(problem)
        for publication in self.session.outbox.give_up():
            publication.receipt.failed(reason)

    # -- connections ---------------------------------------------------------------------------

    def _begin(self, connection: Connection, welcome: Welcome) -> None:
        self._connection = connection
        self.lake, self.principal = welcome.lake, welcome.principal
        self.session.connected(welcome.broker, frame=connection.largest)
        connection.receive = self._receive
        connection.drained = self._pump
        connection.gone.add_done_callback(lambda _: self._lost(connection))
        self._pump()

    async def _attached(self, connection: Connection) -> None:
        """Wait until the broker has said what it keeps of this session."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not self.session.outbox.is_open and not connection.gone.done():
                    await self.wait(self.session.outbox)
        except TimeoutError:
            connection.abort("the broker does not open a session")
            raise ConnectionTimedOut(connection.gone.result()) from None
        if connection.gone.done():
            error = AccessDenied if connection.is_denied else ConnectionFailed
            raise error(connection.gone.result())

    def _ping(self) -> None:
        self.session.ping()
        self._pump()

    def _lost(self, connection: Connection) -> None:
        if self._connection is connection:
            self._go_on(connection)
            self._connection = None
            self.session.lost()
            self._news.tell_all()

    async def _run(self, connection: Connection) -> None:
        """Stay connected, until that cannot be."""
        try:
            await self._dialler.stay(connection)
        except TidingsError as problem:
            self._end(problem)
        except Exception as problem:
            _log.exception("the client has failed")
            self._end(ClientClosed(f"the client has failed: {problem!r}"))

    # -- messages ------------------------------------------------------------------------------

    def soon(self) -> None:
        """Send what the session has to say, with all else that this turn of the loop brings."""
        if not self._is_due and self._news.end is None:
            self._is_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_due = False
        connection = self._connection
        if connection is None or connection.is_busy:
            return
        for frame in self.session.outgoing():
            connection.send(frame)

    def _receive(self, messages: list[Any]) -> None:
        session = self.session
        session.receive(messages)
        if session.settled:
            settled, session.settled = session.settled, []
            for publication, refusal in settled:
                settle(publication, refusal)
        if session.changed:
            changed, session.changed = session.changed, set()
            for thing in changed:
                self._news.tell(thing)
                if isinstance(thing, Reading):
                    if thing.is_due:
                        after = _ACKNOWLEDGE_AFTER if thing.unsaid else _SILENCE_AFTER
                        self._acknowledge_within(after)
                    if thing.is_crowded:
                        self._pause()
        self._news.tell(session.outbox)
        if session.waiting and self._trying is None:
            for reading, refusal in session.waiting.items():
                if reading.is_started and reading.tries == 1:
                    _log.warning("a subscription waits: %s", refusal.reason)
            self._trying = self._loop.call_later(_AGAIN, self._try_again)
        if session.is_confused and self._connection is not None:
            self._connection.abort("the broker has forgotten this session")
        self.soon()

    def _try_again(self) -> None:
        self._trying = None
        self.session.try_again()
        self._pump()

    def _pause(self) -> None:
        """Let the program read before more is read from the socket, which may come very fast.

        Not for long: what it waits for may be in the socket.
        """
        if self._paused is None and self._connection is not None:
            self._connection.pause()
            self._paused = self._loop.call_later(_BREATH, self._go_on, self._connection)

    def _go_on(self, connection: Connection) -> None:
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
            connection.go_on()

    def has_read(self, reading: Reading) -> None:
        """The program has taken events out of the inbox of a reading."""
        if self._paused is not None and self._connection is not None and not reading.is_crowded:
            self._go_on(self._connection)
        if reading.is_held:
            self.session.taken(reading)
            self.soon()

    # -- acknowledgements ----------------------------------------------------------------------

    def has_acknowledged(self, reading: Reading) -> None:
        """The program has acknowledged events of a reading: tell the broker before long."""
        if not reading.is_due:
            return
        if reading.unsaid >= _MANY:
            self.hurry(reading)
        else:
            self._acknowledge_within(_ACKNOWLEDGE_AFTER)

    def hurry(self, reading: Reading) -> None:
        """Tell the broker now what was acknowledged of a reading."""
        self.session.hurry(reading)
        self.soon()

    def _acknowledge_within(self, seconds: float) -> None:
        due = self._loop.time() + seconds
        if self._acknowledging is not None:
            if self._acknowledging.when() <= due:
                return
            self._acknowledging.cancel()
        self._acknowledging = self._loop.call_at(due, self._acknowledge_now)

    def _acknowledge_now(self) -> None:
        self._acknowledging = None
        self.session.say_acknowledgements()
        self._pump()

    # -- waiting -------------------------------------------------------------------------------

    async def wait(self, thing: object) -> None:
        """Wait until there may be news of this: look again then.

        It raises what the host has ended with, if it has.
        """
        await self._news.wait(thing)

    def wake(self, thing: object) -> None:
        """Wake the tasks that wait for news of this."""
        self._news.tell(thing)

    async def answer(self, asked: Standing | DurableRequest) -> Refused | None:
        """Wait until the broker has granted this; or its refusal."""
        while not asked.is_settled:
            await self.wait(asked)
        return asked.refusal

    async def all_settled(self) -> None:
        """Wait until all that was published before is kept or refused."""
        outbox = self.session.outbox
        wanted = outbox.taken
        while outbox.settled < wanted:
            await self.wait(outbox)

    async def all_heard(self) -> None:
        """Wait until the broker has taken in all that was said, over whichever connection."""
        session = self.session
        while True:
            self.check()
            connection = self._connection
            if connection is None:
                await self.wait(session.outbox)
                continue
            session.say_acknowledgements()
            wanted = session.ping()
            self._pump()
            while self._connection is connection and session.pongs < wanted:
                await self.wait(session.outbox)
            if self._connection is connection:
                return


class News:
    """Who waits for news of what.

    News says only that something may have changed: a task that waited looks for itself, and waits
    again if it is not what it hoped for.
    """

    def __init__(self) -> None:
        self.end: TidingsError | None = None
        """Why there is no more news; None while there may be."""
        self._waiting: dict[object, list[asyncio.Future[None]]] = {}

    async def wait(self, thing: object) -> None:
        """Wait until there may be news of this, or an end; raise the end if it has come before."""
        self.check()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(thing, []).append(future)
        await future

    def check(self) -> None:
        """Raise the reason why there is no more news, if there is none."""
        if self.end is not None:
            raise self.end.with_traceback(None)

    def tell(self, thing: object) -> None:
        """There may be news of this."""
        for future in self._waiting.pop(thing, ()):
            if not future.done():
                future.set_result(None)

    def tell_all(self) -> None:
        """There may be news of everything."""
        for thing in list(self._waiting):
            self.tell(thing)

    def close(self, problem: TidingsError) -> TidingsError:
        """There is no more news. The first reason counts, and is returned."""
        self.end = self.end or problem
        self.tell_all()
        return self.end
