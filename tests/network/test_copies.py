"""Copies for bulk subscribers: nobody's but the addressee's, at any broker, live and later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.network.brokers import HASTY, PATIENCE, Network
from tests.network.test_limits import command
from tidings.broker.tokens import hashed
from tidings.spark.bulk.registrations import deliveries, registration

pytestmark = pytest.mark.slow

WHO = ("desk", "lab", "pipeline")
TOKENS = {name: f"tidings_{name}" for name in (*WHO, "a", "b")}
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class Secure(Network):
    """Two brokers that ask who somebody is, and let only `pipeline` deliver."""

    def _text(self, name: str) -> str:
        head, _, links = super()._text(name).partition("[neighbours]\n")
        tokens = "".join(f'{who} = "{hashed(token)}"\n' for who, token in TOKENS.items())
        address = links.split('"')[1]
        other = "b" if name == "a" else "a"
        link = f'{other} = {{address = "{address}", token = "{TOKENS[name]}"}}'
        return f'deliverers = ["pipeline"]\n{head}[tokens]\n{tokens}[neighbours]\n{link}\n'

    async def linked(self) -> None:
        """Wait until each hears of the other's stream."""
        async with (
            self.client("a", "desk") as one,
            self.client("b", "desk") as other,
            one.subscribe("probe > 0") as heard,
            other.subscribe("probe > 0") as other_heard,
        ):
            while True:
                await one.publish({"probe": 1})
                await other.publish({"probe": 2})
                try:
                    while (await heard.get(1))["probe"] != 2:
                        pass
                    while (await other_heard.get(1))["probe"] != 1:
                        pass
                except TimeoutError:
                    continue
                return

    def client(self, broker: str, who: str, **more: Any) -> tidings.Client:
        return tidings.connect(self[broker].url, token=TOKENS[who], **more)


@asynccontextmanager
async def secure(folder: Path) -> AsyncIterator[Secure]:
    async with Secure(folder, (("a", "b"),), settings=HASTY) as network:
        async with asyncio.timeout(PATIENCE):
            await network.linked()
        yield network


def copies(n: int, *names: str) -> list[tidings.Notification]:
    return list(deliveries(tidings.Notification({"n": n}), names, id=f"a:{n}", time=NOON))


async def heard(events: tidings.Subscription, last: int) -> list[dict[str, Any]]:
    """All events with a number, up to the last one."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["n"] != last:
        event = await events.get(PATIENCE)
        event.ack_soon()
        if "n" in event.notification:
            found.append(dict(event.notification))
    return found


def test_a_copy_is_nobodys_but_the_addressees(tmp_path: Path) -> None:
    own = {"tidings.time": NOON}

    async def run() -> None:
        async with (
            secure(tmp_path) as network,
            network.client("a", "pipeline") as pipeline,
            network.client("b", "desk") as desk,
            network.client("b", "lab") as lab,
            network.client("a", "lab") as near,
        ):
            async with (
                desk.subscribe("TRUE", bulk="falling") as falling,
                desk.subscribe("TRUE", bulk="rising", durable="rising") as rising,
                lab.subscribe("TRUE", bulk="falling") as labs,
                desk.subscribe("TRUE") as live,
                near.subscribe("n > 0 OR EXISTS tidings.for", durable="d") as durable,
            ):
                everybody = ("desk/falling", "desk/rising", "lab/falling", "x/y")
                await pipeline.publish_many(copies(1, *everybody))
                await pipeline.publish_many(copies(2, "desk/falling"))
                await pipeline.publish_many(copies(3, "lab/falling", "lab/other"))
                await pipeline.publish({"n": 4})
                end = copies(5, *everybody)
                await pipeline.publish_many(end)
                for events, name, numbers in (
                    (falling, "desk/falling", (1, 2, 5)),
                    (rising, "desk/rising", (1, 5)),
                    (labs, "lab/falling", (1, 3, 5)),
                ):
                    assert await heard(events, 5) == [
                        {"n": n, "tidings.for": {name}, "tidings.id": f"a:{n}", **own}
                        for n in numbers
                    ]
                await pipeline.publish({"n": 6})
                for events in (live, durable):
                    assert await heard(events, 6) == [{"n": 4}, {"n": 6}]
                    assert events.missed == 0
            # The same from history: who was away, who begins before, and who copies the log.
            async with lab.subscribe("TRUE", since="begin") as events:
                assert await heard(events, 6) == [{"n": 4}, {"n": 6}]
            async with lab.subscribe("TRUE", bulk="falling", since="begin") as events:
                found = await heard(events, 5)
                assert [each["n"] for each in found] == [1, 3, 5]
                assert {name for each in found for name in each["tidings.for"]} == {"lab/falling"}
            rows = [record async for rows in near.copy("a") for record in rows.records]
            assert [row for row in rows if "tidings.for" in row] == [{"tidings.for": True}] * 4
            assert [row["n"] for row in rows if "n" in row] == [4, 6]
            network.check_calm()

    asyncio.run(run())


def test_nobody_listens_registers_or_delivers_under_the_name_of_somebody_else(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with (
            secure(tmp_path) as network,
            network.client("a", "desk") as desk,
            network.client("a", "lab") as lab,
            network.client("a", "pipeline") as pipeline,
        ):
            assert (desk.principal, lab.principal) == ("desk", "lab")
            for wanted in ("EXISTS tidings.for", "n = 1 AND tidings.for CONTAINS 'desk/falling'"):
                with pytest.raises(tidings.SubscriptionRefused, match=r"subscribe\(bulk=NAME\)"):
                    await lab.subscribe(wanted)
            async with lab.subscribe("TRUE", bulk="desk/falling") as events:  # it is lab/desk/…
                await pipeline.publish_many(copies(1, "desk/falling"))
                await pipeline.publish_many(copies(2, "lab/desk/falling"))
                assert [each["n"] for each in await heard(events, 2)] == [2]
            await lab.publish(registration("lab/falling", "TRUE"))
            for name in ("desk/falling", "falling", "lab"):
                with pytest.raises(
                    tidings.PublishRefused, match="those of lab are called lab/NAME"
                ):
                    await lab.publish(registration(name, "TRUE"))
            refused: list[int] = []
            forged = [{"n": 1}, *copies(2, "desk/falling"), {"n": 3}]
            kept = await lab.publish_many(forged, on_refused=lambda at, _: refused.append(at))
            assert (kept, refused) == (2, [1])
            with pytest.raises(tidings.PublishRefused, match=r'deliverers = \["lab"\]'):
                await lab.publish(copies(4, "lab/falling")[0])
            with pytest.raises(tidings.AdvertisementRefused, match="may not publish copies"):
                await lab.advertise("EXISTS tidings.for")
            async with desk.subscribe("TRUE", bulk="falling"):
                wanted = lab.interest("tidings.for CONTAINS 'desk/falling' OR unheard = 'of'")
                assert await anext(wanted) is False
                await wanted.aclose()
                plain = lab.interest("zz = 1")
                assert await anext(plain) is False, "nobody is told who listens in bulk"
                async with desk.subscribe("zz > 0"):
                    assert await anext(plain) is True
                assert await anext(plain) is False
                await plain.aclose()

    asyncio.run(run())


def test_the_command_listens_under_the_name_of_its_principal(tmp_path: Path) -> None:
    async def run() -> None:
        async with secure(tmp_path) as network, network.client("a", "pipeline") as pipeline:
            broker = network["a"]
            (tmp_path / "f.tsv").write_text("falling\tchange < 0\n")
            registered = await asyncio.to_thread(
                command, broker, "desk", "subscribe", "--filters", str(tmp_path / "f.tsv")
            )
            assert registered == (0, "1 subscription registered")
            said = [e.notification for e in broker.log() if "tidings.bulk" in e.notification]
            assert [each["tidings.bulk"] for each in said] == ["desk/falling"]
            await pipeline.publish_many(copies(1, "desk/falling", "lab/falling"))
            for who, found in (("desk", '{"n":1} 1 event'), ("lab", '{"n":1} 1 event')):
                arguments = ("subscribe", "--bulk", "falling", "--until", "now")
                assert await asyncio.to_thread(command, broker, who, *arguments) == (0, found)
            arguments = ("subscribe", "TRUE", "--since", "begin", "--until", "now")
            _, all_of_it = await asyncio.to_thread(command, broker, "lab", *arguments)
            assert "tidings.bulk" in all_of_it
            assert "tidings.for" not in all_of_it

    asyncio.run(run())
