"""The client: what a program asks of a broker, and what it may know of it.

Here are the verbs. `host` keeps the session connected, `publishing` feeds its outbox,
`subscription` hands on what it was told, and `log` reads a broker's log.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Literal

from tidings.client.dialling import PATIENCE, Dialler, OnStatus
from tidings.client.durables import DurablesFound, described
from tidings.client.errors import AdvertisementRefused, RequestRefused, SubscriptionRefused
from tidings.client.host import SessionHost
from tidings.client.log import read_log
from tidings.client.names import check_name
from tidings.client.outbox import OutboxLimits
from tidings.client.publishing import Publisher, Said, saying
from tidings.client.reading import Reading, Told
from tidings.client.receipts import Receipt, Receipts, beginning_of
from tidings.client.session import DurableRequest, Session, Standing
from tidings.client.state import ClientState
from tidings.client.subscription import Callback, Subscription
from tidings.client.tls import Tls, tls_context
from tidings.client.token import Token
from tidings.client.waiting import OnRefused
from tidings.events import Filter, TidingsError
from tidings.protocol.addresses import DEFAULT_URL, parse_url
from tidings.protocol.cursors import Beginning, beginning
from tidings.protocol.requests import Advertise, Erase, Erasure, Since
from tidings.protocol.runs import Rows
from tidings.protocol.wire import encode, greeting

_LAST: Final = 1 << 62
"""A tick that no stream reaches."""


def connect(
    url: str = DEFAULT_URL,
    *,
    token: Token = None,
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
    `token` proves who it is: the token itself, or as a `Path` the file that it is in, which is read
    for each connection. `tls` is for `tidings+tls://`: the file of the authority that has signed
    the broker's certificate, or `Certificates`, or a context.

    If no broker answers, `ConnectionFailed` is raised after `wait` seconds of trying, which may be
    `math.inf`. A connection that is lost later is made anew, as often as need be; `on_status` hears
    of it, and of the first attempt if that is in vain and another one follows.
    """
    where = parse_url(url)
    check_name("name", name)
    hello = greeting("client", name or secrets.token_hex(8), None)
    context = tls_context(where, tls)
    dialler = Dialler(where, hello, token=token, tls=context, on_status=on_status)
    session = Session(limits, instance=secrets.token_hex(8) if name is not None else "")
    return Client(session, dialler, is_named=name is not None, wait=wait)


class Client(ClientState):
    """A client of one broker; made by `connect`.

    Whatever happens to connection and broker, each notification is published once, and each
    subscription is told of every event once, in the order of its stream. (If another broker of
    a list takes over, what was sent to the one before and not confirmed ends as
    `OutcomeUnknown`, unless it has an id: see `publish`.)
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

    async def publish(
        self,
        said: Said | bytes,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        id: str | None = None,
        maybe_twice: bool = False,
    ) -> Receipt:
        """Say what happened. Returns when it is on the broker's disk, with a receipt.


        Subscribers get exactly what is said: the JSON value of a mapping, or bytes with their
        `content_type`. Of bytes, filters see the `attributes`.

        The first notification of a session's name has the number 1. `PublishRefused` says that
        it was not taken, `OutcomeUnknown` that it may be kept or not. If this call is cancelled,
        the notification may be published or not.

        What has an `id` is kept once for each principal at a broker, whichever of its clients
        publishes it, and however often: the receipt is that of the first time. So is a CloudEvent,
        which has its `source` and `id`. Brokers remember an id for 24 hours, or until the principal
        has used a million others. With several addresses in the URL, it is sent to the next broker
        if one has not answered; that asks the first, and refuses it for now
        (`PublishRefusedForNow`) if it cannot. With `maybe_twice` it keeps it all the same, and the
        receipt says so.
        """
        notification = saying(said, content_type, attributes)
        return await self._publisher.publish(notification, id, maybe_twice=maybe_twice)

    async def publish_many(
        self, notifications: Iterable[Said], *, id: str | None = None, maybe_twice: bool = False
    ) -> Receipts:
        """Publish all of them together: all are kept, on ticks that follow on each other, or none.

        That holds whatever crashes, and if one of them is refused, which raises `PublishRefused`.
        They travel in one frame, so there are at most 2,048 (`OutboxLimits.most`) and at most as
        many bytes as `largest` says; `publish_each` takes any number, each by itself.

        With an `id`, they are kept once: see `publish`. Those among them that are CloudEvents
        and were published before are not kept again, and the others are kept together.
        """
        return await self._publisher.publish_many(notifications, id, maybe_twice=maybe_twice)

    async def publish_each(
        self,
        notifications: Iterable[Said] | AsyncIterable[Said],
        *,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Publish each of them, many at a time. Returns how many are kept, when all of them are.

        They are sent as they come, in order, and taken from the iterable only as fast as the
        broker keeps them. A refused one raises `PublishRefused`, and what follows is not
        published; with `on_refused`, that is called with its index (from 0) and the error, and
        the others are published.
        """
        return await self._publisher.publish_each(notifications, on_refused)

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
        check_name("name of a durable subscription", durable)
        check_name("owner", owner)
        asked = self._host.session.acknowledge(durable, dict(cursor), owner)
        await self._granted(asked, SubscriptionRefused)

    async def forget(self, durable: str) -> bool:
        """Let brokers forget a durable subscription, even one that another client reads.

        Returns whether there was one; also False if the connection was lost after it was
        forgotten, and before that could be told.
        """
        self._host.check()
        check_name("name of a durable subscription", durable)
        asked = self._host.session.forget(durable)
        await self._granted(asked, SubscriptionRefused)
        return asked.number > 0

    async def durables(self) -> DurablesFound:
        """All durable subscriptions of this principal, wherever in the network they live."""
        self._host.check()
        asked = self._host.session.list_durables()
        await self._granted(asked, RequestRefused)
        assert asked.found is not None
        owner = self._host.principal
        found = tuple(described(held, owner) for held in asked.found.found)
        return DurablesFound(found, asked.found.unasked)

    async def seek(self, durable: str, since: Beginning) -> None:
        """Set a durable subscription back or ahead, wherever it lives.

        `since` is a time, how long ago, `"begin"` or `"now"`, for all streams; or a cursor, for
        those that it names. Whoever reads it hears `SubscriptionRefused`, and subscribes again to
        go on there. What was acknowledged before does not count any more.
        """
        check_name("name of a durable subscription", durable)
        found = beginning(timedelta() if since == "now" else since)
        if found is None:
            raise TidingsError('say where it is to go on: "now", "begin", a time or a cursor')
        await self._adjusted(self._host.session.adjust(durable, since=found))

    async def pause(self, durable: str) -> None:
        """Have a durable subscription told nothing from now on, wherever it lives.

        Who reads it goes on doing so, and hears nothing; what was on its way still comes. It lasts
        over all connections and restarts, until `resume`.
        """
        check_name("name of a durable subscription", durable)
        await self._adjusted(self._host.session.adjust(durable, is_paused=True))

    async def resume(self, durable: str) -> None:
        """Let a paused durable subscription go on behind what it was told."""
        check_name("name of a durable subscription", durable)
        await self._adjusted(self._host.session.adjust(durable, is_paused=False))

    async def _adjusted(self, asked: DurableRequest) -> None:
        self._host.check()
        await self._granted(asked, SubscriptionRefused)

    def subscribe(
        self,
        filter: Filter | str,
        *,
        durable: str | None = None,
        since: Beginning | Receipt | Receipts = None,
        replace: bool = False,
        home: Literal["here"] | None = None,
        callback: Callback | None = None,
        queue: int = 10_000,
        told: Told | None = None,
        bulk: str | None = None,
        times: bool = False,
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

        A durable subscription goes on at whichever broker of the network the client comes to: that
        one has it given by the broker where it was. While a broker that may have it cannot be
        asked, it is refused after five seconds; one that has begun waits, and goes on as soon as
        it can. With `home="here"` one of this name begins anew, unless this broker has it already,
        and others may go on with theirs.

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

        With `times`, the subscription's `complete` says, also while nothing happens, below which
        time all of each stream was read.
        """
        if queue < 1:
            raise TidingsError(f"queue is a number of events from 1 on, not {queue}")
        if replace and durable is None:
            raise TidingsError("only a durable subscription has a filter that can be replaced")
        if home is not None and durable is None:
            raise TidingsError("only a durable subscription lives somewhere")
        if home not in (None, "here"):
            raise TidingsError(f'home is "here" or left out, not {home!r}')
        check_name("name of a durable subscription", durable)
        check_name("name of a bulk subscription", bulk)
        reading = Reading(
            self._filter(filter),
            durable=durable,
            since=_beginning(since),
            replace=replace,
            home=home or "",
            most=queue,
            told=told or Told(owner=secrets.token_hex(8)),
            is_noted=told is not None,
            bulk=bulk,
            times=times,
        )
        return Subscription(self._host, reading, callback, siblings=self._subscriptions)

    # -- erasing -------------------------------------------------------------------------------

    async def erase(
        self,
        filter: Filter | str,
        *,
        reason: str = "",
        dry_run: bool = False,
        told: Callable[[Erasure], object] | None = None,
    ) -> Erasure:
        """Erase all that the filter matches and was published before, from the logs of all brokers.

        Returns when it is gone from the disks of those that could be reached. Places in the streams
        stay, and so every id and cursor, but nobody hears what was there. With `dry_run`, nothing
        is erased: the answer says how much would be. `told` hears of it after each broker.

        Look at the answer: `unreached` and `problems` name the brokers where something may be
        left, for which it is to be asked for again. Copies that others have are not reached:
        lakes, backups, and what subscribers have heard.

        An event tells of the erasure, with the `reason`, but not with the words of the filter.
        `RequestRefused` if this principal may not erase.
        """
        self._host.check()
        check_name("reason of an erasure", reason)
        id = f"erase-{secrets.token_hex(8)}"
        request = Erase(id, self._filter(filter), reason, dry_run)
        asked = self._host.session.erase(request)
        self._host.soon()
        before = asked.answer
        try:
            while not asked.is_settled:
                await self._host.wait(asked)
                if told is not None and asked.answer is not before:
                    before = asked.answer
                    told(before)
        finally:
            self._host.session.forget_erasure(asked)
        if asked.refusal is not None:
            raise RequestRefused(asked.refusal.reason)
        return asked.answer

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


def _beginning(since: Beginning | Receipt | Receipts) -> Since:
    return beginning_of(since) if isinstance(since, Receipt | Receipts) else beginning(since)
