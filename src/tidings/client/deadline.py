"""Deadlines: what a program waits for comes in time, or it is an error that says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tidings.client.errors import TimedOut


@asynccontextmanager
async def within(seconds: float | None) -> AsyncGenerator[None, None]:
    """What is done here takes no longer than this, else it is `TimedOut`; None: it may."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimedOut(f"it has not come within {seconds:g} seconds") from None
