"""One Spark for all experiments of a test process: starting it is most of their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidings.spark.sessions import session_for_python


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session_for_python("tests", master="local[2]") as started:
        yield started
