"""Stretches of streams where several brokers are named: each is copied from its own broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import tidings
from tests.client.brokers import BrokerProcess
from tidings.broker.tokens import hashed, new_token
from tidings.client import Event, Login
from tidings.lakes.layout import EVERYTHING
from tidings.protocol.runs import Rows
from tidings.spark.streams import absence, reading
from tidings.spark.streams.absence import Away
from tidings.spark.streams.reading import read_rows
from tidings.spark.streams.stretch import Stretch

pytestmark = pytest.mark.slow


@contextmanager
def brokers(folder: Path, configs: dict[str, str]) -> Iterator[dict[str, BrokerProcess]]:
    """Brokers of these names that do not know each other."""
    with ExitStack() as stack:
        found = {}
        for name, config in configs.items():
            (folder / name).mkdir()
            found[name] = BrokerProcess(folder / name, name=name, config=config)
            found[name].start()
            stack.callback(found[name].stop)
        yield found


def url_of(named: dict[str, BrokerProcess]) -> str:
    return "tidings://" + ",".join(f"127.0.0.1:{broker.port}" for broker in named.values())


def test_a_copy_waits_for_its_broker_and_asks_no_other(tmp_path: Path) -> None:
    # Far more than the pieces that are asked for ahead, so that it has to be asked again.
    count, long = 150_000, "x" * 100
    with brokers(tmp_path, {"paris": "", "rome": ""}) as named:
        with tidings.connect_sync(named["paris"].url) as client:
            client.publish_each({"n": n, "text": f"{n} {long}"} for n in range(count))
        broker = Login(url_of(named), timeout=1.0)
        reading = read_rows(Stretch("paris", 0, count, {}), broker, EVERYTHING)
        ticks = next(reading).ticks
        named["paris"].kill()
        with pytest.raises(Away, match=r"ticks 1 to 150000 of stream paris: .* did not come back"):
            ticks.extend(tick for rows in reading for tick in rows.ticks)
        named["paris"].start()
        rest = read_rows(Stretch("paris", len(ticks), count, {}), broker, EVERYTHING)
        assert ticks + [tick for rows in rest for tick in rows.ticks] == list(range(1, count + 1))


class Halting:
    """A way on which something comes every second time only."""

    def __init__(self) -> None:
        self.upto, self._has_halted = 0, True

    async def take(self) -> Rows | None:
        self._has_halted = not self._has_halted
        if self._has_halted:
            return None
        self.upto += 1
        return Rows([self.upto], [0.0], [{"n": self.upto}], [None])

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("is_told", [False, True], ids=["copied", "told"])
def test_who_takes_long_to_use_what_was_read_has_not_waited_for_the_broker(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    async def begun(_: object) -> Halting:
        return way

    async def told() -> list[Event]:
        rows = await copied()
        return [] if rows is None else reading._events("paris", rows)

    way, now = Halting(), 0.0
    copied = way.take
    monkeypatch.setattr(absence, "monotonic", lambda: now)
    monkeypatch.setattr(reading._Reading, "_begun", begun)
    if is_told:
        monkeypatch.setattr(way, "take", told)
        monkeypatch.setattr(reading, "MANY", 1)
    ticks = []
    for rows in read_rows(Stretch("paris", 0, 5, {}), Login(timeout=1.0), EVERYTHING):
        ticks += rows.ticks
        now += 60
    assert ticks == [1, 2, 3, 4, 5]


def test_a_broker_that_lets_nobody_in_is_passed_over(tmp_path: Path) -> None:
    closed = f'[tokens]\ndesk = "{hashed(new_token())}"\n'
    with brokers(tmp_path, {"paris": "", "rome": closed, "oslo": ""}) as named:
        with tidings.connect_sync(named["oslo"].url) as client:
            client.publish_each({"n": n} for n in range(5))
        reading = read_rows(Stretch("oslo", 0, 5, {}), Login(url_of(named), timeout=5), EVERYTHING)
        assert [tick for rows in reading for tick in rows.ticks] == [1, 2, 3, 4, 5]
