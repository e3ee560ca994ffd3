"""A query that publishes, and is killed with all of Spark when its batch 1 is to be committed."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyspark.sql.types import StructType

from tidings.spark import install
from tidings.spark.format.options import writing
from tidings.spark.format.sink import StreamWriter
from tidings.spark.format.source import TidingsSource
from tidings.spark.sessions import session_for_python


class Dying(StreamWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        if batchId == 1:
            os.killpg(int(os.environ["DYING_GROUP"]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(messages, batchId)


class DyingSource(TidingsSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return Dying(writing(self.options), schema, overwrite=overwrite)


def main(feed: str, url: str, checkpoint: str) -> None:
    os.environ["DYING_GROUP"] = str(os.getpgid(0))
    with session_for_python("dying", master="local[2]") as spark:
        install(spark)
        spark.dataSource.register(DyingSource)
        rows = spark.readStream.schema("number BIGINT, symbol STRING, price DOUBLE")
        rows = rows.option("maxFilesPerTrigger", 1).json(feed)
        writer = rows.writeStream.format("tidings").options(url=url, checkpointLocation=checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
