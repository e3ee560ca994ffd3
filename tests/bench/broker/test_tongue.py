"""The raw connections of the benchmarks, with a real broker."""

import pytest

from bench.broker.servers import broker
from bench.broker.tongue import Heard, Line, publications
from tidings.events import Filter, Notification


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
def test_a_line_subscribes_as_often_as_the_benchmarks_do_and_hears_what_is_published(
    durable: bool,
) -> None:
    with broker(core=None) as server:
        line, publisher = Line(server.port, "ear"), Line(server.port, "mouth")
        wanted = [(f"s{n}", Filter.parse(f"price > {n}")) for n in range(1_001)]
        line.subscribe(wanted, durable=durable)
        publisher.socket.sendall(publications([Notification({"price": 1})], 1, 1)[0])
        heard: list[Heard] = []
        while not heard:
            heard = [each for each in line.hear(60.0) if isinstance(each, Heard)]
        assert [each.ids for each in heard] == [("s0",)]
        for each in (line, publisher):
            each.socket.close()
