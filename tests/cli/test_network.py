"""`tidings network`: what brokers warn of is shown under their names."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from tidings.broker.operations.status import LinkStatus, Status, StreamStatus
from tidings.cli.network import NetworkStatus, _draw, _shown


def status(**more: object) -> Status:
    about = {
        "broker": "rome", "version": "1", "address": "127.0.0.1:7411", "uptime": 1.0, "first": 1,
        "last": 0, "size": 0, "trouble": None, "sessions": 0, "connections": 0, "subscriptions": 0,
        "links": (), "streams": {}, "rates": {},
    }  # fmt: skip
    return Status(**{**about, **more})  # type: ignore[arg-type]


def shown(found: Status) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(_shown(NetworkStatus({found.broker: found}, {})))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_warnings_are_shown_with_the_broker_that_gives_them() -> None:
    text = shown(status(warnings=("two brokers are named paris",)))
    assert "rome: two brokers are named paris" in text


def test_one_broker_is_not_many(tmp_path: Path) -> None:
    _draw(NetworkStatus({"rome": status()}, {}), tmp_path / "network.svg")
    assert "1 broker<" in (tmp_path / "network.svg").read_text()


def test_of_a_neighbour_its_current_stream_is_shown() -> None:
    link = LinkStatus("paris", True, True, 0, 0, 0, 0)
    path = ("paris", "rome")
    streams = {"paris": StreamStatus(path, 871), "paris~2": StreamStatus(path, 12)}
    text = shown(status(links=(link,), streams=streams))
    assert "12" in text
    assert "871" not in text


def test_roles_are_shown_where_there_are_any() -> None:
    link = LinkStatus("paris", True, True, 0, 0, 0, 0)
    parent = LinkStatus("oslo", True, True, 0, 0, 0, 0, role="parent")
    assert "role" not in shown(status(links=(link,)))
    assert "parent" in shown(status(links=(link, parent)))
