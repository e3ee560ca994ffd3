"""A broker with a schema: who asks for what nobody publishes is told so, and hears all the same."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidings
from tests.client.brokers import BrokerProcess, end_programs, program

pytestmark = pytest.mark.slow

SCHEMA = '[attributes]\nsymbol = "string"\nprice = "number"\n"data.total" = "integer"\n'
MISSPELT = "the schema has no attribute 'symbl' (did you mean 'symbol'?)"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    found = BrokerProcess(tmp_path, config='schema = "schema.toml"\n')
    found.start()
    yield found
    found.stop()
    end_programs()


def test_a_program_is_warned_and_the_subscription_begins(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        with pytest.warns(tidings.SubscriptionWarning) as told:
            events = client.subscribe("symbl = 'DIS' AND price > 0", durable="desk")
        assert [str(each.message) for each in told] == [MISSPELT]
        client.publish({"symbl": "DIS", "price": 1.5})
        assert events.get(timeout=10)["price"] == 1.5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with client.subscribe("symbol = 'DIS' AND (price > 0 OR data.total = 1)"):
                pass
            with client.subscribe("TRUE"):
                pass


def test_a_program_may_take_it_for_an_error(broker: BrokerProcess) -> None:
    with (
        tidings.connect_sync(broker.url) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", tidings.SubscriptionWarning)
        with pytest.raises(tidings.SubscriptionWarning, match="did you mean 'symbol'"):
            client.subscribe("symbl = 'DIS'")


def test_it_is_said_once_though_the_connection_is_lost(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            events = client.subscribe("symbl = 'DIS'")
            broker.kill()
            broker.start()
            client.publish({"symbl": "DIS"})
            events.get(timeout=30)
        assert [str(each.message) for each in told] == [MISSPELT]


def test_the_command_says_it_on_stderr(broker: BrokerProcess) -> None:
    listener = program("subscribe", "symbl = 'DIS' OR colour = 'red'", url=broker.url)
    assert listener.stderr is not None
    said = listener.stderr.readline()
    assert said == (
        "warning: the schema has no attribute 'colour', 'symbl' (did you mean 'symbol'?)\n"
    )
    listener.send_signal(signal.SIGINT)
    assert listener.wait(30) == 130


def test_the_schema_may_be_an_option_and_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text("[attribtes]\nsymbol = 'string'\n")
    process = program(
        *("up", "--listen", "127.0.0.1:0", "--store", str(tmp_path / "s")),
        *("--schema", str(tmp_path / "schema.toml")),
        url="",
    )
    _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "unknown table 'attribtes'" in said
    end_programs()
