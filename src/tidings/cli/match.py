"""`tidings match`: the lines of event files that a filter admits, or one of many filters."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tidings.cli.complaints import FAILED, complain, counted, remark, remark_if_none, shortened
from tidings.cli.progress import ProgressBars, progress
from tidings.events import Filter, FilterError, Notification, Schema, TidingsError
from tidings.events.encoding import encode_json

if TYPE_CHECKING:
    from tidings.matching import Index

MATCHED: Final = 0
NOTHING_MATCHED: Final = 1

_CHUNK: Final = 1 << 17
_COMPLAINTS: Final = 10
_LONGEST_COMPLAINT: Final = 300


def match_files(text: str, files: Sequence[str], *, schema: Schema | None) -> int:
    """Print the lines of all files that match a filter; returns the exit code."""
    wanted = Filter.parse(text, schema=schema)
    remark_if_none(wanted)
    run = Run(lambda event: b"" if wanted.matches(event) else None, schema, sys.stdout.buffer)
    read_all(files, run)
    run.report()
    return run.code


def match_many(filters: Path, files: Sequence[str], *, schema: Schema | None) -> int:
    """Print the lines that match any filter of a file, with the keys of those that they match."""
    from tidings.matching import Index

    with progress() as shown:
        index = Index()
        index.add_many(read_filters(filters, schema, shown))
        found = KeyFinder(index)
        run = Run(found.keys, schema, sys.stdout.buffer, shown.counter("events", size_of(files)))
        began = time.monotonic()
        read_all(files, run)
    seconds = time.monotonic() - began
    run.report(f"at least one of {counted(len(index), 'filter')}")
    rate = f"; {run.events / seconds:,.0f} events a second" if seconds > 1 else ""
    remark(f"{counted(found.matches, 'match', 'matches')} in all{rate}")
    return run.code


class KeyFinder:
    """What an index says of events, as text to put before them; counts matches."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.matches = 0

    def keys(self, event: Notification) -> bytes | None:
        """The keys as a JSON array and a tab, if there are any."""
        keys = self._index.match(event)
        self.matches += len(keys)
        keys.sort(key=lambda key: (isinstance(key, str), key))
        return encode_json(keys).encode() + b"\t" if keys else None


def read_filters(
    path: Path, schema: Schema | None, shown: ProgressBars
) -> list[tuple[str | int, Filter]]:
    """The filters of a file: a filter on each line, or a key, a tab and a filter.

    Without a key, the number of the line is the key. `TidingsError` tells of every wrong line.
    """
    found: dict[str, tuple[str | int, Filter]] = {}
    wrong: list[str] = []
    count = shown.counter("filters", path.stat().st_size if path.is_file() else None)
    # Editors of Windows begin a file with a mark, which would be part of the first key.
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            count(len(line))
            if not line.strip():
                continue
            line = line.rstrip("\n")
            key, tab, text = line.partition("\t")
            if not tab:
                key, text = str(number), line
            if not _is_utf8(key):
                wrong.append(f"{path}, line {number}: the key is not UTF-8")
                continue
            if key in found:
                wrong.append(f"{path}, line {number}: the key {key!r} stands on another line too")
                continue
            try:
                found[key] = (key if tab else number, Filter.parse(text, schema=schema))
            except FilterError as problem:
                column = problem.column + len(line) - len(text)
                wrong.append(f"{path}, line {number}, column {column}: {problem.reason}")
    if wrong:
        more = len(wrong) - _COMPLAINTS
        rest = [f"no filter is in {counted(more, 'more line')}"] if more > 0 else []
        raise TidingsError("\n".join(wrong[:_COMPLAINTS] + rest))
    return list(found.values())


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def size_of(files: Sequence[str]) -> int | None:
    """How many bytes there are to read, if that is known."""
    try:
        return sum(Path(name).stat().st_size for name in files if name != "-") or None
    except OSError:
        return None


def read_all(files: Sequence[str], run: Run) -> None:
    """Every file in turn; one that can't be read is reported and passed over."""
    for name in files:
        try:
            with _opened(name) as stream:
                run.read(stream, "" if name == "-" else f"{name}, ")
        except BrokenPipeError:
            raise
        except OSError as problem:
            run.failed = True
            said = "standard input" if name == "-" else name
            complain(f"{said}: {problem.strerror or problem}")


def _opened(name: str) -> IO[bytes]:
    if name != "-":
        return open(name, "rb")
    if sys.stdin is None:
        raise OSError("it is closed")
    if sys.stdin.isatty():
        remark("reading events from the terminal, one JSON object on each line")
    return sys.stdin.buffer


class Run:
    """One pass over the events: writes what matches, counts, and complains.

    `admit` says what to put before a line that is to be printed, or None.
    """

    def __init__(
        self,
        admit: Callable[[Notification], bytes | None],
        schema: Schema | None,
        out: IO[bytes],
        count: Callable[[int], None] | None = None,
    ) -> None:
        self.admit = admit
        self.read_event: Callable[[bytes], Notification] = Notification.from_json
        if schema is not None:
            self.read_event = lambda line: schema.read(Notification.from_json(line))
        self.out = out
        self.count = count
        self.events = self.matched = self.bad = 0
        self.failed = False

    def read(self, stream: IO[bytes], place: str) -> None:
        """Everything in one stream. What matched is out before more is waited for."""
        number = 0
        for batch in arrivals(stream):
            found = []
            for line in batch:
                number += 1
                before = self._admitted(line, place, number)
                if before is not None:
                    found.append(before + line)
            if found:
                self._write(b"\n".join(found) + b"\n")
                self.matched += len(found)
            if self.count is not None:
                self.count(sum(map(len, batch)) + len(batch))

    def _write(self, lines: bytes) -> None:
        try:
            self.out.write(lines)
            self.out.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:  # no fault of the file that is being read
            raise TidingsError(f"cannot write: {problem.strerror}") from None

    def _admitted(self, line: bytes, place: str, number: int) -> bytes | None:
        if not line or line.isspace():
            return None
        self.events += 1
        try:
            return self.admit(self.read_event(line))
        except TidingsError as problem:
            self.bad += 1
            if self.bad <= _COMPLAINTS:
                complain(f"{place}line {number}: {shortened(str(problem), _LONGEST_COMPLAINT)}")
            return None

    def report(self, what: str = "") -> None:
        """The count, on stderr."""
        if self.bad > _COMPLAINTS:
            complain(f"no event was in {counted(self.bad - _COMPLAINTS, 'more line')}")
        events = counted(self.events, "event")
        remark(f"{self.matched:,} of {events} matched{' ' if what else ''}{what}")

    @property
    def code(self) -> int:
        if self.failed or self.bad:
            return FAILED
        return MATCHED if self.matched else NOTHING_MATCHED


def arrivals(stream: IO[bytes]) -> Iterator[list[bytes]]:
    """The stream's lines, without their ends, in batches: each as soon as it is there.

    >>> import io
    >>> list(arrivals(io.BytesIO(b"1\\n2\\n3")))
    [[b'1', b'2'], [b'3']]
    """
    unfinished: list[bytes] = []
    while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined]  # buffered streams have it
        *lines, rest = chunk.split(b"\n")
        if lines:
            if unfinished:
                lines[0] = b"".join([*unfinished, lines[0]])
                unfinished.clear()
            yield lines
        if rest:
            unfinished.append(rest)
    if unfinished:
        yield [b"".join(unfinished)]
