from __future__ import annotations

import asyncio
import queue
import threading

import pytest

from tidings.client.errors import ClientClosed
from tidings.client.loop_thread import LoopThread
from tidings.client.plain import Belt
from tidings.events import TidingsError


async def _thread() -> threading.Thread:
    return threading.current_thread()


def test_work_is_done_in_a_thread_of_its_own_until_it_is_stopped() -> None:
    thread = LoopThread()
    with pytest.raises(ClientClosed, match="not open"):
        thread.run(_thread())
    assert thread.start()
    assert not thread.start()
    there = thread.run(_thread())
    assert there is not threading.current_thread()
    assert there.is_alive()
    thread.stop()
    assert not thread.is_running
    assert not there.is_alive()
    assert not thread.start(), "it is not started twice"
    with pytest.raises(ClientClosed):
        thread.begin(_thread())


def test_it_cannot_wait_for_itself() -> None:
    thread = LoopThread()
    thread.start()
    said: queue.Queue[str] = queue.Queue()

    def ask() -> None:
        try:
            thread.run(_thread())
        except TidingsError as problem:
            said.put(str(problem))

    thread.call_soon(ask)
    assert "cannot wait" in said.get(timeout=20)
    thread.stop()


def test_a_belt_carries_everything_in_order_and_ends() -> None:
    async def taken(belt: Belt) -> list[int]:
        return [item async for item in belt.items()]

    thread = LoopThread()
    thread.start()
    belt = Belt(thread.loop)
    work = thread.begin(taken(belt))
    assert all(belt.put(n) for n in range(10_000))  # far more than there is room for at once
    belt.end()
    assert work.result(timeout=20) == list(range(10_000))
    belt.stop()
    thread.stop()


def test_a_belt_says_that_nobody_takes_anything_any_more() -> None:
    loop = asyncio.new_event_loop()
    belt = Belt(loop)
    belt.stop()
    assert not belt.put(1)
    loop.close()
