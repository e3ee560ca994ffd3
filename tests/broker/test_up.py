"""`tidings up` as an operator runs it: started, stopped, killed, misconfigured."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tests.cli.conftest import Run, tidings
from tidings.broker.configuration import load_tokens
from tidings.broker.server import Broker
from tidings.events import TidingsError
from tidings.protocol.addresses import Address, parse_address
from tidings.protocol.requests import Accepted, Refused

__all__ = ["tidings"]

PROGRAM = [sys.executable, "-m", "tidings.cli"]


class Process:
    """A broker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, line: str) -> None:
        self.process, self.line = process, line
        found = re.search(r"tidings://(\S+),", line)
        assert found is not None, line
        self.address: Address = parse_address(found[1])

    async def end(self, how: signal.Signals) -> tuple[int, str]:
        """Its exit code, and what it has logged."""
        self.process.send_signal(how)
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            logged = (await self.process.stderr.read()).decode()
            return await self.process.wait(), logged


@asynccontextmanager
async def up(*options: str, folder: Path) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(*PROGRAM, "up", "--listen", "127.0.0.1:0", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        yield Process(process, (await process.stdout.readline()).decode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@on_loop
async def test_one_line_says_that_it_is_ready(tmp_path: Path) -> None:
    async with up("--name", "paris", folder=tmp_path) as paris:
        assert re.fullmatch(
            r"paris listens on tidings://127\.0\.0\.1:\d+, store tidings-store, 0 events kept\n",
            paris.line,
        )
        assert (tmp_path / "tidings-store").is_dir()
        code, logged = await paris.end(signal.SIGTERM)
        assert code == 0
        assert "Traceback" not in logged


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@on_loop
async def test_what_was_accepted_is_there_after_the_end(
    tmp_path: Path, how: signal.Signals
) -> None:
    async with up(folder=tmp_path) as broker, connected(broker.address) as peer:
        await peer.attach("ann")
        await peer.subscribe("n > 0", durable="desk")
        await peer.published(1, *({"n": n} for n in range(1, 101)))
        code, logged = await broker.end(how)
        assert code == (-signal.SIGKILL if how is signal.SIGKILL else 0)
        assert "Traceback" not in logged
        if how is not signal.SIGKILL:
            farewell = [m for m in await peer.rest() if isinstance(m, Refused)]
            assert farewell == [Refused("", "the broker is shutting down")]
    async with up(folder=tmp_path) as broker, connected(broker.address) as peer:
        assert "100 events kept" in broker.line
        await peer.attach("ann")
        assert [m.number for m in peer.heard if isinstance(m, Accepted)] == [100]
        await peer.subscribe("n > 0", durable="desk")
        assert [e["n"] for e in await peer.deliveries(100)] == list(range(1, 101))


@on_loop
async def test_stopping_keeps_and_sends_what_was_taken_in(tmp_path: Path) -> None:
    """Whatever the moment: each publication is accepted and kept, or neither."""
    broker = Broker(configured(tmp_path))
    await broker.start()
    async with connected(broker) as writer, connected(broker) as reader:
        await writer.attach("writer")
        await reader.attach("reader")
        await reader.subscribe("n > 0")
        for number in range(1, 2001, 10):
            writer.publish(number, *({"n": number + i} for i in range(10)))
        await eventually(lambda: broker.host.last > 0)
        await broker.stop()
        accepted = [m.number for m in await writer.rest() if isinstance(m, Accepted)]
        await reader.rest()
        heard = [m["n"] for m in await reader.deliveries(broker.host.last)]
    assert heard == list(range(1, broker.host.last + 1))
    assert max([0, *(a for a in accepted)]) <= broker.host.last
    async with Broker(configured(tmp_path)) as again, connected(again) as writer:
        await writer.attach("writer")
        [kept] = [m.number for m in writer.heard if isinstance(m, Accepted)]
        assert kept == broker.host.last >= max(accepted)


@on_loop
async def test_a_client_that_does_not_read_cannot_stop_the_stopping(tmp_path: Path) -> None:
    broker = Broker(configured(tmp_path, drain=0.5))
    await broker.start()
    async with connected(broker) as deaf:
        await deaf.attach("deaf")
        await deaf.subscribe("n > 0")
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with connected(broker) as writer:
            await writer.attach("writer")
            await fill(broker, writer)
        await broker.stop()
    assert not broker.gate.connections


async def fill(broker: Broker, writer: Peer) -> None:
    number = 1
    while not any(connection.waiting for connection in broker.gate.connections):
        await writer.published(number, *({"n": 1, "text": "x" * 50_000} for _ in range(20)))
        number += 20


@on_loop
async def test_a_port_that_is_taken_and_a_store_in_use_are_told(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path, name="paris")) as broker:
        with pytest.raises(TidingsError, match=f"cannot listen on {broker.address}: "):
            await Broker(configured(tmp_path, name="london", listen=str(broker.address))).start()
        with pytest.raises(TidingsError, match=r"in use|locked|another"):
            await Broker(configured(tmp_path, name="paris")).start()
    async with Broker(configured(tmp_path, name="london")):
        pass  # what failed to start has let go of its store


@on_loop
async def test_logs_are_lines_of_json_when_nobody_watches(tmp_path: Path) -> None:
    async with up("--name", "paris", folder=tmp_path) as paris:
        async with connected(paris.address) as peer:
            peer.writer.write(b"what is this?")
            await peer.rest()
        _, logged = await paris.end(signal.SIGTERM)
    [line] = [json.loads(text) for text in logged.splitlines() if text.startswith("{")]
    assert (line["level"], line["broker"]) == ("warning", "paris")
    assert "refused somebody at 127.0.0.1" in line["message"]
    assert line["time"].startswith("20")


def test_being_open_to_everybody_is_refused_at_start(tidings: Run, tmp_path: Path) -> None:
    done = tidings("up", "--listen", "0.0.0.0:0", "--store", str(tmp_path / "s"))
    assert done.returncode == 2
    assert "tidings token NAME" in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_configuration_that_is_wrong_is_told_with_its_line(tidings: Run, tmp_path: Path) -> None:
    file = tmp_path / "paris.toml"
    file.write_text('name = "paris"\n[limits]\nfram = 10\n')
    done = tidings("up", "--config", str(file))
    assert done.returncode == 2
    assert f"{file}, line 3: there is no key 'fram' (did you mean 'frame'?)" in done.stderr


def test_a_token_is_printed_with_its_line_and_lets_its_owner_in(
    tidings: Run, tmp_path: Path
) -> None:
    shown = tidings("token", "desk 7").stdout
    token = re.search(r"^  (tidings_\S+)$", shown, re.MULTILINE)
    lines = re.search(r"\[tokens\]\n.*\n", shown)
    assert token is not None
    assert lines is not None
    check_token(tmp_path, token[1], lines[0])


@on_loop
async def check_token(tmp_path: Path, token: str, lines: str) -> None:
    text = "\n".join(line.strip() for line in lines.splitlines())
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann", token=token)
        assert [session.partition("#")[0] for session in broker.host.sessions] == ["desk 7/ann"]


def test_a_token_may_be_for_a_time(tidings: Run, tmp_path: Path) -> None:
    shown = tidings("token", "desk", "--for", "30d").stdout
    until = datetime.now(UTC) + timedelta(days=30)
    assert f"whoever has it is desk, until {until:%Y-%m-%dT%H:%M:}" in shown
    token = re.search(r"^  (tidings_\S+)$", shown, re.MULTILINE)
    line = re.search(r"^  (desk = .*)$", shown, re.MULTILINE)
    assert token is not None
    assert line is not None
    file = tmp_path / "tokens.toml"
    file.write_text(f"[tokens]\n{line[1]}\n")
    grant = load_tokens(str(file)).find(token[1])
    assert grant is not None
    assert abs(grant.until - until.timestamp()) < 60
    for wrong in ("soon", "0d", "200y", "99999w"):
        done = tidings("token", "desk", "--for", wrong)
        assert (done.returncode, done.stdout) == (2, "")


def test_a_principal_has_no_slash_in_its_name(tidings: Run) -> None:
    done = tidings("token", "a/b")
    assert done.returncode == 2
    assert "no `/`" in done.stderr
