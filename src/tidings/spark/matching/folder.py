"""A match of a whole lake: which of its events which filters match, written to a folder.

::

    OUT/matches/part-00000.parquet …   stream, tick, time, matches: the keys of the filters that
                                       an event matches, for each that matches any; not there
                                       if matches are only counted
    OUT/summary.parquet                key, count, first, last: one row for each filter
    OUT/report.md                      the same, to be read
    OUT/filters/, OUT/match.json       what was asked

Keys are strings, or all whole numbers, which is quicker: lists of these are written as they are.

All of it is made in `OUT.unfinished`, which gets its name at the very end: so a folder that is
there is whole. Killed and started again with the same question, it goes on where it was, with the
lake as it was: what was asked is kept, down to the files of the lake and who reads which.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.events import Filter, TidingsError
from tidings.events.encoding import encode_json
from tidings.events.strings import Types
from tidings.lakes.grouping import names_in
from tidings.lakes.portions import Portion, portions
from tidings.lakes.pruning import Place, Window
from tidings.lakes.search import Question, schema_of
from tidings.protocol.cursors import Beginning, cursor_text
from tidings.spark.jobs import carry_out, cause
from tidings.spark.matching import filter_file
from tidings.spark.matching.asking import KINDS, kind_of
from tidings.spark.matching.filter_parts import StoredPart, cut, needed
from tidings.spark.matching.report import Summary, moment, report, span
from tidings.spark.matching.tasks import Done, FilterCounts, Job, Task, counted, files_of, perform
from tidings.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "tidings match 5"
MEMORY: Final = 2 << 30
"""Bytes of a process that an index takes at most; filters that need more are in parts."""
_ABOUT: Final = "match.json"
_FOLDERS: Final = ("matches", "counts", "filters")
"""What is made first; `matches` only where they are listed."""
_BEFORE: Final = {*_FOLDERS, f".{_ABOUT}"}
"""What is there before a match has begun: one that was killed then leaves no more than this."""
_SUMMARY: Final = "summary.parquet"
_BUSIEST: Final = 20


class Asked(msgspec.Struct, frozen=True):
    """What is asked for; what equals it can be gone on with."""

    lake: str
    """Its name, which moves along with it."""
    filters: str
    """Names their content."""
    since: str
    """In the words that were given: `1 day ago` goes on with the day that it began with."""
    until: str
    is_listed: bool
    """Whether the matches are wanted, or only how many there are."""


class About(msgspec.Struct, frozen=True):
    """A whole match: what was asked, and how the work is divided."""

    format: str
    asked: Asked
    began: datetime
    """The lake is as it was then."""
    since: Place
    until: Place
    portions: list[Portion]
    parts: list[StoredPart]
    valued: int
    attributes: list[str]

    @property
    def window(self) -> Window:
        return Window(self.since, self.until)


class MatchFolder:
    """A folder of matches, to be begun or gone on with; `TidingsError` if it is somebody else's.

    Nothing is written before it begins.
    """

    def __init__(
        self,
        lake: Path,
        filters: Mapping[Any, Filter],
        out: Path,
        *,
        since: Beginning = None,
        until: Beginning = None,
        memory: int = MEMORY,
        is_listed: bool = True,
        named: str | None = None,
    ) -> None:
        """Without `is_listed`, matches are only counted; `named` is the same for the same filters,
        where the caller knows that sooner."""
        self.out = out.absolute()
        self._filters = filters
        self._kind = kind_of(list(filters))
        self._memory = memory
        self._question = Question.of(lake, None, since, until)
        if self._question.window.is_empty:
            raise TidingsError(f"there can be nothing {span(self._question.window)}")
        self._lake = self._question.lake
        table = self._question.table()
        schema_of(table)  # so that what is no lake is told now
        digest = named or _digest(filters)
        self._asked = Asked(str(table.metadata().id), digest, _said(since), _said(until), is_listed)
        self.was_complete = self.was_begun = False
        self._begun: About | None = None
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            self._begun = self._checked(self._asked, self._question.window)
            self.was_complete, self._folder = True, self.out
            return
        self._folder = self.out.with_name(f"{self.out.name}.unfinished")
        self._begun = self._gone_on_with(self._asked)
        if self._begun is not None:
            self.was_begun = True
            self._check_files(self._begun.began)

    def _checked(self, asked: Asked, window: Window) -> About:
        """What is said of the whole match that is there, if it is the one that is asked for."""
        there = _about(self.out)
        if there is None:
            raise TidingsError(f"{self.out}: there is something else here; name another folder")
        if there.asked != asked:
            raise TidingsError(
                f"{self.out}: there are the matches of other filters or events; name another folder"
            )
        if there.window != window:
            raise TidingsError(
                f"{self.out}: there are the matches of events {span(there.window)}, found at "
                f"{moment(there.began)}; the same words mean another time now: remove the folder, "
                "or name another one"
            )
        return there

    def _gone_on_with(self, asked: Asked) -> About | None:
        """What is said of the match that was begun, if one was."""
        begun = _about(self._folder)
        if begun is None:
            self._check_room()
        elif begun.asked != asked:
            raise TidingsError(
                f"{self._folder}: this was begun with other filters or events; remove the folder, "
                "or choose another --out"
            )
        return begun

    def _check_files(self, began: datetime) -> None:
        """What is left to read is there; a lake keeps what it has joined for some days."""
        paths = {piece.path for task in self.tasks() for piece in task.portion}
        gone = [path for path in sorted(paths) if not (self._lake / path).exists()]
        if gone:
            raise TidingsError(
                f"{self._folder}: this was begun at {moment(began)}, and the lake no longer has "
                f"{self._lake / gone[0]} of then; remove the folder to begin anew"
            )

    def _check_room(self) -> None:
        """The folder can be made, or is what a match left that was killed before it had begun."""
        if self._folder.exists():
            is_ours = self._folder.is_dir() and {*os.listdir(self._folder)} <= _BEFORE
            if not is_ours:
                raise TidingsError(f"{self._folder}: there is something else here; move it away")
            return
        above = next(path for path in self._folder.parents if path.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise TidingsError(f"{self._folder}: no folder can be made in {above}")

    def begin(self) -> None:
        """From now on it is there to be gone on with, with the lake as it is now."""
        if self._begun is None:
            self._begun = self._gone_on_with(self._asked)  # somebody else may have begun since
        if self._begun is None:
            if self._folder.exists():
                shutil.rmtree(self._folder)
            self._begun = self._laid_out(self._question, self._asked)

    def _laid_out(self, question: Question, asked: Asked) -> About:
        for name in _FOLDERS if asked.is_listed else _FOLDERS[1:]:
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        found = question.search()
        files = sorted((f["path"], f["num_records"]) for f in found.found)
        divided = cut(self._filters, needed(self._filters, self._memory))
        about = About(
            format=FORMAT,
            asked=asked,
            began=datetime.now(UTC),
            since=question.window.since,
            until=question.window.until,
            portions=portions(question.lake, files),
            parts=[
                StoredPart(
                    filter_file.write(p.filters, self._folder / "filters").name,
                    sorted(names_in(p.filters.values())),
                    p.number,
                )
                for p in divided.parts
            ],
            valued=divided.valued,
            attributes=divided.attributes,
        )
        unfinished = self._folder / f".{_ABOUT}"
        unfinished.write_bytes(msgspec.json.encode(about))
        unfinished.replace(self._folder / _ABOUT)
        return about

    @property
    def _about(self) -> About:
        assert self._begun is not None, "it has not begun"
        return self._begun

    @property
    def events(self) -> int:
        """How many events there are to look at, or a few more."""
        return sum(p.rows for portion in self._about.portions for p in portion)

    def tasks(self) -> list[Task]:
        found: list[Task] = []
        for part in self._about.parts:
            where = part._replace(path=str(self._folder / "filters" / part.path))
            for portion in self._about.portions:
                is_first = len(found) < len(self._about.portions)
                found.append(Task(len(found), portion, where, is_first))
        return [t for t in found if not files_of(self._folder, t.number)[1].exists()]

    def run(
        self, spark: SparkSession | None, told: Callable[[int, int], None] | None = None
    ) -> Summary:
        """Do it all, on Spark if there is one; `told` hears now and then of events and matches."""
        if self.was_complete:
            return self.summary()
        self.begin()
        tasks = self.tasks()
        left = {task.number for task in tasks}
        before = [counted(path)[0] for n, path in enumerate(self._counts()) if n not in left]
        progress = sum(done.events for done in before), sum(done.matches for done in before)
        if spark is None:
            self._alone(tasks, progress, told)
        elif tasks:
            self._spread(spark, tasks, progress, told)
        return self._finished()

    def _alone(
        self, tasks: list[Task], before: tuple[int, int], told: Callable[[int, int], None] | None
    ) -> None:
        events, matches = before
        perform_ = self._work()
        for task in tasks:
            done = perform_(task)
            events, matches = events + done.events, matches + done.matches
            if told:
                told(events, matches)

    def _spread(
        self,
        spark: SparkSession,
        tasks: list[Task],
        before: tuple[int, int],
        told: Callable[[int, int], None] | None,
    ) -> None:
        context = spark.sparkContext
        events, matches = (context.accumulator(number) for number in before)
        perform_ = self._work()

        def work(task: Task) -> None:
            done = perform_(task)
            events.add(done.events)
            matches.add(done.matches)
            settle()

        try:
            carry_out(
                context,
                lambda: context.parallelize(tasks, len(tasks)).foreach(work),
                "who would have heard what",
                told=lambda: told(events.value, matches.value) if told else None,
            )
        except Exception as problem:
            raise TidingsError(cause(problem)) from problem

    def _work(self) -> Callable[[Task], Done]:
        about = self._about
        question = Question(self._lake, Filter.all(), about.window)
        job = Job(
            question=question,
            held=question.schema(),
            folder=self._folder,
            valued=about.valued,
            attributes=about.attributes,
            alone=len(about.parts) > 1,
            is_listed=about.asked.is_listed,
            kind=self._kind,
        )
        return lambda task: perform(job, task)

    def _counts(self) -> list[Path]:
        every = len(self._about.parts) * len(self._about.portions)
        return [files_of(self._folder, number)[1] for number in range(every)]

    def _finished(self) -> Summary:
        """Put the counts together, and give the folder its name."""
        keys = list(self._filters)
        numbers = {key: number for number, key in enumerate(keys)}
        tally = FilterCounts(len(keys))
        events = matched = 0
        counts = iter(self._counts())
        for part in self._about.parts:
            held = filter_file.keys(self._folder / "filters" / part.path)
            places = pa.array([numbers[key] for key in held], pa.int64())
            for _ in self._about.portions:
                done, table = counted(next(counts))
                events, matched = events + done.events, matched + done.matched
                columns = [table[name].to_numpy() for name in ("count", "first", "last")]
                tally.merge(places.take(table["number"]).to_numpy(), *columns)
        is_known = len(self._about.parts) == 1
        about = {"events": str(events), "matched": str(matched) if is_known else ""}
        summary = pa.table({"key": pa.array(keys, KINDS[self._kind]), **tally.columns()})
        pq.write_table(summary.replace_schema_metadata(about), self._folder / _SUMMARY)
        for left_over in (self._folder / "matches").glob(".*"):
            left_over.unlink()
        (self._folder / "report.md").write_text(report(self.summary()), encoding="utf-8")
        if self.out.exists():
            self.out.rmdir()  # it is empty
        self._folder.rename(self.out)
        self._folder = self.out
        shutil.rmtree(self.out / "counts", ignore_errors=True)
        return self.summary()

    def summary(self) -> Summary:
        """What came of it, from what was written."""
        table = pq.read_table(self._folder / _SUMMARY)
        about = table.schema.metadata
        found = table.filter(pc.greater(table["count"], 0)).sort_by(
            [("count", "descending"), ("key", "ascending")]
        )
        matched = about[b"matched"].decode()
        return Summary(
            out=self.out,
            lake=self._lake,
            window=self._about.window,
            began=self._about.began,
            is_listed=self._about.asked.is_listed,
            events=int(about[b"events"]),
            matched=int(matched) if matched else None,
            matches=pc.sum(table["count"]).as_py() or 0,
            filters=table.num_rows,
            silent=table.num_rows - found.num_rows,
            busiest=[
                (str(key), *numbers)
                for key, *numbers in (row.values() for row in found.slice(0, _BUSIEST).to_pylist())
            ],
        )


def _about(folder: Path) -> About | None:
    """What is said of the match in a folder; None if there is none."""
    try:
        about = msgspec.json.decode((folder / _ABOUT).read_bytes(), type=About)
    except (OSError, msgspec.DecodeError):
        return None
    return about if about.format == FORMAT else None


def _digest(filters: Mapping[Any, Filter]) -> str:
    digest = blake2b(digest_size=16)
    types: dict[int, Types] = {}
    for key, filter_ in filters.items():
        digest.update(f"{key!r}\t{filter_.to_json()}\n".encode("utf-8", "surrogatepass"))
        constraints = (c for held in filter_.conjunctions for c in held.constraints.values())
        types |= {id(known): known for known in (c.types for c in constraints)}
    for known in types.values():  # a filter's JSON does not say which types `IS A` refers to
        digest.update(encode_json(known.parents).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _said(place: Beginning) -> str:
    if isinstance(place, Mapping):
        return cursor_text(place)  # in whatever order
    return "" if place is None else str(place)
