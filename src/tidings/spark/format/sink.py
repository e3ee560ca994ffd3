"""The sink: rows, published as notifications; of a stream, exactly once.

How rows are notifications is said in `notifications`, and how each is published once although
Spark may bring it twice in `staging`.

A row that is no notification goes to the dead letters with the reason, or fails the query.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidings.client import Client, PublishRefusedForNow
from tidings.events import Notification, TidingsError
from tidings.spark.format.notifications import PLAIN, Notifications
from tidings.spark.format.options import WriteOptions
from tidings.spark.format.staging import Manifest, Row, Staging
from tidings.spark.letters import DeadLetters

_LOOK: Final = 0.2
"""How often to look whether the broker still takes something, in seconds."""
_AT_ONCE: Final = 1_000
"""Rows published before what was refused of them is written down: a broker remembers more refusals
than that."""
_ADVERTISE: Final = "advertise it first"
"""How a broker's refusal ends of what was not advertised."""
_SHOWN: Final = 200


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task has written down."""

    query: str
    partition: int
    file: str
    count: int
    largest: int
    """Bytes of the largest notification."""


class _Writer:
    """What is the same of a batch and a stream."""

    _resumes: bool
    """Whether another process goes on if this one is killed, under the same session's name."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise TidingsError("what is published stays published: use mode append, or update")
        self._options = options
        self._rows = Notifications(schema, options.most)
        plain = [field.name for field in schema if isinstance(field.dataType, PLAIN)]
        for name in options.key:
            if name not in plain:
                raise TidingsError(f"option key: {name!r} is none of {', '.join(plain)}")

    def _stage(
        self, batches: Iterator[pa.RecordBatch], folder: str, query: str, batch: int
    ) -> Staged:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        with ExitStack() as stack:
            refused = None
            if self._options.dead_letters is not None:
                # A task that runs again writes it anew.
                name = f"{query}-{batch}-{partition}.jsonl"
                refused = stack.enter_context(DeadLetters(self._options.dead_letters, name))
            rows = self._notifications(batches, partition, refused)
            file, count, largest = Staging(folder, query).write(rows)
        return Staged(query, partition, file, count, largest)

    def _notifications(
        self, batches: Iterator[pa.RecordBatch], partition: int, refused: DeadLetters | None
    ) -> Iterator[Row]:
        number = 0
        for batch in batches:
            for row, said in self._rows.of(batch):
                number += 1
                key = {name: row[name] for name in self._options.key}
                if isinstance(said, Notification):
                    yield Row(partition, number, said, key)
                elif refused is not None:
                    refused.add(_where(partition, number, key), said, row)
                else:
                    known = ", ".join(f"{name} {value}" for name, value in key.items())
                    raise TidingsError(
                        f"row {number} of partition {partition} "
                        f"{f'({known}) ' if known else ''}is no notification: {said}. "
                        f"It is {str(row)[:_SHOWN]}. With the option deadLetters, a folder, "
                        "such rows go there"
                    )

    def _publish(self, staging: Staging, messages: Sequence[Staged], batch: int) -> None:
        """Publish what the tasks have written, or what an earlier try had begun to publish."""
        manifest = staging.manifest(batch)
        if manifest is None and not any(m.count for m in messages):
            staging.clear(batch)
        elif manifest is None or not manifest.is_done:
            asyncio.run(self._published(staging, manifest, messages, batch))
        else:
            staging.clear(batch)

    async def _published(
        self, staging: Staging, manifest: Manifest | None, messages: Sequence[Staged], batch: int
    ) -> None:
        login = self._options.login
        client = await login.client(f"spark-{staging.folder.name}" if self._resumes else None)
        try:
            await self._advertise(client)
            if manifest is None:
                _check_size(client, messages)  # while other rows can still be staged instead
                manifest = _decided(client, messages, batch)
                staging.decide(manifest)
            done = client.kept - manifest.behind
            if client.broker != manifest.broker or not 0 <= done <= manifest.total:
                raise TidingsError(
                    f"batch {batch} was being published at broker {manifest.broker}, behind number "
                    f"{manifest.behind}; the one at {login.url} is {client.broker} and knows "
                    f"number {client.kept} of {client.name}: what of it was published cannot be "
                    "known"
                )
            manifest = await self._send(client, staging, manifest)
            staging.finish(manifest)
        finally:
            await client.close(within=1.0)
        if manifest.refused and self._options.dead_letters is None:
            raise TidingsError(
                f"the broker has refused {manifest.refused} of {manifest.total} rows, the last "
                f"since {manifest.reason}. They are in {self._letters(staging, manifest, '*')}; "
                "the others are published"
            )

    async def _advertise(self, client: Client) -> None:
        login, offered = self._options.login, self._options.advertise
        if offered is None:
            return
        try:
            async with asyncio.timeout(login.timeout):
                await client.advertise(offered)
        except TimeoutError:
            raise TidingsError(
                f"the broker at {login.url} has not answered within {login.timeout:g} seconds; "
                "nothing more is published"
            ) from None

    async def _send(self, client: Client, staging: Staging, manifest: Manifest) -> Manifest:
        """Publish what was not, and write down what is refused; returns what came of it."""
        told, done = client.refusals, client.kept - manifest.behind
        at = manifest.settled
        client.leave_out(manifest.behind + max(at, done))
        events = staging.events(manifest.files, skip=at)
        while rows := list(islice(events, _AT_ONCE)):
            heard = max(0, done - at)  # how many of these came to the broker before
            numbered = enumerate(rows[:heard], manifest.behind + at + 1)
            refused = [(row, told[number]) for number, row in numbered if number in told]
            refused += await self._refused(client, manifest, rows[heard:])
            at += len(rows)
            if refused:
                manifest = self._noted(staging, manifest, refused, at)
        return manifest

    async def _refused(
        self, client: Client, manifest: Manifest, rows: list[Row]
    ) -> list[tuple[Row, str]]:
        """Publish rows; which of them the broker refuses, and why.

        It waits as long as the broker keeps something now and then. If there will be another try,
        what is refused for now is left to that, which is told what will never be kept.
        """
        refused: list[tuple[Row, str]] = []

        passing: list[str] = []

        def refuse(index: int, problem: TidingsError) -> None:
            reason = str(problem)
            if isinstance(problem, PublishRefusedForNow):
                passing.append(reason)
            if self._options.advertise is None and reason.endswith(_ADVERTISE):
                reason += ", with the option advertise"
            refused.append((rows[index], reason))

        said = (row.notification for row in rows)
        work = asyncio.create_task(client.publish_each(said, on_refused=refuse))
        timeout = self._options.login.timeout
        kept, moved_at = client.kept, monotonic()
        while not (await asyncio.wait([work], timeout=_LOOK))[0]:
            if client.kept != kept:
                kept, moved_at = client.kept, monotonic()
            elif monotonic() - moved_at > timeout:
                work.cancel()
                done = max(0, kept - manifest.behind)
                raise TidingsError(
                    f"the broker at {self._options.login.url} has kept nothing for "
                    f"{timeout:g} seconds; {self._prospect(manifest, done)}"
                )
        work.result()
        if passing and self._resumes:
            done = max(0, client.kept - manifest.behind)
            raise TidingsError(f"{passing[-1]}; {self._prospect(manifest, done)}")
        return refused

    def _noted(
        self, staging: Staging, manifest: Manifest, refused: list[tuple[Row, str]], settled: int
    ) -> Manifest:
        """Write down what was refused of the rows up to here."""
        path = self._letters(staging, manifest, manifest.settled)
        with DeadLetters(str(path.parent), path.name) as letters:
            for row, reason in refused:
                where = _where(row.partition, row.number, row.key)
                letters.add(where, reason, row.notification)
        noted = replace(
            manifest,
            settled=settled,
            refused=manifest.refused + len(refused),
            reason=refused[-1][1],
        )
        staging.decide(noted)
        return noted

    def _letters(self, staging: Staging, manifest: Manifest, settled: int | str) -> Path:
        """Where the rows are that the broker refuses behind those that are settled.

        Not in the staging of a job, which goes when the job ends.
        """
        folder = self._options.dead_letters or staging.folder.parent / "refused"
        return Path(folder) / f"{staging.folder.name}-{manifest.batch}-broker-{settled}.jsonl"

    def _prospect(self, manifest: Manifest, done: int) -> str:
        """What becomes of the rows, when the broker has stayed away after `done` of them."""
        raise NotImplementedError


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Publishes each row of a stream once."""

    _resumes = True

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        if options.staging is None:
            raise TidingsError(
                "option staging: give a folder that the driver and all workers share, or a "
                "checkpointLocation that is one"
            )
        self._folder = options.staging

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        assert query is not None
        assert batch is not None
        return self._stage(iterator, self._folder, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _of(messages)
        if staged:
            self._publish(Staging(self._folder, staged[0].query), staged, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _of(messages)
        if staged:
            # It may have been the commit that failed, and then its manifest counts.
            Staging(self._folder, staged[0].query).discard(batchId, [m.file for m in staged])

    def _prospect(self, manifest: Manifest, done: int) -> str:
        return f"batch {manifest.batch} will go on behind {done} of {manifest.total} rows"


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Publishes the rows of a batch: each once if the job is run once."""

    _resumes = False

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        shared = Path(tempfile.gettempdir()) / f"tidings-staging-{os.getuid()}"
        self._folder = options.staging or str(shared)
        self._job = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._stage(iterator, self._folder, self._job, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = Staging(self._folder, self._job)
        self._publish(staging, _of(messages), 0)
        shutil.rmtree(staging.folder, ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        shutil.rmtree(Staging(self._folder, self._job).folder, ignore_errors=True)

    def _prospect(self, manifest: Manifest, done: int) -> str:
        return (
            f"{done} of {manifest.total} rows are published: the job, run again, would publish "
            "them twice"
        )


def _of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What was staged, by partition."""
    return sorted((m for m in messages if isinstance(m, Staged)), key=lambda m: m.partition)


def _where(partition: int, number: int, key: Mapping[str, Any]) -> dict[str, Any]:
    """What a letter says of where its row was."""
    return {"partition": partition, "row": number, **({"key": key} if key else {})}


def _decided(client: Client, messages: Sequence[Staged], batch: int) -> Manifest:
    """What is to be published now."""
    files = tuple(m.file for m in messages if m.count)
    total = sum(m.count for m in messages)
    return Manifest(batch, files, total, client.broker, behind=client.kept)


def _check_size(client: Client, messages: Sequence[Staged]) -> None:
    size, limit = max(m.largest for m in messages), client.largest
    if size > limit:
        raise TidingsError(
            f"a row has {size:,} bytes, and broker {client.broker} takes {limit:,} at most. With "
            f"the options maxEventBytes = {limit} and deadLetters, such rows become dead letters"
        )
