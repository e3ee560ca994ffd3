"""One Spark for all experiments of a test process: starting it is most of their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidings.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session("tests", master="local[2]", work_is_in_python=True) as started:
        yield started
