"""The daemon: what starts Spark's Python processes. It is Spark's own, but for one thing.

`df.show(2)` wants two rows of a task that has thousands: Java reads these and hangs up, and Spark's
daemon prints where the process failed that was still writing. Here such a process ends in silence.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_plain = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Do what Java asks for on a connection; any number but 0 ends the process."""
    try:
        return _plain(sock, authenticated)
    except ConnectionError:
        return 1  # there is nobody to tell


if __name__ == "__main__":
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"  # instead of printing it there
    daemon.worker = worker
    daemon.manager()
