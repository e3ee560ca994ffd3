"""`tidings erase`: it counts, asks, erases, and says what it could not reach."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidings
from tests.client.brokers import BrokerProcess, end_programs, program
from tidings.cli import erase as command
from tidings.cli.app import app
from tidings.events import Notification
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived

WANTED = "customer = 'c-7'"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that is up, with a hundred events of ten customers."""
    found = BrokerProcess(tmp_path)
    found.start()
    with tidings.connect_sync(found.url, wait=30) as client:
        client.publish_many({"customer": f"c-{n % 10}", "n": n} for n in range(100))
    yield found
    found.stop()
    end_programs()


@pytest.fixture
def lake(tmp_path: Path, broker: BrokerProcess) -> Lake:
    """A lake with all of that."""
    lake = Lake(tmp_path / "lake")
    with (
        tidings.connect_sync(broker.url, wait=30) as client,
        client.subscribe("TRUE", since="begin") as events,
    ):
        rows = [events.get(30) for _ in range(100)]
    said = [Archived(e.stream, e.tick, e.time, Notification(dict(e))) for e in rows]
    lake.append(said, writer="tests", version=1)
    return lake


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    def done(*arguments: str) -> subprocess.CompletedProcess[str]:
        process = program("erase", *arguments, url=broker.url)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    return done


def heard(broker: BrokerProcess) -> list[str]:
    with (
        tidings.connect_sync(broker.url, wait=30) as client,
        client.subscribe("TRUE", since="begin") as events,
    ):
        return [str(event.get("customer", "")) for event in events.until_live()]


def test_it_erases_at_brokers_and_in_lakes_and_says_how_much(
    broker: BrokerProcess, lake: Lake, run: Run
) -> None:
    done = run(WANTED, "--lake", str(lake.path), "--yes", "--reason", "request 4711")
    assert done.stdout.splitlines() == [
        "broker paris: 10 events erased",
        f"lake {lake.path}: 10 events erased",
    ]
    assert done.returncode == 0
    assert "it is told by the event paris:101" in done.stderr
    assert "not reached: backups" in done.stderr
    assert "c-7" not in heard(broker)
    assert len(list(lake.events())) == 90
    again = run(WANTED, "--lake", str(lake.path), "--yes")
    assert (again.returncode, again.stdout.count(" 0 events erased")) == (0, 2)


def test_it_only_counts_if_that_is_all_that_is_wanted(
    broker: BrokerProcess, lake: Lake, run: Run
) -> None:
    done = run(WANTED, "--lake", str(lake.path), "--dry-run")
    assert done.stdout.splitlines() == [
        "broker paris: 10 events would be erased",
        f"lake {lake.path}: 10 events would be erased",
    ]
    assert done.returncode == 0
    assert heard(broker).count("c-7") == 10
    assert len(list(lake.events())) == 100


def test_without_a_terminal_it_wants_to_be_told_that_one_is_sure(
    broker: BrokerProcess, run: Run
) -> None:
    done = run(WANTED)
    assert done.returncode == 2
    assert "say --yes" in done.stderr
    assert heard(broker).count("c-7") == 10


@pytest.mark.parametrize(("answer", "left"), [("n\n", 10), ("\n", 10), ("y\n", 0)])
def test_it_asks_before_it_is_done(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    monkeypatch.setattr(command, "_has_terminal", lambda: True)
    done = CliRunner().invoke(app, ["erase", WANTED, "--url", broker.url], input=answer)
    assert "Erase 10 events for good?" in done.stderr
    assert done.exit_code == (1 if left else 0)
    assert heard(broker).count("c-7") == left


def test_a_lake_alone_needs_no_broker(lake: Lake, broker: BrokerProcess) -> None:
    broker.stop()
    arguments = ["erase", WANTED, "--lake", str(lake.path), "--only-lakes", "--yes"]
    done = CliRunner().invoke(app, [*arguments, "--url", "tidings://127.0.0.1:1"])
    assert (done.exit_code, done.stdout) == (0, f"lake {lake.path}: 10 events erased\n")
    broker.start()


def test_a_lake_that_the_broker_tells_of_is_named_if_it_was_left_out(
    broker: BrokerProcess, lake: Lake, run: Run
) -> None:
    broker.stop()
    broker.start(config=f'[retention]\nlake = "{lake.path}"\n')
    done = run(WANTED, "--yes")
    assert done.returncode == 1
    assert f"add --lake {lake.path}" in done.stderr
    assert run(WANTED, "--yes", "--lake", str(lake.path)).returncode == 0


def test_a_lake_that_is_behind_may_get_something_of_it_yet(
    broker: BrokerProcess, lake: Lake, run: Run
) -> None:
    with tidings.connect_sync(broker.url, wait=30) as client:
        client.publish({"customer": "c-7", "n": 100})
    done = run(WANTED, "--lake", str(lake.path), "--yes")
    assert done.returncode == 1
    assert "has not come to all that is erased in paris" in done.stderr


def test_what_is_wrong_is_said_and_nothing_is_erased(
    broker: BrokerProcess, run: Run, tmp_path: Path
) -> None:
    assert run("customer = ", "--yes").returncode == 2
    assert run(WANTED, "--yes", "--lake", str(tmp_path / "none")).returncode == 2
    assert run(WANTED, "--only-lakes", "--yes").returncode == 2
    assert run(WANTED, "--yes", "--url", "tidings://127.0.0.1:1").returncode == 2
    assert heard(broker).count("c-7") == 10
