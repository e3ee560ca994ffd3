"""Traces of an experiment's simulations, and what Spark finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

QUANTITIES: Final = {
    "hops": "links that an event travels on average, whoever hears it",
    "in vain": "share of these hops to a broker that neither tells a client of it nor passes it on",
    "delay": "seconds from publishing to hearing, the median",
    "delay of 99 %": "seconds within which 99 % of what is heard is heard",
    "busiest link": "its share of all messages between brokers, in one direction",
}
"""What traces tell; a quantity is left out where nothing was published, carried or heard."""

_EVENT: Final = ["point", "simulation", "stream", "tick"]


def trace_of(folder: Path, point: int) -> Path:
    """The file for the simulations of a point; its folder is made."""
    place = folder / f"point={point}"
    place.mkdir(parents=True, exist_ok=True)
    return place / "trace.parquet"


def analyse(session: SparkSession, folder: Path) -> pa.Table:
    """Point, quantity and value, for all traces in a folder."""
    from pyspark.sql import functions as f

    trace = session.read.parquet(str(folder)).cache()
    try:
        parts = [_hops(trace), _delays(trace), _busiest(trace)]
        wide = parts[0].join(parts[1], "point", "outer").join(parts[2], "point", "outer")
        pairs = [
            f.struct(f.lit(n).alias("quantity"), f.col(f"`{n}`").alias("value")) for n in QUANTITIES
        ]
        long = wide.select("point", f.explode(f.array(*pairs)).alias("pair"))
        told = long.where("pair.value IS NOT NULL").select("point", "pair.quantity", "pair.value")
        return told.toArrow()
    finally:
        trace.unpersist()


def _hops(trace: DataFrame) -> DataFrame:
    """Hops of an event, and those that led nowhere."""
    from pyspark.sql import functions as f

    carried = trace.where("what = 'event'")
    onward = trace.where("what IN ('event', 'hear')")
    onward = onward.select(*_EVENT, f.col("source").alias("target")).distinct()
    in_vain = carried.join(onward, [*_EVENT, "target"], "left_anti").groupBy("point")
    published = trace.where("what = 'publish'").groupBy("point").agg(f.count("*").alias("events"))
    return (
        published.join(carried.groupBy("point").agg(f.count("*").alias("carried")), "point", "left")
        .join(in_vain.agg(f.count("*").alias("lost")), "point", "left")
        .select(
            "point",
            (f.coalesce("carried", f.lit(0)) / f.col("events")).alias("hops"),
            (f.coalesce("lost", f.lit(0)) / f.col("carried")).alias("in vain"),
        )
    )


def _delays(trace: DataFrame) -> DataFrame:
    """How long it took until what was published was heard."""
    from pyspark.sql import functions as f

    published = trace.where("what = 'publish'").select(*_EVENT, f.col("time").alias("begun"))
    heard = trace.where("what = 'hear'").join(published, _EVENT)
    delay = f.col("time") - f.col("begun")
    return heard.groupBy("point").agg(
        f.percentile(delay, 0.5).alias("delay"),
        f.percentile(delay, 0.99).alias("delay of 99 %"),
    )


def _busiest(trace: DataFrame) -> DataFrame:
    """How uneven the load of links is."""
    from pyspark.sql import functions as f

    between = trace.where("what IN ('event', 'update', 'other')")
    links = between.groupBy("point", "source", "target").agg(f.count("*").alias("messages"))
    share = f.max("messages") / f.sum("messages")
    return links.groupBy("point").agg(share.alias("busiest link"))
