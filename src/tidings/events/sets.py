"""Sets: constraints on set-valued attributes.

A constraint says which elements must be in the set (`lower`), which may be (`upper`, a finite
list or all but one), and from which groups at least one must come (`hits`)::

    tags SUPERSET OF ('a', 'b')     lower = {a, b}
    tags SUBSET OF ('a', 'b')       upper = {a, b}
    tags DISJOINT FROM ('a')        upper = all but {a}
    tags OVERLAPS ('a', 'b')        hits  = {{a, b}}
    tags NOT SUBSET OF ('a')        hits  = {all but {a}}

Every set between `lower` and `upper` that touches all groups belongs. `matches`, `covers`,
`overlaps` and `intersect` are exact; `union` finds the unions that drop or join one condition.
The printed rule that merges `DISJOINT FROM M1` and `DISJOINT FROM M2` into their intersection is
wrong ({1, 2} satisfies neither of {1} and {2}, but the merger) and therefore not used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidings.events.encoding import as_list, from_plain, is_unspeakable, to_plain
from tidings.events.phrases import Phrase, all_of, listed, literal, name_text
from tidings.events.values import SET, Element, canonical, element, element_order, scalar
from tidings.events.work import spend


class Elements:
    """A finite set of elements, or all elements but a finite set."""

    __slots__ = ("_hash", "listed", "others")

    def __init__(self, listed: Iterable[Element], *, others: bool = False) -> None:
        self.listed = frozenset(listed)
        self.others = others
        self._hash = hash((self.listed, others))

    def inverse(self) -> Elements:
        return Elements(self.listed, others=not self.others)

    def __and__(self, other: Elements) -> Elements:
        if self.others and other.others:
            return Elements(self.listed | other.listed, others=True)
        if self.others:
            return Elements(other.listed - self.listed)
        if other.others:
            return Elements(self.listed - other.listed)
        return Elements(self.listed & other.listed)

    def __or__(self, other: Elements) -> Elements:
        return (self.inverse() & other.inverse()).inverse()

    def __le__(self, other: Elements) -> bool:
        if other.others:
            return (
                other.listed <= self.listed if self.others else self.listed.isdisjoint(other.listed)
            )
        return not self.others and self.listed <= other.listed

    def __bool__(self) -> bool:
        return self.others or bool(self.listed)

    def __contains__(self, item: object) -> bool:
        return (item in self.listed) != self.others

    def touches(self, items: frozenset[Element]) -> bool:
        """Whether some of `items` are among these."""
        return not items <= self.listed if self.others else not items.isdisjoint(self.listed)

    @property
    def only(self) -> frozenset[Element]:
        """The one element, as a set, if there is just one; else the empty set."""
        return self.listed if not self.others and len(self.listed) == 1 else frozenset()

    @property
    def ordered(self) -> list[Element]:
        return sorted(self.listed, key=element_order)

    @property
    def sort_key(self) -> tuple[bool, list[tuple[str, Any]]]:
        return (self.others, [element_order(e) for e in self.ordered])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Elements)
            and self.others == other.others
            and self.listed == other.listed
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored_elements, (self.listed, self.others))


def _restored_elements(items: frozenset[Element], others: bool) -> Elements:
    return Elements(items, others=others)


_ALL: Final = Elements((), others=True)


class Sets:
    """The finite sets X with lower ⊆ X ⊆ upper that touch each of `hits`.

    >>> either = Sets.overlapping(["media", "us"])
    >>> either.covers(Sets.superset(["us", "tv"])), either.covers(Sets.subset(["us"]))
    (True, False)
    """

    __slots__ = ("_hash", "hits", "is_empty", "lower", "upper")

    domain: Final = SET

    def __init__(
        self,
        lower: Iterable[Element] = (),
        upper: Elements = _ALL,
        hits: Iterable[Elements] = (),
    ) -> None:
        must = set(lower)
        groups = {h & upper for h in hits}
        must.update(*(g.only for g in groups))
        self.lower = frozenset(must)
        groups = {g for g in groups if not g.touches(self.lower)}
        self.is_empty = not all(e in upper for e in self.lower) or not all(groups)
        spend(len(groups) * sum(1 + len(g.listed) for g in groups) // 4)
        # A group that holds another group asks for nothing more than that one does.
        self.hits = frozenset(g for g in groups if not any(o != g and o <= g for o in groups))
        self.upper = upper
        if self.is_empty:
            self.lower, self.upper, self.hits = frozenset(), Elements(()), frozenset({Elements(())})
        self._hash = hash((self.lower, self.upper, self.hits))

    @classmethod
    def superset(cls, items: Iterable[object]) -> Sets:
        """`SUPERSET OF items`."""
        return cls(_elements(items))

    @classmethod
    def subset(cls, items: Iterable[object]) -> Sets:
        """`SUBSET OF items`."""
        return cls(upper=Elements(_elements(items)))

    @classmethod
    def disjoint(cls, items: Iterable[object]) -> Sets:
        """`DISJOINT FROM items`."""
        return cls(upper=Elements(_elements(items), others=True))

    @classmethod
    def overlapping(cls, items: Iterable[object]) -> Sets:
        """`OVERLAPS items`."""
        return cls(hits=[Elements(_elements(items))])

    @property
    def is_full(self) -> bool:
        return not self.lower and self.upper == _ALL and not self.hits

    def matches(self, value: frozenset[Element]) -> bool:
        upper = self.upper
        return (
            self.lower <= value
            and (value.isdisjoint(upper.listed) if upper.others else value <= upper.listed)
            and all(h.touches(value) for h in self.hits)
        )

    def covers(self, other: Sets) -> bool:
        if other.is_empty:
            return True
        return (
            self.lower <= other.lower
            and other.upper <= self.upper
            and all(h.touches(other.lower) or any(o <= h for o in other.hits) for h in self.hits)
        )

    def overlaps(self, other: Sets) -> bool:
        return not self.intersect(other).is_empty

    def intersect(self, other: Sets) -> Sets:
        return Sets(self.lower | other.lower, self.upper & other.upper, self.hits | other.hits)

    def union(self, other: Sets) -> Sets | None:
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        return self._joined(other) or self._released(other) or other._released(self)

    def _groups(self) -> frozenset[Elements]:
        """`lower` and `hits` alike: from each of these groups one element must come."""
        return self.hits | {Elements((e,)) for e in self.lower}

    def _joined(self, other: Sets) -> Sets | None:
        """All equal but one group each: OVERLAPS M1 or OVERLAPS M2 is OVERLAPS (M1 and M2)."""
        mine, theirs = self._groups() - other._groups(), other._groups() - self._groups()
        if self.upper != other.upper or len(mine) != 1 or len(theirs) != 1:
            return None
        shared = self._groups() & other._groups()
        return Sets(upper=self.upper, hits=[*shared, next(iter(mine)) | next(iter(theirs))])

    def _released(self, other: Sets) -> Sets | None:
        """`X ⊆ U` here, `X ⊄ U` there, all else equal: together, U does not matter."""
        outside = other.upper & self.upper.inverse()
        if not self.upper <= other.upper or outside not in other._groups():
            return None
        joint = Sets(upper=other.upper, hits=other._groups() - {outside})
        return joint if joint.intersect(Sets(upper=self.upper)) == self else None

    def complement(self) -> tuple[Sets, ...]:
        rest = [
            Sets(upper=Elements((e,), others=True)) for e in sorted(self.lower, key=element_order)
        ]
        rest += [Sets(upper=h.inverse()) for h in self._ordered_hits()]
        if self.upper != _ALL:
            rest.append(Sets(hits=[self.upper.inverse()]))
        return tuple(r for r in rest if not r.is_empty)

    def _ordered_hits(self) -> list[Elements]:
        return sorted(self.hits, key=lambda h: h.sort_key)

    def phrase(self, name: str) -> Phrase:
        spoken = name_text(name)
        parts = []
        if self.lower:
            parts.append(_said("CONTAINS", "SUPERSET OF", sorted(self.lower, key=element_order)))
        if not self.upper.others:
            parts.append(f"SUBSET OF {listed(self.upper.ordered)}")
        elif self.upper.listed:
            parts.append(_said("NOT CONTAINS", "DISJOINT FROM", self.upper.ordered))
        for hit in self._ordered_hits():
            words = "NOT SUBSET OF" if hit.others else "OVERLAPS"
            parts.append(f"{words} {listed(hit.ordered)}")
        return all_of(Phrase(f"{spoken} {part}") for part in parts or ["IS SET"])

    def example(self) -> frozenset[Element]:
        chosen = set(self.lower)
        for hit in self._ordered_hits():
            if not hit.touches(frozenset(chosen)):
                fresh = (f"element{i}" for i in range(len(hit.listed) + 1))
                chosen.add(next(e for e in fresh if e in hit) if hit.others else hit.ordered[0])
        return frozenset(chosen)

    def to_plain(self) -> dict[str, object]:
        plain: dict[str, object] = {}
        if self.lower:
            plain["superset"] = to_plain(self.lower)
        if not self.upper.others or self.upper.listed:
            plain["disjoint" if self.upper.others else "subset"] = to_plain(self.upper.listed)
        if self.hits:
            plain["hits"] = [
                {"beyond" if h.others else "overlaps": to_plain(h.listed)}
                for h in self._ordered_hits()
            ]
        return plain

    @classmethod
    def from_plain(cls, plain: Any) -> Sets:
        upper = _ALL
        if "subset" in plain:
            upper = Elements(_elements_from_plain(plain["subset"]))
        if "disjoint" in plain:
            upper &= Elements(_elements_from_plain(plain["disjoint"]), others=True)
        hits = [
            Elements(_elements_from_plain(items), others={"beyond": True, "overlaps": False}[word])
            for hit in plain.get("hits", ())
            for word, items in hit.items()
        ]
        return cls(_elements_from_plain(plain.get("superset", [])), upper, hits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sets):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.lower == other.lower
            and self.upper == other.upper
            and self.hits == other.hits
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<Sets {'nothing' if self.is_empty else self.phrase('X').text}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Sets, (self.lower, self.upper, self.hits))


def _elements(items: Any) -> list[Element]:
    found = [canonical(scalar(i), "an element") for i in items]
    if any(isinstance(i, frozenset | list) for i in found):
        raise ValueError("a set holds scalars only")
    if any(map(is_unspeakable, found)):
        raise ValueError("the language has no words for infinity, nor for thousands of digits")
    return [element(i) for i in found]


def _elements_from_plain(plain: Any) -> list[Element]:
    return _elements(from_plain(item) for item in as_list(plain))


def _said(single: str, several: str, items: list[Element]) -> str:
    return f"{single} {literal(items[0])}" if len(items) == 1 else f"{several} {listed(items)}"
