"""A Spark cluster on this machine: a master and two workers of one core, as processes.

`with cluster(folder) as found:` and then, in a process of its own (this one may have a session on
`local[2]` already), a command with `--master found.master`, in the environment
`found.environment`. The fixture `spark_cluster` is one for the whole test process.

With `elsewhere`, a folder, its workers see an empty disk there, which nobody else does. That takes
a mount namespace; `can_unshare` says whether it can be had.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import pyspark

from tests.network.brokers import free_ports
from tidings.spark.java import find_java, java_home

WORKERS = 2
PATIENCE = 60.0

DEFAULTS = """
spark.executor.memory 512m
spark.executor.cores 1
spark.driver.memory 512m
spark.ui.enabled false
"""
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Cluster(NamedTuple):
    """Where it is, and with which environment variables programs are to be started that use it."""

    master: str
    environment: dict[str, str]
    folder: Path

    def said(self) -> str:
        """What master and workers have written, for a test that fails."""
        return "\n".join(p.read_text(errors="replace") for p in self.folder.glob("*.log"))


_UNSHARE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']
"""Runs a command with an empty disk mounted at a folder: the first argument of all."""


def can_unshare(folder: Path) -> bool:
    """Whether this system lets us mount something that others do not see."""
    try:
        return subprocess.run([*_UNSHARE, str(folder), "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def cluster(
    folder: Path, *, workers: int = WORKERS, elsewhere: Path | None = None
) -> Iterator[Cluster]:
    """Start it, and end all of it in the end."""
    settings = folder / "settings"
    settings.mkdir(parents=True)
    (settings / "spark-defaults.conf").write_text(DEFAULTS)
    (settings / "log4j2.properties").write_text(LOGGING)
    home = Path(pyspark.__file__).parent
    (port,) = free_ports(1)
    with ExitStack() as stack:
        environment = {
            **os.environ,
            "JAVA_HOME": str(stack.enter_context(java_home(find_java()))),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(settings),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
        }
        place = f"spark://127.0.0.1:{port}"
        role = "org.apache.spark.deploy"
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        log = folder / "master.log"
        command = [str(home / "bin" / "spark-class"), f"{role}.master.Master", *where]
        stack.enter_context(_process([*command, "--port", str(port)], environment, log))
        _wait_for("I have been elected leader", log)
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            command = [str(home / "bin" / "spark-class"), f"{role}.worker.Worker", *where]
            command += ["--cores", "1", "--memory", "768m"]
            command += ["--work-dir", str(folder / f"work-{number}"), place]
            if elsewhere is not None:
                command = [*_UNSHARE, str(elsewhere), *command]
            stack.enter_context(_process(command, environment, log))
        for number in range(workers):
            _wait_for("Successfully registered with master", folder / f"worker-{number}.log")
        yield Cluster(place, environment, folder)


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)  # a worker ends its executors then
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(what: str, log: Path) -> None:
    end = monotonic() + PATIENCE
    while not re.search(what, said := log.read_text(errors="replace")):
        assert monotonic() < end, f"no cluster: {said}"
        sleep(0.05)
