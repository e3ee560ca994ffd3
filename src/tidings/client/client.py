"""The client: asks a broker, stays in touch with it, and hands on what it says."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Final, Literal

from tidings.client.address import DEFAULT, Tls, context, read_address
from tidings.client.connection import Connection
from tidings.client.copying import Copying
from tidings.client.dialling import PATIENCE, Dialler, OnStatus
from tidings.client.errors import (
    AccessDenied,
    AdvertisementRefused,
    ClientClosed,
    ConnectionFailed,
    OutcomeUnknown,
    PublishRefused,
    PublishRefusedForNow,
    RequestRefused,
    SubscriptionRefused,
    cannot_go_on,
)
from tidings.client.outbox import UNKNOWN, Limits, Publication
from tidings.client.positions import Beginning, beginning
from tidings.client.reading import Reading, Told
from tidings.client.receipts import Many, OnRefused, Receipt
from tidings.client.session import Note, Session, Standing
from tidings.client.subscription import Callback, Subscription
from tidings.events import Filter, Notification, TidingsError
from tidings.protocol.records import Rows
from tidings.protocol.requests import Advertise, Detach, Refused
from tidings.protocol.wire import VERSION, Hello, Welcome, WireError, encode, unpack_rows

_log = logging.getLogger("tidings.client")

_ACKNOWLEDGE_AFTER: Final = 0.2
"""Acknowledgements of events gather for so long,"""
_SILENCE_AFTER: Final = 5.0
"""and those of mere silence: to be told of it again costs little."""
_BREATH: Final = 0.02
"""Seconds that a program gets to read, before what comes next may be too much for it."""
_LAST: Final = 1 << 62
"""No stream gets so far."""
_TURN: Final = 256
"""So many notifications are taken from a plain iterable before others get a turn."""


def connect(
    url: str = DEFAULT,
    *,
    token: str | None = None,
    name: str | None = None,
    tls: Tls = None,
    wait: float = 0.0,
    on_status: OnStatus | None = None,
    limits: Limits | None = None,
) -> Client:
    """A client of the broker at `tidings://host:port`; use it with `async with`.

    With several places in the URL (`tidings://a:7411,b:7411`), they are tried in turn.
    `name` is what it publishes under, else a random name. A broker lets only one client at a time
    have a name: the last that came. To the one before, everything is `Fenced`. (Brokers do not ask
    each other: what one fences may come to another one of the list.)
    `tls` is for `tidings+tls://`: a context, or the file of a certificate authority.

    If no broker answers, `ConnectionFailed` is raised after `wait` seconds of trying. A
    connection that is lost later is made anew, as often as need be; `on_status` is told.
    """
    address = read_address(url)
    hello = Hello(VERSION, "client", name or secrets.token_hex(8), token, {})
    dialler = Dialler(address, hello, tls=context(address, tls), on_status=on_status)
    return Client(dialler, is_named=name is not None, wait=wait, limits=limits)


class Client:
    """A client of one broker; made by `connect`.

    Whatever happens to connection and broker, each notification is published once, and each
    subscription is told of every event once, in the order of its stream. (If another broker of
    a list takes over, what was sent to the one before and not confirmed ends as
    `OutcomeUnknown`: that one may have kept it, and the next cannot know.)
    """

    def __init__(
        self, dialler: Dialler, *, is_named: bool, wait: float, limits: Limits | None
    ) -> None:
        self._dialler = dialler
        self._dialler.begin = self._begin
        self._dialler.ping = self._ping
        self._is_named = is_named
        self._wait = wait
        self._session = Session(limits, instance=secrets.token_hex(8) if is_named else "")
        self._connection: Connection | None = None
        self._lake: str | None = None
        self._principal = ""
        self._runner: asyncio.Task[None] | None = None
        self._failure: TidingsError | None = None
        self._is_closed = False
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._paused: asyncio.TimerHandle | None = None
        self._listeners: dict[object, list[asyncio.Future[None]]] = {}
        self._subscriptions: set[Subscription] = set()
        self._added = self._settled = 0

    # -- beginning and end ---------------------------------------------------------------------

    async def open(self) -> Client:
        """Connect; `async with` does it."""
        if self._runner is None:
            self._loop = asyncio.get_running_loop()
            try:
                first = await self._dialler.first(self._wait, self._attached)
            except BaseException:
                if self._connection is not None:
                    self._connection.abort("given up")
                raise
            self._runner = asyncio.create_task(self._run(first), name="tidings client")
        return self

    def __await__(self) -> Generator[Any, None, Client]:
        return self.open().__await__()

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, *, within: float = PATIENCE) -> None:
        """Take leave: wait until all is published and acknowledged, at most so many seconds.

        Whoever still waits for something gets `ClientClosed`.
        """
        if self._is_closed:
            return
        if self._runner is not None:
            with suppress(TimeoutError, TidingsError):
                async with asyncio.timeout(within):
                    await self._leave()
        self._is_closed = True
        if self._runner is not None:
            self._runner.cancel()
            with suppress(asyncio.CancelledError):
                await self._runner
        if (connection := self._connection) is not None:
            connection.close()
            await asyncio.wait([connection.gone], timeout=1)  # TLS takes leave in both directions
            connection.abort("the client was closed")
        if self._timer is not None:
            self._timer.cancel()
        self._fail(ClientClosed("the client was closed"))

    async def _leave(self) -> None:
        await self._all_settled()
        for subscription in list(self._subscriptions):
            await subscription.close()
        if self._connection is None:
            return
        await self._answered()
        if self._connection is not None:
            self._connection.send([Detach(forget=not self._is_named)])
            self._connection.close()

    def _fail(self, problem: TidingsError) -> None:
        """Nothing more will come: let everybody know who waits."""
        self._failure = self._failure or problem
        for publication in self._session.outbox.give_up():
            publication.receipt.failed(self._failure)
        for listeners in list(self._listeners.values()):
            _wake(listeners)
        self._listeners.clear()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._runner is None:
            raise ClientClosed("the client is not connected yet: use `async with`, or await it")

    # -- connecting ----------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now. While there is none, everything waits for one."""
        return self._connection is not None

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._dialler.name

    @property
    def broker(self) -> str:
        """The name of the broker, or nothing while there is no connection."""
        return self._session.broker

    @property
    def kept(self) -> int:
        """How many notifications the broker has kept of this session's name, in all its life.

        A program that always publishes the same under one name can go on behind them.
        """
        return self._session.outbox.kept

    @property
    def refusals(self) -> dict[int, str]:
        """Numbers that the broker has refused to an earlier client of this name, and why.

        That one may have ended before it heard of it. The broker tells the last 8,192 to whoever
        connects, also if it was killed itself; but none above `kept`: those may be published again.
        """
        return dict(self._session.outbox.refusals)

    def leave_out(self, number: int) -> None:
        """Give notifications from now on numbers above this one.

        The broker keeps no notification whose number is not above the last that it has kept. So a
        program that always gives the same number to the same notification publishes it once.
        """
        self._session.outbox.leave_out(number)

    @property
    def largest(self) -> int:
        """The broker takes no notification of more bytes than this."""
        return self._session.outbox.largest

    @property
    def lake(self) -> str | None:
        """The folder of a lake that has what its broker no longer keeps, if it has told of one."""
        return self._lake

    @property
    def principal(self) -> str:
        """Who the broker takes this client for."""
        return self._principal

    def _begin(self, connection: Connection, welcome: Welcome) -> None:
        self._connection = connection
        self._lake, self._principal = welcome.lake, welcome.principal
        self._session.connected(welcome.broker, frame=connection.largest)
        connection.receive = self._receive
        connection.drained = self._pump
        connection.gone.add_done_callback(lambda _: self._lost(connection))
        self._pump()

    async def _attached(self, connection: Connection) -> None:
        """Wait until the broker has said what it keeps of this session."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._session.outbox.is_open and not connection.gone.done():
                    await self._news(self._session.outbox)
        except TimeoutError:
            connection.abort("the broker does not open a session")
        if connection.gone.done():
            error = AccessDenied if connection.is_denied else ConnectionFailed
            raise error(connection.gone.result())

    def _ping(self) -> None:
        self._session.ping()
        self._pump()

    def _lost(self, connection: Connection) -> None:
        if self._connection is connection:
            self._go_on(connection)
            self._connection = None
            self._session.lost()
            self._wake_all()

    async def _run(self, connection: Connection) -> None:
        """Stay connected, until that cannot be."""
        try:
            await self._dialler.stay(connection)
        except TidingsError as problem:
            self._fail(problem)
        except Exception as problem:
            _log.exception("the client has failed")
            self._fail(ClientClosed(f"the client has failed: {problem!r}"))

    # -- messages ------------------------------------------------------------------------------

    def _soon(self) -> None:
        """Send what there is, with all else that this turn of the loop brings."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_due = False
        connection = self._connection
        if connection is None or connection.is_busy:
            return
        for frame in self._session.outgoing():
            connection.send(frame)

    def _receive(self, messages: list[Any]) -> None:
        session = self._session
        session.receive(messages)
        if session.settled:
            settled, session.settled = session.settled, []
            self._settled += len(settled)
            for publication, refusal in settled:
                _settle(publication, refusal)
        if session.changed:
            changed, session.changed = session.changed, set()
            for thing in changed:
                self._wake(thing)
                if isinstance(thing, Reading):
                    if thing.is_due:
                        self._acknowledge_later(only_silence=not thing.unsaid)
                    if thing.is_crowded:
                        self._pause()
        self._wake(session.outbox)
        if session.is_confused and self._connection is not None:
            self._connection.abort("the broker has forgotten this session")
        self._soon()

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

    def _has_read(self, reading: Reading) -> None:
        """The program has read what waited."""
        if self._paused is not None and self._connection is not None and not reading.is_crowded:
            self._go_on(self._connection)
        if reading.is_held:
            self._session.taken(reading)
            self._soon()

    def _acknowledge_later(self, *, only_silence: bool = False) -> None:
        after = _SILENCE_AFTER if only_silence else _ACKNOWLEDGE_AFTER
        due = self._loop.time() + after
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._acknowledge_now)

    def _acknowledge_now(self) -> None:
        self._timer = None
        self._session.say_acknowledgements()
        self._pump()

    # -- waiting -------------------------------------------------------------------------------

    async def _news(self, of: object) -> None:
        """Wait until there may be news of this: look again then."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.setdefault(of, []).append(future)
        await future

    def _wake(self, of: object) -> None:
        listeners = self._listeners.pop(of, None)
        if listeners is not None:
            _wake(listeners)

    def _wake_all(self) -> None:
        for of in list(self._listeners):
            self._wake(of)

    async def flush(self) -> None:
        """Wait until all that was published is kept, and the broker knows what is acknowledged."""
        self._check()
        await self._all_settled()
        await self._answered()

    async def _all_settled(self) -> None:
        wanted = self._added
        while self._settled < wanted:
            self._check()
            await self._news(self._session.outbox)

    async def _answered(self) -> None:
        """Wait until the broker has taken in all that was said, over whichever connection."""
        session = self._session
        while True:
            self._check()
            connection = self._connection
            if connection is not None:
                session.say_acknowledgements()
                wanted = session.ping()
                self._pump()
                while self._connection is connection and session.pongs < wanted:
                    await self._news(session.outbox)
                if self._connection is connection:
                    return
            else:
                await self._news(session.outbox)

    # -- publishing ----------------------------------------------------------------------------

    async def advertise(self, filter: Filter | str) -> None:
        """Say what this client will publish, so that it is carried only where it is wanted."""
        self._check()
        standing = self._session.advertise(self._filter(filter))
        self._soon()
        await self._standing(standing, AdvertisementRefused)

    async def unadvertise(self, filter: Filter | str) -> None:
        """Take an advertisement back, in the words of which it was made."""
        self._check()
        if not self._session.unadvertise(_filter(filter)):
            raise TidingsError(f"this client has not advertised {filter}")
        self._soon()

    async def _standing(self, standing: Standing | Note, error: type[RequestRefused]) -> None:
        while not standing.is_settled:
            await self._news(standing)
            self._check()
        if standing.refusal is not None:
            raise error(standing.refusal.reason)

    async def publish(self, notification: Notification | Mapping[str, Any]) -> int:
        """Say what happened. Returns when it is on the broker's disk, with its number.

        The first notification of a session's name has the number 1. `PublishRefused` says that
        it was not taken, `OutcomeUnknown` that nobody can say. If this call is cancelled, the
        notification may be published or not.
        """
        said = _notification(notification)
        self._check()
        if self._session.outbox.is_full:
            await self._room()
        receipt = Receipt(self._loop)
        self._add(said, receipt)
        return await receipt.future

    async def publish_many(
        self,
        notifications: (
            Iterable[Notification | Mapping[str, Any]]
            | AsyncIterable[Notification | Mapping[str, Any]]
        ),
        *,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Publish all of them, many at a time. Returns how many are kept, when all of them are.

        They are sent as they come, in order, and taken from the iterable only as fast as the
        broker keeps them. A refused one raises `PublishRefused`, and what follows is not
        published; with `on_refused`, that is called with its index (from 0) and the error, and
        the others are published.
        """
        self._check()
        many = Many(self._loop, on_refused)
        count = 0
        try:
            async with aclosing(_slowly(notifications)) as all_of_them:
                async for notification in all_of_them:
                    if many.problem is not None:
                        break
                    said = _notification(notification)
                    if self._session.outbox.is_full:
                        await self._room()
                    self._add(said, many.receipt(count))
                    count += 1
            many.close()
            await many.future
        except BaseException:
            many.future.cancel()  # nobody will ask it
            raise
        return many.kept

    def _add(self, notification: Notification, receipt: Any) -> None:
        try:
            self._session.outbox.add(notification, receipt)
        except PublishRefused as problem:
            receipt.failed(problem)
            return
        self._added += 1
        self._soon()

    async def _room(self) -> None:
        while self._session.outbox.is_full:
            await self._news(self._session.outbox)
            self._check()

    async def interest(self, filter: Filter | str) -> AsyncGenerator[bool, None]:
        """Whether anybody wants something that the filter matches: now, and at each change.

        It lets a producer rest while nobody listens:
        `async for is_wanted in client.interest("EXISTS temperature"): …`
        """
        self._check()
        watch = self._session.watch(self._filter(filter))
        self._soon()
        last: bool | None = None
        try:
            while True:
                if watch.refusal is not None:
                    raise RequestRefused(watch.refusal.reason)
                if watch.is_wanted is not None and watch.is_wanted != last:
                    last = watch.is_wanted
                    yield last
                else:
                    await self._news(watch)
                    self._check()
        finally:
            self._session.unwatch(watch)
            if self._failure is None:
                self._soon()

    def _filter(self, filter: Filter | str) -> Filter:
        """A filter that can travel to the broker."""
        found = _filter(filter)
        size = len(encode([Advertise("", found)]))
        if size > self._session.outbox.largest:
            raise RequestRefused(f"a filter of {size:,} bytes is more than the broker takes")
        return found

    # -- subscribing ---------------------------------------------------------------------------

    async def acknowledge(self, durable: str, cursor: Mapping[str, int], *, owner: str) -> None:
        """A durable subscription that nobody reads now has been told of all up to a cursor.

        For a program that has its events from elsewhere for a while; see `Told`. Returns when the
        broker has it on disk.
        """
        self._check()
        note = self._session.acknowledge(durable, dict(cursor), owner)
        self._soon()
        await self._standing(note, SubscriptionRefused)

    async def forget(self, durable: str) -> bool:
        """Let the broker forget a durable subscription, whoever reads it.

        Returns whether there was one; also False if the connection was lost after it was
        forgotten, and before that could be told.
        """
        self._check()
        note = self._session.forget(durable)
        self._soon()
        await self._standing(note, SubscriptionRefused)
        return note.number > 0

    def subscribe(
        self,
        filter: Filter | str,
        *,
        durable: str | None = None,
        since: Beginning = None,
        replace: bool = False,
        home: Literal["here"] | None = None,
        callback: Callback | None = None,
        queue: int = 10_000,
        told: Told | None = None,
        bulk: str | None = None,
    ) -> Subscription:
        """Hear what the filter matches; use it with `async with`, or await it.

        `durable` is a name under which the broker remembers what was acknowledged: whoever
        subscribes under this name again goes on there, even after a crash, and has it from then
        on alone. `since` is where to begin: `"begin"`, a time, how long ago, or a cursor; without
        it, now. A durable subscription that has begun is set back or ahead by it, whatever was
        acknowledged before; so leave it out to go on. An empty cursor goes on where a durable
        subscription was, and begins one that is new with the first event kept.

        A durable subscription is refused with another filter than it has. With `replace` it has
        the new one from then on, behind all that was acknowledged under the old.

        A durable subscription lives at the broker where it began. At another one of the network
        it is refused, and if the client has several places in its URL, also where a broker that
        may have it cannot be asked. With `home="here"` one of this name begins all the same,
        unless this broker has it already.

        Events are read from the subscription, or each is handed to `callback`, a function or
        coroutine function. When `queue` events wait to be read, a durable subscription,
        or one that reads history, asks for no more until half of them are (what is on its way
        still comes); a live one misses events, and counts them.

        A cursor names streams, and one that the broker has never heard of is refused: else a slip
        of the pen would begin with the first event of the stream that was meant.

        `bulk` is the name of a bulk subscription of this principal: then what is delivered to it is
        heard, as far as the filter matches that. Nobody else hears it, and it does not say to whom
        else it is delivered.

        `told` is for a program that had events from elsewhere before, where its cursor was noted.
        Then `since` may name streams that this broker has never heard of, up to 1,000.
        """
        if queue < 1:
            raise TidingsError(f"queue is a number of events from 1 on, not {queue}")
        if replace and durable is None:
            raise TidingsError("only a durable subscription has a filter that can be replaced")
        if home is not None and durable is None:
            raise TidingsError("only a durable subscription lives somewhere")
        reading = Reading(
            self._filter(filter),
            durable=durable,
            since=beginning(since),
            replace=replace,
            home=home or ("sure" if self._dialler.has_choice else ""),
            most=queue,
            told=told or Told(owner=secrets.token_hex(8)),
            is_noted=told is not None,
            bulk=bulk,
        )
        return Subscription(self, reading, callback)

    # -- copying -------------------------------------------------------------------------------

    async def copy(
        self, stream: str, *, after: int = 0, upto: int = _LAST
    ) -> AsyncGenerator[Rows, None]:
        """A log of the broker as it is on its disk: all events of its stream behind a tick.

        It ends with the tick `upto`, or where the log ended when the broker was last asked. The
        broker looks for nobody else and compares nothing, so this is far faster than a
        subscription; but it must be the one whose stream it is, else it is a `RequestRefused`.
        `CursorTooOld` if what comes next is no longer kept, `StreamWentBack` if the stream ends
        before that tick. Nothing comes twice, and nothing is
        left out, whatever happens to connection and broker meanwhile.
        """
        self._check()
        copying = Copying(stream, after, upto)
        self._session.copy(copying)
        self._soon()
        at = after
        try:
            while True:
                if copying.inbox:
                    piece = copying.inbox.popleft()
                    self._session.copy_on(copying)
                    self._soon()
                    for block in piece.blocks:
                        rows = unpack_rows(block).between(at, upto)
                        if rows.ticks:
                            _follow(rows.ticks, at)
                            at = rows.ticks[-1]
                            yield rows
                elif copying.ending is not None:
                    raise _no_copy(copying.ending)
                elif copying.is_done:
                    return
                else:
                    await self._news(copying)
                    self._check()
        finally:
            self._session.uncopy(copying)


def _settle(publication: Publication, refusal: Refused | None) -> None:
    if refusal is None:
        publication.receipt.kept(publication.number)
    elif refusal.id == UNKNOWN:
        publication.receipt.failed(OutcomeUnknown(refusal.reason))
    else:
        error = PublishRefusedForNow if refusal.is_passing else PublishRefused
        publication.receipt.failed(error(refusal.reason))


def _follow(ticks: list[int], at: int) -> None:
    if ticks[0] != at + 1 or ticks[-1] - at != len(ticks):
        raise WireError(f"the broker's log does not go on behind tick {at}")


def _no_copy(refusal: Refused) -> RequestRefused:
    if refusal.cursor is None:
        return RequestRefused(refusal.reason)
    return cannot_go_on(refusal)


def _wake(listeners: list[asyncio.Future[None]]) -> None:
    for future in listeners:
        if not future.done():
            future.set_result(None)


async def _slowly(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    """All of them, and now and then a turn for others."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for count, item in enumerate(items, start=1):
        yield item
        if count % _TURN == 0:
            await asyncio.sleep(0)


def _filter(filter: Filter | str) -> Filter:
    return Filter.parse(filter) if isinstance(filter, str) else filter


def _notification(said: Notification | Mapping[str, Any]) -> Notification:
    return said if isinstance(said, Notification) else Notification(said)
