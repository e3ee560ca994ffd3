"""Brokers that are linked: who dials, which connection survives, and what a break costs."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.protocol.addresses import Address
from tidings.protocol.requests import Refused
from tidings.protocol.wire import VERSION, Hello, Welcome

QUICK = "[routing]\nbeat = 0.1\nsilence = 0.5\npause = 0.1\nprogress = 0.1\n"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def pair(folder: Path, routing: str = "") -> tuple[Broker, Broker]:
    """Two brokers that both dial."""
    ports = {"london": free_port(), "paris": free_port()}
    return tuple(  # type: ignore[return-value]
        Broker(
            configured(
                folder,
                f'{QUICK}{routing}[neighbours]\n{other} = "127.0.0.1:{ports[other]}"\n',
                name=name,
                listen=f"127.0.0.1:{ports[name]}",
            )
        )
        for name, other in (("london", "paris"), ("paris", "london"))
    )


def linked(a: Broker, b: Broker) -> bool:
    """Whether both ends pass events to each other."""
    return all(
        link.is_up and link.is_in_tree for broker in (a, b) for link in broker.status().links
    )


def connections_between(a: Broker, b: Broker) -> int:
    return sum(c.label == f"broker {b.name}" and not c.is_closing for c in a.gate.connections)


async def crosses(reader: Peer, writer: Peer, number: int) -> None:
    await writer.published(number, {"n": number})
    assert await reader.deliveries(1) == [{"n": number}]


@on_loop
async def test_events_cross_a_link_in_both_directions(tmp_path: Path) -> None:
    london, paris = pair(tmp_path)
    async with london, paris, connected(london) as ann, connected(paris) as bob:
        await eventually(lambda: linked(london, paris))
        for peer, name in ((ann, "ann"), (bob, "bob")):
            await peer.attach(name)
            await peer.subscribe("n > 0")
        await ann.published(1, {"n": 1})
        assert await bob.deliveries(1) == [{"n": 1}]
        await bob.published(1, {"n": 2})
        assert await bob.deliveries(1) == [{"n": 2}]
        assert await ann.deliveries(2) == [{"n": 1}, {"n": 2}]


@on_loop
async def test_of_two_connections_that_cross_one_survives(tmp_path: Path) -> None:
    london, paris = pair(tmp_path)
    async with london, paris:
        for _ in range(5):
            await eventually(lambda: linked(london, paris))
            await eventually(
                lambda: (
                    connections_between(london, paris) == connections_between(paris, london) == 1
                )
            )
            cut = london.gate.connections | paris.gate.connections
            for connection in cut:
                connection.cut_off("is cut by the test")
            await eventually(
                lambda cut=cut: not cut & (london.gate.connections | paris.gate.connections)
            )


@pytest.mark.parametrize("name", ["london", "rome"])
@on_loop
async def test_the_connection_of_the_smaller_name_wins(tmp_path: Path, name: str) -> None:
    """Here paris is the test: it is dialled, and then dials itself."""
    dialled: asyncio.Queue[Peer] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        assert isinstance(await peer.hear(), Hello)
        peer.say(Welcome(VERSION, "paris"))
        dialled.put_nowait(peer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname()[:2])
    text = f'[neighbours]\nparis = "{address}"\n'
    async with (
        server,
        Broker(configured(tmp_path, text, name=name)) as broker,
        connected(broker) as second,
    ):
        first = await dialled.get()
        try:
            await eventually(lambda: broker.links.is_up("paris"))
            said = await second.greet("paris", role="broker")
            if name == "london":  # which is smaller than paris
                assert said == Refused("", "london and paris are linked already")
            else:
                assert isinstance(said, Welcome)
                assert "another connection" in (await first.until(Refused)).reason
            assert broker.links.is_up("paris")
        finally:
            await first.close()


@on_loop
async def test_a_second_connection_takes_the_place_of_a_dead_one(tmp_path: Path) -> None:
    text = "[neighbours]\nparis = {}\n"
    async with (
        Broker(configured(tmp_path, text, name="london")) as london,
        connected(london) as dead,
        connected(london) as alive,
    ):
        assert isinstance(await dead.greet("paris", role="broker"), Welcome)
        assert isinstance(await alive.greet("paris", role="broker"), Welcome)
        *_, last = await dead.rest()
        assert isinstance(last, Refused)
        assert "another connection" in last.reason
        assert london.links.is_up("paris")


@on_loop
async def test_a_neighbour_that_restarts_is_linked_again_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    london, paris = pair(tmp_path)
    async with connected(await started(london)) as ann:
        await ann.attach("ann")
        await paris.start()
        await eventually(lambda: linked(london, paris))
        await ann.subscribe("n > 0")
        async with connected(paris) as bob:
            await bob.attach("bob")
            await crosses(ann, bob, 1)
        await paris.stop()
        await eventually(lambda: not london.links.is_up("paris"))
        again = Broker(paris.configuration)
        await again.start()
        async with connected(again) as bob:
            await bob.attach("bob")
            await crosses(ann, bob, 2)
        await again.stop()
    await london.stop()


async def started(broker: Broker) -> Broker:
    await broker.start()
    return broker


@on_loop
async def test_brokers_prove_their_names_by_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, port = new_token(), free_port()
    secret = tmp_path / "token"
    secret.write_text(token + "\n")
    place = f'{{address = "127.0.0.1:{port}", own_token_file = "{secret}"}}'
    dials = f"{QUICK}[neighbours]\nlondon = {place}\n"
    lets_in = f'{QUICK}[neighbours]\nparis = {{}}\n[tokens]\nNAME = "{hashed(token)}"\n'
    with caplog.at_level(logging.WARNING, "tidings"):
        async with Broker(configured(tmp_path, dials, name="paris")) as paris:
            wrong = lets_in.replace("NAME", "rome")
            async with Broker(
                configured(tmp_path, wrong, name="london", listen=f"127.0.0.1:{port}")
            ):
                await eventually(lambda: "has proved to be rome" in caplog.text)
            right = lets_in.replace("NAME", "paris")
            async with Broker(
                configured(tmp_path, right, name="london", listen=f"127.0.0.1:{port}")
            ) as london:
                await eventually(lambda: linked(london, paris))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("rome", "rome is no neighbour of london"), ("london", "two brokers called london")],
)
@on_loop
async def test_who_is_no_neighbour_is_told_what_to_do(
    tmp_path: Path, name: str, reason: str
) -> None:
    async with Broker(configured(tmp_path, name="london")) as london, connected(london) as peer:
        refused = await peer.greet(name, role="broker")
        assert isinstance(refused, Refused)
        assert reason in refused.reason


@on_loop
async def test_another_broker_at_the_address_is_not_taken_for_the_neighbour(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "[neighbours]\nparis = {}\n"
    async with Broker(configured(tmp_path, text, name="rome")) as rome:
        text = f'[neighbours]\nlondon = "{rome.address}"\n'
        with caplog.at_level(logging.WARNING, "tidings"):
            async with Broker(configured(tmp_path, text, name="paris")) as paris:
                await eventually(lambda: "the broker there is rome, not london" in caplog.text)
                assert not paris.links.is_up("london")


@on_loop
async def test_a_neighbour_knows_where_a_broker_that_dials_can_be_reached(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path, "[neighbours]\nparis = {}", name="london")) as london:
        text = f'[neighbours]\nlondon = "{london.address}"\n'
        async with Broker(configured(tmp_path, text, name="paris")) as paris:
            await eventually(lambda: london.links.is_up("paris"))
            assert london.status().links[0].address == str(paris.address)


@on_loop
async def test_nobody_there_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    text = f'[neighbours]\nlondon = "127.0.0.1:{port}"\n'
    attempts = asyncio.Semaphore(0)
    with caplog.at_level(logging.WARNING, "tidings"):
        async with Broker(configured(tmp_path, text, name="paris")) as paris:
            await eventually(lambda: "cannot link with london" in caplog.text)
            server = await asyncio.start_server(
                lambda reader, writer: (attempts.release(), writer.close()), "127.0.0.1", port
            )
            for _ in range(3):
                await attempts.acquire()
            server.close()
            await server.wait_closed()
    assert paris.address != Address("127.0.0.1", port)
    said = [r for r in caplog.records if "cannot link" in r.getMessage()]
    assert 1 <= len(said) <= 2


@on_loop
async def test_a_table_that_was_damaged_is_repaired(tmp_path: Path) -> None:
    london, paris = pair(tmp_path, "check = 0.05\n")
    async with london, paris, connected(london) as ann, connected(paris) as bob:
        await eventually(lambda: linked(london, paris))
        await ann.attach("ann")
        await bob.attach("bob")
        await ann.subscribe("n > 0")
        tables, neighbour = (
            paris.host.node.exchange.subscriptions,
            paris.host.node.neighbours["london"],
        )
        await eventually(lambda: bool(tables.wanted[neighbour]))
        tables.replace(neighbour, {})
        await eventually(lambda: bool(tables.wanted[neighbour]))
        await crosses(ann, bob, 1)


@pytest.mark.parametrize(
    ("ours", "options", "said"),
    [
        ("child", {"role": "parent"}, None),
        ("parent", {"role": "child", "tree": False}, None),
        ("peer", {"role": "peer", "tree": False}, None),
        ("peer", {}, None),
        ("child", {"role": "peer"}, 'london needs `role = "peer"` for paris, or paris'),
        ("child", {"role": "child"}, "paris has london as its child"),
        ("peer", {"role": "parent"}, 'london needs `role = "child"` for paris'),
        ("peer", {"role": "boss"}, "paris has london as its boss"),
        ("peer", {"tree": True}, "paris agrees on a tree with its neighbours, and london does not"),
    ],
)
@on_loop
async def test_a_neighbour_says_what_we_are_to_it_and_is_refused_if_that_does_not_fit(
    tmp_path: Path, ours: str, options: dict[str, object], said: str | None
) -> None:
    text = f'[routing]\ntree = false\n[neighbours]\nparis = {{role = "{ours}"}}\n'
    async with (
        Broker(configured(tmp_path, text, name="london")) as london,
        connected(london) as peer,
    ):
        answer = await peer.greet("paris", role="broker", options=options)
        if said is None:
            assert isinstance(answer, Welcome)
            assert not london.status().warnings
        else:
            assert isinstance(answer, Refused)
            assert said in answer.reason
            assert london.status().warnings == (answer.reason,)
