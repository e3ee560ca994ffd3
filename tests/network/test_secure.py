"""A network as one runs it between machines: TLS on each link, certificates and tokens; and the
commands that talk to it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

import tidings
from tests.broker.doors.test_certificates import Papers
from tests.network.brokers import HASTY, PATIENCE, USUAL, BrokerProcess, eventually, free_ports
from tidings.broker.tokens import hashed, new_token

pytestmark = pytest.mark.slow

CITIES = ("paris", "london", "rome")


class Secure:
    """paris ─ london by certificates of one authority; rome, which has its own, by a token.

    rome's own certificate is of an authority that london does not know.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("brokers", "rome's", "desks"):
            (folder / name).mkdir()
        self.papers, self.desks = Papers(folder / "brokers"), Papers(folder / "desks")
        self.romes = Papers(folder / "rome's")
        self.token = new_token()
        (folder / "rome.token").write_text(self.token)
        self.write_tokens(f'rome = "{hashed(self.token)}"')
        self.ports = dict(zip(CITIES, free_ports(3), strict=True))
        links = {
            "paris": f'london = "{self.url("london")}"',
            "london": f'paris = "{self.url("paris")}"\nrome = {{}}',
            "rome": f'london = {{address = "{self.url("london")}", own_token_file = "rome.token"}}',
        }
        self.brokers = {city: self._broker(city, links[city]) for city in CITIES}

    def write_tokens(self, text: str) -> None:
        new = self.folder / "tokens.new"
        new.write_text(f"[tokens]\n{text}\n")
        new.replace(self.folder / "tokens.toml")

    def url(self, city: str) -> str:
        return f"tidings+tls://localhost:{self.ports[city]}"

    def _broker(self, city: str, links: str) -> BrokerProcess:
        papers = self.romes if city == "rome" else self.papers
        certificate, key = papers.files(city)
        tokens = 'tokens = "tokens.toml"\n' if city == "london" else ""
        text = (
            f'name = "{city}"\nlisten = "127.0.0.1:{self.ports[city]}"\nstore = "{city}"\n{tokens}'
            f'{HASTY}\n[neighbours]\n{links}\n[tls]\ncertificate = "{certificate}"\n'
            f'key = "{key}"\nclient_authority = "{self.desks.file}"\n'
            f'neighbour_authority = "{self.papers.file}"\n'
        )
        return BrokerProcess(self.folder, city, text, port=self.ports[city])

    def client(self, city: str, **more: object) -> tidings.Client:
        """One that shows the certificate of desk-7."""
        authority = (self.romes if city == "rome" else self.papers).file
        certificate, key = self.desks.files("desk-7")
        files = tidings.Certificates(authority, certificate, key)
        return tidings.connect(self.url(city), tls=files, **more)  # type: ignore[arg-type]

    async def run(self, *arguments: str, city: str, input: str = "") -> tuple[int, str, str]:
        """A command, with what it needs in the environment."""
        certificate, key = self.desks.files("desk-7")
        both = self.folder / "both.pem"
        both.write_text(self.papers.file.read_text() + self.romes.file.read_text())
        process = await asyncio.create_subprocess_exec(
            *USUAL,
            *arguments,
            env={
                **os.environ,
                "TIDINGS_URL": self.url(city),
                "TIDINGS_AUTHORITY": str(both),
                "TIDINGS_CERTIFICATE": str(certificate),
                "TIDINGS_KEY": str(key),
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                out, said = await process.communicate(input.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return process.returncode, out.decode(), said.decode()

    async def is_whole(self) -> bool:
        """Whether the network is one, as its own command sees it."""
        _, shown, _ = await self.run("network", city="paris")
        return shown.count("in the tree") == 4 and "no answer" not in shown

    async def become_whole(self) -> None:
        end = monotonic() + PATIENCE
        while not await self.is_whole():
            assert monotonic() < end, await self.run("network", city="paris")


@asynccontextmanager
async def secure(folder: Path) -> AsyncIterator[Secure]:
    network = Secure(folder)
    async with AsyncExitStack() as stack:
        for broker in network.brokers.values():
            stack.callback(broker.clean_up)
            broker.launch()
        for broker in network.brokers.values():
            await broker.ready()
        await network.become_whole()
        yield network
    for broker in network.brokers.values():
        assert "Traceback" not in broker.said


def test_events_cross_it_whoever_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            secure(tmp_path) as network,
            network.client("rome") as reader,
            network.client("paris") as writer,
            reader.subscribe("n > 0", durable="all") as events,
        ):
            heard: list[int] = []

            async def read(upto: int) -> None:
                async with asyncio.timeout(PATIENCE):
                    while not heard or heard[-1] < upto:
                        event = await events.get()
                        heard.append(event["n"])
                        event.ack_soon()

            await writer.publish_many({"n": n} for n in range(1, 101))
            await read(100)
            for n, city in enumerate(("london", "paris", "rome"), 1):
                network.brokers[city].kill()
                await network.brokers[city].start()
                await writer.publish_many({"n": 100 * n + i} for i in range(1, 101))
                await read(100 * (n + 1))
            assert heard == list(range(1, 401))

    asyncio.run(main())


def test_commands_show_a_certificate_and_see_the_whole_network(tmp_path: Path) -> None:
    async def main() -> None:
        async with secure(tmp_path) as network:
            code, _, said = await network.run("publish", '{"n": 7}', city="london")
            assert (code, said) == (0, "")
            code, out, _ = await network.run(
                *("subscribe", "n > 0", "--since", "begin", "--until", "now"), city="london"
            )
            assert (code, json.loads(out)) == (0, {"n": 7})
            archived = str(tmp_path / "lake")
            code, _, said = await network.run(
                *("pipeline", "archive", "--lake", archived, "--until-live", "--master", "none"),
                city="london",
            )
            assert code == 0, said
            code, shown, _ = await network.run("network", city="rome")
            assert code == 0
            assert all(city in shown for city in CITIES)
            assert "no answer" not in shown
            code, _, said = await network.run(
                *("publish", "{}", "--certificate", "", "--key", ""), city="london"
            )
            assert code == 2
            assert "Traceback" not in said

    asyncio.run(main())


def test_a_link_ends_with_its_token_and_begins_with_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with secure(tmp_path) as network:
            london, rome = network.brokers["london"], network.brokers["rome"]
            new = new_token()
            network.write_tokens(f'rome = "{hashed(new)}"')
            await eventually(lambda: "is not valid any longer" in rome.said)
            await eventually(lambda: "london does not know this token" in rome.said)
            assert "lost the link with rome" in london.said
            (tmp_path / "rome.token").write_text(new)
            await network.become_whole()

    asyncio.run(main())


def test_a_client_goes_on_by_the_token_that_its_file_has_then(tmp_path: Path) -> None:
    """The broker learns of the new token first, and forgets the old one last."""

    async def main() -> None:
        async with secure(tmp_path) as network:
            old, new = new_token(), new_token()
            shown = tmp_path / "desk.token"
            shown.write_text(old)
            known = f'rome = "{hashed(network.token)}"\n'
            network.write_tokens(f'{known}desk = "{hashed(old)}"')
            told: list[str] = []
            reader = await _let_in(
                network.url("london"), token=shown, tls=network.papers.file, told=told
            )
            events = await reader.subscribe("n > 0")
            network.write_tokens(f'{known}desk = ["{hashed(old)}", "{hashed(new)}"]')
            shown.write_text(new)
            network.write_tokens(f'{known}desk = "{hashed(new)}"')
            await eventually(lambda: any("connected again" in what for what in told))
            async with network.client("paris") as writer:
                await writer.publish({"n": 1})
            event = await events.get(PATIENCE)
            assert event["n"] == 1
            assert any("the token of desk that was shown is not valid" in what for what in told)
            network.write_tokens(known)
            with pytest.raises(tidings.AccessDenied, match="not valid any longer"):
                await events.get(PATIENCE)
            await reader.close()

    asyncio.run(main())


async def _let_in(url: str, *, token: Path, tls: Path, told: list[str]) -> tidings.Client:
    """A client, as soon as the broker has read who may come in."""
    end = monotonic() + PATIENCE
    while True:
        try:
            return await tidings.connect(
                url, token=token, tls=tls, on_status=lambda _, what: told.append(what)
            )
        except tidings.AccessDenied:
            assert monotonic() < end
