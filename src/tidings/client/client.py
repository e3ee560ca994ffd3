"""The client: what a program asks of a broker, and what it may know of it.

Here are the verbs. `host` keeps the session connected, `publishing` feeds its outbox,
`subscription` hands on what it was told, and `log` reads a broker's log.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from tidings.client.dialling import PATIENCE, Dialler, OnStatus, Tls, tls_context
from tidings.client.errors import AdvertisementRefused, RequestRefused, SubscriptionRefused
from tidings.client.host import SessionHost
from tidings.client.log import read_log
from tidings.client.outbox import OutboxLimits
from tidings.client.publishing import Publisher, Said
from tidings.client.reading import Reading, Told
from tidings.client.receipts import OnRefused
from tidings.client.session import DurableRequest, Session, Standing
from tidings.client.state import ClientState
from tidings.client.subscription import Callback, Subscription
from tidings.events import Filter, TidingsError
from tidings.protocol.addresses import DEFAULT_URL, parse_url
from tidings.protocol.cursors import Beginning, beginning
from tidings.protocol.records import Rows
from tidings.protocol.requests import Advertise
from tidings.protocol.wire import VERSION, Hello, encode

_LAST: Final = 1 << 62
"""A tick that no stream reaches."""


def connect(
    url: str = DEFAULT_URL,
    *,
    token: str | None = None,
    name: str | None = None,
    tls: Tls = None,
    wait: float = 0.0,
    on_status: OnStatus | None = None,
    limits: OutboxLimits | None = None,
) -> Client:
    """A client of the broker at `tidings://host:port`; use it with `async with`.

    With several addresses in the URL (`tidings://a:7411,b:7411`), they are tried in turn.
    `name` is what it publishes under; without it, the name is random. A broker lets only one client
    at a time have a name: the last that came. The one before gets `Fenced` for whatever it does.
    (Brokers do not ask each other: a client that one of them fences may come to another address.)
    `tls` is for `tidings+tls://`: a context, or the file of a certificate authority.

    If no broker answers, `ConnectionFailed` is raised after `wait` seconds of trying. A
    connection that is lost later is made anew, as often as need be; `on_status` hears of it.
    """
    where = parse_url(url)
    hello = Hello(VERSION, "client", name or secrets.token_hex(8), token, {})
    dialler = Dialler(where, hello, tls=tls_context(where, tls), on_status=on_status)
    session = Session(limits, instance=secrets.token_hex(8) if name is not None else "")
    return Client(session, dialler, is_named=name is not None, wait=wait)


class Client(ClientState):
    """A client of one broker; made by `connect`.

    Whatever happens to connection and broker, each notification is published once, and each
    subscription is told of every event once, in the order of its stream. (If another broker of
    a list takes over, what was sent to the one before and not confirmed ends as
    `OutcomeUnknown`: that one may have kept it, and the next cannot know.)
    """

    def __init__(self, session: Session, dialler: Dialler, *, is_named: bool, wait: float) -> None:
        super().__init__(SessionHost(session, dialler))
        self._publisher = Publisher(self._host)
        self._is_named = is_named
        self._wait = wait
        self._is_closed = False
        self._subscriptions: set[Subscription] = set()
        """Those that are open."""

    # -- beginning and end ---------------------------------------------------------------------

    async def open(self) -> Client:
        """Connect; `async with` does it."""
        if not self._host.is_open:
            await self._host.open(self._wait)
        return self

    def __await__(self) -> Generator[Any, None, Client]:
        return self.open().__await__()

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, *, within: float = PATIENCE) -> None:
        """Take leave: wait until all is published and acknowledged, at most `within` seconds.

        Tasks that still wait for something get `ClientClosed`.
        """
        if self._is_closed:
            return
        if self._host.is_open:
            with suppress(TimeoutError, TidingsError):
                async with asyncio.timeout(within):
                    await self._leave()
        self._is_closed = True
        await self._host.close()

    async def _leave(self) -> None:
        await self._host.all_settled()
        for subscription in list(self._subscriptions):
            await subscription.close()
        if self._host.is_connected:
            await self._host.all_heard()
            self._host.detach(forget=not self._is_named)

    # -- publishing ----------------------------------------------------------------------------

    async def advertise(self, filter: Filter | str) -> None:
        """Say what this client will publish, so that it is carried only where it is wanted."""
        self._host.check()
        asked = self._host.session.advertise(self._filter(filter))
        await self._granted(asked, AdvertisementRefused)

    async def unadvertise(self, filter: Filter | str) -> None:
        """Take an advertisement back, in the words of which it was made."""
        self._host.check()
        if not self._host.session.unadvertise(Filter.of(filter)):
            raise TidingsError(f"this client has not advertised {filter}")
        self._host.soon()

    async def publish(self, notification: Said) -> int:
        """Say what happened. Returns when it is on the broker's disk, with its number.

        The first notification of a session's name has the number 1. `PublishRefused` says that
        it was not taken, `OutcomeUnknown` that it may be kept or not. If this call is cancelled,
        the notification may be published or not.
        """
        return await self._publisher.publish(notification)

    async def publish_many(
        self,
        notifications: Iterable[Said] | AsyncIterable[Said],
        *,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Publish all of them, many at a time. Returns how many are kept, when all of them are.

        They are sent as they come, in order, and taken from the iterable only as fast as the
        broker keeps them. A refused one raises `PublishRefused`, and what follows is not
        published; with `on_refused`, that is called with its index (from 0) and the error, and
        the others are published.
        """
        return await self._publisher.publish_many(notifications, on_refused)

    def leave_out(self, number: int) -> None:
        """From now on, give notifications numbers above this one.

        The broker keeps no notification whose number is not above the last that it has kept. So a
        program that always gives the same number to the same notification publishes it once.
        """
        self._outbox.leave_out(number)

    async def interest(self, filter: Filter | str) -> AsyncGenerator[bool, None]:
        """Whether anybody wants something that the filter matches: now, and at each change.

        It lets a producer rest while nobody listens:
        `async for is_wanted in client.interest("EXISTS temperature"): …`

        Where brokers route by advertisements, they know only who wants what was advertised: so
        advertise first what you could publish, else it is a `RequestRefused`. Just afterwards, it
        may be False for a moment, until the subscriptions of others have arrived.
        """
        self._host.check()
        session = self._host.session
        watch = session.watch(self._filter(filter))
        self._host.soon()
        last: bool | None = None
        try:
            while True:
                if watch.refusal is not None:
                    raise RequestRefused(watch.refusal.reason)
                if watch.is_wanted is not None and watch.is_wanted != last:
                    last = watch.is_wanted
                    yield last
                else:
                    await self._host.wait(watch)
        finally:
            session.unwatch(watch)
            self._host.soon()

    async def flush(self) -> None:
        """Wait until all that was published is kept, and the broker knows what is acknowledged."""
        self._host.check()
        await self._host.all_settled()
        await self._host.all_heard()

    # -- subscribing ---------------------------------------------------------------------------

    async def acknowledge(self, durable: str, cursor: Mapping[str, int], *, owner: str) -> None:
        """Tell the broker that a durable subscription, which is not read now, has come to a cursor.

        For a program that has its events from elsewhere for a while; see `Told`. Returns when the
        broker has it on disk.
        """
        self._host.check()
        asked = self._host.session.acknowledge(durable, dict(cursor), owner)
        await self._granted(asked, SubscriptionRefused)

    async def forget(self, durable: str) -> bool:
        """Let the broker forget a durable subscription, even one that another client reads.

        Returns whether there was one; also False if the connection was lost after it was
        forgotten, and before that could be told.
        """
        self._host.check()
        asked = self._host.session.forget(durable)
        await self._granted(asked, SubscriptionRefused)
        return asked.number > 0

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

        `durable` is a name under which the broker remembers what was acknowledged: a client that
        subscribes under this name again goes on there, even after a crash, and has it from then
        on alone. `since` is where to begin: `"begin"`, a time, how long ago, or a cursor; without
        it, now. A durable subscription that has begun is set back or ahead by it, whatever was
        acknowledged before; so leave it out to go on. An empty cursor goes on where a durable
        subscription was, and begins one that is new with the first event kept.

        A durable subscription is refused with another filter than it has. With `replace` it has
        the new one from then on, behind all that was acknowledged under the old.

        A durable subscription lives at the broker where it began. At another one of the network
        it is refused, and if the client has several addresses in its URL, also where a broker that
        may have it cannot be asked. With `home="here"` one of this name begins all the same,
        unless this broker has it already.

        Events are read from the subscription, or each is handed to `callback`, a function or
        coroutine function. When `queue` events wait to be read, a durable subscription,
        or one that reads history, asks for no more until half of them are (what is on its way
        still comes); a live one misses events, and counts them.

        A cursor names streams, and one that the broker has never heard of is refused: else a slip
        of the pen would begin with the first event of the stream that was meant.

        `bulk` is the name of a bulk subscription of this principal: then what is delivered to it is
        heard, as far as the filter matches that. No other principal hears it, and it does not say
        to whom else it is delivered.

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
            home=home or ("sure" if self._host.has_choice else ""),
            most=queue,
            told=told or Told(owner=secrets.token_hex(8)),
            is_noted=told is not None,
            bulk=bulk,
        )
        return Subscription(self._host, reading, callback, siblings=self._subscriptions)

    # -- copying -------------------------------------------------------------------------------

    def copy(self, stream: str, *, after: int = 0, upto: int = _LAST) -> AsyncGenerator[Rows, None]:
        """A log of the broker as it is on its disk: all events of its stream behind a tick.

        It ends with the tick `upto`, or where the log ended when the broker was last asked. The
        broker asks no other broker and compares nothing, so this is far faster than a
        subscription; but it must be the one whose stream it is, else it is a `RequestRefused`.
        `CursorTooOld` if what comes next is no longer kept, `StreamWentBack` if the stream ends
        before that tick. Nothing comes twice, and nothing is left out, whatever happens to the
        connection and the broker meanwhile.
        """
        return read_log(self._host, stream, after=after, upto=upto)

    # -- asking --------------------------------------------------------------------------------

    async def _granted(self, asked: Standing | DurableRequest, error: type[RequestRefused]) -> None:
        self._host.soon()
        refusal = await self._host.answer(asked)
        if refusal is not None:
            raise error(refusal.reason)

    def _filter(self, filter: Filter | str) -> Filter:
        """A filter that can travel to the broker."""
        found = Filter.of(filter)
        size = len(encode([Advertise("", found)]))
        if size > self._outbox.largest:
            raise RequestRefused(f"a filter of {size:,} bytes is more than the broker takes")
        return found
