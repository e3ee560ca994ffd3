"""A stretch: the ticks of one stream behind a start and up to an end."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.protocol.requests import Cursor

try:
    from pyspark.sql.datasource import InputPartition
except ImportError:  # to read without Spark takes none

    class InputPartition:  # type: ignore[no-redef]
        """What Spark hands to a task."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What one task reads: the ticks of `stream` behind `start`, up to and with `end`."""

    stream: str
    start: int
    end: int
    others: Cursor
    """Where the other streams are: to subscribe to one stream names a place in all."""

    def __str__(self) -> str:
        return f"ticks {self.start + 1} to {self.end} of stream {self.stream}"


def split(start: Cursor, end: Cursor, others: Cursor, *, most: int) -> list[Stretch]:
    """All between two cursors, in stretches of at most `most` ticks.

    >>> for stretch in split({"paris": 2}, {"paris": 9, "rome": 0}, {}, most=5):
    ...     print(stretch)
    ticks 3 to 7 of stream paris
    ticks 8 to 9 of stream paris
    """
    return [
        Stretch(stream, begin, min(begin + most, upto), others)
        for stream, upto in sorted(end.items())
        for begin in range(start.get(stream, 0), upto, most)
    ]
