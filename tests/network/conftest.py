"""What all tests of networks share."""

import pytest


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients come back soon."""
    monkeypatch.setattr("tidings.client.dialling._LONGEST_PAUSE", 0.4)
