"""The ledger: the numbers that a Delta table keeps for those who write to it.

Delta keeps a number for each application, changed together with the rows of a commit or not at all,
and refuses a commit if somebody else has changed one of its numbers meanwhile. A lake keeps four
sorts of them, told apart by the beginning of their names::

    writer/NAME         the last version that was appended under this name
    stream/NAME         the tick up to which the lake holds a stream
    complete/NAME       the time below which that is all of the stream, in microseconds since 1970
    gap/NAME/TICK       what follows this tick of a stream is missing, up to that one
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq

from tidings.delivery.promises import FOREVER
from tidings.lakes.errors import LakeError

WRITER: Final = "writer/"
STREAM: Final = "stream/"
COMPLETE: Final = "complete/"
GAP: Final = "gap/"


class Outdated(LakeError):  # noqa: N818
    """The log no longer says what the numbers of a version were; a later one is there."""


class Ledger:
    """Reads the numbers from the log of a table; `deltalake` only tells one whose name is known."""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._version = -1
        self._numbers: dict[str, int] = {}

    def numbers(self, version: int) -> dict[str, int]:
        """All numbers as of a version of the table, which must not be older than the last asked.

        `Outdated` if others have cleaned up what is before a later version.
        """
        if version > self._version:
            numbers, at = dict(self._numbers), self._version
            if at < 0 and 0 <= self._checkpointed() <= version:  # else all commits would be read
                numbers, at = self._checkpoint(behind=at)
            while at < version:
                try:
                    numbers.update(_numbers_of_commit(self._log / f"{at + 1:020}.json"))
                    at += 1
                except FileNotFoundError:  # it was cleaned up, so a checkpoint has what it said
                    numbers, at = self._checkpoint(behind=at)
            if at > version:
                raise Outdated(f"{self._log}: version {version} is before what it tells of")
            self._version, self._numbers = at, numbers
        return self._numbers

    def _checkpointed(self) -> int:
        """The version of the last checkpoint; -1 if there is none."""
        try:
            last = msgspec.json.decode((self._log / "_last_checkpoint").read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):  # only a hint, as Delta has it
            return -1
        return int(last["version"])

    def _checkpoint(self, *, behind: int) -> tuple[dict[str, int], int]:
        version = self._checkpointed()
        if version <= behind:
            raise LakeError(f"{self._log} lacks the commit {behind + 1}")
        numbers: dict[str, int] = {}
        for part in sorted(self._log.glob(f"{version:020}.checkpoint*.parquet")):
            for row in pq.read_table(part, columns=["txn"])["txn"].drop_null().to_pylist():
                if row["appId"] is not None:
                    numbers[row["appId"]] = row["version"]
        return numbers, version


def time_number(seconds: float) -> int:
    """A time as a number; what is complete below it is complete below an earlier one, too.

    >>> time_number(1.7e9), number_time(time_number(1.7e9)), number_time(time_number(FOREVER))
    (1700000000000000, 1700000000.0, 1e+300)
    """
    if seconds * 1e6 >= _LAST:
        return _LAST
    number = int(seconds * 1e6)
    while number / 1e6 > seconds:  # it was rounded up
        number -= 1
    return number


def number_time(number: int) -> float:
    """The time that a number stands for."""
    return FOREVER if number >= _LAST else number / 1e6


_LAST: Final = 2**63 - 1
"""The largest number that there is; as a time, it is for ever."""


def _numbers_of_commit(commit: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in commit.read_bytes().splitlines():
        if b'"txn"' in line:
            action: dict[str, Any] = msgspec.json.decode(line)
            if "txn" in action:
                found[action["txn"]["appId"]] = action["txn"]["version"]
    return found
