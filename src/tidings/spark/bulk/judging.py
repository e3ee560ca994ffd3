"""Judging: which of the events that a task reads somebody wants, and who.

An offset names the table of subscriptions and how far it was when the offset was made. Tasks judge
by the table as of then, so that who wants an event is the same if a batch is run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from tidings.events import Notification, TidingsError
from tidings.protocol.requests import Cursor
from tidings.spark.bulk.registrations import is_our_own
from tidings.spark.streams.stretch import Stretch

if TYPE_CHECKING:
    from tidings.matching import Index

_SOME: Final = 500
"""Events judged at a time."""


@dataclass(frozen=True)
class Judged(InputPartition):
    """What one task reads, and how far the table of subscriptions is that it judges by."""

    stretch: Stretch
    cursor: Cursor


class Table:
    """The table of subscriptions, as offsets name it; in the driver."""

    def __init__(self, path: str) -> None:
        from tidings.spark.bulk.bulk import Position

        self._path = path
        self._position = Position(path)
        self._name = ""

    def now(self) -> dict[str, Any]:
        """Which table it is, and how far."""
        if not self._name:
            from tidings.lakes.lake import Lake

            self._position.cursor()  # is there one?
            self._name = Lake(self._path).name
        return {"table": self._name, "cursor": self._position.cursor()}

    def cursor_of(self, offset: dict[str, Any]) -> Cursor:
        """How far it was when an offset was made."""
        said = offset.get("subscriptions")
        if said is None or said["table"] != self.now()["table"]:
            raise TidingsError(
                f"the checkpoint belongs to other subscriptions than those in {self._path}: what "
                "they want can no longer be known. Use another checkpointLocation"
            )
        return {str(s): int(t) for s, t in said["cursor"].items()}


def index_of(table: str, cursor: Cursor) -> Index:
    """The index of what was in force, which this process keeps and moves from batch to batch."""
    from tidings.spark.bulk.bulk import bulk

    return bulk(table).move(cursor)


def wanted(said: Sequence[Notification], index: Index) -> Iterator[tuple[int, list[str]]]:
    """Of events that somebody wants, their places in the list, and who."""
    others = [place for place, each in enumerate(said) if not is_our_own(each)]
    for at in range(0, len(others), _SOME):
        some = others[at : at + _SOME]
        found = index.match_some([said[place] for place in some])
        yield from ((place, names) for place, names in zip(some, found, strict=True) if names)
