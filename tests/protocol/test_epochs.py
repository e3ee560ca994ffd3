"""The names of streams."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.protocol.epochs import broker_of, epoch_of, stream_name

BROKERS = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)


@given(BROKERS, st.integers(1, 10**9))
def test_a_streams_name_says_whose_it_is_and_of_which_epoch(broker: str, epoch: int) -> None:
    stream = stream_name(broker, epoch)
    assert (broker_of(stream), epoch_of(stream)) == (broker, epoch)


@given(st.text())
def test_whatever_a_stream_is_called_it_has_one_name_for_its_broker_and_epoch(name: str) -> None:
    assert stream_name(broker_of(name), epoch_of(name)) == name
