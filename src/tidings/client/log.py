"""A broker's log, as a client reads it: row after row, over any number of connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from tidings.client.copying import Copying
from tidings.client.errors import RequestRefused, cannot_go_on
from tidings.client.host import SessionHost
from tidings.protocol.runs import Rows
from tidings.protocol.wire import WireError, unpack_rows


async def read_log(
    host: SessionHost, stream: str, *, after: int, upto: int
) -> AsyncGenerator[Rows, None]:
    """All events of a stream behind the tick `after`, up to `upto` or the end of the log."""
    host.check()
    copying = Copying(stream, after, upto)
    host.session.copy(copying)
    host.soon()
    at = after
    try:
        while True:
            if copying.inbox:
                piece = copying.inbox.popleft()
                host.session.copy_on(copying)
                host.soon()
                for block in piece.blocks:
                    rows = unpack_rows(block).between(at, upto)
                    if rows.ticks:
                        _check_continuity(rows.ticks, at)
                        at = rows.ticks[-1]
                        yield rows
            elif (ending := copying.ending) is not None:
                if ending.cursor is not None:
                    raise cannot_go_on(ending)
                raise RequestRefused(ending.reason)
            elif copying.is_done:
                return
            else:
                await host.wait(copying)
    finally:
        host.session.uncopy(copying)


def _check_continuity(ticks: Sequence[int], at: int) -> None:
    if ticks[0] != at + 1 or ticks[-1] - at != len(ticks):
        raise WireError(f"the broker's log does not go on behind tick {at}")
