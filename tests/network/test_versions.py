"""Versions of the wire: a network is upgraded one by one, and nobody hears of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.network.brokers import ODD, USUAL, BrokerProcess, Network, eventually
from tidings.protocol import wire

NOW = wire.VERSION
LATER = NOW + 1


@pytest.fixture(autouse=True)
def later_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the odd broker is here: a build that speaks one version more."""
    monkeypatch.setenv("ODD_VERSION", str(LATER))


def run(work: Coroutine[Any, Any, None]) -> None:
    async def soon() -> None:
        async with asyncio.timeout(90):
            await work

    asyncio.run(soon())


def version_of_link(broker: BrokerProcess, other: str) -> int:
    """The version that it uses with another one, as it says."""
    return int(re.findall(rf"linked with {other} .* version (\d+)", broker.said)[-1])


async def carried(network: Network, one: str, other: str, number: int) -> None:
    """Events go from one to the other."""
    async with (
        tidings.connect(network[other].url) as reader,
        tidings.connect(network[one].url) as writer,
        reader.subscribe(f"n = {number}") as events,
    ):
        await writer.publish({"n": number})
        async with asyncio.timeout(20):
            assert (await anext(aiter(events)))["n"] == number


@pytest.mark.slow
def test_a_network_is_upgraded_one_by_one_and_turned_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, [("a", "b")]) as network:
            steps: list[dict[str, Sequence[str]]] = [
                {"a": USUAL, "b": USUAL},
                {"a": ODD, "b": USUAL},  # the connection of a, the smaller name, wins
                {"a": ODD, "b": ODD},
                {"a": USUAL, "b": ODD},
            ]
            for number, programs in enumerate(steps, start=1):
                for name, program in programs.items():
                    if network[name].program != program:
                        network[name].stop()
                        network[name].program = program
                        await network[name].start()
                await network.agreed()
                await carried(network, "a", "b", number)
                await carried(network, "b", "a", -number)
                both = LATER if set(programs.values()) == {ODD} else NOW
                for name, other in ("ab", "ba"):
                    await eventually(
                        lambda n=name, o=other, v=both: version_of_link(network[n], o) == v,
                        f"{programs}",
                    )
            network.check_calm()

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "program"), [(LATER, USUAL), (NOW, ODD), (LATER, ODD)])
def test_a_client_and_a_broker_of_which_one_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: int, program: Sequence[str]
) -> None:
    async def main() -> None:
        async with Network(tmp_path, [("a", "b")], program=program) as network:
            monkeypatch.setattr(wire, "VERSION", ours)
            await carried(network, "a", "b", 1)
            async with tidings.connect(network["a"].url) as client:
                connection = client._host._connection
                assert connection is not None
                assert connection.version == min(ours, LATER if program == ODD else NOW)

    run(main())


def test_a_client_that_speaks_no_version_of_the_broker_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with Network(tmp_path, [("a", "b")]) as network:
            monkeypatch.setattr(wire, "VERSION", LATER)
            monkeypatch.setattr(wire, "OLDEST", LATER)
            with pytest.raises(
                tidings.ConnectionFailed,
                match=f"speaks version {LATER} of the wire; this one speaks version 2 of the wire",
            ):
                async with tidings.connect(network["a"].url, wait=0):
                    pass

    run(main())
