"""`tidings` with a small difference, said in the environment.

ODD_CLOCK=FILE     the clock is set by as many seconds as FILE says, as soon as it does
ODD_TRIM=SECONDS   seconds between two trims of the log
ODD_GREETING=SECONDS   seconds for a greeting
ODD_VERSION=NUMBER     it speaks versions up to this one of the wire
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def disturb_clock(file: Path) -> None:
    """Before anything imports it: `from time import time` must find the wrong one."""
    right = time.time

    def wrong() -> float:
        try:
            return right() + float(file.read_text())
        except (OSError, ValueError):
            return right()

    time.time = wrong


if __name__ == "__main__":
    if "ODD_CLOCK" in os.environ:
        disturb_clock(Path(os.environ["ODD_CLOCK"]))
    if "ODD_VERSION" in os.environ:
        from tidings.protocol import wire

        wire.VERSION = int(os.environ["ODD_VERSION"])  # type: ignore[misc]
    if "ODD_TRIM" in os.environ:
        from tidings.broker import server

        server._TRIM = server._TRIM_IN_TROUBLE = float(os.environ["ODD_TRIM"])  # type: ignore[misc]
    if "ODD_GREETING" in os.environ:
        from tidings.broker.doors import arrivals

        arrivals._SECONDS = float(os.environ["ODD_GREETING"])  # type: ignore[misc]
    from tidings.cli import main

    main()
