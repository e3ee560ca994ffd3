"""Layout: the arrays of a segment, put where the kernels look for them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidings.matching import kernels
from tidings.matching.kernels import HIGHEST, LOWEST
from tidings.matching.lines import Lines
from tidings.matching.plan import Plan
from tidings.matching.source import I32, I64, Source, members

U64 = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_MOST_READY: Final = 64
"""Bit sets kept ready for a line: 8 bytes for each filter and attribute."""
_TOGGLES_PER_READY: Final = 256


class Arena:
    """Arrays of two widths laid end to end, with a head that says where each begins."""

    def __init__(self, head: int) -> None:
        self.head = np.zeros(head, np.int64)
        self._wide: list[npt.NDArray[Any]] = []
        self._narrow: list[npt.NDArray[Any]] = []
        self._wide_length, self._narrow_length = head, 0

    def i64(self, place: int, values: npt.NDArray[Any]) -> None:
        self.head[place] = self._wide_length
        self._wide.append(values.astype(np.int64, copy=False))
        self._wide_length += len(values)

    def i32(self, place: int, values: npt.NDArray[Any]) -> None:
        self.head[place] = self._narrow_length
        self._narrow.append(values.astype(np.int32))
        self._narrow_length += len(values)

    def sealed(self) -> tuple[I64, I32]:
        narrow = np.concatenate(self._narrow) if self._narrow else np.zeros(0, np.int32)
        return np.concatenate([self.head, *self._wide]), narrow


def lay_out_postings(arena: Arena, source: Source, keys: I64, plan: Plan, lines: int) -> I64:
    """Sorted keys for each line, each with a range of entries; returns the entries."""
    posted = np.flatnonzero(plan.condition >= 0)
    conds = plan.condition[posted]
    cuts, begin = members(source.cut_off, conds)
    points = np.diff(begin) // 2
    key = keys[cuts[::2]]  # every other cut begins a point
    conj = np.repeat(posted, points)
    line = np.repeat(source.cond_line[conds], points)
    order = np.lexsort((conj, key, line))
    conj, line, key = conj[order], line[order], key[order]
    new = np.ones(len(conj), bool)
    new[1:] = (line[1:] != line[:-1]) | (key[1:] != key[:-1])
    heads = np.flatnonzero(new)
    arena.i64(kernels.HEAD_POST_KEYS, key[heads])
    arena.i32(kernels.HEAD_POST_START, offsets(line[heads], lines))
    arena.i32(kernels.HEAD_POST_OFF, np.append(heads, len(conj)))
    return conj


def offsets(groups: npt.NDArray[Any], count: int) -> I64:
    """Where each group begins in a sorted array of group numbers."""
    begin: I64 = np.searchsorted(groups, np.arange(count + 1)).astype(np.int64)
    return begin


def lay_out_checks(
    arena: Arena,
    source: Source,
    keys: I64,
    plan: Plan,
    elements: Flags,
    order: I64,
) -> None:
    """The conditions that a candidate from a posting still has to meet, in the new order."""
    conjs = len(source.conj_row)
    cond_conj = np.repeat(np.arange(conjs), np.diff(source.cond_off))
    wanted = (plan.condition[cond_conj] >= 0) | (plan.line[cond_conj] >= 0)
    wanted &= ~elements[source.cond_line]
    wanted[plan.condition[plan.condition >= 0]] = False
    position = np.empty(conjs, np.int64)
    position[order] = np.arange(conjs)
    conds = np.flatnonzero(wanted)
    conds = conds[np.argsort(position[cond_conj[conds]], kind="stable")]
    arena.i32(kernels.HEAD_VERIFY_OFF, offsets(position[cond_conj[conds]], conjs))
    low, high, simple = (values[conds] for values in spans(source, keys))
    line = source.cond_line[conds].astype(np.int64)
    # What is no single interval is a range of cuts, and whether it holds at the low end.
    odd = np.flatnonzero(~simple)
    cuts, begin = members(source.cut_off, conds[odd])
    low[odd] = begin[:-1]
    high[odd] = 2 * np.diff(begin) + source.cond_inside[conds[odd]]
    line[odd] = ~line[odd]
    arena.i64(kernels.HEAD_VERIFY_LOW, low)
    arena.i64(kernels.HEAD_VERIFY_HIGH, high)
    arena.i64(kernels.HEAD_CUTS, keys[cuts])
    arena.i32(kernels.HEAD_VERIFY_LINE, line)


def spans(source: Source, keys: I64) -> tuple[I64, I64, Flags]:
    """For each condition where it begins and ends, and whether it is that one interval."""
    begin = source.cut_off[:-1]
    shape = 2 * np.diff(source.cut_off) + source.cond_inside
    padded = np.concatenate([keys, [0, 0]])
    low = np.where((shape == 4) | (shape == 2), padded[begin], LOWEST)
    high = np.where(shape == 4, padded[begin + 1], np.where(shape == 3, padded[begin], HIGHEST))
    return low, high, np.isin(shape, (1, 2, 3, 4))


class BitLine(NamedTuple):
    """A line with bit sets: cuts in order, the slots they toggle, those inside below all cuts."""

    number: int
    family: int
    cuts: I64
    toggled: I64
    inside: I64


class BitSets:
    """The bit sets of the conjunctions in `slots`: one family for each attribute."""

    def __init__(
        self, source: Source, keys: I64, elements: Flags, slots: I64, lines: Lines
    ) -> None:
        self.slots = len(slots)
        self.words = -(-self.slots // 64)
        slot_of = np.full(len(source.conj_row), -1, np.int64)
        slot_of[slots] = np.arange(self.slots)
        cond_slot = np.repeat(slot_of, np.diff(source.cond_off))
        conds = np.flatnonzero((cond_slot >= 0) & ~elements[source.cond_line])
        conds = conds[np.argsort(source.cond_line[conds], kind="stable")]
        families: dict[str, int] = {}
        constrained: list[list[I64]] = []
        found: list[BitLine] = []
        for mine in np.split(conds, np.flatnonzero(np.diff(source.cond_line[conds])) + 1):
            if not len(mine):
                continue
            number = int(source.cond_line[mine[0]])
            family = families.setdefault(lines.lines[number].attribute, len(families))
            if family == len(constrained):
                constrained.append([])
            constrained[family].append(cond_slot[mine])
            cuts, begin = members(source.cut_off, mine)
            order = np.argsort(keys[cuts], kind="stable")
            toggled = np.repeat(cond_slot[mine], np.diff(begin))[order]
            inside = cond_slot[mine[source.cond_inside[mine] == 1]]
            found.append(BitLine(number, family, keys[cuts[order]], toggled, inside))
        self.lines = sorted(found, key=lambda line: line.family)
        self.free = [self._set(np.concatenate(c), inverse=True) for c in constrained]

    @property
    def families(self) -> int:
        return len(self.free)

    def _set(self, chosen: I64, *, inverse: bool = False) -> U64:
        """A bit set of slots."""
        flags = np.full(64 * self.words, inverse, np.uint8)
        flags[chosen] = not inverse
        return np.packbits(flags, bitorder="little").view(np.uint64)

    def lay_out(self, arena: Arena) -> None:
        """Everything but the bit sets themselves."""
        records: list[int] = []
        toggle, ready = 0, self.families * self.words
        for line in self.lines:
            cuts = len(line.cuts)
            step = max(1, -(-cuts // min(_MOST_READY, max(1, cuts // _TOGGLES_PER_READY))))
            records += [line.number, toggle, toggle + cuts, step, ready]
            toggle += cuts
            ready += (cuts // step + 1) * self.words
        self._size = ready
        nothing = np.zeros(0, np.int64)
        arena.head[kernels.HEAD_SLOTS] = self.slots
        arena.head[kernels.HEAD_WORDS] = self.words
        arena.head[kernels.HEAD_FAMILIES] = self.families
        family = np.array([line.family for line in self.lines], np.int64)
        arena.i32(kernels.HEAD_FAMILY_LINES, offsets(family, self.families))
        arena.i64(kernels.HEAD_BIT_LINES, np.array(records, np.int64))
        cuts_of_all = np.concatenate([nothing, *(line.cuts for line in self.lines)])
        toggled = np.concatenate([nothing, *(line.toggled for line in self.lines)])
        arena.i64(kernels.HEAD_TOGGLE_KEYS, cuts_of_all)
        arena.i32(kernels.HEAD_TOGGLE_SLOTS, toggled)

    def filled(self, i64: I64, i32: I32) -> U64:
        """The bit sets: of the unconstrained slots of each family, then each line's ready ones."""
        bits = np.zeros(self._size + self.words, np.uint64)
        for family, free in enumerate(self.free):
            bits[family * self.words : (family + 1) * self.words] = free
        for at, line in enumerate(self.lines):
            bits[self._size :] = self.free[line.family] | self._set(line.inside)
            kernels.fill_ready(i64, i32, bits, at, self._size, self.words)
        return bits
