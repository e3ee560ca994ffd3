"""What tests of the checks need: ways to break what is checked."""

import pytest

from tests.simulation.runs import Patch


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Patch:
    """Put something else into a class or a module, for one test."""
    return monkeypatch.setattr
