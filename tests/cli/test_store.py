"""`tidings store`, beside a broker that runs, and after it was killed."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.client.brokers import BrokerProcess
from tests.network.test_damage import flip_a_bit
from tidings import connect_sync
from tidings.broker.store.check import check


@pytest.mark.slow
def test_a_broker_is_backed_up_under_load_and_goes_on_from_that(
    tidings: Run, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    store, backup, done = str(tmp_path / "store"), tmp_path / "monday.db", threading.Event()

    def load() -> None:
        with connect_sync(broker.url) as client:
            while not done.is_set():
                client.publish_each([{"n": n} for n in range(50)])

    publisher = threading.Thread(target=load)
    publisher.start()
    try:
        well = tidings("store", "check", store)
        assert (well.returncode, well.stderr) == (0, "")
        assert re.fullmatch(
            rf"{store} is the store of paris, which runs\.\n"
            r"  paris: (ticks 1 to [\d,]+ are kept|nothing is kept .*)\nAll is well\.\n",
            well.stdout,
        )
        taken = tidings("store", "backup", store, str(backup))
        assert taken.returncode == 0, taken.stderr
        said = re.fullmatch(rf"{backup} has the store of paris up to paris:(\d+)\.\n", taken.stdout)
        assert said is not None
        refused = tidings("store", "restore", "--replace", str(backup), store)
        assert refused.returncode == 2
        assert "is in use by another broker" in refused.stderr
    finally:
        done.set()
        publisher.join()
        broker.kill()
    assert check(tmp_path / "store").spans["paris"].last > int(said[1])

    restored = tidings("store", "restore", "--replace", str(backup), store)
    assert restored.returncode == 0, restored.stderr
    assert f"as it was at paris:{said[1]}.\nThe next start begins paris~2." in restored.stdout
    assert "What was there before is in" in restored.stdout
    broker.start()
    broker.stop()
    spans = check(tmp_path / "store").spans
    assert list(spans) == ["paris", "paris~2"]
    assert spans["paris"].last == int(said[1])
    assert "So paris~2 begins, and paris is closed at tick" in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_damage_is_named_and_a_store_is_renewed(tidings: Run, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    with connect_sync(broker.url) as client:
        client.publish_each([{"n": n} for n in range(300)])
    broker.kill()
    store = tmp_path / "store"
    flip_a_bit(store)
    doubtful = tidings("store", "check", str(store))
    assert doubtful.returncode == 1
    assert "error: a start would begin an epoch: the mark tells of commit" in doubtful.stderr

    config = tmp_path / "paris.toml"
    config.write_text('name = "paris"\nstore = "store"\n')
    (store / "broker.db").write_bytes(b"no database" * 1_000)
    broken = tidings("store", "check", "--config", str(config))
    assert broken.returncode == 2
    assert f"`tidings store renew {store}` begins an empty log" in broken.stderr
    renewed = tidings("store", "renew", "--config", str(config))
    assert renewed.returncode == 0, renewed.stderr
    assert "has an empty store of paris, which begins with paris~2." in renewed.stdout
    assert tidings("store", "check", "--config", str(config)).returncode == 0


def test_a_store_must_be_named_once(tidings: Run, tmp_path: Path) -> None:
    both = tidings("store", "check", str(tmp_path), "--config", "paris.toml")
    assert (both.returncode, both.stdout) == (2, "")
    assert "not both" in both.stderr
    nowhere = tidings("store", "check", str(tmp_path / "nowhere"))
    assert nowhere.returncode == 2
    assert "is not there: this is no store of a broker." in nowhere.stderr
