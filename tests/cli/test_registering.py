"""Bulk subscriptions from the command line, registered at brokers of both semantics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from select import select
from typing import Any

import pytest

from tests.client.brokers import BrokerProcess, program
from tests.spark.brokers import log_of, running
from tidings.broker.store import SQLiteStore
from tidings.cli.bulk import cancel, register_many, subscribe_in_bulk
from tidings.client import Login, connect_sync
from tidings.events import Notification
from tidings.spark.bulk.registrations import deliveries, registration

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def subscribe(broker: BrokerProcess) -> Run:
    """Runs `tidings subscribe` with arguments; what it prints, and what it says on stderr."""

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        process = program("subscribe", *arguments, url=broker.url)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        return out, err

    return run


def publish(broker: BrokerProcess, *events: Notification) -> None:
    with connect_sync(broker.url) as client:
        client.publish_each(events)


def deliver(broker: BrokerProcess, name: str, *numbers: int) -> None:
    """What `tidings pipeline deliver` would publish."""
    for n in numbers:
        event, when = Notification({"n": n}), datetime.now(UTC)
        publish(broker, *deliveries(event, [name], id=f"paris:{n}", time=when))


def heard(out: str) -> list[int]:
    return [json.loads(line)["n"] for line in out.splitlines()]


@pytest.mark.parametrize("config", ["", '[routing]\nadvertisements = "covering"\n'])
def test_registrations_are_taken_with_and_without_advertisements(
    tmp_path: Path, config: str
) -> None:
    filters = tmp_path / "desks.tsv"
    filters.write_text("desk-1\tn > 1\ndesk-2\tn > 2\n")
    with running(tmp_path / "broker", config=config) as broker:
        login = Login(broker.url)
        more: dict[str, Any] = {"since": None, "until": "now", "count": None, "with_meta": False}
        assert register_many(filters, login, is_cancelled=False) == 0
        assert subscribe_in_bulk("n > 7", "desk-7", login, **more) == 0
        assert cancel("desk-7", login) == 0
        names = [event.notification["tidings.bulk"] for event in log_of(broker)]
    assert names == ["desk-1", "desk-2", "desk-7", "desk-7"]


# -- who is the first to listen ------------------------------------------------------------------


def test_the_first_listener_hears_what_was_delivered_before_and_nothing_twice(
    broker: BrokerProcess, subscribe: Run
) -> None:
    listening = ("--bulk", "desk-7", "--until", "now")
    publish(broker, registration("desk-7", "n > 0"), registration("desk-8", "n > 0"))
    deliver(broker, "desk-7", 1, 2)
    deliver(broker, "desk-8", 3)
    assert heard(subscribe(*listening)[0]) == [1, 2]
    deliver(broker, "desk-7", 4)
    assert heard(subscribe(*listening)[0]) == [4]
    assert heard(subscribe("n > 1", *listening)[0]) == []


def test_whoever_registers_a_cancelled_name_anew_hears_nothing_of_before(
    broker: BrokerProcess, subscribe: Run
) -> None:
    listening = ("--bulk", "desk-7", "--until", "now")
    publish(broker, registration("desk-7", "n > 0"))
    deliver(broker, "desk-7", 1)
    assert heard(subscribe(*listening, "--count", "1")[0]) == [1]
    deliver(broker, "desk-7", 2)
    subscribe("--bulk", "desk-7", "--cancel")
    publish(broker, registration("desk-7", "n > 2"))
    deliver(broker, "desk-7", 3)
    assert heard(subscribe(*listening)[0]) == [3]


def test_what_was_not_read_for_too_long_can_be_passed_over_or_cancelled(
    broker: BrokerProcess, subscribe: Run
) -> None:
    listening = ("--bulk", "desk-7", "--until", "now")
    subscribe("n > 0", *listening)
    deliver(broker, "desk-7", 1)
    deliver(broker, "desk-7", 2)
    broker.stop()
    with closing(SQLiteStore(broker.folder / "store", broker.name)) as store:
        store.trim(before=1e12)
    broker.start()
    said = subscribe(*listening, code=2)[1]
    assert "is kept from" in said
    cursor = said.split("--since ")[1].split()[0]
    assert heard(subscribe(*listening, "--since", cursor)[0]) == [2]
    assert heard(subscribe(*listening)[0]) == []
    assert "is kept from" in subscribe(*listening, "--since", "paris:1", code=2)[1]
    subscribe("--bulk", "desk-7", "--cancel")
    publish(broker, registration("desk-7", "n > 0"))
    deliver(broker, "desk-7", 3)
    assert heard(subscribe(*listening)[0]) == [3]


# -- files of filters ----------------------------------------------------------------------------


def test_a_filter_without_a_name_is_not_registered_nor_is_any_other(
    broker: BrokerProcess, subscribe: Run, tmp_path: Path
) -> None:
    file = tmp_path / "desks.tsv"
    file.write_text("desk-1\tn > 1\n\nn > 2\ndesk-3\tn > 3\n")
    for more in ((), ("--cancel",)):
        _, err = subscribe("--filters", str(file), *more, code=2)
        assert f"{file}, line 3: the filter has no name" in err
    assert log_of(broker) == []


def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_a_name(
    broker: BrokerProcess, subscribe: Run, tmp_path: Path
) -> None:
    file = tmp_path / "desks.tsv"
    file.write_text("desk-1\tn > 1\n", encoding="utf-8-sig")
    subscribe("--filters", str(file))
    assert [event.notification["tidings.bulk"] for event in log_of(broker)] == ["desk-1"]


# -- names that nobody knows ---------------------------------------------------------------------


def test_who_listens_under_a_name_that_is_not_registered_is_told_and_hears_what_comes(
    broker: BrokerProcess,
) -> None:
    listener = program("subscribe", "--bulk", "desk-7", "--count=1", url=broker.url)
    assert listener.stderr is not None
    told = "listening to desk-7, but no registration of it is among what brokers keep\n"
    try:
        assert select([listener.stderr], [], [], 30)[0], "it is not told"
        assert listener.stderr.readline() == told
        deliver(broker, "desk-7", 1)
        out, err = listener.communicate(timeout=60)
    finally:
        listener.kill()
    assert (heard(out), err) == ([1], "1 event\n")


def test_nothing_is_remarked_of_a_name_that_is_registered(
    broker: BrokerProcess, subscribe: Run
) -> None:
    listening = ("--bulk", "desk-7", "--until", "now")
    assert subscribe("n > 0", *listening) == ("", "0 events\n")
    assert subscribe(*listening) == ("", "0 events\n")
    assert subscribe("--bulk", "desk-7", "--cancel") == ("", "desk-7 is cancelled\n")
    told = "listening to desk-7, but it was cancelled before\n0 events\n"
    assert subscribe(*listening) == ("", told)


def test_to_cancel_a_name_that_is_not_registered_is_remarked(subscribe: Run) -> None:
    _, err = subscribe("--bulk", "desk-7", "--cancel")
    why = "no registration of it is among what brokers keep"
    assert err == f"desk-7 is cancelled, but {why}\n"
    _, err = subscribe("--bulk", "desk-7", "--cancel")
    assert err == "desk-7 is cancelled, but it was cancelled before\n"
