"""Registrations: bulk subscriptions, which are events themselves.

Somebody registers a filter under a name by publishing it, and ends it in the same way. The last
word under a name counts, wherever it was published::

    {"tidings.bulk": "desk-7", "filter": "symbol = 'DIS'"}      from now on, or instead
    {"tidings.bulk": "desk-7", "cancelled": true}               no longer

What matches is published anew for all who want it, as the event with three attributes more::

    {…, "tidings.for": {"desk-7", "desk-9"}, "tidings.id": "paris:17", "tidings.time": …}

Whose a name is, and who is told what of such a copy, brokers see to: see `delivery.copies`. Where
they ask who somebody is, the name is `principal/desk-7`.

Pure: needs neither Spark nor a lake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidings.delivery.copies import BULK, FOR
from tidings.events import Filter, Limits, Notification, TidingsError
from tidings.events.phrases import literal
from tidings.protocol.records import pack_notification, pack_unlooked

if TYPE_CHECKING:
    from tidings.lakes.layout import Happened

NAME: Final = BULK
FILTER: Final = "filter"
CANCELLED: Final = "cancelled"
ID: Final = "tidings.id"
TIME: Final = "tidings.time"
ALL: Final = f"EXISTS {NAME}"
"""The filter that all registrations pass, and nothing else."""
LONGEST: Final = 200
"""A name has no more characters than this."""
MOST: Final = 1_000
"""A delivery is for no more names than this; for more there are several."""
_KEPT: Final = 100
"""Refused registrations that are kept with the reason: the last ones."""

_SOME: Final = Filter.none()
"""Stands for a filter that is not kept."""
_SCALARS: Final = frozenset({str, int, float, bool, bytes, datetime})

Stamp: TypeAlias = tuple[int, str, int]
"""Which of two words under a name is the later one: microseconds, stream and tick."""


class Change(NamedTuple):
    """How what is in force differs from what was before."""

    removed: frozenset[str]
    """Names that are no longer in force, or have another filter now."""
    added: Mapping[str, Filter]
    """Names that are newly in force, or with another filter."""


class Entry(NamedTuple):
    """The last word under a name; no filter if it is cancelled."""

    stamp: Stamp
    filter: Filter | None


class Registrations:
    """The last word under each name, whichever order they come in.

    >>> from datetime import UTC
    >>> from tidings.lakes.layout import Archived
    >>> said = registration("desk-7", "price > 5")
    >>> known = Registrations()
    >>> change = known.hear([Archived("paris", 1, datetime(2026, 11, 16, tzinfo=UTC), said)])
    >>> {name: str(filter) for name, filter in change.added.items()}
    {'desk-7': 'price > 5'}
    """

    def __init__(self, *, keep: bool = True) -> None:
        """Unless filters are to be kept, there is only told how they change."""
        self._keep = keep
        self.entries: dict[str, Entry] = {}
        """All names that were ever heard of, and the last word under each."""
        self.count = 0
        """How many are in force."""
        self.refused: dict[str, str] = {}
        """The ids of registrations that were none, and why; the last of them."""
        self.refusals = 0
        """How many there were."""

    def hear(self, events: Iterable[Happened]) -> Change:
        """Take registrations in; one that is none changes nothing, and is told in `refused`."""
        before: dict[str, Filter | None] = {}
        after: dict[str, Filter | None] = {}
        for event in events:
            try:
                name, filter_ = read(event.notification)
            except TidingsError as problem:
                self._refuse(f"{event.stream}:{event.tick}", str(problem))
                continue
            stamp = (round(event.time.timestamp() * 1e6), event.stream, event.tick)
            known = self.entries.get(name)
            if known is None or known.stamp < stamp:
                before.setdefault(name, None if known is None else known.filter)
                after[name] = filter_
                self.entries[name] = self._entry(stamp, filter_)
        changed = {
            name: new
            for name, new in after.items()
            if before[name] != new or not (self._keep or new is None)
        }
        removed = frozenset(name for name in changed if before[name] is not None)
        added = {name: new for name, new in changed.items() if new is not None}
        self.count += len(added) - len(removed)
        return Change(removed, added)

    def _entry(self, stamp: Stamp, filter: Filter | None) -> Entry:
        return Entry(stamp, filter if self._keep or filter is None else _SOME)

    def _refuse(self, id: str, reason: str) -> None:
        self.refusals += 1
        self.refused[id] = reason
        while len(self.refused) > _KEPT:
            del self.refused[next(iter(self.refused))]

    def restore(self, entries: Mapping[str, Entry]) -> dict[str, Filter]:
        """Begin with what was known before; returns what is in force."""
        found = {name: e.filter for name, e in entries.items() if e.filter is not None}
        self.entries = {name: self._entry(*entry) for name, entry in entries.items()}
        self.count = len(found)
        return found


def read(said: Notification) -> tuple[str, Filter | None]:
    """The name, and the filter unless it is cancelled; `TidingsError` if it is no registration."""
    values = said.attributes
    name = check_name(values.get(NAME))
    if values.get(CANCELLED) is True:
        return name, None
    text = values.get(FILTER)
    if not isinstance(text, str):
        raise TidingsError(f"{name!r}: the attribute {FILTER!r} is the text of a filter")
    try:
        return name, _parsed(text)
    except TidingsError as problem:
        raise TidingsError(f"{name!r}: {problem}") from None


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Filter:
    return Filter.parse(text)


def check_name(name: object) -> str:
    """The name, if it can be one; else a `TidingsError`."""
    if isinstance(name, str) and 0 < len(name) <= LONGEST and name.isprintable():
        return name
    raise TidingsError(
        f"{str(name)[:40]!r} is no name of a bulk subscription: that is a text of 1 to {LONGEST} "
        "printable characters"
    )


def registration(name: str, filter: Filter | str) -> Notification:
    """What to publish so that a filter is in force under a name; `TidingsError` if it cannot be."""
    text = str(filter)
    if isinstance(filter, str):
        Filter.parse(text)
    elif len(text) > Limits().characters:
        raise TidingsError(f"{name!r}: the filter has {len(text):,} characters, which is too long")
    return Notification({NAME: check_name(name), FILTER: text})


def cancellation(name: str) -> Notification:
    """What to publish so that nothing is in force under a name."""
    return Notification({NAME: check_name(name), CANCELLED: True})


def registrations_of(name: str) -> Filter:
    """What all registrations of a name pass, and its cancellations, and nothing else.

    >>> print(registrations_of("desk-7"))
    tidings.bulk = 'desk-7'
    """
    return Filter.parse(f"{NAME} = {literal(check_name(name))}")


def is_our_own(said: Notification) -> bool:
    """Whether it is a registration or a delivery, to which there are no bulk subscriptions."""
    return FOR in said.attributes or NAME in said.attributes


def deliveries(
    said: Notification, names: Collection[str], *, id: str, time: datetime
) -> Iterator[Notification]:
    """What to publish so that all these names hear of an event; the same in whichever order.

    They are packed. That is most of the work of delivering, so it is done in one go if it can be.
    """
    record = said.attributes
    content, kind = said.content, said.bytes_type
    is_plain = content is None and _SCALARS.issuperset(map(type, record.values()))
    ordered = sorted(names)
    for at in range(0, len(ordered), MOST):
        some = ordered[at : at + MOST]
        record = {**said.attributes, FOR: some, ID: id, TIME: time}
        delivery = Notification.of_canonical(record, content, kind)
        if is_plain:
            delivery.packed = pack_unlooked(delivery.attributes)
        delivery.attributes[FOR] = frozenset(some)
        pack_notification(delivery)
        yield delivery


def original(delivery: Notification) -> Notification:
    """The event that was delivered."""
    own = (FOR, ID, TIME)
    record = {name: value for name, value in delivery.attributes.items() if name not in own}
    return Notification.of_canonical(record, delivery.content, delivery.bytes_type)
