"""Naming: which column of a lake has an attribute's values of a kind, and what new ones are called.

Several who write at the same time each find names by themselves, from the columns that they know
of. `adopt` says whether what one of them has found is also right beside the columns of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from tidings.lakes.layout import KINDS, RESERVED, Columns, columns_of

_NAME: Final = re.compile(r"(?!_)[\w.:@/#+-]{1,128}")
MOST: Final = 1_000
"""A lake has no more columns than this, whatever is published; the others are in the rest."""


class Naming:
    """The columns for attributes, those of a schema and new ones.

    >>> from tidings.lakes.layout import FIXED
    >>> naming = Naming(pa.schema([*FIXED, ("price", pa.float64())]))
    >>> naming.column("price", "double"), naming.column("price", "string")
    ('price', 'price$string')
    >>> naming.column("Price", "string")  # differs in case only, which not everybody can tell
    >>> naming.adopt({"size": {"integer": "size"}}), naming.adopt({"size": {"double": "size"}})
    (True, False)
    >>> naming.adopt({"at": {"time": "at"}}, order=["at", "size"])  # here, it is the other way
    False
    >>> [field.name for field in naming.new]
    ['price$string', 'size']
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.columns: Columns = columns_of(schema)
        self.new: list[pa.Field] = []
        """The columns that the schema has not, in the order in which they came."""
        self._folded = {_folded(name): name for name in self.columns}
        self._count = len(schema)

    def column(self, name: str, kind: str) -> str | None:
        """The column for an attribute's values of a kind, perhaps a new one; None: the rest."""
        if kind not in KINDS:
            return None
        kinds = self.columns.get(name)
        if kinds is not None and kind in kinds:
            return kinds[kind]
        if self._count >= MOST or self._folded.get(_folded(name), name) != name:
            return None
        if _NAME.fullmatch(name) is None:
            return None
        is_free = name not in (kinds or {}).values() and _folded(name) not in RESERVED
        column = name if is_free and kind != "present" else f"{name}${kind}"
        self._add(name, kind, column)
        return column

    def adopt(self, columns: Columns, order: Sequence[str] = ()) -> bool:
        """Take the columns of some attributes as somebody else has named them.

        False, and nothing is taken, if they would have been named otherwise here: a column would
        be there twice, or another kind would be the first for numbers, which says where they go;
        or if the attributes were not in the same `order` here, which rows without a body rely on.
        """
        more: list[tuple[str, str, str]] = []
        for name, theirs in columns.items():
            ours = self.columns.get(name, {})
            if self._folded.get(_folded(name), name) != name:
                return False
            if ours and _first_number(theirs) not in (None, _first_number({**ours, **theirs})):
                return False
            for kind, column in theirs.items():
                if kind not in ours and column not in ours.values():
                    more.append((name, kind, column))
                elif ours.get(kind) != column:
                    return False
        if self._count + len(more) > MOST or not are_in_order(order, {**self.columns, **columns}):
            return False
        for each in more:
            self._add(*each)
        return True

    def _add(self, name: str, kind: str, column: str) -> None:
        self.columns.setdefault(name, {})[kind] = column
        self.new.append(pa.field(column, KINDS[kind]))
        self._folded[_folded(name)] = name
        self._count += 1


def are_in_order(names: Iterable[str], columns: Iterable[str]) -> bool:
    """Whether all names are among the attributes that have columns, and in the same order.

    >>> are_in_order("ac", "abc"), are_in_order("ca", "abc"), are_in_order("ad", "abc")
    (True, False, False)
    """
    ahead = iter(columns)
    return all(name in ahead for name in names)


def _first_number(kinds: dict[str, str]) -> str | None:
    return next((kind for kind in kinds if kind in ("integer", "double")), None)


def _folded(name: str) -> str:
    return name.lower().casefold()
