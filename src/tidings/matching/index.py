"""The index: which of a changing set of filters does this event satisfy?

A log-structured merge of filters: new ones are *fresh*, tried one by one; when that has cost as
much as it would to lay them out, they become a *segment*, and segments of similar size are merged.
Removals are marks. Nothing of this is visible to the caller but the time it takes.

Readers take no lock. A `State` says what belongs to a version: the segments, and how many of the
fresh entries. A writer prepares the next one and puts it in place at once; a removed row is marked
with the version that removes it, so that readers of the version before still see it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tidings.events import Filter, Notification
from tidings.matching import warm
from tidings.matching.fresh import Fresh
from tidings.matching.lines import Lines
from tidings.matching.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from tidings.matching.batch import Batch
    from tidings.matching.segment import Segment

_BULK: Final = 1_024
"""Filters added together are laid out at once if they are at least this many."""
_LAY_OUT: Final = 2_000
"""What laying out a segment costs, in trials of one filter."""
_LAY_OUT_EACH: Final = 10
"""What laying out each filter of a segment adds to that."""
_RATIO: Final = 4
"""A segment is merged with the one before unless that is this many times larger."""
_FULL: Final = 4_096
"""Fresh filters that are laid out in any case: arrays take less memory than objects do."""
_SAMPLE: Final = 512
"""Events kept as a sample of all."""
_WIDEST: Final = 256
"""Events with more attributes than this are not sampled."""
_LONGEST: Final = 1_024
"""Values longer than this are left out of the sample."""
_RELEARN: Final = 256
"""Events after which the plans are reconsidered for the first time."""
_RELEARN_AGAIN: Final = 32
"""Factor from each number of events that plans are reconsidered after to the next."""


class State(NamedTuple):
    """One version of the set of filters."""

    version: int
    segments: tuple[Segment, ...]
    fresh: Fresh
    entries: int


class Index:
    """Filters under keys, found by the events that satisfy them.

    Any thread may ask at any time; each answer is that of one version, the one before or the
    one after every change. Changes wait for each other.

    >>> index = Index()
    >>> index.add("low", Filter.parse("price < 10"))
    >>> index.add("dis", Filter.parse("symbol = 'DIS'"))
    >>> sorted(index.match(Notification({"symbol": "DIS", "price": 5})))
    ['dis', 'low']
    """

    def __init__(self) -> None:
        warm.start()
        self._lines = Lines()
        self._state = State(0, (), Fresh(), 0)
        self._where: dict[Hashable, int] = {}
        """For each key the number of its part, and its row there: see `_place`."""
        self._parts: dict[int, Segment | Fresh] = {0: self._state.fresh}
        self._next_part = 1
        self._lock = threading.RLock()
        self._debt = 0
        self._events = 0
        self._sample: list[Mapping[str, Any]] = []
        self._relearn = _RELEARN

    @classmethod
    def laid_out(cls, source: Source, lines: Lines) -> Index:
        """An index of filters that are arrays already, made with these lines."""
        warm.wait()
        index = cls()
        index._lines = lines
        index._add_segment(source)
        return index

    # -- changing ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, key: object) -> bool:
        return key in self._where

    def __getitem__(self, key: Hashable) -> Filter:
        with self._lock:
            return _filter(*self._place(key))

    def add(self, key: Hashable, filter: Filter) -> None:
        """Add a filter; `KeyError` if the key is in use."""
        _check(key, filter)
        with self._lock:
            if key in self._where:
                raise KeyError(f"{key!r} is there already; replace it")
            self._append(key, filter)
            self._publish(self._state.version + 1)
            if self._state.entries >= _FULL and warm.is_ready():
                self._fold()

    def add_many(self, pairs: Iterable[tuple[Hashable, Filter]]) -> None:
        """Add many filters at once: readers see all of them or none."""
        pairs = list(pairs)
        for key, filter_ in pairs:
            _check(key, filter_)
        with self._lock:
            new = {key for key, _ in pairs}
            if len(new) < len(pairs):
                raise KeyError("a key is there twice among the new ones")
            if not self._where.keys().isdisjoint(new):
                known = next(key for key in new if key in self._where)
                raise KeyError(f"{known!r} is there already; replace it")
            if len(pairs) >= _BULK and warm.is_ready():
                self._add_segment(Source.encode(pairs, self._lines))
                return
            for key, filter_ in pairs:
                self._append(key, filter_)
            self._publish(self._state.version + 1)

    def remove(self, key: Hashable) -> None:
        """Remove a filter; `KeyError` if there is none under the key."""
        with self._lock:
            part = self._bury(key)
            del self._where[key]
            self._publish(self._state.version + 1)
            self._tidy(part)

    def replace(self, key: Hashable, filter: Filter) -> None:
        """Put another filter under a key in use: readers see the old one or the new one."""
        _check(key, filter)
        with self._lock:
            part = self._bury(key)
            self._append(key, filter)
            self._publish(self._state.version + 1)
            self._tidy(part)

    def _append(self, key: Hashable, filter: Filter) -> None:
        fresh = self._state.fresh
        number = fresh.append(key, filter)
        self._where[key] = number  # the fresh part is part 0

    def _bury(self, key: Hashable) -> Segment | Fresh:
        part, row = self._place(key)
        version = self._state.version + 1
        if isinstance(part, Fresh):
            part.bury(row, version)
        else:
            part.source.bury(row, version)
        return part

    def _place(self, key: Hashable) -> tuple[Segment | Fresh, int]:
        place = self._where[key]
        return self._parts[place >> 32], place & 0xFFFFFFFF

    def _publish(self, version: int) -> None:
        state = self._state
        self._state = State(version, state.segments, state.fresh, len(state.fresh.keys))

    # -- laying out ----------------------------------------------------------------------------

    def _fold(self) -> None:
        """Lay the fresh filters out as a segment."""
        with self._lock:
            self._debt = 0
            fresh, version = self._state.fresh, self._state.version
            living = [n for n in range(len(fresh.keys)) if fresh.died[n] > version]
            pairs = ((fresh.keys[n], fresh.filters[n]) for n in living)
            self._add_segment(Source.encode(pairs, self._lines), fresh=Fresh())

    def _add_segment(self, source: Source, *, fresh: Fresh | None = None) -> None:
        """Put a new segment in place, merged with those it is not much smaller than."""
        state = self._state
        merged, kept = [source], list(state.segments)
        rows = source.rows
        while kept and kept[-1].source.rows < _RATIO * rows:
            living = kept.pop().source.living(state.version)
            rows += living.rows
            merged.insert(0, living)
        joint = Source.concatenated(merged) if len(merged) > 1 else source
        self._install([*kept, *self._laid_out(joint, alone=not kept)], fresh or state.fresh)

    def _laid_out(self, source: Source, *, alone: bool) -> list[Segment]:
        """A segment of the rows, if there are any; if alone, it takes only the values it needs."""
        from tidings.matching.segment import Segment

        if alone:
            source, self._lines = source.with_lines(self._lines)
        return [Segment(source, self._lines, self._sample)] if source.rows else []

    def _tidy(self, part: Segment | Fresh) -> None:
        """Make a part anew when most of its rows are dead."""
        if isinstance(part, Fresh):
            if part is self._state.fresh and part.dead >= max(_BULK, len(part.keys) // 2):
                fresh = part.living(self._state.version)
                self._where.update((key, number) for number, key in enumerate(fresh.keys))
                self._install(list(self._state.segments), fresh)
            return
        if part.source.dead < max(_BULK, part.source.rows // 2):
            return
        living = part.source.living(self._state.version)
        segments: list[Segment] = []
        for segment in self._state.segments:
            alone = len(self._state.segments) == 1
            segments += self._laid_out(living, alone=alone) if segment is part else [segment]
        self._install(segments, self._state.fresh)

    def _install(self, segments: list[Segment], fresh: Fresh) -> None:
        """Publish these segments, and note where their keys are now."""
        known = {id(part): number for number, part in self._parts.items()}
        self._parts = {0: fresh}
        for segment in segments:
            number = known.get(id(segment))
            if number is None:
                number, self._next_part = self._next_part, self._next_part + 1
                first = number << 32
                places = range(first, first + segment.source.rows)
                self._where.update(zip(segment.source.keys.tolist(), places, strict=True))
            self._parts[number] = segment
        version = self._state.version + 1
        self._state = State(version, tuple(segments), fresh, len(fresh.keys))

    def _look_after(self) -> None:
        """Now and then, in the time of a caller: lay out what is fresh, learn what is frequent."""
        if not warm.is_ready() or not self._lock.acquire(blocking=False):
            return
        try:
            fresh, count = self._state.fresh, self._state.entries
            if count >= _FULL or self._debt > _LAY_OUT + _LAY_OUT_EACH * count:
                self._fold()
            else:
                fresh.index(count)
            if self._events >= self._relearn:
                self._relearn *= _RELEARN_AGAIN
                self._learn()
        finally:
            self._lock.release()

    def _learn(self) -> None:
        """Lay segments out anew where what was seen of events suggests a better plan."""
        from tidings.matching.segment import Segment

        segments = [
            Segment(s.source.living(self._state.version), self._lines, self._sample)
            if s.is_worth_relearning(self._sample)
            else s
            for s in self._state.segments
        ]
        if any(new is not old for new, old in zip(segments, self._state.segments, strict=True)):
            self._install(segments, self._state.fresh)

    # -- asking --------------------------------------------------------------------------------

    def match(self, notification: Notification) -> list[Any]:
        """The keys whose filter matches, each once, in no particular order."""
        version, segments, fresh, count = self._state
        attributes = notification.attributes
        self._events += 1
        if self._events & 15 == 1 or self._events < _SAMPLE // 4:
            self._note(attributes)
        found: list[Any] = []
        for segment in segments:
            rows = segment.match(attributes, version)
            if len(rows):
                found += segment.source.keys[rows].tolist()
        if count:
            numbers, tried = fresh.match(notification, version, count)
            found += [fresh.keys[n] for n in numbers]
            self._debt += tried
        if count or self._events >= self._relearn:
            self._look_after_if_due(fresh, count)
        return found

    def match_some(self, notifications: Sequence[Notification]) -> list[list[Any]]:
        """What `match` finds for each of a handful of events, at a lower price for each."""
        if len(notifications) < 2:
            return [self.match(n) for n in notifications]
        version, segments, fresh, count = self._state
        events = [n.attributes for n in notifications]
        for attributes in events[:: 16 if self._events >= _SAMPLE // 4 else 1]:
            self._note(attributes)
        self._events += len(events)
        found: list[list[Any]] = [[] for _ in events]
        for segment in segments:
            keys = segment.source.keys
            for number, rows in enumerate(segment.match_some(events, version)):
                if rows:
                    found[number] += [keys.item(row) for row in rows]
        if count:
            for notification, keys_found in zip(notifications, found, strict=True):
                numbers, tried = fresh.match(notification, version, count)
                keys_found += [fresh.keys[n] for n in numbers]
                self._debt += tried
        if count or self._events >= self._relearn:
            self._look_after_if_due(fresh, count)
        return found

    def _look_after_if_due(self, fresh: Fresh, count: int) -> None:
        worth = _LAY_OUT + _LAY_OUT_EACH * count
        is_due = count and (self._debt > worth or fresh.indexed < count)
        if is_due or self._events >= self._relearn:
            self._look_after()

    def _note(self, attributes: Mapping[str, Any]) -> None:
        """Keep an event as part of the sample; it is replaced by a later one in time."""
        if len(attributes) > _WIDEST:
            return
        kept = {
            name: value
            for name, value in attributes.items()
            if not isinstance(value, str | bytes | frozenset) or len(value) <= _LONGEST
        }
        if len(self._sample) < _SAMPLE:
            self._sample.append(kept)
        else:
            self._sample[(self._events >> 4) % _SAMPLE] = kept

    def match_batch(self, events: Any, *, threads: int | None = None) -> tuple[pa.Array, pa.Array]:
        """All matches of many events: the numbers of the events and the keys, as Arrow arrays.

        `events` is a `pyarrow.Table` or `RecordBatch` with a column for each attribute (null is
        absent, times without a zone are UTC), or a list of notifications. The pairs come in the
        order of the events. All keys must fit one Arrow type. A large table is shared out among
        `threads`, as many as there are cores if it is not said.
        """
        import pyarrow

        warm.wait()
        from tidings.matching import batch

        if isinstance(events, pyarrow.Table | pyarrow.RecordBatch):
            columns = batch.Batch(events)
            self._note_batch(columns)
            state = self._folded()
            pairs = [(s, batch.match(s, columns, state.version, threads)) for s in state.segments]
            numbers = [rows for _, (rows, _) in pairs]
            found = [s.source.keys[a] for s, (_, a) in pairs]
        else:
            numbers, found = self._match_list(self._folded(), events)
        if not found:
            return pyarrow.array([], pyarrow.int32()), pyarrow.array([], pyarrow.null())
        if len(found) == 1:
            return pyarrow.array(numbers[0]), batch.key_column(found[0])
        rows, keys = np.concatenate(numbers), np.concatenate(found)
        order = np.argsort(rows, kind="stable")
        return pyarrow.array(rows[order]), batch.key_column(keys[order])

    def _folded(self) -> State:
        """A state without fresh filters: worth it for a batch."""
        with self._lock:
            if self._state.entries:
                self._fold()
            return self._state

    def _note_batch(self, columns: Batch) -> None:
        """Learn from a sample of the batch, if little has been seen of events so far."""
        if len(self._sample) < _SAMPLE // 4 and columns.length:
            with self._lock:
                for event in columns.sample(_SAMPLE // 4):
                    self._note(event)
                self._learn()

    def _match_list(
        self, state: State, events: Iterable[Notification]
    ) -> tuple[list[Any], list[Any]]:
        numbers, found = [], []
        for number, event in enumerate(events):
            for segment in state.segments:
                rows = segment.match(event.attributes, state.version)
                numbers.append(np.full(len(rows), number, np.int32))
                found.append(segment.source.keys[rows])
        return numbers, found

    def explain(self) -> dict[str, Any]:
        """Which structures hold what, how selective they are expected to be, and their memory."""
        version, segments, fresh, count = self._state
        return {
            "filters": len(self),
            "fresh": sum(died > version for died in fresh.died[:count]),
            "dead": sum(segment.source.dead for segment in segments),
            "events sampled": len(self._sample),
            "segments": [segment.explain() for segment in segments],
            # Of the dictionary of places only its values: the keys belong to the caller.
            "bytes": sum(segment.nbytes for segment in segments)
            + sys.getsizeof(self._where)
            + 32 * len(self._where),
        }


def _check(key: Hashable, filter: Filter) -> None:
    """Refuse what is no filter before anything is changed."""
    if not isinstance(filter, Filter):
        raise TypeError(f"expected a Filter under {key!r}; Filter.parse makes one from text")


def _filter(part: Segment | Fresh, row: int) -> Filter:
    if isinstance(part, Fresh):
        return part.filters[row]
    return part.source.filter(row, part.lines)
