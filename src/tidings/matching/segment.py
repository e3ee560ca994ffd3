"""Segments: an immutable set of filters, laid out for matching.

A segment ranks the interned values that occur in it, follows a `Plan` to lay conjunctions out as
postings or bits, and keeps its `Source`, from which it can be merged with others and from which
every filter can be read back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidings.events.constraint import ABSENT as NO_VALUE
from tidings.events.values import microseconds
from tidings.matching import kernels
from tidings.matching.kernels import ABSENT
from tidings.matching.layout import Arena, BitSets, lay_out_checks, lay_out_postings, offsets
from tidings.matching.lines import BIG, BIG_KEY, Line, Lines, number_key
from tidings.matching.plan import Plan, Sample, make_plan
from tidings.matching.source import I64, Source

Attributes = Mapping[str, object]
U64 = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int32]


Reader: TypeAlias = tuple[Line, int, dict[Any, int] | None]
"""A line; what `kernels.match_one` takes for it; the keys of values, where that is all it needs."""


class Ranks:
    """The interned values of one line in a segment, and the keys of all values of the line."""

    __slots__ = ("keys", "negative", "ordered", "positive")

    def __init__(self) -> None:
        self.keys: dict[Any, int] = {}
        """The key of each value that occurs."""
        self.ordered: list[Any] | None = None
        """The values in order, where a condition is more than points."""
        self.negative: list[Any] = []
        self.positive: list[Any] = []

    def text_key(self, value: Any) -> int:
        """The key of a string or byte string."""
        key: int | None = self.keys.get(value)
        if key is None:
            # Where all conditions are points, whatever is none of them is alike.
            return 0 if self.ordered is None else 2 * bisect_left(self.ordered, value)
        return key

    def big_key(self, value: Any) -> int:
        """The key of a number that is interned."""
        key: int | None = self.keys.get(value)
        if key is not None:
            return key
        if value > 0:
            return BIG_KEY + 2 * bisect_left(self.positive, value)
        return -BIG_KEY - 2 * (len(self.negative) - bisect_left(self.negative, value))


class Scratch:
    """What a kernel call writes to; one call at a time uses it."""

    __slots__ = ("bits", "event", "event_view", "floats", "keys", "out", "seen", "work")

    def __init__(self, segment: Segment) -> None:
        self.event = memoryview(bytearray(16 * 64)).cast("q")
        self.grow(64)
        self.keys = np.full(segment.line_count, ABSENT, np.int64)
        self.work = np.zeros(2 * segment.words, np.uint64)
        self.seen = np.zeros(segment.source.rows if segment.multiple else 0, np.uint8)
        self.out = np.empty(segment.most, np.int32)

    def grow(self, pairs: int) -> None:
        """Make room for events with this many pairs of line and key."""
        memory = bytearray(16 * pairs)
        memory[: 8 * len(self.event)] = self.event.cast("b")[: 16 * pairs]
        self.event = memoryview(memory).cast("q")
        self.floats = memoryview(memory).cast("d")
        self.event_view = np.frombuffer(memory, np.int64)


class Segment:
    """Filters laid out for matching. Immutable but for the deaths of its rows."""

    def __init__(self, source: Source, lines: Lines, events: Sequence[Attributes] = ()) -> None:
        self.source = source
        self.lines = lines
        self.line_count = len(lines.lines)
        self.ranks: dict[int, Ranks] = {}
        self._pool: list[Scratch] = []
        keys = self._ranked()
        sample = self._sampled(events)
        elements = np.array([line.elements for line in lines.lines], bool)
        plan = make_plan(source, keys, elements, sample)
        self.sampled = sample.events
        self.candidates = plan.cost(plan.condition)
        first = source.cond_off[:-1]
        self._chosen = np.where(plan.condition < 0, -1, plan.condition - first).astype(np.int16)
        self._used = np.bincount(source.cond_line, minlength=self.line_count) > 0
        self._readers = self._made_readers()
        self._lay_out(keys, plan, elements)

    # -- building ----------------------------------------------------------------------------

    def _ranked(self) -> I64:
        """The keys of all cuts, once the interned values of each line are ranked."""
        source = self.source
        cut_line = np.repeat(source.cond_line, np.diff(source.cut_off))
        codes = source.codes.copy()
        order = np.argsort(cut_line, kind="stable")
        odd_lines = set(source.cond_line[np.diff(source.cut_off) % 2 == 1].tolist())
        for part in np.split(order, np.flatnonzero(np.diff(cut_line[order])) + 1):
            if len(part):
                line = self.lines.lines[cut_line[part[0]]]
                pairs = codes[part[::2]] if line.number not in odd_lines else None
                only_points = pairs is not None and bool((pairs == codes[part[1::2]]).all())
                codes[part] = self._rank_line(line, codes[part], only_points)
        keys: I64 = codes + source.sides
        return keys

    def _rank_line(self, line: Line, codes: I64, only_points: bool) -> I64:
        """Replace the codes of interned values on one line by keys."""
        interned = self.lines.interned
        if line.domain == "number":
            big = np.abs(codes) > BIG_KEY
            if big.any():
                codes[big] = self._rank_big(line, codes[big])
            return codes
        if line.domain not in ("string", "bytes", "element"):
            return codes
        ranks = Ranks()
        distinct, inverse = np.unique(codes, return_inverse=True)
        values = [interned[c] for c in distinct.tolist()]
        order = (
            range(len(values))
            if line.elements
            else sorted(range(len(values)), key=values.__getitem__)
        )
        rank = np.empty(len(values), np.int64)
        rank[list(order)] = 2 * np.arange(len(values)) + 1
        ranks.keys = dict(zip(values, rank.tolist(), strict=True))
        if not only_points:
            ranks.ordered = [values[i] for i in order]
        self.ranks[line.number] = ranks  # not before it is complete: others may be reading
        result: I64 = rank[inverse]
        return result

    def _rank_big(self, line: Line, codes: I64) -> I64:
        ranks = Ranks()
        distinct = np.unique(codes)
        values = [self.lines.interned[abs(c) - BIG_KEY - 1] for c in distinct.tolist()]
        ranks.negative = sorted(v for v in values if v < 0)
        ranks.positive = sorted(v for v in values if v > 0)
        below = -BIG_KEY - 2 * len(ranks.negative)
        ranks.keys = {v: below + 2 * i + 1 for i, v in enumerate(ranks.negative)}
        ranks.keys |= {v: BIG_KEY + 2 * i + 1 for i, v in enumerate(ranks.positive)}
        self.ranks[line.number] = ranks
        keys = np.array([ranks.keys[v] for v in values], np.int64)
        result: I64 = keys[np.searchsorted(distinct, codes)]
        return result

    def _sampled(self, events: Sequence[Attributes]) -> Sample:
        lines: list[int] = []
        keys: list[int] = []
        for attributes in events:
            for line, key in self._pairs(attributes):
                lines.append(line)
                keys.append(key)
        return Sample(len(events), np.array(lines, np.int64), np.array(keys, np.int64))

    def _made_readers(self) -> dict[str, dict[type, Reader]]:
        """For the attributes and types that filters here speak of, how `_encoded` reads a value."""
        readers: dict[str, dict[type, Reader]] = {}
        for name, types in list(self.lines.by_attribute.items()):
            for kind, line in list(types.items()):
                if self.uses(line):
                    ranks = self.ranks.get(line.number)
                    only_points = ranks is not None and line.is_interned and ranks.ordered is None
                    known = ranks.keys if ranks and only_points and not line.elements else None
                    number = 2 * line.number + (line.domain == "number")
                    readers.setdefault(name, {})[kind] = (line, number, known)
        return readers

    def _pairs(self, attributes: Attributes) -> list[tuple[int, int]]:
        """The lines an event has values on, with their keys. (`_encoded` is the fast twin.)"""
        pairs = []
        for name, value in attributes.items():
            line = self.lines.by_attribute.get(name, {}).get(value.__class__)
            if line is None or line.number >= self.line_count:
                continue
            if line.elements:
                known = self.ranks[line.number].keys if line.number in self.ranks else {}
                pairs += [(line.number, known[e]) for e in value if e in known]  # type: ignore[attr-defined]
            else:
                pairs.append((line.number, self.key(line, value)))
        return pairs

    def key(self, line: Line, value: Any) -> int:
        """The key of a value on its line."""
        if line.domain == "number":
            if -BIG < value < BIG:
                return number_key(value)
            return self._ranks_of(line).big_key(value)
        if line.domain == "time":
            return microseconds(value)
        if line.domain == "boolean":
            return int(value)
        return self._ranks_of(line).text_key(value)

    def text_keys(self, line: Line, values: list[Any]) -> list[int]:
        """The keys of many strings or byte strings."""
        ranks = self._ranks_of(line)
        if ranks.ordered is None:
            known = ranks.keys.get
            return [known(value, 0) for value in values]
        return [ranks.text_key(value) for value in values]

    def _ranks_of(self, line: Line) -> Ranks:
        """The ranks of a line, which has none if nothing is interned for it here."""
        return self.ranks.get(line.number) or _NO_RANKS

    def _lay_out(self, keys: I64, plan: Plan, elements: npt.NDArray[np.bool_]) -> None:
        """Put everything into the three arenas; see `kernels` for what lies where."""
        source = self.source
        conjs = len(source.conj_row)
        arena = Arena(kernels.HEAD_SIZE)
        entries = lay_out_postings(arena, source, keys, plan, self.line_count)
        present = np.flatnonzero(plan.line >= 0)
        present = present[np.argsort(plan.line[present], kind="stable")]
        slots = np.flatnonzero((plan.condition < 0) & (plan.line < 0))
        # Conjunctions are renumbered so that those found together lie together.
        first_seen = np.unique(entries, return_index=True)[1]
        self.order = np.concatenate([entries[np.sort(first_seen)], present, slots])
        position = np.empty(conjs, np.int64)
        position[self.order] = np.arange(conjs)
        arena.i32(kernels.HEAD_ENTRIES, position[entries])
        arena.i32(kernels.HEAD_PRESENT_OFF, offsets(plan.line[present], self.line_count))
        arena.i32(kernels.HEAD_PRESENT, position[present])
        lay_out_checks(arena, source, keys, plan, elements, self.order)
        rows = source.conj_row[self.order].astype(np.int64)
        left_over = np.isin(self.order, list(source.rest))
        arena.i32(kernels.HEAD_CONJ_ROW, np.where(left_over, ~rows, rows))
        arena.head[kernels.HEAD_SLOT_CONJ] = conjs - len(slots)
        reached = (
            len(np.unique(rows)) < len(rows) or len(entries) + len(present) + len(slots) > conjs
        )
        self.multiple = bool(reached)
        arena.head[kernels.HEAD_ROWS_MULTIPLE] = int(self.multiple)
        bits = BitSets(source, keys, elements, slots, self.lines)
        bits.lay_out(arena)
        self.words, self.families = bits.words, bits.families
        self.posted, self.present, self.slots = len(entries), len(present), len(slots)
        self.most = max(1, len(entries) + len(present) + len(slots))
        self.i64, self.i32 = arena.sealed()
        self.bits = bits.filled(self.i64, self.i32)

    def is_worth_relearning(self, events: Sequence[Attributes]) -> bool:
        """Whether these events suggest a plan with far fewer candidates than the one followed."""
        elements = np.array([line.elements for line in self.lines.lines], bool)
        plan = make_plan(self.source, self._ranked(), elements, self._sampled(events))
        followed = np.where(self._chosen < 0, -1, self._chosen + self.source.cond_off[:-1])
        return plan.cost(followed) > 2 * plan.cost(plan.condition) + 1

    # -- what lies where, for batches -----------------------------------------------------------

    def uses(self, line: Line) -> bool:
        """Whether any filter here says something of the line."""
        return line.number < self.line_count and bool(self._used[line.number])

    def posted_keys(self, line: Line) -> I64:
        """The keys that have a posting, in order."""
        first, start = self.i64[kernels.HEAD_POST_KEYS], self.i64[kernels.HEAD_POST_START]
        begin, end = self.i32[start + line.number], self.i32[start + line.number + 1]
        return self.i64[first + begin : first + end]

    def posting(self, line: Line, keys: I64) -> npt.NDArray[np.int32]:
        """The posting of each key, or -1."""
        posted = self.posted_keys(line)
        if not len(posted):
            return np.full(len(keys), -1, np.int32)
        at = np.minimum(np.searchsorted(posted, keys), len(posted) - 1)
        begin = self.i32[self.i64[kernels.HEAD_POST_START] + line.number]
        return np.where(posted[at] == keys, begin + at, -1).astype(np.int32)

    def probes(self, line: Line) -> bool:
        """Whether filters are found by the mere presence of a value on the line."""
        off = self.i64[kernels.HEAD_PRESENT_OFF] + line.number
        return bool(self.i32[off] < self.i32[off + 1])

    # -- matching ----------------------------------------------------------------------------

    def match(self, attributes: Attributes, version: int) -> Rows:
        """The rows alive at `version` whose filters match."""
        try:
            scratch = self._pool.pop()
        except IndexError:
            scratch = Scratch(self)
        end = self._encoded(attributes, scratch)
        count = kernels.match_one(
            self.i64, self.i32, self.bits, self.source.died, scratch.seen,
            version if self.source.dead else -1,
            scratch.event_view, 0, end, scratch.keys, scratch.work, scratch.out,
        )  # fmt: skip
        rows = scratch.out[:count].copy()
        self._pool.append(scratch)
        if self.source.rest and count and rows.min() < 0:
            return np.array(self.checked(rows.tolist(), attributes), np.int32)
        return rows

    def match_some(self, events: Sequence[Attributes], version: int) -> list[list[int]]:
        """For each event, the rows alive at `version` whose filters match."""
        try:
            scratch = self._pool.pop()
        except IndexError:
            scratch = Scratch(self)
        ends = np.empty(len(events), np.int64)
        at = 0
        for number, attributes in enumerate(events):
            ends[number] = at = self._encoded(attributes, scratch, at)
        stops = np.empty(len(events), np.int64)
        found = np.empty(len(scratch.out) + 4 * len(events), np.int32)
        done = 0
        while done < len(events):
            done = kernels.match_some(
                self.i64, self.i32, self.bits, self.source.died, scratch.seen,
                version if self.source.dead else -1,
                scratch.event_view, ends, done, scratch.keys, scratch.work, scratch.out,
                found, stops,
            )  # fmt: skip
            if done < len(events):
                room = np.empty(2 * len(found), np.int32)
                filled = stops[done - 1] if done else 0
                room[:filled] = found[:filled]
                found = room
        self._pool.append(scratch)
        rows = found[: stops[-1]].tolist()
        marks = stops.tolist()
        parts = [rows[a:b] for a, b in zip([0, *marks[:-1]], marks, strict=True)]
        if self.source.rest:
            return [
                self.checked(part, attributes) if part and min(part) < 0 else part
                for part, attributes in zip(parts, events, strict=True)
            ]
        return parts

    def _encoded(self, attributes: Attributes, scratch: Scratch, at: int = 0) -> int:
        """Write the event's pairs of line and key from there on; where they end."""
        event, floats = scratch.event, scratch.floats
        readers = self._readers
        for name, value in attributes.items():
            types = readers.get(name)
            if types is None:
                continue
            reader = types.get(value.__class__)
            if reader is None:
                continue
            line, number, known = reader
            if number & 1:
                if -BIG < value < BIG:  # type: ignore[operator]
                    event[at] = number
                    floats[at + 1] = value  # type: ignore[call-overload]  # it is a number
                else:
                    event[at] = number - 1
                    event[at + 1] = self.key(line, value)
            elif known is not None:
                event[at] = number
                event[at + 1] = known.get(value, 0)
            elif line.elements:
                at = self._encode_elements(line.number, value, scratch, at)
                event, floats = scratch.event, scratch.floats
                continue
            else:
                event[at] = number
                event[at + 1] = self.key(line, value)
            at += 2
            if at == len(event):
                scratch.grow(at)
                event, floats = scratch.event, scratch.floats
        return at

    def _encode_elements(self, line: int, value: Any, scratch: Scratch, at: int) -> int:
        if line not in self.ranks:
            return at
        known = self.ranks[line].keys
        for element in value:
            key = known.get(element)
            if key is not None:
                scratch.event[at], scratch.event[at + 1] = line * 2, key
                at += 2
                if at == len(scratch.event):
                    scratch.grow(at)
        return at

    def checked(self, rows: list[int], attributes: Attributes) -> list[int]:
        """Check in Python what the arrays don't express; a row counts once."""
        found: dict[int, None] = {row: None for row in rows if row >= 0}
        known: dict[tuple[str, int], bool] = {}
        for row in rows:
            if row < 0:
                conj = int(self.order[~row])
                if self._rest_holds(conj, attributes, known):
                    found[int(self.source.conj_row[conj])] = None
        return list(found)

    def _rest_holds(
        self, conj: int, attributes: Attributes, known: dict[tuple[str, int], bool]
    ) -> bool:
        """`known` remembers what was asked before: many filters share their constraints."""
        for name, constraint in self.source.rest[conj]:
            place = name, id(constraint)  # EXISTS is one object for all attributes
            answer = known.get(place)
            if answer is None:
                answer = constraint.matches(attributes.get(name, NO_VALUE))
                known[place] = answer
            if not answer:
                return False
        return True

    def explain(self) -> dict[str, Any]:
        return {
            "filters": self.source.rows,
            "conjunctions": len(self.source.conj_row),
            "found by a value": self.posted,
            "found by an attribute's presence": self.present,
            "found by bit sets": self.slots,
            "attributes with bit sets": self.families,
            "checked in Python": len(self.source.rest),
            "candidates expected for an event": round(self.candidates, 3),
            "events learnt from": self.sampled,
            "bytes": self.nbytes,
        }

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, without the keys' own objects."""
        return int(self.source.nbytes + self.i64.nbytes + self.i32.nbytes + self.bits.nbytes)


_NO_RANKS: Final = Ranks()
