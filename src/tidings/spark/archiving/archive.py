"""Archiving: what is published goes into a lake, each event once.

The lake is its own checkpoint. Again and again, the stretches between what it holds and where the
streams end are hauled into files, by this program itself or by the tasks of a Spark; then one
commit adds all of them, with how far the lake is. Whatever is killed, and whenever: either all
of it is there or nothing, and the next one to archive begins where the lake ends.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from tidings.client import Login
from tidings.client.tls import Tls
from tidings.client.token import Token
from tidings.events import TidingsError
from tidings.lakes.lake import Lake
from tidings.protocol.cursors import read_cursor
from tidings.spark.archiving.hands import Hands, OwnHands, SparkHands
from tidings.spark.archiving.rounds import WRITER, ArchiveReport, GapError, Rounds
from tidings.spark.interrupts import Stopped
from tidings.spark.streams.absence import OnGap
from tidings.spark.streams.watch import EndsWatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WRITER", "ArchiveReport", "GapError", "archive"]

IN_MEMORY: Final = (
    "tls: an SSLContext cannot be sent to Spark's workers; name files, as Certificates"
)
"""Why what Spark's tasks connect with must be files."""
_PATIENCE: Final = 30.0
"""Seconds that a broker may be away before a task is given up, and tried again."""


def archive(
    url: str,
    lake: Lake,
    *,
    token: Token = None,
    tls: Tls = None,
    spark: SparkSession | None = None,
    batch: int = 100_000,
    every: float = 10.0,
    until: Literal["live"] | Mapping[str, int] | str | None = None,
    on_gap: OnGap = "fail",
    progress: Callable[[ArchiveReport], Any] | None = None,
    stop: threading.Event | None = None,
    wait: float = 0.0,
) -> ArchiveReport:
    """Take all that the broker at `url` can be told of, and the lake is for, into the lake.

    It begins where the lake ends (see `Lake.held`). Of a stream of which the lake has nothing, it
    begins at the first event that is kept; what was before is a gap (`Lake.gaps`). Each event is
    in the lake once, whatever is killed and started again: how far the lake is is part of the same
    commit as the events. Only one `archive` at a time can write to a lake; another one takes over
    from it.

    Without `spark`, all is done in this process, and no Java is needed. With it, Spark's tasks
    read from the brokers and write the lake's files, as many at a time as it has cores. If the
    lake is for everything, and `url` names the broker of a stream, that one is copied straight
    from its log; name all brokers of a network (`tidings://a:7411,b:7411`) for that.

    With each commit, and at the end, the lake says below which times it is complete, as far as its
    brokers have promised that (`Lake.complete`); while nothing happens, once a minute.

    There is a commit for each `batch` events of a stream (and task), or after `every` seconds. It
    goes on for ever, or until `stop` is set, or until the lake has what a cursor says, or
    (`"live"`) what was published when it began. A broker that goes away is waited for; one that
    is not there at the beginning only for `wait` seconds, then it is a `ConnectionFailed`. When it
    has caught up, it joins the lake's small files, if there are about a hundred of them.

    If the brokers no longer keep what should come next, it is a `GapError`; with
    `on_gap="continue"` the lake notes the gap, and what is kept is archived.
    """
    if spark is not None and isinstance(tls, ssl.SSLContext):
        raise TidingsError(IN_MEMORY)
    hands: Hands = OwnHands() if spark is None else SparkHands(spark)
    goal = read_cursor(until) if isinstance(until, str) and until != "live" else until
    rounds = Rounds(
        lake, Login(url, token, tls, _PATIENCE), hands, batch, on_gap, progress or _nothing
    )
    with EndsWatch(Login(url, token, tls, wait)) as watch:
        with suppress(Stopped):
            rounds.follow(watch, goal, every, stop or threading.Event())
        rounds.note()
    return rounds.report


def _nothing(report: ArchiveReport) -> None:
    """Leave it unsaid."""
