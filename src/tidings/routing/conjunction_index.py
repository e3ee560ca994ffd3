"""Conjunction index: finds the conjunctions that cover another one, or that it covers or overlaps.

Conjunctions that name the same attributes, and ask for a single value in the same ones of them,
have one *form*. What can cover `symbol = 'DIS' AND price < 10`? Only what has the form

    ()    (price)    (symbol)    (symbol = ·)    (price, symbol)    (price, symbol = ·)

and where a form asks for single values, they must be the same: one look into a dictionary. There
are few forms, since people ask the same kinds of questions, and forms are found by their names.

What is left is compared as numbers first: by reach and mark (see `reaches`). A large form keeps
both in arrays and compares them all at once; the algebra decides about the few that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidings.events import Conjunction, Constraint
from tidings.routing.reaches import ALL_BITS, is_single, mark, reach
from tidings.routing.reduction import OrderedSet

_LARGE: Final = 24
"""A form that holds at least this many conjunctions is searched by arrays."""
_EACH: Final = 256
"""Rows of arrays compared in the time that the algebra takes for one conjunction."""

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class _Form:
    """The conjunctions of one form."""

    __slots__ = ("_by_value", "_by_values", "_places", "_rows", "_table", "names", "singles")

    def __init__(self, names: tuple[str, ...], singles: tuple[str, ...]) -> None:
        self.names = names
        self.singles = singles
        self._rows: list[Conjunction] = []
        self._places: dict[Conjunction, int] = {}
        self._by_values: dict[tuple[Constraint, ...], OrderedSet] = {}
        self._by_value: dict[tuple[str, Constraint], OrderedSet] = {}
        """Conjunctions by one of their single values; empty where there is only one."""
        self._table: _Table | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, conjunction: Conjunction) -> None:
        row = len(self._rows)
        self._places[conjunction] = row
        self._rows.append(conjunction)
        for posting in self._postings(conjunction):
            posting[conjunction] = None
        if self._table is not None:
            self._table.note(row, conjunction)

    def remove(self, conjunction: Conjunction) -> None:
        row = self._places.pop(conjunction)
        last = self._rows.pop()
        if row < len(self._rows):  # the last row fills the hole
            self._rows[row] = last
            self._places[last] = row
            if self._table is not None:
                self._table.move(len(self._rows), row)
        for posting in self._postings(conjunction):
            del posting[conjunction]
        self._drop_empty(conjunction)

    def _postings(self, conjunction: Conjunction) -> list[OrderedSet]:
        if not self.singles:
            return []
        constraints = conjunction.constraints
        values = tuple([constraints[name] for name in self.singles])
        found = [self._by_values.setdefault(values, {})]
        if len(values) > 1:
            pairs = zip(self.singles, values, strict=True)
            found += [self._by_value.setdefault(pair, {}) for pair in pairs]
        return found

    def _drop_empty(self, conjunction: Conjunction) -> None:
        constraints = conjunction.constraints
        values = tuple([constraints[name] for name in self.singles])
        if values and not self._by_values[values]:
            del self._by_values[values]
        if len(values) > 1:
            for pair in zip(self.singles, values, strict=True):
                if not self._by_value[pair]:
                    del self._by_value[pair]

    def covering(self, asked: Mapping[str, Constraint]) -> Iterable[Conjunction]:
        """All that may cover it; it names all our attributes."""
        if self.singles:
            # what lies within a single value is that value
            posting = self._by_values.get(tuple([asked[name] for name in self.singles]))
            if posting is None:
                return ()
            if self._is_short(posting):
                return posting
        ranges = {n: asked[n] for n in self.names if n not in self.singles}
        return self._compared(ranges, _AROUND)

    def covered(
        self, asked: Mapping[str, Constraint], singles: tuple[str, ...]
    ) -> Iterable[Conjunction]:
        """All that it may cover; it names some of our attributes, and `singles` of ours singly."""
        return self._with_values(asked, singles, _WITHIN)

    def overlapping(
        self, asked: Mapping[str, Constraint], singles: tuple[str, ...]
    ) -> Iterable[Conjunction]:
        """All that it may overlap; it asks for single values of `singles`."""
        shared = {name: asked[name] for name in self.names if name in asked}
        same = tuple([name for name in self.singles if name in singles])
        return self._with_values(shared, same, _TOUCHING)

    def _with_values(
        self, asked: Mapping[str, Constraint], singles: tuple[str, ...], relation: _Relation
    ) -> Iterable[Conjunction]:
        """All of these single values, if they are few; else all that may relate to it."""
        postings: list[OrderedSet | None] = []
        if singles and len(singles) == len(self.singles):
            postings = [self._by_values.get(tuple([asked[name] for name in singles]))]
        elif singles:
            postings = [self._by_value.get((name, asked[name])) for name in singles]
        shortest: OrderedSet | None = None
        for posting in postings:
            if posting is None:
                return ()
            if shortest is None or len(posting) < len(shortest):
                shortest = posting
        if shortest is not None and self._is_short(shortest):
            return shortest
        return self._compared(asked, relation)

    def _is_short(self, posting: OrderedSet) -> bool:
        return len(posting) <= _LARGE + len(self._rows) // _EACH

    def _compared(
        self, asked: Mapping[str, Constraint], relation: _Relation
    ) -> Iterable[Conjunction]:
        """All that may relate to it, by the reaches and marks of these attributes."""
        if not asked or len(self._rows) < _LARGE:
            return self._rows
        if self._table is None:
            self._table = _Table(self.names, self._rows)
        rows = self._table.rows(len(self._rows), asked, relation)
        return map(self._rows.__getitem__, rows)


class _Relation(NamedTuple):
    """What holds of reaches and of marks wherever one constraint relates to another."""

    reaches: Callable[[Floats, Floats, float, float], Flags]
    marks: Callable[[Bits, np.uint64], Flags]


_AROUND: Final = _Relation(
    lambda begins, ends, low, high: (begins <= low) & (ends >= high),
    lambda marks, bits: (bits & ~marks) == 0,
)
_WITHIN: Final = _Relation(
    lambda begins, ends, low, high: (begins >= low) & (ends <= high),
    lambda marks, bits: (marks & ~bits) == 0,
)
_TOUCHING: Final = _Relation(
    lambda begins, ends, low, high: (begins <= high) & (ends >= low),
    lambda marks, bits: (marks & bits) != 0,
)


class _Table:
    """Reaches and marks of the conjunctions of one form: a row for each, and for each attribute
    where it begins, where it ends, and its mark."""

    __slots__ = ("_begins", "_columns", "_ends", "_lists", "_marks")

    def __init__(self, names: tuple[str, ...], rows: Sequence[Conjunction]) -> None:
        """The first rows are filled column by column, which takes a tenth of the time."""
        count = len(rows)
        shape = (len(names), max(4 * _LARGE, 2 * count))
        self._columns = {name: column for column, name in enumerate(names)}
        self._begins: Floats = np.empty(shape)
        self._ends: Floats = np.empty(shape)
        self._marks: Bits = np.empty(shape, np.uint64)
        self._lists: set[str] = set()
        """The attributes that some conjunction has asked a list of values of."""
        for name, column in self._columns.items():
            constraints = [row.constraints[name] for row in rows]
            reaches, marks = np.array(list(map(reach, constraints))), list(map(mark, constraints))
            self._begins[column, :count], self._ends[column, :count] = reaches.T
            self._marks[column, :count] = np.array(marks, np.uint64)
            if any(bits != ALL_BITS for bits in marks):
                self._lists.add(name)

    def note(self, row: int, conjunction: Conjunction) -> None:
        """Fill a row."""
        if row == self._begins.shape[1]:
            self._begins = _twice(self._begins)
            self._ends = _twice(self._ends)
            self._marks = _twice(self._marks)
        for name, column in self._columns.items():
            constraint = conjunction.constraints[name]
            self._begins[column, row], self._ends[column, row] = reach(constraint)
            self._marks[column, row] = bits = mark(constraint)
            if bits != ALL_BITS:
                self._lists.add(name)

    def move(self, row: int, to: int) -> None:
        """Copy a row over another one."""
        for part in (self._begins, self._ends, self._marks):
            part[:, to] = part[:, row]

    def rows(self, count: int, asked: Mapping[str, Constraint], relation: _Relation) -> list[int]:
        """Which of the first `count` rows may relate to it, by all of these attributes."""
        chosen: slice | Rows = slice(count)
        for name, constraint in asked.items():
            column, bits = self._columns[name], mark(constraint)
            begins, ends = self._begins[column][chosen], self._ends[column][chosen]
            fits = relation.reaches(begins, ends, *reach(constraint))
            if bits != ALL_BITS or name in self._lists:
                fits &= relation.marks(self._marks[column][chosen], np.uint64(bits))
            chosen = fits.nonzero()[0] if isinstance(chosen, slice) else chosen[fits]
            if not len(chosen):
                break
        assert not isinstance(chosen, slice)
        rows: list[int] = chosen.tolist()
        return rows


def _twice(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate((part, np.empty_like(part)), axis=1)


class ConjunctionIndex:
    """Conjunctions, found by others that they cover, that cover them, or that they overlap."""

    __slots__ = ("_by_first", "_by_name", "_forms")

    def __init__(self) -> None:
        self._forms: dict[tuple[tuple[str, ...], tuple[str, ...]], _Form] = {}
        self._by_first: dict[str, dict[_Form, None]] = {}
        """Forms by the first attribute they name; those that name none are under ""."""
        self._by_name: dict[str, dict[_Form, None]] = {"": {}}
        """Forms by each attribute they name; all of them are under "", too."""

    def add(self, conjunction: Conjunction) -> None:
        """Add one that is not there."""
        key = _form_of(conjunction)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = _Form(*key)
            self._by_first.setdefault(key[0][0] if key[0] else "", {})[form] = None
            for name in ("", *key[0]):
                self._by_name.setdefault(name, {})[form] = None
        form.add(conjunction)

    def remove(self, conjunction: Conjunction) -> None:
        key = _form_of(conjunction)
        form = self._forms[key]
        form.remove(conjunction)
        if not len(form):
            del self._forms[key]
            first = key[0][0] if key[0] else ""
            del self._by_first[first][form]
            if not self._by_first[first]:
                del self._by_first[first]
            for name in ("", *key[0]):
                del self._by_name[name][form]
                if name and not self._by_name[name]:
                    del self._by_name[name]

    def covering(self, conjunction: Conjunction) -> Iterator[Conjunction]:
        """Those that cover it, itself among them if it is there."""
        asked = conjunction.constraints
        by_first = self._by_first
        for first in ("", *asked):
            if first not in by_first:
                continue
            for form in by_first[first]:
                if all(name in asked for name in form.names):
                    for candidate in form.covering(asked):
                        if candidate.covers(conjunction):
                            yield candidate

    def covered(self, conjunction: Conjunction) -> list[Conjunction]:
        """Those that it covers, itself among them if it is there."""
        asked = conjunction.constraints
        names, singles = _form_of(conjunction)
        fewest = self._by_name[""]
        for name in names:
            some = self._by_name.get(name)
            if some is None:
                return []
            if len(some) < len(fewest):
                fewest = some
        return [
            candidate
            for form in fewest
            if all(name in form.names for name in names)
            and all(name in form.singles for name in singles)
            for candidate in form.covered(asked, singles)
            if conjunction.covers(candidate)
        ]

    def overlapping(self, conjunction: Conjunction) -> Iterator[Conjunction]:
        """Those that overlap it, itself among them if it is there."""
        _, singles = _form_of(conjunction)
        for form in self._forms.values():
            for candidate in form.overlapping(conjunction.constraints, singles):
                if candidate.overlaps(conjunction):
                    yield candidate


@lru_cache(maxsize=1 << 15)
def _form_of(conjunction: Conjunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    constraints = conjunction.constraints
    singles = tuple([name for name, c in constraints.items() if is_single(c)])
    return tuple(constraints), singles
