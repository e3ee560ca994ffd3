"""Tasks of a match: each writes a file of matches, and one of how many they are.

A task is done when its counts are there, which are renamed into place after its matches. What a
task that was killed leaves behind has another name, and is never read.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.lakes.files import DELTAS, RISING
from tidings.lakes.grouping import Grouping
from tidings.lakes.layout import FIXED, columns_of
from tidings.lakes.portions import Portion, read
from tidings.lakes.search import Question, Sieve
from tidings.matching.named import NamedIndex, ends
from tidings.spark.matching import filter_file
from tidings.spark.matching.asking import KINDS, Asking
from tidings.spark.matching.filter_parts import Concerned, StoredPart

_CODES: Final = pa.dictionary(pa.int32(), pa.string())
_EVENTS: Final = (
    pa.field("stream", _CODES, nullable=False),
    FIXED.field("tick").with_nullable(False),
    FIXED.field("time").with_nullable(False),
)
"""What is written of an event; in the file, what are codes here are strings."""
_NEVER: Final = np.iinfo(np.int64).max


class Task(NamedTuple):
    """Some files of the lake, and some of the filters."""

    number: int
    portion: Portion
    part: StoredPart
    is_first: bool
    """Whether this is the first that looks at these events: filters may be in parts."""


class Done(NamedTuple):
    """What came of a task."""

    events: int
    """Events looked at; 0 if another task had looked at them before."""
    matched: int
    """Events that match a filter of this part."""
    matches: int


class FilterCounts:
    """Per filter: how many events matched, and when the first and the last one happened."""

    def __init__(self, size: int) -> None:
        self._table = np.tile(np.array([0, _NEVER, -_NEVER]), (size, 1))
        self.counts, self.first, self.last = self._table.T

    def add(self, times: Any, rows: Any, numbers: Any) -> Any:
        """Pairs of an event's row and a filter's number; `times` are those of all rows.

        Returns how many matches each row has.
        """
        from tidings.spark.matching.counting import count  # only who matches needs numba

        counts = np.zeros(len(times), np.int32)
        count(self._table, times, rows, numbers, counts)
        return counts

    def merge(self, numbers: Any, counts: Any, first: Any, last: Any) -> None:
        """Add what another task has counted; each number is there once."""
        self.counts[numbers] += counts
        self.first[numbers] = np.minimum(self.first[numbers], first)
        self.last[numbers] = np.maximum(self.last[numbers], last)

    def table(self) -> pa.Table:
        """Those that matched at all."""
        some = np.flatnonzero(self.counts)
        return pa.table(
            {
                "number": some,
                "count": self.counts[some],
                "first": self.first[some],
                "last": self.last[some],
            }
        )

    def columns(self) -> dict[str, pa.Array]:
        """All of them; of those that never matched, without times."""
        never = self.counts == 0
        kind = FIXED.field("time").type
        return {
            "count": pa.array(self.counts),
            "first": pa.array(self.first, pa.int64(), mask=never).cast(kind),
            "last": pa.array(self.last, pa.int64(), mask=never).cast(kind),
        }


def files_of(folder: Path, number: int) -> tuple[Path, Path]:
    """Where a task's matches are, and its counts."""
    return folder / "matches" / f"part-{number:05}.parquet", folder / "counts" / f"{number:05}"


class Job(NamedTuple):
    """What all tasks of a match have in common."""

    question: Question
    held: pa.Schema
    """The lake's columns: a task need not open it to know them."""
    folder: Path
    valued: int
    attributes: list[str]
    """How filters are in parts (see `Concerned`)."""
    alone: bool
    """There are several parts: a process holds the index of one at a time."""
    is_listed: bool
    """Whether matches are written, or only counted."""
    kind: str
    """What keys are, in Spark's words."""

    @property
    def columns(self) -> set[str]:
        """What is wanted of each event, besides what filters look at."""
        is_cut = self.question.window.condition() is not None
        return {f.name for f in _EVENTS} if self.is_listed or is_cut else {"time"}


def perform(job: Job, task: Task) -> Done:
    """Match, and write what came of it; done again, it writes the same."""
    index = filter_file.index_of(Path(task.part.path), alone=job.alone)
    tally, events, matched = FilterCounts(len(index)), 0, 0
    to_matches, to_counts = files_of(job.folder, task.number)
    with MatchesFile(to_matches, job.kind) if job.is_listed else nullcontext() as writing:
        for seen, pieces in _asked(job, task, index):
            events += seen
            for rows, at, numbers, names in pieces:
                counts = tally.add(np.asarray(rows["time"].cast(pa.int64())), at, numbers)
                matched += int(np.count_nonzero(counts))
                if writing is not None and len(at):
                    writing.add(rows, counts, numbers, names)
    done = Done(events if task.is_first else 0, matched, int(tally.counts.sum()))
    about = {name: str(number) for name, number in done._asdict().items()}
    _put(tally.table().replace_schema_metadata(about), to_counts)
    return done


def _asked(job: Job, task: Task, index: NamedIndex) -> Iterator[tuple[int, Iterator[Any]]]:
    """Events, by batches: how many there are, and of those that this part of the filters concerns
    what `Asking.pieces` says."""
    columns = columns_of(job.held)
    sieve = Sieve(job.question.filter, columns)
    grouping = Grouping(task.part.names, columns)
    concerned = Concerned(job.attributes, columns, job.valued)
    asking = Asking(index, grouping, job.kind)
    used = {*job.columns, *sieve.used, *grouping.used, *concerned.used}
    schema = pa.schema([field for field in job.held if field.name in used])
    texts = [f.name for f in schema if f.type == pa.string()]
    condition = job.question.window.condition()
    for piece in task.portion:
        for batch in read(job.question.lake, piece, schema, condition=condition, encoded=texts):
            rows = sieve.sift(batch)
            seen = rows.num_rows
            if task.part.number is not None:
                rows = rows.take(concerned.rows(rows, task.part.number))
            yield seen, asking.pieces(rows)


def counted(path: Path) -> tuple[Done, pa.Table]:
    """What a task has counted."""
    with pa.ipc.open_file(path) as file:
        table = file.read_all()
    about = table.schema.metadata
    return Done(*(int(about[name.encode()]) for name in Done._fields)), table


def _put(table: pa.Table, path: Path) -> None:
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    os.replace(unfinished, path)


class MatchesFile:
    """A file of matches while it is written; there under its name when all of it is."""

    def __init__(self, path: Path, kind: str) -> None:
        """`kind` is what keys are, in Spark's words."""
        self._path = path
        self._unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._are_names = kind == "string"
        element = pa.field("element", _CODES if self._are_names else KINDS[kind], nullable=False)
        self._lists = pa.list_(element)
        self._schema = pa.schema([*_EVENTS, pa.field("matches", self._lists, nullable=False)])
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> MatchesFile:
        self._file = pq.ParquetWriter(
            self._unfinished,
            self._schema,
            store_schema=False,  # else readers would see the dictionaries
            compression="none",  # deltas and codes are a few bits already, and keys are like chance
            use_dictionary=["stream", *(["matches.list.element"] if self._are_names else [])],
            column_encoding=dict.fromkeys(RISING, DELTAS),
            write_statistics=[field.name for field in _EVENTS],  # of keys they are dear
        )
        return self

    def __exit__(self, *problem: object) -> None:
        assert self._file is not None
        self._file.close()
        if problem[0] is None:
            os.replace(self._unfinished, self._path)
        else:
            self._unfinished.unlink(missing_ok=True)

    def add(self, rows: pa.RecordBatch, counts: Any, numbers: Any, names: pa.Array) -> None:
        """Events, how many keys each matches, and the numbers of these keys, event by event."""
        assert self._file is not None
        events = rows.select([field.name for field in _EVENTS])
        wanted = np.flatnonzero(counts)
        if len(wanted) < events.num_rows:
            events, counts = events.take(wanted), counts[wanted]
        keys = _coded_names(numbers, names) if self._are_names else names.take(pa.array(numbers))
        arrays = [
            _coded(events["stream"]),
            events["tick"],
            events["time"],
            pa.ListArray.from_arrays(ends(counts), keys, type=self._lists),
        ]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema))


def _coded(column: Any) -> Any:
    coded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    return coded.cast(_CODES)


def _coded_names(numbers: Any, names: pa.Array) -> pa.DictionaryArray:
    """Names by their numbers, as codes of those that occur."""
    codes, known = _compact(numbers, len(names))
    return pa.DictionaryArray.from_arrays(pa.array(codes), names.take(pa.array(known)))


def _compact(numbers: Any, size: int) -> tuple[Any, Any]:
    """The numbers that occur, and for each number its place among them."""
    occurs = np.zeros(size, np.bool_)
    occurs[numbers] = True
    known = np.flatnonzero(occurs)
    places = np.zeros(size, np.int32)
    places[known] = np.arange(len(known), dtype=np.int32)
    return places[numbers], known
