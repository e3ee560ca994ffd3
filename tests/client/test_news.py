from __future__ import annotations

import asyncio

import pytest

from tidings.client.errors import ClientClosed, Fenced
from tidings.client.host import News


async def _waits(news: News, thing: str) -> asyncio.Task[None]:
    task = asyncio.create_task(news.wait(thing))
    await asyncio.sleep(0)
    return task


def test_news_wakes_whoever_waits_for_it_and_nobody_else() -> None:
    async def story() -> None:
        news = News()
        one, two = await _waits(news, "a"), await _waits(news, "a")
        other = await _waits(news, "b")
        news.tell("a")
        await asyncio.gather(one, two)
        assert not other.done()
        news.tell_all()
        await other

    asyncio.run(story())


def test_whoever_has_given_up_waiting_is_not_woken() -> None:
    async def story() -> None:
        news = News()
        gone = await _waits(news, "a")
        gone.cancel()
        news.tell("a")
        await asyncio.wait([gone])
        assert gone.cancelled()

    asyncio.run(story())


def test_the_end_wakes_all_and_is_raised_to_who_would_wait_then() -> None:
    async def story() -> None:
        news = News()
        news.check()
        waiting = await _waits(news, "a")
        assert isinstance(news.close(Fenced("another came")), Fenced)
        await waiting  # it looks for itself whether it has what it waited for
        news.close(ClientClosed("closed later"))
        with pytest.raises(Fenced, match="another came"):
            await news.wait("a")
        with pytest.raises(Fenced, match="another came"):
            news.check()

    asyncio.run(story())
