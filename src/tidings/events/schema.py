"""Schemas: what is known of attributes and event types beforehand."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import DOMAINS, Constraint
from tidings.events.errors import SchemaError
from tidings.events.intervals import AFTER, BEFORE, NUMBERS, Cut, Intervals
from tidings.events.notification import Notification
from tidings.events.strings import Types
from tidings.events.toml import unreadable
from tidings.events.values import NUMBER, TIME, cut_time, domain_of

INTEGER: Final = "integer"
_NAMED: Final = 3
"""Undeclared attributes that a sentence names."""
_LONGEST_NAME: Final = 100
"""Characters of a name that is compared with others: for longer ones, that takes too long."""


class Schema:
    """Declared domains of attributes, and the hierarchy of event types. Immutable.

    What is not declared stays free. An attribute declared `integer` is a number without a
    fraction, so `> 3` and `>= 4` are the same constraint on it.

    >>> from tidings.events import Filter
    >>> schema = Schema({"size": "integer"}, types={"stock.quote": ["stock"]})
    >>> Filter.parse("size > 3", schema=schema) == Filter.parse("size >= 4", schema=schema)
    True
    """

    __slots__ = ("attributes", "types")

    def __init__(
        self,
        attributes: Mapping[str, str] | None = None,
        *,
        types: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self.attributes = dict(attributes or {})
        for name, kind in self.attributes.items():
            if kind != INTEGER and kind not in DOMAINS:
                known = ", ".join([*DOMAINS, INTEGER])
                raise SchemaError(f"attribute {name!r} is declared {kind!r}; known are {known}")
        self.types = Types(types)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file with the tables `attributes` (name = domain) and `types`
        (name = list of the types it inherits from)."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise SchemaError(f"{path}{unreadable(problem, text)}") from None
        except (OSError, ValueError) as problem:
            raise SchemaError(f"{path}: {getattr(problem, 'strerror', '') or problem}") from None
        for table, entry in (("attributes", str), ("types", list)):
            entries = content.get(table, {})
            if not isinstance(entries, dict) or not all(
                isinstance(e, entry) for e in entries.values()
            ):
                raise SchemaError(f"{path}: [{table}] must map names to {entry.__name__} values")
        if not all(
            isinstance(above, str) for names in content.get("types", {}).values() for above in names
        ):
            raise SchemaError(f"{path}: [types] must list the names of types")
        unknown = content.keys() - {"attributes", "types"}
        if unknown:
            raise SchemaError(
                f"{path}: unknown table {min(unknown)!r}; known are attributes, types"
            )
        return cls(content.get("attributes"), types=content.get("types"))

    def domain(self, name: str) -> str | None:
        """The declared domain of an attribute, or None."""
        kind = self.attributes.get(name)
        return NUMBER if kind == INTEGER else kind

    def unknown(self, names: Iterable[str]) -> str | None:
        """A sentence about the attributes among these that are not declared; None if all are.

        >>> schema = Schema({"symbol": "string", "price": "number"})
        >>> schema.unknown(["price", "symbl"])
        "the schema has no attribute 'symbl' (did you mean 'symbol'?)"
        >>> schema.unknown(["price"])
        """
        missing = sorted(name for name in names if name not in self.attributes)
        if not missing:
            return None
        told = [self._named(name) for name in missing[:_NAMED]]
        more = len(missing) - len(told)
        listed = ", ".join(told) + (f", and {more} more" if more else "")
        return f"the schema has no attribute {listed}"

    def _named(self, name: str) -> str:
        """The name, with the declared one that may be meant."""
        if len(name) > _LONGEST_NAME:
            return repr(name[:_LONGEST_NAME] + "…")
        near = get_close_matches(name, self.attributes, n=1)
        return repr(name) + (f" (did you mean {near[0]!r}?)" if near else "")

    def check(self, notification: Notification) -> None:
        """Raise `SchemaError` if a value is not of its declared domain."""
        for name, kind in self.attributes.items():
            if name not in notification:
                continue
            value = notification.attributes[name]
            found = domain_of(value)
            if kind == INTEGER and found == NUMBER and value % 1:
                raise SchemaError(f"attribute {name!r} is declared integer, not {value!r}")
            if found != self.domain(name):
                raise SchemaError(f"attribute {name!r} is declared {kind}, not {found}")

    def read(self, event: Mapping[str, Any]) -> Notification:
        """A notification from decoded JSON, or from another notification: text becomes a time
        where one is declared; `SchemaError` if a value is not of its declared domain."""
        given = event if isinstance(event, Notification) else Notification(event)
        times: dict[str, object] = {}
        for name, kind in self.attributes.items():
            value = given.attributes.get(name)
            if kind == TIME and isinstance(value, str):
                try:
                    times[name] = cut_time(value)
                except ValueError as problem:
                    raise SchemaError(f"attribute {name!r}: not a time: {problem}") from None
        content = given.body if times else given.content  # it says a string, not a time
        attributes = given.attributes | times
        notification = Notification.of_canonical(attributes, content, given.bytes_type)
        self.check(notification)
        return notification

    def refined(self, conjunction: Conjunction) -> Conjunction:
        """The conjunction with every constraint refined."""
        if self.attributes.keys().isdisjoint(conjunction.constraints):
            return conjunction
        return Conjunction({n: self.refine(n, c) for n, c in conjunction.constraints.items()})

    def refine(self, name: str, constraint: Constraint) -> Constraint:
        """The one form of constraints that admit the same values of a declared attribute."""
        part = constraint.parts.get(NUMBER)
        if self.attributes.get(name) != INTEGER or not isinstance(part, Intervals):
            return constraint
        parts = {**constraint.parts, NUMBER: _whole(part)}
        return Constraint(parts, others=constraint.others, absent=constraint.absent)


def _whole(intervals: Intervals) -> Intervals:
    """Intervals of the same whole numbers, with closed ends and no gap between neighbours."""
    ends: list[list[int | float]] = []
    for low, high in intervals.spans():
        first = -math.inf if low is None else math.ceil(low[0])
        last = math.inf if high is None else math.floor(high[0])
        if low == (first, AFTER):
            first += 1
        if high == (last, BEFORE):
            last -= 1
        if ends and ends[-1][1] + 1 == first:
            ends[-1][1] = last
        elif first <= last:
            ends.append([first, last])
    cuts: list[Cut] = []
    for first, last in ends:
        cuts += [] if first == -math.inf else [(first, BEFORE)]
        cuts += [] if last == math.inf else [(last, AFTER)]
    return Intervals(NUMBERS, bool(ends) and ends[0][0] == -math.inf, tuple(cuts))
