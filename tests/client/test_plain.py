"""The plain client: the same verbs without asyncio."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from queue import Queue
from time import monotonic
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess


def test_the_verbs_without_await(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        client.advertise("EXISTS n")
        assert client.publish({"n": 0}).number == 1
        assert client.publish_each({"n": n} for n in range(1, 3_000)) == 2_999
        with client.subscribe("n >= 0", durable="desk", since="begin") as events:
            for event in events:
                event.ack()
                if event["n"] == 1_999:
                    break
        with client.subscribe("n >= 0", durable="desk") as events:
            assert [e["n"] for e in events.until_live()] == list(range(2_000, 3_000))
            assert events.is_live
            assert events.cursor == "paris:3000"
            with pytest.raises(TimeoutError):
                events.get(timeout=0.01)
            events.forget()
        client.unadvertise("EXISTS n")
        assert client.broker == "paris"
    with pytest.raises(tidings.ClientClosed):
        client.publish({"n": 1})


@pytest.mark.slow
def test_it_is_known_below_which_time_all_was_read(broker: BrokerProcess) -> None:
    with (
        tidings.connect_sync(broker.url) as client,
        client.subscribe("TRUE", times=True) as events,
        client.subscribe("TRUE") as others,
    ):
        client.publish_many([{"n": n} for n in range(3)])
        read = [events.get(5) for _ in range(2)]  # and the third waits in another queue
        end = monotonic() + 30
        while events.complete.get("paris") != read[0].seconds:  # as that of all three
            assert monotonic() < end
        read.append(events.get(5))
        while events.complete["paris"] <= read[-1].seconds:
            assert monotonic() < end
        assert [event.tick for event in read] == [1, 2, 3]
        assert others.complete == {}


def test_an_event_is_sent_while_the_iterable_waits_for_the_next(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        events = client.subscribe("TRUE")

        def echo() -> Iterator[dict[str, int]]:
            for n in range(5):
                yield {"n": n}
                assert events.get(timeout=20)["n"] == n

        assert client.publish_each(echo()) == 5


def test_a_mistake_in_the_iterable_is_the_callers(broker: BrokerProcess) -> None:
    def broken() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        raise ZeroDivisionError

    with tidings.connect_sync(broker.url) as client:
        with pytest.raises(ZeroDivisionError):
            client.publish_each(broken())
        with pytest.raises(tidings.NotificationError):
            client.publish_each([{"n": 2}, {"n": object()}, *[{"n": 3}] * 10_000])
        client.flush()
        with client.subscribe("n >= 1", since="begin") as events:
            assert [e["n"] for e in events.until_live()] == [1, 2]


def test_several_threads_share_a_client(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        threads = [
            threading.Thread(
                target=lambda k=k: [client.publish({"k": k, "n": n}) for n in range(20)]
            )
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with client.subscribe("TRUE", since="begin") as events:
            heard = [(e["k"], e["n"]) for e in events.until_live()]
    for k in range(4):
        assert [n for kk, n in heard if kk == k] == list(range(20))


def test_callbacks_and_interest(broker: BrokerProcess) -> None:
    done = threading.Event()
    heard: list[int] = []

    def hear(event: tidings.Event) -> None:
        heard.append(event["n"])
        event.ack()
        if len(heard) == 3:
            done.set()

    with tidings.connect_sync(broker.url) as client:
        interest = client.interest("n > 1")
        assert next(interest) is False
        with client.subscribe("n >= 0", callback=hear):
            assert next(interest) is True
            interest.close()
            client.publish_each([{"n": 0}, {"n": 1}, {"n": 2}])
            assert done.wait(20)
    assert heard == [0, 1, 2]


def test_whoever_asks_while_another_thread_closes_is_told(broker: BrokerProcess) -> None:
    for _ in range(20):
        client = tidings.connect_sync(broker.url).open()
        begun, told = threading.Barrier(5), []
        events = client.subscribe("n < 0")

        def asking(verb: Callable[[], object], begun: threading.Barrier, told: list[str]) -> None:
            begun.wait()
            while True:
                try:
                    verb()
                except TimeoutError:
                    pass
                except tidings.ClientClosed as problem:
                    told.append(str(problem))
                    return

        verbs = [partial(client.publish, {"n": 1}), partial(events.get, timeout=0.001)] * 2
        threads = [threading.Thread(target=asking, args=(v, begun, told)) for v in verbs]
        for thread in threads:
            thread.start()
        begun.wait()
        client.publish({"n": 2})
        client.close()
        for thread in threads:
            thread.join()
        assert len(told) == 4


def test_a_callback_that_waits_for_its_client_is_told_that_it_would_wait_for_ever(
    broker: BrokerProcess,
) -> None:
    told: Queue[str] = Queue()

    def hear(event: tidings.Event) -> None:
        for verb in (client.flush, client.close, lambda: client.publish_each([{"n": 1}])):
            try:
                verb()
            except tidings.TidingsError as problem:
                told.put(str(problem))

    with tidings.connect_sync(broker.url) as client, client.subscribe("n = 0", callback=hear):
        client.publish({"n": 0})
        for _ in range(3):
            assert "a callback cannot wait" in told.get(timeout=20)
        client.publish({"n": 1})


def test_a_close_that_is_interrupted_leaves_no_thread(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    client = tidings.connect_sync(broker.url).open()
    run = client._thread.run

    def interrupted(work: Coroutine[Any, Any, None]) -> None:
        run(work)
        raise KeyboardInterrupt

    monkeypatch.setattr(client._thread, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.close()
    assert threading.active_count() == before


def test_interest_ends_with_its_client(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        interest = client.interest("n > 1")
        assert next(interest) is False
    interest.close()


def test_nobody_listening_is_an_error_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(tidings.ConnectionFailed, match="tidings up"):
        tidings.connect_sync("tidings://127.0.0.1:1").open()
    assert threading.active_count() == before


@pytest.mark.slow
def test_a_broker_that_restarts_is_found_again(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client, client.subscribe("TRUE") as events:
        assert client.publish({"n": 1}).number == 1
        broker.kill()
        broker.start()
        assert client.publish({"n": 2}).number == 2
        assert [events.get(timeout=20)["n"] for _ in range(2)] == [1, 2]
