"""One Spark for a test process: starting it is most of the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.cluster import Cluster, cluster
from tidings.spark.sessions import session_for_python


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session_for_python("tests", master="local[2]") as started:
        yield started


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers on this machine; see `tests.spark.cluster`."""
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started
