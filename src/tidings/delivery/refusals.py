"""Refusals: which publications were refused of late, for those who may not have heard of it.

A client that is told that a number is kept takes all before it for kept, too, unless it has heard
that one was refused. So a refusal is stored in the very commit that stores a later number::

    refused: 2                            nothing is stored
    refused: 2, then kept: 3              publisher:NAME = 3, refused:NAME:2 = why

After that the number will never be kept. Before, it is forgotten if the session is attached again:
a client that has not heard of the refusal sends it again, and it may be kept then; one that has
says that it is left out. So nothing is told as refused that is kept, nor as kept that was refused,
whatever crashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidings.delivery.ages import principal_of
from tidings.protocol.host import Store
from tidings.protocol.parts import Shelf
from tidings.protocol.requests import Refused

EACH: Final = 8_192
"""Refusals remembered of a name: a client does not have more under way without an answer.
(By its usual limits, which are four frames of 2,048 notifications.)"""
IN_ALL: Final = 16 * EACH
"""Refusals remembered of all names of a principal; the name that was refused nothing for the
longest time is the first to be forgotten."""
LEFT_OUT: Final = "it was refused before; the broker no longer knows why"
"""What is remembered of a number that a client leaves out."""
REFUSED: Final = Shelf[str]("refused")


class Refusals:
    """What was refused, by name and number. What a method returns is to be stored.

    >>> refusals = Refusals()
    >>> refusals.add("desk/7", 2, "too wide")
    []
    >>> refusals.kept("desk/7", 3)
    [Store(key='refused:desk/7:2', value='too wide')]
    >>> again = Refusals()
    >>> again.restore({"refused:desk/7:2": "too wide"}, last={})
    >>> again.of("desk/7")
    [Refused(id='2', reason='too wide', cursor=None, stream='', position=0, is_passing=False)]
    """

    def __init__(self) -> None:
        self._names: dict[str, dict[str, _Name]] = {}
        """By principal and name; the one that was refused something last comes last."""
        self._counts: dict[str, int] = {}
        """Of each principal."""

    def restore(self, stored: Mapping[str, Any], *, last: Mapping[str, int]) -> None:
        """Take up what was stored. When something was refused is not, but `last` says on which day
        something under each name was kept."""
        found: dict[str, dict[int, str]] = {}
        for key, reason in REFUSED.found(stored):
            name, _, number = key.rpartition(":")
            found.setdefault(name, {})[int(number)] = reason
        for name in sorted(found, key=lambda name: last.get(name, 0)):
            whose = principal_of(name)
            known = _Name(dict(sorted(found[name].items())))
            self._names.setdefault(whose, {})[name] = known
            self._counts[whose] = self._counts.get(whose, 0) + len(known.reasons)

    def add(self, name: str, number: int, reason: str) -> list[Store]:
        """A publication is refused."""
        whose = principal_of(name)
        names = self._names.setdefault(whose, {})
        known = names.pop(name, None) or _Name()
        names[name] = known
        if number not in known.reasons:
            known.reasons[number] = reason
            known.unsaved.add(number)
            self._counts[whose] = self._counts.get(whose, 0) + 1
        changes: list[Store] = []
        if len(known.reasons) > EACH:
            changes += self._drop(name, [next(iter(known.reasons))])
        while self._counts.get(whose, 0) > IN_ALL:
            changes += self.forget(next(iter(self._names[whose])))
        return changes

    def kept(self, name: str, number: int) -> list[Store]:
        """Publications are kept up to a number: what is to be stored with that."""
        if not self._names:
            return []
        known = self._known(name)
        if known is None or not known.unsaved:
            return []
        due = sorted(each for each in known.unsaved if each <= number)
        known.unsaved.difference_update(due)
        return [REFUSED.put(_key(name, each), known.reasons[each]) for each in due]

    def forget(self, name: str, *, above: int = 0) -> list[Store]:
        """Forget what was refused under a name, all of it or what is above a number."""
        known = self._known(name)
        if known is None:
            return []
        return self._drop(name, [number for number in known.reasons if number > above])

    def of(self, name: str) -> list[Refused]:
        """What was refused under a name."""
        known = self._known(name)
        if known is None:
            return []
        return [Refused(str(number), reason) for number, reason in known.reasons.items()]

    def stored(self) -> dict[str, str]:
        """All that is stored of it, if what is known is right."""
        return {
            REFUSED.key(_key(name, number)): reason
            for names in self._names.values()
            for name, known in names.items()
            for number, reason in known.reasons.items()
            if number not in known.unsaved
        }

    def _known(self, name: str) -> _Name | None:
        return self._names.get(principal_of(name), {}).get(name)

    def _drop(self, name: str, numbers: Iterable[int]) -> list[Store]:
        whose = principal_of(name)
        known = self._names[whose][name]
        changes = []
        for number in numbers:
            del known.reasons[number]
            self._counts[whose] -= 1
            if number in known.unsaved:
                known.unsaved.remove(number)
            else:
                changes.append(REFUSED.drop(_key(name, number)))
        if not known.reasons:
            del self._names[whose][name]
        if not self._names[whose]:
            del self._names[whose], self._counts[whose]
        return changes


@dataclass(slots=True, eq=False)
class _Name:
    reasons: dict[int, str] = field(default_factory=dict)
    """By number, in the order in which they were refused."""
    unsaved: set[int] = field(default_factory=set)
    """Those that are not stored, since nothing behind them is kept yet."""


def _key(name: str, number: int) -> str:
    return f"{name}:{number}"
