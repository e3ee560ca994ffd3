"""What may be said to the format "tidings", without Spark."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from tidings.client import Certificates, Login
from tidings.events import TidingsError
from tidings.spark.format.lake_reader import question
from tidings.spark.format.options import columns, may_be_batch, reading, spoken, writing
from tidings.spark.format.source import TidingsSource


@pytest.mark.parametrize(
    "said", ["{name}", "./{name}", "file:{name}", "{here}/{name}", "file://{here}/{name}"]
)
def test_a_folder_is_the_same_for_whoever_works_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """The driver reads the options, and workers have working directories of their own."""
    monkeypatch.chdir(tmp_path)

    def folder(name: str) -> str:
        return said.format(name=name, here=tmp_path)

    written = writing({"staging": folder("s"), "deadLetters": folder("d")})
    assert (written.staging, written.dead_letters) == (f"{tmp_path}/s", f"{tmp_path}/d")
    assert writing({"checkpointLocation": folder("c")}).staging == f"{tmp_path}/c/tidings"
    login = writing({"tokenFile": folder("t"), "authority": folder("a")}).login
    assert login.token == tmp_path / "t"
    assert login.tls == Certificates(f"{tmp_path}/a")
    judged = {"subscriptions": folder("t"), "deadLetters": folder("d"), "deliver": "true"}
    read = reading(judged, is_stream=True)
    assert (read.subscriptions, read.dead_letters) == (f"{tmp_path}/t", f"{tmp_path}/d")
    assert columns({"schemaOf": folder("l")})[2] == f"{tmp_path}/l"
    assert question({"lake": folder("l")}).lake == tmp_path / "l"


def test_an_unknown_option_is_told_those_that_a_user_may_say() -> None:
    with pytest.raises(TidingsError, match=r"'filtre'; there are url, .*filter, .*lake$") as told:
        reading({"filtre": "a = 1"}, is_stream=True)
    assert "deliver" not in str(told.value)
    with pytest.raises(TidingsError, match=r"'since'; there are url, .*deadLetters"):
        writing({"since": "begin"})


@pytest.mark.parametrize(
    ("said", "is_stream"),
    [({}, False), ({}, True), ({"deliver": "false"}, True), ({"subscriptions": "t"}, True)],
)
def test_who_publishes_nothing_has_no_dead_letters(said: dict[str, str], is_stream: bool) -> None:
    with pytest.raises(TidingsError, match=r"option deadLetters: .* with deliver = true"):
        reading({"deadLetters": "d", **said}, is_stream=is_stream)


def test_a_stream_of_a_lake_is_told_that_a_lake_is_a_batch() -> None:
    source = TidingsSource({"lake": "quotes"})
    with pytest.raises(TidingsError, match="option lake: a lake is read as a batch"):
        source.streamReader(StructType())


@pytest.mark.parametrize(
    ("options", "truth"),
    [
        ([], True),
        (["url", "token", "timeout", "authority"], True),
        (["URL", "Filter", "since", "until", "schemaOf", "partitionTicks", "onGap"], True),
        (["url", "MaxEventsPerTrigger"], False),
        (["url", "subscriptions"], False),
        (["url", "staging"], False),
        (["url", "advertise"], False),
        (["url", "checkpointLocation"], False),
    ],
)
def test_only_what_may_be_a_batch_is_one(options: list[str], truth: bool) -> None:
    """A sink, or a stream, has no bounds that a broker would have to be asked for."""
    assert may_be_batch(dict.fromkeys(options, "")) is truth


def test_a_source_that_is_no_batch_asks_nobody() -> None:
    nobody = {"url": "tidings://127.0.0.1:1", "timeout": "1000", "filter": "TRUE"}
    assert "attributes" in str(TidingsSource({**nobody, "maxEventsPerTrigger": "1"}).schema())


def test_a_login_is_spoken_as_the_options_that_make_it() -> None:
    for said in (
        {"url": "tidings://a", "token": "t"},
        {"url": "tidings+tls://a", "tokenFile": "/t", "authority": "/a"},
        {"url": "tidings+tls://a", "certificate": "/c", "certificateKey": "/k"},
    ):
        login = reading(said, is_stream=True).login
        assert spoken(login) == said
    with pytest.raises(TidingsError, match="give one of them"):
        reading({"token": "t", "tokenFile": "/t"}, is_stream=True)
    with pytest.raises(TidingsError, match="name files"):
        spoken(Login("tidings+tls://a", tls=ssl.create_default_context()))
