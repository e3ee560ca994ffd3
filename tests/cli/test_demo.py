"""The demonstration accounts for every event, so running it is the test."""

import pytest

from tests.cli.conftest import Run


@pytest.mark.slow
def test_four_brokers_lose_nothing_though_one_is_killed(tidings: Run) -> None:
    done = tidings("demo", "--for", "6", "--rate", "200")
    assert done.returncode == 0, done.stderr
    assert "berlin was killed" in done.stdout
    assert "berlin is back" in done.stdout
    assert "nobody missed anything, nobody heard anything else." in done.stdout
    assert "Traceback" not in done.stderr
