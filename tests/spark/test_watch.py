"""The watch of where streams end."""

from __future__ import annotations

import threading

from tidings.client import Login
from tidings.spark.streams.watch import EndsWatch


def test_whoever_waits_for_a_broker_can_leave() -> None:
    def wait() -> None:
        with EndsWatch(Login("tidings://127.0.0.1:1", timeout=3_600)) as watch:
            watch.wait(0.1)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
