"""The client and a real broker, which is stopped, killed and frozen."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess
from tidings.client.dialling import dial
from tidings.client.outbox import OutboxLimits
from tidings.protocol.addresses import Address
from tidings.protocol.wire import VERSION, Hello

Run = Callable[[Any], Any]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that is sure to come."""
    while not condition():
        await asyncio.sleep(0.005)


async def numbers(events: tidings.Subscription, count: int) -> list[int]:
    return [(await events.get())["n"] for _ in range(count)]


def test_the_example_of_the_readme(broker: BrokerProcess, run: Run) -> None:
    heard = []

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            await client.advertise("EXISTS symbol AND price > 0")
            await client.publish({"symbol": "DIS", "price": 101.25})
            async with client.subscribe(
                "symbol = 'DIS'", durable="desk-7", since="begin"
            ) as events:
                async for event in events:
                    heard.append((event["price"], event.id, event.cursor))
                    await event.ack()
                    break

    run(main())
    assert heard == [(101.25, "paris:1", "paris:1")]


def test_an_event_is_a_mapping_with_a_place_and_a_time(broker: BrokerProcess, run: Run) -> None:
    async def main() -> tidings.Event:
        async with tidings.connect(broker.url) as client, client.subscribe("TRUE") as events:
            await client.publish({"a": 1, "b": {"c": [True, "x"]}, "t": datetime.now(UTC)})
            return await events.get()

    before = datetime.now(UTC)
    event = run(main())
    assert (event["b"], event["b.c"]) == ({"c": [True, "x"]}, {True, "x"})
    assert (list(event), "a" in event, "b.c" in event) == (["a", "b", "t"], True, True)
    assert (event.stream, event.tick, event.id) == ("paris", 1, "paris:1")
    assert before - timedelta(seconds=1) < event.time < datetime.now(UTC)
    assert event.notification["a"] == 1


@pytest.mark.slow
def test_history_goes_over_into_the_present(broker: BrokerProcess, run: Run) -> None:
    async def main() -> list[int]:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n} for n in range(5_000))
            async with client.subscribe("n >= 0", since="begin") as events:
                more = asyncio.create_task(
                    client.publish_each({"n": n} for n in range(5_000, 10_000))
                )
                heard = await numbers(events, 10_000)
                await more
                assert events.missed == 0
                return heard

    assert run(main()) == list(range(10_000))


@pytest.mark.slow
@pytest.mark.parametrize("durable", [None, "desk"])
def test_who_reads_at_once_is_told_nothing_in_vain_however_much_there_is(
    broker: BrokerProcess, run: Run, durable: str | None
) -> None:
    async def main() -> list[int]:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n} for n in range(40_000))
            async with client.subscribe("n >= 0", durable=durable, since="begin") as events:
                id = events._reading.id
                heard = [e["n"] async for e in events.until_live()]
                assert events._reading.id == id  # it was never given up and asked for again
                return heard

    assert run(main()) == list(range(40_000))


def test_all_below_a_time_was_read_also_while_nothing_happens(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with (
            tidings.connect(broker.url) as client,
            client.subscribe("TRUE", since="begin", times=True) as events,
        ):
            await until(lambda: events.complete)
            await client.publish({"n": 1})
            before = events.complete["paris"]
            event = await events.get()
            assert before <= event.seconds
            await until(lambda: events.complete["paris"] > event.seconds)
            after = events.complete["paris"]
            broker.kill()
            broker.start()
            await until(lambda: events.complete["paris"] > after)
            receipt = await client.publish({"n": 2})
            assert after <= (await events.get()).seconds
            assert receipt.tick == 2

    run(main())


def test_until_live_ends_with_the_last_event_kept(broker: BrokerProcess, run: Run) -> None:
    async def main() -> tuple[list[int], list[int], list[int]]:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n} for n in range(10))
            first = client.subscribe("n < 7", since="begin")
            async with first as events:
                kept = [e async for e in events.until_live()]
            middle = kept[3].cursor
            async with client.subscribe("TRUE", since=middle) as events:
                rest = [e["n"] async for e in events.until_live()]
            async with client.subscribe("TRUE", since=kept[5].time) as events:
                later = [e["n"] async for e in events.until_live()]
            return [e["n"] for e in kept], rest, later

    kept, rest, later = run(main())
    assert kept == list(range(7))
    assert rest == list(range(4, 10))
    assert set(later) >= set(range(5, 10))  # what was published at once has the same time


def test_nobody_listening_is_an_error_with_a_hint(run: Run) -> None:
    async def main() -> None:
        async with tidings.connect("tidings://127.0.0.1:1"):
            pass

    with pytest.raises(tidings.ConnectionFailed, match=r"127\.0\.0\.1:1: nobody(.|\n)*tidings up"):
        run(main())


def test_errors_are_also_the_built_in_ones(broker: BrokerProcess) -> None:
    """So a program that knows nothing of tidings' errors catches what it expects."""
    with pytest.raises(ConnectionError) as unreachable:
        tidings.connect_sync("tidings://127.0.0.1:1").open()
    with (
        tidings.connect_sync(broker.url) as client,
        client.subscribe("n > 0") as events,
        pytest.raises(TimeoutError) as late,
    ):
        events.get(timeout=0.01)
    for found in (unreachable, late):
        assert isinstance(found.value, tidings.TidingsError)


def test_a_broker_that_does_not_answer_is_a_connection_error_and_a_timeout(run: Run) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = Address(*silent.getsockname())
            await dial(address, Hello(VERSION, "client", "a", None, {}), tls=None, within=0.05)

    with pytest.raises(tidings.ConnectionTimedOut, match=r"no answer within 0\.05") as found:
        run(main())
    assert isinstance(found.value, ConnectionError)
    assert isinstance(found.value, TimeoutError)


def test_a_copy_of_an_error_from_another_process_says_the_same() -> None:
    for kind in (tidings.ConnectionTimedOut, tidings.AccessDenied, tidings.TimedOut):
        copy = pickle.loads(pickle.dumps(kind("a: no")))
        assert (type(copy), str(copy)) == (kind, "a: no")


@pytest.mark.slow
def test_a_client_can_wait_for_its_broker(tmp_path: Path, run: Run) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    broker.stop()

    async def main() -> str:
        starting = asyncio.create_task(asyncio.to_thread(broker.start))
        async with tidings.connect(broker.url, wait=20) as client:
            await starting
            return client.broker

    try:
        assert run(main()) == "paris"
    finally:
        broker.stop()


def test_places_are_tried_in_turn(broker: BrokerProcess, run: Run) -> None:
    async def main() -> str:
        async with tidings.connect(f"tidings://127.0.0.1:1,127.0.0.1:{broker.port}") as client:
            return client.broker

    assert run(main()) == "paris"


def test_something_else_than_a_broker_is_told_from_one(run: Run) -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, tidings.connect(f"tidings://127.0.0.1:{port}"):
            pass

    with pytest.raises(tidings.ConnectionFailed, match="strange"):
        run(main())


def test_without_the_right_token_nobody_comes_in(tmp_path: Path, run: Run) -> None:
    from tidings.broker.tokens import hashed, new_token

    token = new_token()
    broker = BrokerProcess(tmp_path, config=f'[tokens]\ndesk = "{hashed(token)}"\n')
    broker.start()

    async def main(shown: str | None) -> int:
        async with tidings.connect(broker.url, token=shown) as client:
            return (await client.publish({"n": 1})).number

    try:
        assert run(main(token)) == 1
        with pytest.raises(tidings.AccessDenied, match="token"):
            run(main("guess"))
        with pytest.raises(PermissionError, match="token"):
            run(main(None))
    finally:
        broker.stop()


def test_a_broker_without_tls_says_so(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url.replace("tidings", "tidings+tls")):
            pass

    with pytest.raises(tidings.ConnectionFailed, match="speaks no TLS: write tidings://"):
        run(main())


def test_over_tls(tmp_path: Path, run: Run) -> None:
    import trustme

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    config = f'[tls]\ncertificate = "{tmp_path}/certificate.pem"\nkey = "{tmp_path}/key.pem"\n'
    broker = BrokerProcess(tmp_path, config=config)
    broker.start()

    async def main(tls: Any) -> int:
        async with tidings.connect(broker.url, tls=tls) as client:
            return (await client.publish({"n": 1})).number

    try:
        assert broker.url.startswith("tidings+tls://")
        assert run(main(tmp_path / "authority.pem")) == 1
        with pytest.raises(tidings.ConnectionFailed, match="certificate"):
            run(main(None))
        with pytest.raises(tidings.TidingsError, match="cannot be used"):
            run(main(tmp_path / "nothing.pem"))
        broker.url = broker.url.replace("tidings+tls", "tidings")
        with pytest.raises(tidings.ConnectionFailed, match=r"only TLS: write tidings\+tls://"):
            run(main(None))
    finally:
        broker.stop()


# -- publishing --------------------------------------------------------------------------------


def test_many_are_published_in_order_with_few_under_way(broker: BrokerProcess, run: Run) -> None:
    limits = OutboxLimits(count=100)

    async def main() -> list[int]:
        most = 0
        async with tidings.connect(broker.url, limits=limits) as client:

            async def produce() -> AsyncIterator[dict[str, int]]:
                nonlocal most
                for n in range(3_000):
                    most = max(most, len(client._host.session.outbox))
                    yield {"n": n}

            assert await client.publish_each(produce()) == 3_000
            assert 1 < most <= 100
            async with client.subscribe("TRUE", since="begin") as events:
                return [e["n"] async for e in events.until_live()]

    assert run(main()) == list(range(3_000))


def test_what_is_too_large_is_refused_and_all_else_goes_on(tmp_path: Path, run: Run) -> None:
    broker = BrokerProcess(tmp_path, config="[limits]\nframe = 65_536\nattributes = 5\n")
    broker.start()
    large = {"text": "x" * 100_000}
    wide = {f"a{n}": n for n in range(6)}

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            with pytest.raises(tidings.PublishRefused, match="100,"):
                await client.publish(large)
            with pytest.raises(tidings.PublishRefused, match="at most 5 attributes"):
                await client.publish(wide)
            with pytest.raises(tidings.PublishRefused):
                await client.publish_each([{"n": 0}, wide, {"n": 1}])
            refused: list[int] = []
            kept = await client.publish_each(
                [{"n": 2}, wide, {"text": "y" * 40_000}, large, {"text": "z" * 40_000}, wide],
                on_refused=lambda index, problem: refused.append(index),
            )
            assert (kept, sorted(refused)) == (3, [1, 3, 5])
            assert client.is_connected

    try:
        run(main())
    finally:
        broker.stop()


def test_what_is_nested_too_deeply_is_refused_to_whoever_publishes_it(
    broker: BrokerProcess, run: Run
) -> None:
    def nested(depth: int) -> dict[str, Any]:
        deep: list[Any] = []
        for _ in range(depth - 1):
            deep = [deep]
        return {"deep": deep}

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            assert (await client.publish(nested(99))).number == 1
            for depth in (100, 400):
                with pytest.raises(
                    tidings.TidingsError, match="nested more than 100 deep, the limit"
                ):
                    await client.publish(nested(depth))
            assert (await client.publish({"n": 1})).number == 2
            async with client.subscribe("TRUE", since="begin") as events:
                assert [set(e.notification) async for e in events.until_live()] == [{"deep"}, {"n"}]

    run(asyncio.wait_for(main(), 30))


def test_a_name_is_told_how_much_of_it_is_kept(broker: BrokerProcess, run: Run) -> None:
    async def main() -> list[int]:
        async with tidings.connect(broker.url, name="importer") as client:
            receipts = [await client.publish({"n": 1}), await client.publish({"n": 2})]
            return [client.kept - 2, *(receipt.number for receipt in receipts)]

    assert run(main()) == [0, 1, 2]
    assert run(main()) == [2, 3, 4]


def test_what_is_kept_is_not_taken_for_what_its_number_was_refused_before(
    tmp_path: Path, run: Run
) -> None:
    broker = BrokerProcess(tmp_path, config='[routing]\nadvertisements = "covering"\n')
    broker.start()

    async def main() -> None:
        async with tidings.connect(broker.url, name="desk") as client:
            with pytest.raises(tidings.PublishRefused, match="advertise it first"):
                await client.publish({"n": 1})
        async with tidings.connect(broker.url, name="desk") as client:
            await client.advertise("EXISTS n")
            connection = client._host._connection
            assert connection is not None
            connection.receive = lambda _: connection.abort("lost with its answer")
            assert (await client.publish({"n": 2})).number == 1
            async with client.subscribe("TRUE", since="begin") as events:
                assert [event["n"] async for event in events.until_live()] == [2]

    try:
        run(main())
    finally:
        broker.stop()


def test_of_two_clients_of_one_name_the_later_one_stays(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url, name="twin") as first:
            subscription = await first.subscribe("TRUE")
            async with tidings.connect(broker.url, name="twin") as second:
                with pytest.raises(tidings.ClientClosed, match="'twin'"):
                    await subscription.get()
                with pytest.raises(tidings.ClientClosed, match="'twin'"):
                    await first.publish({"n": 1})
                assert (await second.publish({"n": 1})).number == 1

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_each_event_of_a_burst_is_published_once_though_the_broker_restarts(
    broker: BrokerProcess, run: Run, how: signal.Signals
) -> None:
    async def main() -> None:
        restarts, count = 0, 0

        async def produce() -> AsyncIterator[dict[str, int]]:
            nonlocal count
            while restarts < 2 or count % 1_000:
                yield {"n": count}
                count += 1
                await asyncio.sleep(0)

        status: list[bool] = []
        async with (
            tidings.connect(broker.url, on_status=lambda up, _: status.append(up)) as client,
            tidings.connect(broker.url) as listener,
            listener.subscribe("n >= 0", queue=10**6) as live,
        ):
            work = asyncio.create_task(client.publish_each(produce()))
            for _ in range(2):
                before = client.kept
                await until(lambda before=before: client.kept > before + 1_000)
                await asyncio.to_thread(broker.signal, how)
                await asyncio.to_thread(broker.start)
                restarts += 1
            assert await work == count
            assert status == [True, False] * 2 + [True]
            assert await numbers(live, count) == list(range(count))
            async with client.subscribe("n >= 0", since="begin") as events:
                assert [e["n"] async for e in events.until_live()] == list(range(count))

    run(main())


# -- subscribing -------------------------------------------------------------------------------


READER = """
import asyncio, os, sys, tidings

async def main():
    async with tidings.connect(sys.argv[1]) as client:
        async with client.subscribe("n >= 0", durable="desk", since=None) as events:
            print("ready", flush=True)
            async for event in events:
                print(event["n"], flush=True)
                await event.ack()
                if event["n"] % 100 == 99:
                    await client.flush()
                    print("kept", flush=True)
                    sys.stdin.readline()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_durable_subscription_goes_on_after_kill_9(broker: BrokerProcess, run: Run) -> None:
    def read(from_: int) -> int:
        """Reads what must come next, and is killed when a hundred are acknowledged for sure."""
        command = [sys.executable, "-c", READER, broker.url]
        pipe = subprocess.PIPE
        heard = []
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as reader:
            try:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "ready\n"
                if from_ == 0:
                    run(publish(0, 250))
                for line in reader.stdout:
                    if line == "kept\n":
                        break
                    heard.append(int(line))
            finally:
                reader.kill()
        assert heard == list(range(from_, from_ + len(heard)))
        return from_ + len(heard)

    async def publish(first: int, last: int) -> None:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n} for n in range(first, last))

    assert read(0) == 100
    broker.kill()
    broker.start()
    assert read(100) == 200
    run(publish(250, 300))
    assert read(200) == 300


def test_what_is_not_acknowledged_is_told_again(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            async with client.subscribe("n >= 0", durable="desk"):
                pass
            await client.publish_each({"n": n} for n in range(10))
            async with client.subscribe("n >= 0", durable="desk") as events:
                got = [await events.get() for _ in range(6)]
                await got[3].ack()
            async with client.subscribe("n >= 0", durable="desk") as events:
                assert await numbers(events, 6) == [4, 5, 6, 7, 8, 9]
                await events.forget()
            async with client.subscribe("n >= 0", durable="desk", since="begin") as events:
                assert await numbers(events, 10) == list(range(10))

    run(main())


def test_one_durable_name_has_one_reader(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with (
            tidings.connect(broker.url) as first,
            tidings.connect(broker.url) as second,
            first.subscribe("TRUE", durable="desk") as one,
            second.subscribe("TRUE", durable="desk") as two,
        ):
            with pytest.raises(tidings.SubscriptionRefused, match="taken"):
                await one.get()
            await first.publish({"n": 1})
            assert (await two.get())["n"] == 1

    run(main())


@pytest.mark.slow
def test_a_reader_that_waits_for_its_own_publications_does_not_hold_itself_up(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> list[int]:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n} for n in range(500))
            async with client.subscribe("n >= 0", durable="desk", since="begin", queue=7) as events:
                heard = []
                async for event in events:
                    await client.publish({"copy": event["n"]})
                    await event.ack()
                    heard.append(event["n"])
                    if len(heard) == 500:
                        assert events.missed == 0
                        return heard
        return []

    assert run(main()) == list(range(500))


def test_a_slow_live_reader_misses_events_and_is_told_how_many(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with (
            tidings.connect(broker.url) as client,
            client.subscribe("n >= 0", queue=10) as slow,
            client.subscribe("n >= 0", queue=1_000) as fast,
        ):
            await until(lambda: slow.is_live)
            await client.publish_each({"n": n} for n in range(1_000))
            assert await numbers(fast, 1_000) == list(range(1_000))
            assert (slow.waiting, slow.missed) == (10, 990)
            assert await numbers(slow, 10) == list(range(10))
            await client.publish({"n": 1_000})
            assert await numbers(slow, 1) == [1_000]

    run(main())


def test_a_cursor_that_is_no_place_in_the_log_is_refused_with_one_that_is(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            await client.publish_each([{"n": 1}, {"n": 2}])
            with pytest.raises(tidings.StreamWentBack) as caught:
                async with client.subscribe("TRUE", since="paris:99"):
                    pass
            assert (caught.value.cursor, caught.value.stream) == ("paris:2", "paris")
            assert caught.value.position == 99
            async with client.subscribe("TRUE", since=caught.value.cursor) as events:
                await client.publish({"n": 3})
                assert await numbers(events, 1) == [3]

    run(main())


def test_callbacks_get_every_event_and_may_fail(
    broker: BrokerProcess, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> tuple[list[int], list[int]]:
        plain: list[int] = []
        waiting: list[int] = []

        def hear(event: tidings.Event) -> None:
            plain.append(event["n"])
            if event["n"] == 1:
                raise ValueError("a mistake")

        async def wait(event: tidings.Event) -> None:
            await asyncio.sleep(0)
            waiting.append(event["n"])

        async with tidings.connect(broker.url) as client:
            await client.subscribe("n >= 0", callback=hear)
            subscription = await client.subscribe("n >= 0", callback=wait)
            await client.publish_each({"n": n} for n in range(5))
            await until(lambda: len(plain) == len(waiting) == 5)
            await subscription.close()
        return plain, waiting

    assert run(main()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    assert "a mistake" in caplog.text


def test_interest_tells_producers_when_to_work(broker: BrokerProcess, run: Run) -> None:
    async def main() -> list[bool]:
        said: list[bool] = []
        async with tidings.connect(broker.url) as client, tidings.connect(broker.url) as other:

            async def watch() -> None:
                async for is_wanted in client.interest("room = 'a'"):
                    said.append(is_wanted)  # noqa: PERF401

            watching = asyncio.create_task(watch())
            await until(lambda: said == [False])
            async with other.subscribe("room = 'b'"), other.subscribe("temperature > 0"):
                await until(lambda: said == [False, True])
            await until(lambda: said == [False, True, False])
            watching.cancel()
            await asyncio.wait([watching])
        return said

    assert run(main()) == [False, True, False]


def test_timeouts_and_ends_of_reading(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            subscription = client.subscribe("TRUE")
            with pytest.raises(tidings.ClientClosed, match="async with"):
                await subscription.get()
            async with subscription as events:
                with pytest.raises(TimeoutError):
                    await events.get(timeout=0.01)
                reading = asyncio.create_task(anext(aiter(events), None))
                await asyncio.sleep(0)
            assert await reading is None
            with pytest.raises(tidings.ClientClosed):
                await events.get()
            kept = await client.subscribe("TRUE")
        with pytest.raises(tidings.ClientClosed):
            await client.publish({"n": 1})
        assert [e async for e in kept] == []

    run(main())


def test_a_frozen_broker_holds_up_publications_and_nothing_is_lost(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> list[int]:
        async with (
            tidings.connect(broker.url, limits=OutboxLimits(count=10)) as client,
            client.subscribe("n >= 0") as events,
        ):
            broker.signal(signal.SIGSTOP)
            work = asyncio.create_task(client.publish_each({"n": n} for n in range(50)))
            await until(lambda: client._host.session.outbox.is_full)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.publish({"n": -1})  # waits for room, and is not published
            broker.signal(signal.SIGCONT)
            await work
            return await numbers(events, 50)

    assert run(main()) == list(range(50))


def test_advertisements_can_be_taken_back_once(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            await client.advertise("a > 1")
            await client.unadvertise("a > 1")
            with pytest.raises(tidings.TidingsError, match="has not advertised"):
                await client.unadvertise("a > 1")

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize("is_heard", [False, True])
def test_a_loss_and_its_end_are_printed_unless_somebody_hears_of_them(
    broker: BrokerProcess, run: Run, caplog: pytest.LogCaptureFixture, is_heard: bool
) -> None:
    caplog.set_level(logging.INFO, "tidings.client")
    told: list[bool] = []

    async def main() -> None:
        hears = (lambda is_connected, _: told.append(is_connected)) if is_heard else None
        async with tidings.connect(broker.url, on_status=hears) as client:
            broker.kill()
            await until(lambda: not client.is_connected)
            await asyncio.to_thread(broker.start)
            await client.publish({"n": 1})

    run(main())
    said = [(each.levelname, each.message) for each in caplog.records if "connect" in each.message]
    first, lost, *failed, again = said
    assert {level for level, _ in (first, *failed)} == {"INFO"}
    assert first[1].startswith("connected to broker paris")
    assert {lost[0], again[0]} == {"INFO" if is_heard else "WARNING"}
    assert lost[1].startswith("lost the connection: ")
    assert lost[1].endswith("; trying again")
    assert again[1].startswith("connected again to broker paris")
    assert told == ([True, False, True] if is_heard else [])


def test_a_name_that_cannot_be_written_is_refused_at_once(
    broker: BrokerProcess, run: Callable[[Any], Any]
) -> None:
    half = "\ud800"
    for given in ({"name": half}, {"token": half}):
        with pytest.raises(tidings.TidingsError, match="half of a surrogate pair"):
            run(tidings.connect(broker.url, **given).open())

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            for asked in (
                lambda: client.subscribe("TRUE", durable=half).open(),
                lambda: client.subscribe("TRUE", bulk=half).open(),
                lambda: client.forget(half),
                lambda: client.acknowledge(half, {}, owner="me"),
                lambda: client.acknowledge("desk-7", {}, owner=half),
                lambda: client.seek(half, since="begin"),
                lambda: client.pause(half),
                lambda: client.resume(half),
                lambda: client.publish({"n": 1}, id=half),
                lambda: client.publish_many([{"n": 1}], id=half),
                lambda: client.erase("n = 1", reason=half),
            ):
                with pytest.raises(tidings.TidingsError, match="half of a surrogate pair"):
                    await asyncio.wait_for(asked(), 10)
            assert (await client.publish({"n": 1})).tick == 1

    run(main())


def test_what_is_no_text_and_no_home_is_refused_at_once(broker: BrokerProcess, run: Run) -> None:
    wrong: Any = 5

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            for asked in (
                lambda: client.subscribe("TRUE", durable=wrong).open(),
                lambda: client.forget(wrong),
                lambda: client.pause(wrong),
                lambda: client.acknowledge("desk-7", {}, owner=wrong),
                lambda: client.erase("n = 1", reason=wrong),
            ):
                with pytest.raises(tidings.TidingsError, match="is a text, not a int"):
                    await asyncio.wait_for(asked(), 10)
            with pytest.raises(tidings.TidingsError, match='home is "here" or left out'):
                client.subscribe("TRUE", durable="desk-7", home=wrong)
            assert (await client.publish({"n": 1})).tick == 1

    run(main())
