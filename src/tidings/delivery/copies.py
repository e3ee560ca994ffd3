"""Copies: events that are delivered to bulk subscribers, and are nobody else's.

A copy is the event once more, with those for whom it is (`spark.bulk.registrations` says more)::

    {…, "tidings.for": {"desk-7", "lab/falling"}, "tidings.id": "paris:17", …}

A bulk subscription's name belongs to the principal that has registered it: the name is
`principal/name`, or only `name` at a broker that asks nobody who they are. A copy is told to who
listens under one of the names, and carries only that name; to all others it is silence.
"""

from __future__ import annotations

from typing import Final

from tidings.events import Filter, Notification
from tidings.events.encoding import encode_json
from tidings.events.phrases import literal
from tidings.protocol import requests

FOR: Final = requests.FOR
BULK: Final = "tidings.bulk"
"""The attribute of a registration that has its name."""
EVERYBODY: Final = "local"
"""The principal of all clients of a broker that asks nobody who they are."""
ORDINARY: Final = Filter.parse(f"NOT EXISTS {FOR}")
"""All events but copies."""


def addressee(principal: str, name: str) -> str:
    """What a principal's bulk subscription of a name is called in all the network.

    >>> addressee("desk", "falling"), addressee(EVERYBODY, "falling")
    ('desk/falling', 'falling')
    """
    return name if principal == EVERYBODY else f"{principal}/{name}"


def is_owned(principal: str, name: str) -> bool:
    """Whether a bulk subscription that is called so belongs to a principal.

    >>> is_owned("desk", "desk/falling"), is_owned("desk", "falling"), is_owned(EVERYBODY, "a/b")
    (True, False, False)
    """
    return "/" not in name if principal == EVERYBODY else name.startswith(f"{principal}/")


def copies_for(name: str) -> Filter:
    """All copies for a bulk subscription that is called so.

    >>> print(copies_for("desk/falling"))
    tidings.for CONTAINS 'desk/falling'
    """
    return Filter.parse(f"{FOR} CONTAINS {literal(name)}")


def is_of_copies_only(filter: Filter) -> bool:
    """Whether a filter can match nothing but copies, so that nobody would hear it.

    >>> is_of_copies_only(copies_for("desk")), is_of_copies_only(Filter.all())
    (True, False)
    """
    return mentions_copies(filter) and filter.intersect(ORDINARY) == Filter.none()


def mentions_copies(filter: Filter) -> bool:
    """Whether a filter looks at for whom a copy is."""
    return any(FOR in conjunction.constraints for conjunction in filter.conjunctions)


def as_told(copy: Notification, name: str) -> Notification | None:
    """A copy as it is told to who listens under a name; None if it is not for that name.

    >>> copy = Notification({"n": 1, FOR: {"desk", "lab"}})
    >>> as_told(copy, "desk"), as_told(copy, "")
    (Notification({'n': 1, 'tidings.for': frozenset({'desk'})}), None)
    """
    names = copy.attributes[FOR]
    if not name or not isinstance(names, frozenset) or name not in names:
        return None
    if len(names) == 1:
        return copy
    attributes = {**copy.attributes, FOR: frozenset([name])}
    content = copy.content
    if content is not None and copy.bytes_type is None and FOR in (said := copy.value):
        content = encode_json({**said, FOR: [name]}).encode()  # the body, too, says for whom it is
    return Notification.of_canonical(attributes, content, copy.bytes_type)
