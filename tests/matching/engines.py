"""The engines behind `Matcher`, and the index in every state it can be in.

What the index does depends on sizes that no small test reaches, so `tuned` lowers them: all of
these are questions of speed, and no answer may depend on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tidings.events import Filter, Notification
from tidings.matching import Index, Matcher, Scan, layout, plan, warm

Pairs = Iterable[tuple[Any, Filter]]

TUNINGS: dict[str, dict[str, float]] = {
    "as it is": {},
    "bits": {"RARE": -1.0, "RARE_WITH_REST": -1.0},
    "many ready bit sets": {"RARE": -1.0, "RARE_WITH_REST": -1.0, "_TOGGLES_PER_READY": 1},
    "postings": {"RARE": 2.0, "RARE_WITH_REST": 2.0},
    "presence": {"RARE": -1.0, "RARE_WITH_REST": -1.0, "PRESENCE_PER_SLOT": 1e-9},
    "postings and presence": {"RARE": 0.3, "RARE_WITH_REST": 2.0, "PRESENCE_PER_SLOT": 1e-9},
}


@contextmanager
def tuned(name: str) -> Iterator[None]:
    """Let the plans of segments made here find filters in this way wherever they can."""
    with ExitStack() as stack:
        for place, value in TUNINGS[name].items():
            module = layout if place.startswith("_") else plan
            stack.enter_context(patch.object(module, place, value))
        yield


def scan(pairs: Pairs) -> Scan:
    engine = Scan()
    engine.add_many(pairs)
    return engine


def fresh(pairs: Pairs) -> Index:
    """All filters as they came, none laid out."""
    index = Index()
    for key, filter_ in pairs:
        index.add(key, filter_)
    return index


def sorted_fresh(pairs: Pairs) -> Index:
    """None laid out, but sorted by the values they ask for."""
    index = fresh(pairs)
    index._state.fresh.index(index._state.entries)
    return index


def folded(pairs: Pairs) -> Index:
    """All in one segment."""
    warm.wait()
    index = fresh(pairs)
    index._fold()
    return index


def in_segments(pairs: Pairs) -> Index:
    """In several segments, and a few fresh ones."""
    warm.wait()
    index = Index()
    pairs = list(pairs)
    with patch("tidings.matching.index._RATIO", 0):
        third = max(1, len(pairs) // 4)
        for at in range(3):
            index.add_many(pairs[at * third : (at + 1) * third])
            index._fold()
        index.add_many(pairs[3 * third :])
    return index


def relearnt(pairs: Pairs) -> Index:
    """Laid out anew after some events."""
    index = folded(pairs)
    for n in range(40):
        index.match(Notification({"x": n % 3, "y": "a", "o.z": True}))
    with patch("tidings.matching.segment.Segment.is_worth_relearning", lambda *_: True):
        index._learn()
    return index


def survivors(pairs: Pairs) -> Index:
    """Between rows that have died, some of them replaced."""
    pairs = list(pairs)
    mixed: list[tuple[Any, Filter]] = []
    for n, (key, filter_) in enumerate(pairs):
        mixed += [((n, "gone"), Filter.all()), (key, Filter.all() if n % 2 else filter_)]
    index = folded(mixed)
    for n, (key, filter_) in enumerate(pairs):
        index.remove((n, "gone"))
        if n % 2:
            index.replace(key, filter_)
    return index


ENGINES: dict[str, Callable[[Pairs], Matcher]] = {
    "scan": scan,
    "fresh": fresh,
    "sorted fresh": sorted_fresh,
    "folded": folded,
    "in segments": in_segments,
    "relearnt": relearnt,
    "survivors": survivors,
}
