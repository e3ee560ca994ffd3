"""The metrics of a broker, as Prometheus asks for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.peers import configured, connected, on_loop
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.events import TidingsError
from tidings.protocol.addresses import Address

QUICK = "[routing]\nbeat = 0.1\nsilence = 0.5\nprogress = 0.1\n"


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
