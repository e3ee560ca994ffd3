from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.brokers import BrokerProcess, end_programs

LONGEST = 30.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that is up."""
    found = BrokerProcess(tmp_path)
    found.start()
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def _no_program_outlives_its_test() -> Iterator[None]:
    yield
    end_programs()


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end, which must come soon."""

    async def soon(work: Coroutine[Any, Any, Any]) -> Any:
        async with asyncio.timeout(LONGEST):
            return await work

    return lambda work: asyncio.run(soon(work), debug=False)
