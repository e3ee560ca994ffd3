"""Publishing: notifications go into the outbox as fast as the broker keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from contextlib import aclosing
from hashlib import sha256
from itertools import count, islice
from typing import Any, Final, TypeAlias

from tidings.client.errors import PublishRefused
from tidings.client.host import SessionHost
from tidings.client.outbox import Publication
from tidings.client.receipts import Receipt, Receipts, receipt_of
from tidings.client.waiting import Many, One, OnRefused, Waiting
from tidings.events import Notification, NotificationError
from tidings.events.notification import BYTES
from tidings.events.values import encodable
from tidings.protocol.requests import FOR, LONGEST_ID

Said: TypeAlias = Notification | Mapping[str, Any] | object
"""What a program says happened: a notification, a mapping, or an object with fields. Bytes are
said by `Notification.of_bytes`."""

_TURN: Final = 256
"""Notifications that are taken from a plain iterable before other tasks get a turn."""


def saying(
    said: Said | bytes, content_type: str | None, attributes: Mapping[str, Any] | None
) -> Notification:
    """What is to be published."""
    if isinstance(said, bytes | bytearray | memoryview):
        return Notification.of_bytes(bytes(said), content_type or BYTES, attributes)
    if content_type is not None or attributes is not None:
        raise NotificationError("content_type and attributes are for bytes, not for a mapping")
    return said if isinstance(said, Notification) else Notification(said)


class Publisher:
    """Puts notifications into the outbox of a session, and waits for what becomes of them."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._outbox = host.session.outbox

    async def publish(self, said: Said, id: str | None, *, maybe_twice: bool) -> Receipt:
        """Publish one; its receipt, once it is kept."""
        notification = notification_of(said)
        ids = _ids(notification) if id is None else (checked(id),)
        publication = await self._one((notification,), ids, maybe_twice=maybe_twice)
        return receipt_of(publication.number, publication.where, is_unsure=publication.is_unsure)

    async def publish_many(
        self, said: Iterable[Said], id: str | None, *, maybe_twice: bool
    ) -> Receipts:
        """Publish all of them as a whole; their receipts, once they are kept."""
        most = self._outbox.limits.most
        together = tuple(map(_one_of_many, count(), islice(said, most + 1)))
        if len(together) > most:
            raise PublishRefused(
                f"publish_many keeps all of them together or none, so {most:,} events are the most "
                "that it takes; publish_each takes any number, each by itself"
            )
        if not together:
            self._host.check()
            return Receipts(0, 0, ())
        if id is None:
            ids = tuple(map(id_of, together))
            ids = ids if any(ids) else ()
        else:
            ids = tuple(checked(f"{id}/{index}") for index in range(len(together)))
        publication = await self._one(together, ids, maybe_twice=maybe_twice)
        return Receipts(
            *(publication.number, publication.count, publication.where),
            is_unsure=publication.is_unsure,
        )

    async def _one(
        self, notifications: tuple[Notification, ...], ids: tuple[str, ...], *, maybe_twice: bool
    ) -> Publication:
        self._host.check()
        if self._outbox.is_full:
            await self._room()
        waiting = One(asyncio.get_running_loop())
        self._add(waiting, notifications, ids, maybe_twice=maybe_twice)
        return await waiting.future

    async def publish_each(
        self, said: Iterable[Said] | AsyncIterable[Said], on_refused: OnRefused | None
    ) -> int:
        """Publish all of them; how many are kept, once all are kept or refused."""
        self._host.check()
        many = Many(asyncio.get_running_loop(), on_refused)
        index = 0
        try:
            async with aclosing(_slowly(said)) as all_of_them:
                async for each in all_of_them:
                    if many.problem is not None:
                        break
                    notification = notification_of(each)
                    if self._outbox.is_full:
                        await self._room()
                    self._add(many.one(index), (notification,), _ids(notification))
                    index += 1
            many.close()
            await many.future
        except BaseException:
            many.future.cancel()  # nobody will ask it
            raise
        return many.kept

    async def _room(self) -> None:
        """Wait until the outbox takes another one."""
        while self._outbox.is_full:
            await self._host.wait(self._outbox)
            self._host.check()  # at the end, the outbox is emptied

    def _add(
        self,
        waiting: Waiting,
        notifications: tuple[Notification, ...],
        ids: tuple[str, ...],
        *,
        maybe_twice: bool = False,
    ) -> None:
        try:
            self._outbox.add(*notifications, receipt=waiting, ids=ids, maybe_twice=maybe_twice)
        except PublishRefused as problem:
            waiting.failed(problem)
        else:
            self._host.soon()


async def _slowly(items: Iterable[Said] | AsyncIterable[Said]) -> AsyncGenerator[Said, None]:
    """All of them, and now and then a turn for others."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for number, item in enumerate(items, start=1):
        yield item
        if number % _TURN == 0:
            await asyncio.sleep(0)


def notification_of(said: Said) -> Notification:
    """What a program says happened, as a notification."""
    return said if isinstance(said, Notification) else Notification(said)


def _one_of_many(index: int, said: Said) -> Notification:
    try:
        return notification_of(said)
    except NotificationError as problem:
        raise NotificationError(f"event {index}: {problem}") from None


def _ids(notification: Notification) -> tuple[str, ...]:
    id = id_of(notification)
    return (id,) if id else ()


def id_of(notification: Notification) -> str:
    """The id of a CloudEvent: its source and its id together. All else has none, copies of one
    for bulk subscribers too: there are several of these.

    >>> event = {"specversion": "1.0", "source": "/shop", "id": "7", "type": "order"}
    >>> id_of(Notification(event)), id_of(Notification({"source": "/shop", "id": "7"}))
    ('5:/shop7', '')
    """
    attributes = notification.attributes
    if "specversion" not in attributes or FOR in attributes:
        return ""
    source, id = attributes.get("source"), attributes.get("id")
    if not (isinstance(source, str) and isinstance(id, str)):
        return ""
    both = f"{len(source)}:{source}{id}"
    return both if len(both) <= LONGEST_ID else f"#{sha256(both.encode()).hexdigest()}"


def checked(id: object) -> str:
    """An id, if it can be one."""
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
        raise NotificationError(f"an id is a text of 1 to {LONGEST_ID:,} characters", field="id")
    return encodable(id, "id")
