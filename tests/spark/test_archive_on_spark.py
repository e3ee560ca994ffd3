"""`archive` by the tasks of a Spark: killed with all of it, and on a cluster."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.client.brokers import PROGRAM, BrokerProcess
from tests.spark.brokers import log_of, running
from tests.spark.cluster import Cluster, can_unshare, cluster
from tidings.client import connect_sync
from tidings.events import TidingsError
from tidings.lakes.committed import Committed
from tidings.lakes.lake import Lake
from tidings.spark.archiving.archive import ArchiveReport, archive

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("archive_on_spark")]

PATIENCE = 180.0

ARCHIVE = """
import sys
from tidings.spark.sessions import session_for_python
from tidings.spark.archiving.archive import archive
from tidings.lakes.lake import Lake

with session_for_python("dying", master="local[2]") as spark:
    archive(
        sys.argv[1], Lake(sys.argv[2]), spark=spark, batch=1_000, every=0.1, wait=30,
        progress=lambda report: print(report.events, flush=True),
    )
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "paris") as found:
        yield found


def quote(n: int) -> dict[str, Any]:
    """The same attribute is of another kind in each thousand, and some are new there."""
    x: Any = (n, n + 0.5, f"text {n}", True)[n // 1_000 % 4]
    return {"n": n, "x": x, f"new{n // 1_000 % 6}": n}


def check(lake: Lake, broker: BrokerProcess) -> None:
    """What is in the lake is what is in the log: each event once, as it was said."""
    log = {e.tick: e for e in log_of(broker)}
    found = list(lake.events())
    assert [e.tick for e in found] == sorted(log)
    for event in found:
        assert event.notification == log[event.tick].notification
    assert lake.held() == {"paris": len(log)}


def test_each_event_is_there_once_whoever_is_killed_and_whatever_tasks_name_alike(
    spark: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    numbers, enough = count(), threading.Event()

    def until_enough() -> Iterator[dict[str, Any]]:
        for n in numbers:
            yield quote(n)
            if n % 50 == 49 and enough.wait(0.03):  # a thousand a second, or two
                return

    def publish_all() -> None:
        with connect_sync(broker.url, wait=30) as client:
            client.publish_each(until_enough())

    publisher = threading.Thread(target=publish_all)
    publisher.start()
    orphans = 0
    try:
        for killed in ("spark", "both"):
            process = subprocess.Popen(
                [sys.executable, "-c", ARCHIVE, broker.url, str(lake.path)],
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            assert process.stdout is not None
            assert process.stdout.readline()  # a commit
            if killed == "both":
                broker.kill()
            files = len(list(lake.path.rglob("*.parquet")))
            if killed == "both":
                broker.start()
            end = monotonic() + PATIENCE
            while len(list(lake.path.rglob("*.parquet"))) <= files:  # the next batch has begun
                assert monotonic() < end
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            ticks = [e.tick for e in lake.events()]
            assert ticks == list(range(1, len(ticks) + 1))
            assert lake.held()["paris"] == len(ticks) > 0
            orphans += len(list(lake.path.rglob("*.parquet"))) - len(lake.snapshot().files())
    finally:
        enough.set()
        publisher.join()
    reports: list[ArchiveReport] = []
    archive(broker.url, lake, spark=spark, batch=5_000, until="live", progress=reports.append)
    assert reports == [] or reports[-1].is_live
    check(lake, broker)
    assert orphans > 0, "nobody was killed between writing a file and committing it"


def test_a_session_that_runs_is_used_and_a_stop_is_heeded(
    spark: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    with connect_sync(broker.url) as client:
        client.publish_each(map(quote, range(10_000)))
    lake, stop = Lake(tmp_path / "lake"), threading.Event()
    # Two tasks of a thousand at a time, which have different kinds of x: one runs twice.
    report = archive(
        broker.url, lake, spark=spark, batch=1_000, stop=stop, progress=lambda _: stop.set()
    )
    assert (report.events, report.commits, report.is_live) == (2_000, 1, False)
    assert lake.held() == {"paris": 2_000}
    report = archive(broker.url, lake, spark=spark, batch=2_000, until="live")
    assert (report.events, report.is_live) == (8_000, True)
    assert report.commits in (2, 3), "perhaps one for a time that was promised meanwhile"
    check(lake, broker)
    few = Lake(tmp_path / "few", filter="x IS STRING")
    report = archive(broker.url, few, spark=spark, until="live")
    assert report.events == 2_000
    assert few.held() == {"paris": 10_000}


def test_what_cannot_be_sent_to_workers_is_refused_at_once(spark: Any, tmp_path: Path) -> None:
    lake, own = Lake(tmp_path / "lake"), ssl.create_default_context()
    reason = "tls: an SSLContext cannot be sent .* name files, as Certificates"
    with pytest.raises(TidingsError, match=reason):
        archive("tidings+tls://localhost", lake, tls=own, spark=spark, until="live")


def test_a_cluster_archives_with_the_same_command(
    spark_cluster: Cluster, broker: BrokerProcess, tmp_path: Path
) -> None:
    with connect_sync(broker.url) as client:
        client.publish_each(map(quote, range(5_000)))
    lake = tmp_path / "lake"
    command = [*PROGRAM, "pipeline", "archive", "--url", broker.url, "--lake", str(lake)]
    process = subprocess.Popen(
        [*command, "--master", spark_cluster.master],
        env=spark_cluster.environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = monotonic() + PATIENCE
    while Lake(lake).held() != {"paris": 5_000}:
        assert monotonic() < end
        assert process.poll() is None, spark_cluster.said()
        sleep(0.1)
    os.killpg(process.pid, signal.SIGTERM)  # Java gets it, too, as systemd does it
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "5,000 events archived" in said.splitlines()[-1], said
    check(Lake(lake), broker)


def test_what_a_worker_has_put_on_another_disk_is_not_committed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Else brokers would let go of events that are nowhere."""
    lake = Lake(tmp_path / "lake")
    if not can_unshare(lake.path):
        pytest.skip("this system lets us make no mount namespace (unshare --mount)")
    with connect_sync(broker.url) as client:
        client.publish_each(map(quote, range(1_000)))
    command = [*PROGRAM, "pipeline", "archive", "--url", broker.url, "--lake", str(lake.path)]
    with cluster(tmp_path / "cluster", workers=1, elsewhere=lake.path) as found:
        done = subprocess.run(
            [*command, "--until-live", "--master", found.master],
            env=found.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 2, done.stderr
    said = " ".join(done.stderr.split())
    assert f"{lake.path} must be one folder that this machine and all workers share" in said
    assert lake.held() == {}
    assert Committed(lake.path, "paris")() == {}
    archive(broker.url, lake, until="live")
    check(lake, broker)
