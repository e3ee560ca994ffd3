"""What brokers tell about themselves: the status, the network, the metrics and the logs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.peers import configured, connected, eventually, on_loop
from tests.cli.conftest import PROGRAM
from tidings.broker.logs import Lines, Sentences, set_up
from tidings.broker.server import Broker
from tidings.broker.status import ask
from tidings.broker.tokens import hashed, new_token
from tidings.cli.network import drawn, explore
from tidings.events import TidingsError
from tidings.protocol.addresses import Address

QUICK = "[routing]\nbeat = 0.1\nsilence = 0.5\nprogress = 0.1\n"


def linked_to(broker: Broker) -> str:
    return f'{QUICK}[neighbours]\n{broker.name} = "{broker.address}"\n'


@on_loop
async def test_a_broker_tells_its_status(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path, name="paris")) as broker, connected(broker) as peer:
        await peer.attach("ann")
        await peer.subscribe("n > 0")
        await peer.published(1, {"n": 1}, {"n": 2})
        status = await ask(broker.address)
        assert (status.broker, status.address) == ("paris", str(broker.address))
        assert (status.first, status.last, status.trouble) == (1, 2, None)
        assert (status.sessions, status.subscriptions) == (1, 1)
        assert status.size > 0
        assert status.streams["paris"].upto == 2
        assert len(broker.host.node.sessions) == 1  # asking leaves no trace


@on_loop
async def test_only_who_may_connect_may_ask(tmp_path: Path) -> None:
    token = new_token()
    text = f'[tokens]\nadmin = "{hashed(token)}"\n'
    async with Broker(configured(tmp_path, text)) as broker:
        with pytest.raises(TidingsError, match="without a token"):
            await ask(broker.address)
        assert (await ask(broker.address, token=token)).broker == "broker"


@on_loop
async def test_who_is_no_broker_is_told_apart_from_nobody(tmp_path: Path) -> None:
    answers = [b"", b"\x00\x00\x00\x01\x90", b"HTTP/1.1 400 Bad Request\r\n\r\n"]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answers.pop(0))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname()[:2])
    for reason in ("hung up", "no broker of this version", "."):
        with pytest.raises(TidingsError, match=reason):
            await ask(address)
    server.close()
    await server.wait_closed()
    with pytest.raises(TidingsError, match="nobody can be reached"):
        await ask(address)


@pytest.mark.slow
@on_loop
async def test_the_whole_network_is_found_from_any_broker_and_drawn(tmp_path: Path) -> None:
    text = f"{QUICK}[neighbours]\nlondon = {{}}\nrome = {{}}\n"
    async with Broker(configured(tmp_path, text, name="paris")) as paris:
        async with (
            Broker(configured(tmp_path, linked_to(paris), name="london")) as london,
            Broker(configured(tmp_path, linked_to(paris), name="rome")) as rome,
        ):
            for other in (london, rome):
                await eventually(lambda other=other: len(other.status().streams) == 3)
            found = await explore(london.address)
            assert set(found.brokers) == {"paris", "london", "rome"}
            assert found.brokers["rome"].streams["london"].path == ("london", "paris", "rome")
            assert "rome" in drawn(found)
            program = await asyncio.create_subprocess_exec(
                *(*PROGRAM, "network", "--url", f"tidings://{rome.address}"),
                *("--draw", str(tmp_path / "network.svg")),
                stdout=asyncio.subprocess.PIPE,
            )
            shown = (await program.communicate())[0].decode()
            assert program.returncode == 0
            assert "london" in shown
            assert "in the tree" in shown
            assert (tmp_path / "network.svg").read_text().startswith("<svg")
        await eventually(lambda: not paris.links.is_up("rome"))
        found = await explore(paris.address)
        assert set(found.silent) == {"london", "rome"}
        assert "nobody can be reached" in found.silent["rome"]
        assert "rome" in drawn(found)


# -- metrics -----------------------------------------------------------------------------------


async def fetched(address: Address, request: str = "GET /metrics HTTP/1.1") -> tuple[str, str]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"{request}\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return head.splitlines()[0], body


@on_loop
async def test_metrics_are_what_prometheus_reads(tmp_path: Path) -> None:
    text = f'metrics = "127.0.0.1:0"\n{QUICK}[neighbours]\nrome = {{}}\n'
    async with (
        Broker(configured(tmp_path, text, name="paris")) as broker,
        connected(broker) as peer,
    ):
        await peer.attach("ann")
        await peer.subscribe("n > 0")
        await peer.published(1, {"n": 1}, {"n": 2})
        await peer.deliveries(2)
        assert broker.metrics_address is not None
        line, body = await fetched(broker.metrics_address)
        assert line == "HTTP/1.1 200 OK"
        found = {
            sample.name: sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
        }
        assert found["tidings_events_published_total"] == 2
        assert found["tidings_events_kept_total"] == 2
        assert found["tidings_events_delivered_total"] == 2
        assert found["tidings_sessions"] == found["tidings_subscriptions"] == 1
        assert found["tidings_commit_seconds_count"] >= 1
        assert found["tidings_store_bytes"] > 0
        assert found["tidings_link_up"] == 0
        line, _ = await fetched(broker.metrics_address, "GET /secrets HTTP/1.1")
        assert line == "HTTP/1.1 404 Not Found"


@on_loop
async def test_metrics_beyond_this_machine_are_for_who_shows_a_token(tmp_path: Path) -> None:
    token = new_token()
    text = f'metrics = "0.0.0.0:0"\n[tokens]\nprometheus = "{hashed(token)}"\n'
    async with Broker(configured(tmp_path, text)) as broker:
        assert broker.metrics_address is not None
        address = Address("127.0.0.1", broker.metrics_address.port)
        for shown in ("", "\r\nAuthorization: Bearer guess", f"\r\nAuthorization: Basic {token}"):
            line, body = await fetched(address, f"GET /metrics HTTP/1.1{shown}")
            assert line == "HTTP/1.1 401 Unauthorized"
            assert "tidings_" not in body
        line, body = await fetched(
            address, f"GET /metrics HTTP/1.1\r\nauthorization: Bearer {token}"
        )
        assert line == "HTTP/1.1 200 OK"
        assert "tidings_connections" in body


@on_loop
async def test_metrics_tell_of_statistics_that_were_none(tmp_path: Path) -> None:
    text = 'metrics = "127.0.0.1:0"\n[routing]\nsubscriptions = "learnt:0.01"\n'
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        await peer.published(1, {"tidings.statistics": "distribution", "content": "?"})
        assert broker.metrics_address is not None
        _, body = await fetched(broker.metrics_address)
        assert "\ntidings_statistics_ignored_total 1.0\n" in body


@on_loop
async def test_a_metrics_port_that_is_taken_is_told(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker:
        text = f'metrics = "{broker.address}"\n'
        with pytest.raises(TidingsError, match="cannot serve metrics"):
            await Broker(configured(tmp_path, text, name="other")).start()


# -- logs --------------------------------------------------------------------------------------


def record(**extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": "lost %s\x1b[2J", "args": ("rome",), "levelno": 30})
    made.levelname = "WARNING"
    made.__dict__.update(extra)
    return made


def test_lines_are_for_programs() -> None:
    line = json.loads(Lines("paris").format(record(session="ann", event="paris:7")))
    assert line["message"] == "lost rome\x1b[2J"
    assert (line["broker"], line["session"], line["event"]) == ("paris", "ann", "paris:7")


def test_sentences_are_for_people_and_cannot_upset_the_terminal() -> None:
    text = Sentences().format(record())
    assert text.endswith("! lost rome·[2J")
    assert "\x1b" not in text


def test_logs_go_to_the_stream_and_nowhere_else() -> None:
    logger = logging.getLogger("tidings")
    before = (logger.handlers[:], logger.level, logger.propagate)
    stream = io.StringIO()
    try:
        set_up("paris", stream=stream)
        logging.getLogger("tidings.broker.x").info("hello")
        assert json.loads(stream.getvalue())["message"] == "hello"
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
