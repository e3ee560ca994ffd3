"""Refusals: which publications were refused of late, for those who may not have heard of it. Pure.

Whoever is told that a number is kept takes all before it for kept, too, unless it has heard that
one was refused. So a refusal is stored in the very commit that stores a later number::

    refused: 2                            nothing is stored
    refused: 2, then kept: 3              publisher:SESSION = 3, refused:SESSION:2 = why

After that the number will never be kept. Before, it is forgotten if the session is attached again:
a client that has not heard of the refusal sends it again, and it may be kept then; one that has
says that it is left out. So nothing is told as refused that is kept, nor as kept that was refused,
whoever is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidings.protocol import Refused, Store

EACH: Final = 8_192
"""So many are remembered of a session: a client does not have more under way without an answer.
(By its usual limits, which are four frames of 2,048 notifications.)"""
IN_ALL: Final = 1_000_000
"""So many are remembered of all sessions; the one that was refused nothing for the longest time is
the first to be forgotten."""
_KEY: Final = "refused:"


class Refusals:
    """What was refused, by session and number. What a method returns is to be stored.

    >>> refusals = Refusals({})
    >>> refusals.add("desk-7", 2, "too wide")
    []
    >>> refusals.kept("desk-7", 3)
    [Store(key='refused:desk-7:2', value='too wide')]
    >>> Refusals({"refused:desk-7:2": "too wide"}).of("desk-7")
    [Refused(id='2', reason='too wide', cursor=None, stream='', position=0, is_passing=False)]
    """

    def __init__(self, stored: Mapping[str, Any]) -> None:
        """`stored` is all that the store holds."""
        self._sessions: dict[str, _Session] = {}
        """The one that was refused something last comes last."""
        self._count = 0
        found: dict[str, dict[int, str]] = {}
        for key, reason in stored.items():
            if key.startswith(_KEY):
                session, _, number = key.removeprefix(_KEY).rpartition(":")
                found.setdefault(session, {})[int(number)] = reason
        # When something was refused is not stored, but when something was kept last is.
        for session in sorted(found, key=lambda s: stored.get(f"publisher:{s}", (0, 0.0))[1]):
            self._sessions[session] = _Session(dict(sorted(found[session].items())))
            self._count += len(found[session])

    def add(self, session: str, number: int, reason: str) -> list[Store]:
        """A publication is refused."""
        known = self._sessions.pop(session, None) or _Session({})
        self._sessions[session] = known
        if number not in known.reasons:
            known.reasons[number] = reason
            known.unsaved.add(number)
            self._count += 1
        changes: list[Store] = []
        if len(known.reasons) > EACH:
            changes += self._drop(session, [next(iter(known.reasons))])
        while self._count > IN_ALL:
            changes += self.forget(next(iter(self._sessions)))
        return changes

    def kept(self, session: str, number: int) -> list[Store]:
        """A session's publications are kept up to a number: what is to be stored with that."""
        known = self._sessions.get(session)
        if known is None or not known.unsaved:
            return []
        due = sorted(each for each in known.unsaved if each <= number)
        known.unsaved.difference_update(due)
        return [Store(_key(session, each), known.reasons[each]) for each in due]

    def forget(self, session: str, *, above: int = 0) -> list[Store]:
        """Forget what a session was refused, all of it or what is above a number."""
        known = self._sessions.get(session)
        if known is None:
            return []
        return self._drop(session, [number for number in known.reasons if number > above])

    def of(self, session: str) -> list[Refused]:
        """What a session was refused."""
        known = self._sessions.get(session)
        if known is None:
            return []
        return [Refused(str(number), reason) for number, reason in known.reasons.items()]

    def _drop(self, session: str, numbers: Iterable[int]) -> list[Store]:
        known = self._sessions[session]
        changes = []
        for number in numbers:
            del known.reasons[number]
            self._count -= 1
            if number in known.unsaved:
                known.unsaved.remove(number)
            else:
                changes.append(Store(_key(session, number), None))
        if not known.reasons:
            del self._sessions[session]
        return changes


class _Session:
    __slots__ = ("reasons", "unsaved")

    def __init__(self, reasons: dict[int, str]) -> None:
        self.reasons = reasons
        """By number, in the order in which they were refused."""
        self.unsaved: set[int] = set()
        """Those that are not stored, since nothing behind them is kept yet."""


def _key(session: str, number: int) -> str:
    return f"{_KEY}{session}:{number}"
