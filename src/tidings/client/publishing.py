"""Publishing: notifications go into the outbox as fast as the broker keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from tidings.client.errors import PublishRefused
from tidings.client.host import SessionHost
from tidings.client.receipts import Many, OnRefused, Receipt, Waiting
from tidings.events import Notification, NotificationError
from tidings.events.notification import BYTES

Said: TypeAlias = Notification | Mapping[str, Any]
"""What a program says happened; bytes are said by `Notification.of_bytes`."""

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

    async def publish(self, said: Said) -> int:
        """Publish one; its number, once it is kept."""
        notification = _notification(said)
        self._host.check()
        if self._outbox.is_full:
            await self._room()
        receipt = Receipt(asyncio.get_running_loop())
        self._add(notification, receipt)
        return await receipt.future

    async def publish_many(
        self, said: Iterable[Said] | AsyncIterable[Said], on_refused: OnRefused | None
    ) -> int:
        """Publish all of them; how many are kept, once all are kept or refused."""
        self._host.check()
        many = Many(asyncio.get_running_loop(), on_refused)
        count = 0
        try:
            async with aclosing(_slowly(said)) as all_of_them:
                async for each in all_of_them:
                    if many.problem is not None:
                        break
                    notification = _notification(each)
                    if self._outbox.is_full:
                        await self._room()
                    self._add(notification, many.receipt(count))
                    count += 1
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

    def _add(self, notification: Notification, receipt: Waiting) -> None:
        try:
            self._outbox.add(notification, receipt)
        except PublishRefused as problem:
            receipt.failed(problem)
        else:
            self._host.soon()


async def _slowly(items: Iterable[Said] | AsyncIterable[Said]) -> AsyncGenerator[Said, None]:
    """All of them, and now and then a turn for others."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for count, item in enumerate(items, start=1):
        yield item
        if count % _TURN == 0:
            await asyncio.sleep(0)


def _notification(said: Said) -> Notification:
    return said if isinstance(said, Notification) else Notification(said)
