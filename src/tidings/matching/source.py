"""Sources: filters as flat arrays, all that is needed to build a segment or to get them back.

::

    row  →  conjunctions  →  conditions (line, inside)  →  cuts (code, side)

A row is a key with its filter. What conditions don't fully express is kept beside them as
constraints (`rest`). Sources are concatenated when segments are merged.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import Constraint
from tidings.events.filter import Filter
from tidings.matching.lines import BIG_KEY, Lines, number_keys

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.int64] | npt.NDArray[np.object_]

_SPARE = 1_024
NEVER = 2**62
"""The version at which a row dies that has not died yet."""


@dataclass(eq=False, slots=True)
class Source:
    """Filters of some rows; only their deaths ever change it."""

    keys: Keys
    died: I64
    conj_row: I32
    cond_off: I64
    cond_line: I32
    cond_inside: U8
    cut_off: I64
    codes: I64
    sides: U8
    rest: dict[int, list[tuple[str, Constraint]]] = field(default_factory=dict)
    dead: int = 0
    """The number of rows that have died, at any version."""

    def bury(self, row: int, version: int) -> None:
        """The row is gone from this version on."""
        self.dead += 1  # first, since readers look at it to see whether to look at `died`
        self.died[row] = version

    @classmethod
    def encode(cls, pairs: Iterable[tuple[Hashable, Filter]], lines: Lines) -> Source:
        """Filters under keys as arrays."""
        keys: list[Hashable] = []
        conj_row: list[int] = []
        cond_off, cond_line, cond_inside = [0], [], []
        cut_off, codes, sides = array("q", [0]), array("q"), array("B")
        floats, floating = array("d"), array("B")
        rest: dict[int, list[tuple[str, Constraint]]] = {}
        conditions_of = lines.conditions
        for key, filter_ in pairs:
            for conjunction in filter_.conjunctions:
                conditions, unsaid = conditions_of(conjunction)
                if unsaid:
                    rest[len(conj_row)] = unsaid
                conj_row.append(len(keys))
                for line, inside, its_codes, its_floats, its_sides in conditions:
                    cond_line.append(line)
                    cond_inside.append(inside)
                    if its_codes is None:
                        floats.extend(its_floats)
                        floating.append(1)
                        codes.extend(its_sides)  # to be replaced below, all at once
                    else:
                        floating.append(0)
                        codes.extend(its_codes)
                    sides.extend(its_sides)
                    cut_off.append(len(codes))
                cond_off.append(len(cond_line))
            keys.append(key)
        code_array = np.array(codes, np.int64)
        of_floats = np.repeat(np.array(floating, bool), np.diff(np.array(cut_off)))
        code_array[of_floats] = number_keys(np.array(floats))
        return cls(
            _key_array(keys),
            np.full(len(keys), NEVER, np.int64),
            np.array(conj_row, np.int32),
            np.array(cond_off, np.int64),
            np.array(cond_line, np.int32),
            np.array(cond_inside, np.uint8),
            np.array(cut_off, np.int64),
            code_array,
            np.array(sides, np.uint8),
            rest,
        )

    @property
    def rows(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(getattr(self, name).nbytes for name in _ARRAYS)

    def filter(self, row: int, lines: Lines) -> Filter:
        """The filter of a row, as it was given."""
        first, last = np.searchsorted(self.conj_row, [row, row + 1])
        return Filter(self.conjunction(conj, lines) for conj in range(first, last))

    def conjunction(self, conj: int, lines: Lines) -> Conjunction:
        constraints = dict(self.rest.get(conj, ()))
        for cond in range(self.cond_off[conj], self.cond_off[conj + 1]):
            line = int(self.cond_line[cond])
            attribute = lines.lines[line].attribute
            if attribute not in constraints:
                cuts = slice(self.cut_off[cond], self.cut_off[cond + 1])
                inside = bool(self.cond_inside[cond])
                codes, sides = self.codes[cuts].tolist(), self.sides[cuts].tolist()
                constraints[attribute] = lines.constraint(line, inside, codes, sides)
        return Conjunction(constraints)

    def living(self, version: int) -> Source:
        """Only the rows that have not died."""
        alive = self.died > version
        if alive.all():
            return self
        number = np.cumsum(alive) - 1
        conjs = np.flatnonzero(alive[self.conj_row])
        conds, cond_off = members(self.cond_off, conjs)
        cuts, cut_off = members(self.cut_off, conds)
        renamed = {int(old): new for new, old in enumerate(conjs.tolist())} if self.rest else {}
        return Source(
            self.keys[alive],
            self.died[alive],
            number[self.conj_row[conjs]].astype(np.int32),
            cond_off,
            self.cond_line[conds],
            self.cond_inside[conds],
            cut_off,
            self.codes[cuts],
            self.sides[cuts],
            {renamed[c]: unsaid for c, unsaid in self.rest.items() if c in renamed},
        )

    def with_lines(self, lines: Lines) -> tuple[Source, Lines]:
        """These rows, with fewer interned values if most of those of `lines` are no longer used."""
        kinds = np.array([line.is_interned for line in lines.lines], bool)
        cut_line = np.repeat(self.cond_line, np.diff(self.cut_off))
        places = np.flatnonzero(kinds[cut_line] | (np.abs(self.codes) > BIG_KEY))
        big = ~kinds[cut_line[places]]
        numbers = np.where(big, np.abs(self.codes[places]) - BIG_KEY - 1, self.codes[places])
        used, renumbered = np.unique(numbers, return_inverse=True)
        if len(lines.interned) < 2 * len(used) + _SPARE:
            return self, lines
        codes = self.codes.copy()
        shift = np.where(big, BIG_KEY + 1, 0)
        codes[places] = np.where(self.codes[places] < 0, -1, 1) * (renumbered + shift)
        return replace(self, codes=codes), lines.with_interned(used.tolist())

    @classmethod
    def concatenated(cls, sources: list[Source]) -> Source:
        """All rows of all sources, in order."""
        rows = np.cumsum([0] + [s.rows for s in sources])
        conjs = np.cumsum([0] + [len(s.conj_row) for s in sources])
        rest = {
            int(first) + conj: unsaid
            for s, first in zip(sources, conjs, strict=False)
            for conj, unsaid in s.rest.items()
        }
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(s, name) for s in sources]) for name in _ARRAYS
        }
        joined["conj_row"] = np.concatenate(
            [s.conj_row + np.int32(first) for s, first in zip(sources, rows, strict=False)]
        )
        for name in ("cond_off", "cut_off"):
            lengths = np.concatenate([np.diff(getattr(s, name)) for s in sources])
            joined[name] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(**joined, rest=rest)


FILTERS: Final = (
    "conj_row",
    "cond_off",
    "cond_line",
    "cond_inside",
    "cut_off",
    "codes",
    "sides",
)
"""The arrays that say what the filters are."""
_ARRAYS: Final = ("keys", "died", *FILTERS)


def _key_array(keys: list[Any]) -> Keys:
    """Keys as an array: of integers if all of them are, else of these very objects."""
    if all(key.__class__ is int and -(2**63) <= key < 2**63 for key in keys):
        return np.array(keys, np.int64)
    objects = np.empty(len(keys), object)
    for at, key in enumerate(keys):  # in one go, tuples would become rows
        objects[at] = key
    return objects


def members(offsets: I64, chosen: npt.NDArray[np.int64]) -> tuple[I64, I64]:
    """The members of the chosen ranges, and the offsets of those ranges among them."""
    lengths = offsets[chosen + 1] - offsets[chosen]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    members = np.repeat(offsets[chosen] - new[:-1], lengths) + np.arange(new[-1])
    return members, new
