"""About: what the database says of itself, under a key each, behind a checksum like all else."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeVar

import msgspec

from tidings.broker.store.seals import Damage, seal, unseal

_T = TypeVar("_T")

BROKER: Final = "broker"
"""The key of the name of the broker that the store belongs to."""
CLOSED: Final = "closed"
"""The key of the ends of all closed streams, in order of epochs."""
HEAD: Final = "head"
"""The key of the last commit: see `mark`."""
IDENTITY: Final = "identity"
"""The key of the identity that the database remembers: see `identity`."""


class End(msgspec.Struct, frozen=True, array_like=True):
    """The end of a closed stream."""

    last: int = 0
    time: float = 0.0


def get(connection: sqlite3.Connection, key: str, kind: type[_T]) -> _T | None:
    """What was set under a key; None if nothing was, `Damage` if it is not that any more."""
    row = connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    try:
        return msgspec.msgpack.decode(unseal(row[0], key), type=kind)
    except (Damage, msgspec.DecodeError):
        raise Damage(f"what it says about its {key} is not what was written") from None


def put(connection: sqlite3.Connection, key: str, value: object) -> None:
    """Set a value under a key, within a transaction of the caller."""
    sealed = seal(msgspec.msgpack.encode(value), key)
    connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, sealed))
