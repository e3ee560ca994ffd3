"""Archiving: what is published goes into a lake, each event once.

The lake is its own checkpoint. Again and again, the stretches between what it holds and where the
streams end are hauled into files, by this program itself or by the tasks of a Spark; then one
commit adds all of them, with how far the lake is. Whatever is killed, and whenever: either all
of it is there or nothing, and the next one to archive begins where the lake ends.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from tidings.client import Login
from tidings.client.tls import Tls
from tidings.client.token import Token
from tidings.events import TidingsError
from tidings.lakes.lake import Gap, Lake, LakeError
from tidings.protocol.cursors import cursor_text, is_behind, read_cursor
from tidings.protocol.epochs import comes_after, is_closed
from tidings.protocol.requests import Cursor
from tidings.spark.archiving.haul import Hands, Haul, Hauled, OwnHands, SparkHands
from tidings.spark.archiving.promised import Promised
from tidings.spark.interrupts import Stopped
from tidings.spark.streams.absence import OnGap
from tidings.spark.streams.stretch import Stretch, split
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
        lake, Login(url, token, tls, _PATIENCE), hands, batch, on_gap, progress or (lambda _: None)
    )
    with EndsWatch(Login(url, token, tls, wait)) as watch:
        with suppress(Stopped):
            rounds.follow(watch, goal, every, stop or threading.Event())
        rounds.note()
    return rounds.report


_log = logging.getLogger("tidings.spark")

WRITER: Final = "archive"
"""The name under which `archive` writes to a lake."""
_SILENCE: Final = 60.0
"""Seconds without events after which the lake notes all the same how far it is, and below which
time it is complete. Each note is a commit; brokers promise a time each second."""
_JOIN: Final = 100
"""Small files that are joined as soon as there is time for it."""
_GLANCE: Final = 0.2
"""Seconds between two looks at whether to stop."""


class GapError(TidingsError):
    """The brokers no longer keep what should come next, so that the lake would have a gap."""

    def __init__(self, gap: Gap) -> None:
        self.lost: Final = (
            f"the lake holds {gap.stream} up to {gap.after}, but it is kept from {gap.upto + 1} on "
            "only"
        )
        """What is missing, without how to go on."""
        super().__init__(
            f"{self.lost}. Archive with on_gap='continue' to go on there; the lake will note the "
            "gap"
        )


class ArchiveReport(NamedTuple):
    """How archiving goes on; told after each commit."""

    events: int
    """Events archived since the start."""
    commits: int
    """Commits since the start."""
    seconds: float
    """Time since the start."""
    rate: float
    """Events per second since the last commit."""
    cursor: str
    """How far the lake is."""
    is_live: bool
    """Whether it has caught up with what is published."""


class Rounds:
    """Hauls what comes next of all streams, and commits it."""

    def __init__(
        self,
        lake: Lake,
        login: Login,
        hands: Hands,
        batch: int,
        on_gap: str,
        progress: Callable[[ArchiveReport], Any],
    ) -> None:
        self._lake, self._login, self._hands = lake, login, hands
        self._batch, self._on_gap, self._progress = batch, on_gap, progress
        view = lake.snapshot()
        self._version = view.written(WRITER)
        self._held = view.held()
        self._complete = view.complete()
        self._promised = Promised()
        self._position = dict(self._held)
        """How far was read; further than what the lake holds if that was silence."""
        self._is_live = False
        self._ahead: set[str] = set()
        """Streams of which the lake has more than their broker."""
        self._unjoined = sum(joint.files for joint in view.joints())
        self._began = self._last = monotonic()
        self.report = ArchiveReport(0, 0, 0.0, 0.0, cursor_text(self._held), False)

    def follow(
        self,
        watch: EndsWatch,
        goal: Literal["live"] | Mapping[str, int] | str | None,
        every: float,
        stop: threading.Event,
    ) -> None:
        """Round after round, until it is enough."""
        due = 0.0
        while not stop.is_set():
            found = watch.ends()
            if found is None:
                watch.wait(_GLANCE)
                continue
            self._promised.hear(found)
            ends = found.ticks
            self._check(ends)
            if goal == "live":
                goal = ends
            assert not isinstance(goal, str)
            if goal is not None and is_behind(goal, self._position):
                self._is_live = is_behind(ends, self._position)
                self._join_many()
                return
            end = ends if goal is None else {s: min(t, goal.get(s, t)) for s, t in ends.items()}
            behind = {s: t for s, t in end.items() if t > self._position.get(s, 0)}
            ticks = sum(t - self._position.get(s, 0) for s, t in behind.items())
            is_due = goal is not None or monotonic() >= due or ticks >= self._batch
            if behind and is_due:
                due = monotonic() + every
                self._round(behind, ends, stop)
            else:
                self._is_live = not behind
                if monotonic() > self._last + _SILENCE:
                    self.note()
                self._join_many()
                watch.wait(_GLANCE if not behind else min(_GLANCE, max(0.0, due - monotonic())))

    def _check(self, ends: Cursor) -> None:
        for stream, tick in self._position.items():
            if ends.get(stream, tick) >= tick:
                continue
            held = f"{self._lake.path} holds {stream} up to {tick}, but that stream "
            if not is_closed(stream, ends):
                raise LakeError(
                    f"{held}ends at {ends[stream]}: this is not the {stream} that was archived "
                    "before. Archive it into another folder"
                )
            held += f"was closed at {ends[stream]}: its broker has lost what came behind that"
            if self._on_gap != "continue":
                raise LakeError(
                    f"{held}, and perhaps used some of those ticks again before it noticed. The "
                    "lake keeps what it has. Archive with on_gap='continue' (--skip-gaps) to go "
                    "on with the streams that follow"
                )
            if stream not in self._ahead:
                self._ahead.add(stream)
                _log.warning("%s; the lake keeps what it has", held)

    # -- a round -------------------------------------------------------------------------------

    def _round(self, behind: Cursor, ends: Cursor, stop: threading.Event) -> None:
        """Haul what comes next of all streams, and commit it."""
        each = -(-self._hands.width // len(behind)) * self._batch
        upto = {s: min(t, self._position.get(s, 0) + each) for s, t in behind.items()}
        stretches = split(self._position, upto, ends, most=self._batch)
        brought = self._usable(stretches, self._hauled(stretches, stop), stop)
        position, gaps = dict(self._position), []
        error: GapError | None = None
        for stretch, hauled in brought:
            position[stretch.stream] = hauled.upto
            if hauled.gone is not None:
                gap = Gap(stretch.stream, hauled.upto, hauled.gone)
                if (problem := self._error(gap)) is None:
                    gaps.append(gap)
                    position[gap.stream] = gap.upto
                error = error or problem
        self._is_live = is_behind(ends, position)
        self._write([h for _, h in brought], position, gaps)
        if error is not None:
            raise error

    def _hauled(self, stretches: Sequence[Stretch], stop: threading.Event) -> list[Hauled]:
        lake = self._lake
        schema = lake.schema()
        tasks = [Haul(s, self._login, lake.filter, str(lake.path), schema) for s in stretches]
        return self._hands.haul(tasks, stop)

    def _usable(
        self, stretches: Sequence[Stretch], brought: list[Hauled], stop: threading.Event
    ) -> list[tuple[Stretch, Hauled]]:
        """What can be committed: of each stream, as far as nothing is missing."""
        if failures := [hauled.failure for hauled in brought if hauled.failure is not None]:
            for hauled in brought:
                hauled.discard(self._lake.path)
            raise TidingsError(failures[0])
        usable: list[tuple[Stretch, Hauled]] = []
        ended: set[str] = set()
        for stretch, hauled in zip(stretches, brought, strict=True):
            if stretch.stream in ended or hauled.away is not None:
                hauled.discard(self._lake.path)
            else:
                usable.append((stretch, hauled))
            if hauled.away is not None or hauled.gone is not None:
                ended.add(stretch.stream)
        if away := [hauled.away for hauled in brought if hauled.away is not None]:
            _log.warning("trying again: %s", away[0])  # which may end with a command to type
            if not usable:
                stop.wait(_GLANCE)
        return self._fitting(usable, stop)

    def _fitting(
        self, usable: list[tuple[Stretch, Hauled]], stop: threading.Event
    ) -> list[tuple[Stretch, Hauled]]:
        """Have the lake make the columns, and haul again what has named others than the rest."""
        while True:
            written = [each for _, hauled in usable for each in hauled.written]
            misfits = {id(each) for each in self._lake.admit(written)} if written else set()
            if not misfits:
                return usable
            again = [
                at
                for at, (_, hauled) in enumerate(usable)
                if any(id(each) in misfits for each in hauled.written)
            ]
            for at in again:
                usable[at][1].discard(self._lake.path)
            anew = self._hauled([usable[at][0] for at in again], stop)
            for at, hauled in zip(again, anew, strict=True):
                stretch, before = usable[at]
                usable[at] = (stretch, hauled)
                if (hauled.upto, hauled.gone, hauled.failure) != (before.upto, before.gone, None):
                    _log.warning("%s: there is something else now; it is tried again", stretch)
                    for _, each in usable:
                        each.discard(self._lake.path)
                    return []

    def _error(self, gap: Gap) -> GapError | None:
        if gap.after == 0 and not comes_after(gap.stream, self._held):
            # It comes too late for what was first, and nothing more is lost.
            _log.warning(
                "%s is kept from %d on only; the lake begins there", gap.stream, gap.upto + 1
            )
            return None
        return None if self._on_gap == "continue" else GapError(gap)

    # -- commits -------------------------------------------------------------------------------

    def note(self) -> None:
        """Have the lake note how far it is, and to which time, if that is further than it has."""
        if self._position != self._held or self._later(self._position):
            self._commit([], self._position, [])

    def _later(self, position: Cursor) -> dict[str, float]:
        """The times below which a lake of this position is complete, and does not say it yet."""
        before = self._complete
        return {s: t for s, t in self._promised.below(position).items() if t > before.get(s, 0.0)}

    def _join_many(self) -> None:
        if self._unjoined < _JOIN:
            return
        self._unjoined = 0
        try:
            self._lake.compact()
        except Exception as problem:  # what is there is as good as before
            _log.warning("%s: small files could not be joined: %s", self._lake.path, problem)

    def _write(self, brought: list[Hauled], position: Cursor, gaps: list[Gap]) -> None:
        """Commit what was brought; silence can wait."""
        if any(hauled.rows for hauled in brought) or gaps:
            self._commit(brought, position, gaps)
        else:
            self._position = position

    def _commit(self, brought: list[Hauled], position: Cursor, gaps: list[Gap]) -> None:
        lake, version = self._lake, self._version + 1
        written = [each for hauled in brought for each in hauled.written]
        complete = self._later(position)
        if not lake.commit(written, WRITER, version, held=position, gaps=gaps, complete=complete):
            raise TidingsError(f"{lake.path}: somebody else archives into this lake, too")
        self._version, self._held, self._position = version, position, dict(position)
        self._complete |= complete
        self._unjoined += bool(written)
        events = sum(hauled.rows for hauled in brought)
        now, before = monotonic(), self.report
        self.report = ArchiveReport(
            before.events + events,
            before.commits + 1,
            now - self._began,
            events / max(now - self._last, 1e-9),
            cursor_text(position),
            self._is_live,
        )
        self._last = now
        self._progress(self.report)
