"""Coming in: who is welcome, what everybody else is told, and what garbage does."""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path

import msgspec
import pytest

from tests.broker.peers import configured, connected, eventually, on_loop
from tidings.broker.doors import arrivals
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.events import Filter
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Attach,
    Refused,
    Resend,
    Subscribe,
    Unsubscribe,
)
from tidings.protocol.wire import VERSION, Hello, Ping, Pong, Welcome, encode


def framed(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


@on_loop
async def test_whoever_says_hello_is_told_the_name_and_the_limits(tmp_path: Path) -> None:
    async with (
        Broker(configured(tmp_path, "[limits]\nattributes = 7\n", name="paris")) as broker,
        connected(broker) as peer,
    ):
        welcome = await peer.greet("ann")
        assert isinstance(welcome, Welcome)
        assert (welcome.version, welcome.broker) == (VERSION, "paris")
        assert welcome.limits["attributes"] == 7
        assert welcome.limits["frame"] == 4 << 20


@on_loop
async def test_requests_may_follow_hello_without_waiting_for_the_answer(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        peer.writer.write(encode([Hello(VERSION, "client", "ann")]) + encode([Attach(), Ping(3)]))
        assert isinstance(await peer.hear(), Welcome)
        assert {await peer.hear(), await peer.hear()} == {Accepted("attach"), Pong(3)}


@pytest.mark.parametrize(
    ("bytes_", "reason"),
    [
        (encode([Ping()]), "the first frame must be Hello"),
        (encode([Hello(VERSION + 1, "client", "ann")]), f"version {VERSION + 1} of the wire; this"),
        (framed(msgspec.msgpack.encode([[60, 1, "client", "ann", None, {}]])), "never released"),
        (encode([Hello(4, "broker", "rome", oldest=3)]), "versions 3 to 4 of the wire; this"),
        (framed(msgspec.msgpack.encode([[60, VERSION, "guest", "ann"]])), "guest"),
        (encode([Hello(VERSION, "client", "x" * 300)]), "256 characters"),
        (framed(b"\xc1" * 10), ""),
        (framed(msgspec.msgpack.encode([[99]])), "the first frame must be Hello"),
        (
            encode([Hello(VERSION, "client", "ann"), Ping()]),
            "the first frame must be Hello and nothing else",
        ),
        (encode([]), "the first frame must be Hello and nothing else"),
        (framed(b""), "the first frame must be Hello and nothing else"),
        (framed(b"\x91" * 4000), "the first frame must be Hello and nothing else"),
        (struct.pack(">I", 4093), "a greeting has at most 4092"),
        (framed(msgspec.msgpack.encode({"not": "a list"})), ""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "frame"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it speaks TLS"),
        (b"\xff" * 5000, "frame"),
    ],
    ids=[
        "no-hello",
        "later-version",
        "version-1",
        "later-versions",
        "role",
        "name",
        "garbage",
        "tag",
        "more-in-the-frame",
        "no-message",
        "no-payload",
        "nested",
        "too-long",
        "map",
        "http",
        "tls",
        "ones",
    ],
)
@on_loop
async def test_what_is_wrong_is_told_and_logged_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bytes_: bytes, reason: str
) -> None:
    with caplog.at_level(logging.INFO, "tidings"):
        async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
            peer.writer.write(bytes_)
            [refused] = await peer.rest()
            assert isinstance(refused, Refused)
            assert reason in refused.reason
            await eventually(lambda: not len(broker.arrivals))
            assert not broker.gate.connections
    [line] = [r for r in caplog.records if r.name.startswith("tidings")]
    assert line.levelno == logging.WARNING
    assert refused.reason in line.getMessage()


@on_loop
async def test_whoever_speaks_later_versions_too_is_told_the_one_to_use(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        peer.say(Hello(VERSION + 7, "client", "ann", oldest=1))
        welcome = await peer.until(Welcome)
        assert welcome.version == VERSION
        peer.say(Attach())
        assert await peer.hear() == Accepted("attach")


@on_loop
async def test_frames_may_come_in_any_pieces(tmp_path: Path) -> None:
    whole = encode([Hello(VERSION, "client", "ann")]) + encode([Attach()]) + encode([Ping(1)])
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        for byte in whole:
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert isinstance(await peer.hear(), Welcome)
        assert await peer.hear() == Accepted("attach")
        assert await peer.hear() == Pong(1)


@on_loop
async def test_half_a_frame_and_a_hang_up_harm_nobody(tmp_path: Path) -> None:
    hello = encode([Hello(VERSION, "client", "ann")])
    async with Broker(configured(tmp_path)) as broker, connected(broker) as other:
        await other.attach("other")
        for cut in range(len(hello)):
            async with connected(broker) as peer:
                peer.writer.write(hello[:cut])
        await eventually(lambda: not len(broker.arrivals))
        other.say(Ping(9))
        assert await other.until(Pong) == Pong(9)


@on_loop
async def test_whoever_says_nothing_is_seen_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_SECONDS", 0.05)
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        [refused] = await peer.rest()
        assert isinstance(refused, Refused)
        assert "Hello" in refused.reason


@pytest.mark.slow
@on_loop
async def test_a_silent_client_is_asked_and_stays_if_it_answers(tmp_path: Path) -> None:
    text = "[limits]\nsilence = 0.2\n"
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        for _ in range(3):
            peer.say(Pong((await peer.until(Ping)).number))
        assert broker.host.sessions
        assert await peer.rest() == [Ping()]
        assert not broker.host.sessions


@on_loop
async def test_nothing_is_done_for_a_session_that_is_not_attached(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        await peer.greet("ann")
        peer.say(Subscribe("s", Filter.parse("a = 1")))
        assert await peer.hear() == Resend()


@on_loop
async def test_a_session_goes_on_in_the_newest_connection(tmp_path: Path) -> None:
    async with (
        Broker(configured(tmp_path)) as broker,
        connected(broker) as old,
        connected(broker) as new,
        connected(broker) as writer,
    ):
        await old.attach("ann")
        await old.subscribe("n > 0")
        await new.attach("ann")
        refused = await old.until(Refused)
        assert "another connection" in refused.reason
        await old.rest()
        await new.subscribe("n > 0")
        await writer.attach("bob")
        await writer.published(1, {"n": 1})
        assert await new.deliveries(1) == [{"n": 1}]
        assert len(broker.host.sessions) == 2


@on_loop
async def test_brokers_and_clients_may_not_say_what_is_the_others_to_say(tmp_path: Path) -> None:
    text = "[neighbours]\nlondon = {}\n"
    async with Broker(configured(tmp_path, text, name="paris")) as broker:
        for role, name, said in (("client", "ann", Accepted("x")), ("broker", "london", Attach())):
            async with connected(broker) as peer:
                await peer.greet(name, role=role)
                peer.say(said)
                refused = await peer.until(Refused)
                assert f"no business to say {type(said).__name__}" in refused.reason
                await peer.rest()


# -- tokens ------------------------------------------------------------------------------------


@on_loop
async def test_tokens_are_asked_for_and_checked(tmp_path: Path) -> None:
    token = new_token()
    text = f'[tokens]\ndesk = "{hashed(token)}"\n'
    async with Broker(configured(tmp_path, text, name="paris")) as broker:
        for shown, reason in ((None, "without a token"), ("guess", "not know this token")):
            async with connected(broker) as peer:
                refused = await peer.greet("ann", token=shown)
                assert isinstance(refused, Refused)
                assert reason in refused.reason
                assert await peer.hear() is None
        async with connected(broker) as peer:
            assert isinstance(await peer.greet("ann", token=token), Welcome)
            assert [session.partition("#")[0] for session in broker.host.sessions] == ["desk/ann"]


@on_loop
async def test_nobody_can_take_what_belongs_to_another_principal(tmp_path: Path) -> None:
    tokens = {name: new_token() for name in ("ann", "eve")}
    lines = "".join(f'{name} = "{hashed(token)}"\n' for name, token in tokens.items())
    async with (
        Broker(configured(tmp_path, "[tokens]\n" + lines)) as broker,
        connected(broker) as ann,
        connected(broker) as eve,
    ):
        await ann.attach("session", token=tokens["ann"])
        await ann.subscribe("n > 0", durable="desk")
        await eve.attach("session", token=tokens["eve"])
        await eve.subscribe("n > 0", durable="desk")
        await eve.published(1, {"n": 1})
        assert await ann.deliveries(1) == await eve.deliveries(1) == [{"n": 1}]
        assert not [m for m in ann.heard + eve.heard if isinstance(m, Refused)]


@on_loop
async def test_who_reads_elsewhere_can_say_how_far_only_of_what_is_their_own(
    tmp_path: Path,
) -> None:
    tokens = {name: new_token() for name in ("ann", "eve")}
    lines = "".join(f'{name} = "{hashed(token)}"\n' for name, token in tokens.items())
    async with (
        Broker(configured(tmp_path, "[tokens]\n" + lines, name="paris")) as broker,
        connected(broker) as ann,
        connected(broker) as eve,
    ):
        await ann.attach("session", token=tokens["ann"])
        await eve.attach("session", token=tokens["eve"])
        await ann.subscribe("n > 0", durable="desk")
        far = Acknowledge("", {"paris": 2}, "desk")
        ann.say(Acknowledge("", {"paris": 2}, "desk", "another owner"))
        assert (await ann.until(Refused)).id == "acknowledge ", "somebody else has it"
        ann.say(Unsubscribe("s"))
        await ann.published(1, {"n": 1}, {"n": 2}, {"n": 3})
        for whose in ("desk", "ann/desk"):
            eve.say(Acknowledge("", {"paris": 3}, whose))
            assert (await eve.until(Refused)).id == "acknowledge "
        ann.say(far, Acknowledge("", {"paris": 1}, "desk"))  # which is no way back
        while (await ann.until(Accepted)).id != "acknowledge ":
            pass
        await ann.subscribe("n > 0", durable="desk")
        assert await ann.deliveries(1) == [{"n": 3}]
