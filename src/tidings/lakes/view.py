"""A view of a lake: what it held at one moment, however long one looks at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tidings.events import Filter
from tidings.lakes.delta import Joint, joints
from tidings.lakes.layout import Archived
from tidings.lakes.ledger import COMPLETE, GAP, STREAM, WRITER, number_time
from tidings.lakes.order import in_order
from tidings.lakes.pruning import Window
from tidings.lakes.search import Search, schema_of
from tidings.protocol.cursors import Beginning

if TYPE_CHECKING:
    from deltalake import DeltaTable


class Gap(NamedTuple):
    """Events that the lake lacks: those of `stream` behind `after`, up to and with `upto`."""

    stream: str
    after: int
    upto: int


class View:
    """One version of a lake's table; made by `Lake.snapshot`.

    All that it says belongs together: `events()` are those up to `held()`, and no others.
    """

    def __init__(self, path: Path, table: DeltaTable, numbers: Mapping[str, int]) -> None:
        self.path: Final = path
        self.table: Final = table
        self._numbers = numbers

    def schema(self) -> pa.Schema:
        return schema_of(self.table)

    def held(self) -> dict[str, int]:
        """Of each stream, the tick up to which the lake has all that it is to have."""
        return _named(STREAM, self._numbers)

    def complete(self) -> dict[str, float]:
        """Of some streams, the time below which that is all there will ever be: see `promises`."""
        found = _named(COMPLETE, self._numbers)
        return {stream: number_time(number) for stream, number in found.items()}

    def gaps(self) -> list[Gap]:
        """What is known to be missing, as it was not kept for long enough."""
        found = _named(GAP, self._numbers)
        places = ((*place.rpartition("/")[::2], upto) for place, upto in found.items())
        return sorted(Gap(stream, int(after), upto) for stream, after, upto in places)

    def written(self, writer: str) -> int:
        """The last version that was appended under this name; 0 if none was."""
        return self._numbers.get(WRITER + writer, 0)

    def sizes(self) -> dict[str, int]:
        """All its files, with their sizes."""
        files = pa.table(self.table.get_add_actions(flatten=True))
        return dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))

    def joints(self) -> list[Joint]:
        """Which of its files `Lake.compact` would join."""
        files = pa.table(self.table.get_add_actions(flatten=True))
        days, sizes = files["partition.day"].to_pylist(), files["size_bytes"].to_pylist()
        return joints(zip(days, sizes, strict=True))

    def scan(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that match; see `Lake.scan`."""
        search = self.search(filter, since, until)
        for path, _ in search.files:
            yield from search.rows(path)

    def events(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> Iterator[Archived]:
        """The events that match, in the order of time; see `Lake.events`."""
        yield from in_order(self.search(filter, since, until))

    def files(
        self,
        filter: Filter | str | None = None,
        *,
        since: Beginning = None,
        until: Beginning = None,
    ) -> list[str]:
        """The files that `scan` would read; the others cannot hold what matches."""
        return [path for path, _ in self.search(filter, since, until).files]

    def search(self, filter: Filter | str | None, since: Beginning, until: Beginning) -> Search:
        """What is to be read, for a filter and between two places."""
        wanted = Filter.all() if filter is None else Filter.of(filter)
        return Search(self.path, self.table, wanted, Window.of(since, until))


def _named(beginning: str, numbers: Mapping[str, int]) -> dict[str, int]:
    found = sorted(numbers.items())
    return {n.removeprefix(beginning): number for n, number in found if n.startswith(beginning)}
