"""What a broker's log holds, to compare with what came by Spark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.store.logs import log_in
from tests.client.brokers import BrokerProcess
from tidings.broker.configuration import Configuration
from tidings.broker.server import Broker
from tidings.lakes.committed import Committed
from tidings.protocol.messages import Event

_PATIENCE = 60.0


@contextmanager
def running(folder: Path, *, config: str = "") -> Iterator[BrokerProcess]:
    """A broker that is up, and can be killed and started again."""
    folder.mkdir(exist_ok=True)
    broker = BrokerProcess(folder, config=config)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


class Here:
    """A broker in a thread of this process, which lets go of events when it is told to."""

    def __init__(self, folder: Path, config: str = "", *, listen: str = "127.0.0.1:0") -> None:
        self.name, self.folder = "paris", folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        found = Configuration.parse(
            config, name=self.name, listen=listen, store=str(folder / "store"), drain=2.0
        )
        asked = None if found.retention.lake is None else Committed(found.retention.lake, self.name)
        self._broker = Broker(found, archived=asked)
        self._run(self._broker.start())
        self.url = f"tidings://{self._broker.address}"

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def trim(self) -> None:
        """Forget all but the last event."""
        self._run(self._broker.host.trim(before=1e12, size=None))

    def stop(self) -> None:
        self._run(self._broker.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def log_of(broker: BrokerProcess | Here) -> list[Event]:
    """All that it keeps, read from its disk."""
    return log_in(broker.folder / "store", broker.name)
