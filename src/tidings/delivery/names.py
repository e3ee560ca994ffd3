"""Names: the durable subscriptions that a node has, and what it knows of those that it had.

A durable name is had by one node at a time, and each time that it is given away its *epoch* grows.
Whoever gives it keeps all of it under the new epoch, and to whom it went::

    had here, epoch 3  ──given──▶  given to b, epoch 4   (a place, not a promise: b may have
                                                          crashed before it had it on disk)

A node that can show that nobody has epoch 4 is given the name again, under epoch 5. So a name is
never lost between two nodes, and of all that nodes know of it, the highest epoch is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tidings.delivery.holdings import Holdings
from tidings.delivery.logs import Logs
from tidings.events import Filter
from tidings.protocol.epochs import epoch_of
from tidings.protocol.host import Sync
from tidings.protocol.parts import Kernel, Shelf
from tidings.protocol.requests import Cursor

_About: TypeAlias = tuple[Filter, float, str, int, int, int, bool]
_Gone: TypeAlias = tuple[str, int, Filter | None, Cursor, float, str, int, bool]
DURABLES: Final = Shelf[_About]("durable")
CURSORS: Final = Shelf[Cursor]("cursor")
"""The cursor has a key of its own: it changes often, and the filter may be long."""
GONE: Final = Shelf[_Gone]("gone")

_FIRST: Final = 1
"""The epoch of a name that has never been anywhere else."""
_GENERATION: Final = 1 << 32
"""More than a name is ever given away: who begins it anew, whatever others have, is ahead of all
that they do with it."""


class Saved(NamedTuple):
    """A durable subscription in the store."""

    filter: Filter
    cursor: Cursor
    """What was acknowledged."""
    begun: float
    """From when on it wants all of a stream that the cursor lacks."""
    owner: str = ""
    """Who took it last: only they may go on where they were, and acknowledge."""
    doubts: int = 0
    """How many there were when it was acknowledged last: see `Doubtful`."""
    epoch: int = _FIRST
    proof: int = 1
    """The epoch of the node's own stream when it was sure to have the name. If that is over, the
    store may have gone back to before the name was given away."""
    is_paused: bool = False

    @property
    def about(self) -> _About:
        """What is stored of it apart from the cursor."""
        said = self.filter, self.begun, self.owner, self.doubts
        return *said, self.epoch, self.proof, self.is_paused


class Gone(NamedTuple):
    """A durable subscription that the node had, as it was then."""

    to: str
    """The node that it was given to; empty if it was forgotten."""
    epoch: int
    """Under which it was given, or forgotten."""
    saved: Saved | None
    """None if it was forgotten."""

    @property
    def stored(self) -> _Gone:
        """What is stored of it."""
        if self.saved is None:
            return self.to, self.epoch, None, {}, 0.0, "", 0, False
        filter_, cursor, begun, owner, doubts, _, _, is_paused = self.saved
        return self.to, self.epoch, filter_, cursor, begun, owner, doubts, is_paused


class Names:
    """The durable names that a node has and had. What is told of them is told once it is kept."""

    def __init__(self, kernel: Kernel, logs: Logs) -> None:
        self._kernel, self._logs = kernel, logs
        self.saved: dict[str, Saved] = {}
        self.gone: dict[str, Gone] = {}
        """No name is in both."""
        self.holdings = Holdings(kernel)

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up what an earlier node had stored."""
        cursors = dict(CURSORS.found(stored))
        for name, (filter_, begun, owner, doubts, epoch, proof, is_paused) in DURABLES.found(
            stored
        ):
            cursor = dict(cursors.get(name, {}))
            self.saved[name] = Saved(filter_, cursor, begun, owner, doubts, epoch, proof, is_paused)
        for name, (to, epoch, wanted, cursor, begun, owner, doubts, is_paused) in GONE.found(
            stored
        ):
            before = None
            if wanted is not None:
                before = Saved(wanted, dict(cursor), begun, owner, doubts, is_paused=is_paused)
            self.gone[name] = Gone(to, epoch, before)
        self.holdings.restore(stored, self.saved, self.gone)

    def kept(self) -> dict[str, Any]:
        """All that is stored of them, if what is known is right."""
        found: dict[str, Any] = {}
        for name, saved in self.saved.items():
            found[DURABLES.key(name)] = saved.about
            found[CURSORS.key(name)] = saved.cursor
        for name, gone in self.gone.items():
            found[GONE.key(name)] = gone.stored
        return found

    @property
    def _proof(self) -> int:
        return epoch_of(self._logs.published.stream)

    def has(self, name: str) -> bool:
        """Whether a name is had here for certain."""
        saved = self.saved.get(name)
        return saved is not None and saved.proof == self._proof

    def known(self, name: str) -> Saved:
        """A name that can be given, as it is, or was when it was given away."""
        known = self.saved.get(name) or self.gone[name].saved
        assert known is not None, "what was forgotten cannot be given"
        return known

    def epoch(self, name: str) -> int:
        """The latest epoch of a name that is known here; 0 if none is."""
        known = self.saved.get(name) or self.gone.get(name)
        return 0 if known is None else known.epoch

    def home(self, name: str) -> str:
        """Where a name has lived since that epoch began; empty if it was forgotten."""
        gone = self.gone.get(name)
        return self._kernel.name if gone is None else gone.to

    # -- changes -------------------------------------------------------------------------------

    def next_epoch(self, name: str, *, is_alone: bool) -> int:
        """The epoch of a name that begins now; whatever others have, if it `is_alone`."""
        epoch = self.epoch(name)
        return (epoch // _GENERATION + 1) * _GENERATION + _FIRST if is_alone else epoch + 1

    def can_give(self, name: str, epoch: int) -> bool:
        """Whether this is the epoch of a name still, and there is something to give."""
        gone = self.gone.get(name)
        return epoch > 0 and self.epoch(name) == epoch and (gone is None or gone.saved is not None)

    def save(self, name: str, saved: Saved) -> None:
        """Keep what is new of a name that is had here."""
        before, self.saved[name] = self.saved.get(name), saved
        if self.gone.pop(name, None) is not None:
            self._kernel.emit(GONE.drop(name))
        self.holdings.use(name)
        if before is None or before._replace(cursor=saved.cursor) != saved:
            self._kernel.emit(DURABLES.put(name, saved.about))
        if before is None or before.cursor != saved.cursor:
            self._kernel.emit(CURSORS.put(name, saved.cursor))
        self._kernel.emit(Sync())

    def take(self, name: str, saved: Saved) -> None:
        """This node has a name from now on, for certain."""
        now = saved._replace(proof=self._proof)
        if now == self.saved.get(name):
            self.holdings.use(name)
        else:
            self.save(name, now)

    def give(self, name: str, to: str) -> tuple[int, Saved]:
        """Give a name away, which is or was had here; with its new epoch."""
        known, epoch = self.known(name), self.epoch(name) + 1
        self._leave(name, Gone(to, epoch, known))
        self._kernel.emit(Sync())
        return epoch, known

    def forget(self, name: str) -> None:
        """Have a name no more. Where it was before, it must not be taken for still being there."""
        epoch = self.epoch(name)
        if epoch == _FIRST:
            self.drop(name)
        else:
            self._leave(name, Gone("", epoch, None))

    def forgotten(self, name: str, epoch: int) -> None:
        """Elsewhere, a name was forgotten under a later epoch than is known here."""
        if epoch > self.epoch(name):
            self._leave(name, Gone("", epoch, None))

    def drop(self, name: str) -> None:
        """Know nothing of a name."""
        if self.saved.pop(name, None) is not None:
            self._kernel.emit(DURABLES.drop(name))
            self._kernel.emit(CURSORS.drop(name))
        if self.gone.pop(name, None) is not None:
            self._kernel.emit(GONE.drop(name))
        self.holdings.forget(name)

    def _leave(self, name: str, gone: Gone) -> None:
        self.drop(name)
        self.gone[name] = gone
        self._kernel.emit(GONE.put(name, gone.stored))
        self.holdings.leave(name)

    # -- what nobody uses ----------------------------------------------------------------------

    def drop_unused(self) -> Iterable[str]:
        """Drop what nobody has used for too long; those that were had here."""
        for name in self.holdings.expired(self.holdings.gone):
            self.drop(name)
        found = self.holdings.expired(self.holdings.durables)
        for name in found:
            self.drop(name)
        return found

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of them."""
        if not self.saved.keys().isdisjoint(self.gone):
            yield "a durable name is had here, and was given away"
