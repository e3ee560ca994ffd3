"""What a broker tells of itself, and how the network is found from any broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.broker.peers import configured, connected, eventually, on_loop
from tests.cli.conftest import PROGRAM
from tidings.broker.operations.status import ask
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.cli.network import asker, drawn, explore
from tidings.events import TidingsError
from tidings.protocol.addresses import Address, Place

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
            found = await explore(Place(london.address, False), asker())
            assert set(found.brokers) == {"paris", "london", "rome"}
            assert found.brokers["rome"].streams["london"].path == ("london", "paris", "rome")
            assert "rome" in drawn(found)
            program = await asyncio.create_subprocess_exec(
                *(*PROGRAM, "network", "--url", f"tidings://{rome.address}"),
                *("--draw", str(tmp_path / "network.svg")),
                stdout=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(60):
                shown = (await program.communicate())[0].decode()
            assert program.returncode == 0
            assert "london" in shown
            assert "in the tree" in shown
            assert (tmp_path / "network.svg").read_text().startswith("<svg")
        await eventually(lambda: not paris.links.is_up("rome"))
        found = await explore(Place(paris.address, False), asker())
        assert set(found.silent) == {"london", "rome"}
        assert "nobody can be reached" in found.silent["rome"]
        assert "rome" in drawn(found)
