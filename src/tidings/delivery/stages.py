"""Stages: where a reader stands in a stream, and what may lead from one stage to another.

    it has yet to read an earlier stream   HELD ──▶ one of these:
    all it wants is in the flow already             ─────────────────────▶ FOLLOWING
    it has a place, or a time, to begin at          ───────▶ FETCHING ────▶ FOLLOWING
    it begins now, and asks where that is           WAITING ──▶ PROBING ──▶ FOLLOWING

`STAGES` is the whole of it, by what happens and the stage in which a reader is then. What is not
listed cannot happen; a node in which it does is damaged. Small worlds that are explored
exhaustively come to every entry, and to nothing else: see `tests/delivery/world.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Stage(Enum):
    """Where a reader stands in a stream."""

    __hash__ = object.__hash__  # each is there once; an Enum's own hash is a call of Python

    AWAY = "away"
    """Nothing is under way: no way leads to the stream, or the client does not read."""
    HELD = "held"
    """It comes into the stream when it has read an earlier one of the same node to its end."""
    WAITING = "waiting"
    """It begins now; where that is will be asked with the next probe."""
    PROBING = "probing"
    """It begins now; where that is has been asked."""
    FETCHING = "fetching"
    """What lies behind its position, or is not older than a time, has been asked for."""
    FOLLOWING = "following"
    """The flow brings all that it wants."""


class Turn(Enum):
    """What happens to a reader in a stream."""

    __hash__ = object.__hash__

    ENTER = "it is brought in"
    """A way leads to the stream, and nothing is under way for the reader."""
    PROBE = "the stream is asked where it is"
    PART = "a part of what it fetches comes"
    REACH = "what it asked for has come, up to where the flow is"
    BREAK = "the flow is interrupted"
    FILL = "its client does not read"
    RENAME = "another stream has come under the name"


AWAY, HELD, WAITING, PROBING, FETCHING, FOLLOWING = Stage

STAGES: Final[Mapping[Turn, Mapping[Stage, tuple[Stage, ...]]]] = {
    Turn.ENTER: {
        AWAY: (HELD, WAITING, FETCHING, FOLLOWING, AWAY),
        HELD: (HELD, FETCHING, FOLLOWING, AWAY),
    },
    Turn.PROBE: {WAITING: (PROBING,)},
    Turn.PART: {FETCHING: (FETCHING, AWAY)},
    Turn.REACH: {PROBING: (FOLLOWING, AWAY), FETCHING: (FOLLOWING, AWAY)},
    Turn.BREAK: {
        AWAY: (AWAY,),
        HELD: (HELD,),
        WAITING: (WAITING, AWAY),
        PROBING: (WAITING, AWAY),
        FETCHING: (AWAY,),
        FOLLOWING: (FOLLOWING,),
    },
    Turn.FILL: {FOLLOWING: (AWAY,)},
    Turn.RENAME: {FOLLOWING: (AWAY,)},
}
"""By what happens and where the reader stands: where it may stand then. It becomes `AWAY` where its
client does not read, or no way leads to the stream any longer."""
