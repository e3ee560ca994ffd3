"""`tidings publish` and `tidings subscribe`, run as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

import tidings
from tests.client.brokers import BrokerProcess, program
from tests.network.brokers import free_ports

pytestmark = pytest.mark.slow

QUOTES = "".join(f'{{"symbol": "S{n % 3}", "n": {n}}}\n' for n in range(300))


def finished(*arguments: str, url: str, input: str = "") -> subprocess.CompletedProcess[str]:
    process = program(*arguments, url=url)
    out, err = process.communicate(input, timeout=60)
    assert "Traceback" not in out + err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def heard(out: str) -> list[int]:
    return [json.loads(line)["n"] for line in out.splitlines()]


def test_what_is_published_can_be_read_back(broker: BrokerProcess) -> None:
    one = finished("publish", '{"symbol": "DIS", "n": -1}', url=broker.url)
    assert (one.returncode, one.stdout, one.stderr) == (0, "", "")
    many = finished("publish", url=broker.url, input=QUOTES)
    assert many.returncode == 0
    assert many.stderr.startswith("300 events published")
    everything = ("subscribe", "n >= -1", "--since", "begin", "--until", "now")
    done = finished(*everything, url=broker.url)
    assert done.returncode == 0
    assert heard(done.stdout) == list(range(-1, 300))
    assert done.stderr == "301 events\n"
    some = finished("subscribe", "symbol = 'S1'", "--since=-1h", "--count=2", url=broker.url)
    assert heard(some.stdout) == [1, 4]


def test_meta_data_tells_where_an_event_stands(broker: BrokerProcess) -> None:
    finished("publish", url=broker.url, input='{"n": 1}\n{"n": 2}\n')
    done = finished(
        *("subscribe", "TRUE", "--since", "begin", "--until", "now", "--with-meta"), url=broker.url
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["cursor"], first["event"]) == ("paris:1", "paris:1", {"n": 1})
    assert first["time"].endswith("Z")
    behind = finished(
        *("subscribe", "TRUE", "--since", first["cursor"], "--until", "now"), url=broker.url
    )
    assert heard(behind.stdout) == [2]
    upto = finished(
        *("subscribe", "TRUE", "--since", "begin", "--until", first["time"]), url=broker.url
    )
    assert second["time"] == first["time"] or heard(upto.stdout) == [1]


def test_wrong_lines_are_reported_with_their_numbers_and_the_rest_goes_on(
    broker: BrokerProcess,
) -> None:
    lines = '{"n": 1}\n\nnonsense\n{"n": 2}\n[]\n{"n": 3}'
    done = finished("publish", url=broker.url, input=lines)
    assert done.returncode == 1
    assert [line.split(": ")[1] for line in done.stderr.splitlines() if "error" in line] == [
        "line 3",
        "line 5",
    ]
    assert "3 events published" in done.stderr
    strict = finished("publish", "--strict", url=broker.url, input=lines)
    assert strict.returncode == 1
    assert "1 event published" in strict.stderr


def test_refused_lines_are_reported_with_their_numbers(broker: BrokerProcess) -> None:
    wide = json.dumps({f"a{n}": n for n in range(5_000)})
    lines = f'{{"n": 1}}\n\n{wide}\nnonsense\n{{"n": 2}}\n{wide}\n{{"n": 3}}\n'
    done = finished("publish", url=broker.url, input=lines)
    assert done.returncode == 1
    said = sorted(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert [line.split(": ")[1] for line in said] == ["line 3", "line 4", "line 6"]
    assert "attributes" in said[0]
    assert "3 events published" in done.stderr


def test_cloud_events_are_events(broker: BrokerProcess) -> None:
    event = {"specversion": "1.0", "id": "1", "type": "t", "source": "s", "data": {"n": 1}}
    finished("publish", url=broker.url, input=json.dumps(event))
    done = finished(
        *("subscribe", "data.n = 1", "--since", "begin", "--until", "now"), url=broker.url
    )
    assert json.loads(done.stdout) == event


def test_a_wrong_filter_is_explained_before_anybody_is_asked() -> None:
    done = finished("subscribe", "n >", url="tidings://127.0.0.1:1")
    assert done.returncode == 2
    assert "line 1, column" in done.stderr
    assert "reached" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["subscribe", "TRUE"], "tidings up"),
        (["publish", "{}"], "tidings up"),
        (["publish", "nonsense"], "not valid JSON"),
        (["publish", "--resume"], "--name"),
        (["publish", "{}", "--url", "http://example"], "tidings://"),
        (["subscribe", "TRUE", "--since", "soon"], "-10m"),
        (["subscribe", "TRUE", "--until", "soon"], "-10m"),
        (["subscribe", "TRUE", "--durable", "d", "--until", "-1m"], "--until now"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(arguments: list[str], said: str) -> None:
    done = finished(*arguments, url="tidings://127.0.0.1:1")
    assert done.returncode == 2
    assert said in done.stderr


def test_events_come_as_they_happen_and_ctrl_c_ends_it(broker: BrokerProcess) -> None:
    listener = program("subscribe", "n >= 0", "--durable", "desk", url=broker.url)
    publisher = program("publish", url=broker.url)
    assert listener.stdout is not None
    assert publisher.stdin is not None
    with tidings.connect_sync(broker.url) as client:
        for is_wanted in client.interest("n = 1"):
            if is_wanted:
                break
    for n in range(3):
        publisher.stdin.write(f'{{"n": {n}}}\n')
        publisher.stdin.flush()
        assert json.loads(listener.stdout.readline()) == {"n": n}
    publisher.communicate(timeout=30)
    listener.send_signal(signal.SIGINT)
    out, err = listener.communicate(timeout=30)
    assert (out, listener.returncode) == ("", 130)
    assert err == "3 events\n"
    finished("publish", '{"n": 3}', url=broker.url)
    rest = finished("subscribe", "n >= 0", "--durable", "desk", "--until", "now", url=broker.url)
    assert heard(rest.stdout) == [3]


def test_a_closed_pipe_ends_it_quietly(broker: BrokerProcess) -> None:
    finished("publish", url=broker.url, input=QUOTES)
    listener = program("subscribe", "n >= 0", "--durable", "d", "--since", "begin", url=broker.url)
    assert listener.stdout is not None
    assert listener.stderr is not None
    listener.stdout.readline()
    listener.stdout.close()
    finished("publish", url=broker.url, input=QUOTES * 20)
    assert listener.wait(30) == 128 + 13
    assert listener.stderr.read() == ""
    listener.stderr.close()
    assert listener.stdin is not None
    listener.stdin.close()


def test_ctrl_c_while_publishing_keeps_what_was_read(broker: BrokerProcess) -> None:
    publisher = program("publish", url=broker.url)
    assert publisher.stdin is not None
    publisher.stdin.write('{"n": 1}\n')
    publisher.stdin.flush()
    first = finished("subscribe", "n = 1", "--since", "begin", "--count", "1", url=broker.url)
    assert heard(first.stdout) == [1]
    publisher.send_signal(signal.SIGINT)
    _, err = publisher.communicate(timeout=30)
    assert publisher.returncode == 128 + 2
    assert "1 event published" in err
    assert "Traceback" not in err


def test_ctrl_c_while_an_event_waits_for_its_turn_does_not_count_it(broker: BrokerProcess) -> None:
    publisher = program("publish", "--rate", "0.001", url=broker.url)
    assert publisher.stdin is not None
    publisher.stdin.write('{"n": 1}\n{"n": 2}\n')
    publisher.stdin.flush()
    first = finished("subscribe", "n = 1", "--since", "begin", "--count", "1", url=broker.url)
    assert heard(first.stdout) == [1]
    publisher.send_signal(signal.SIGINT)
    _, err = publisher.communicate(timeout=30)
    assert "1 event published" in err
    done = finished("subscribe", "n >= 0", "--since", "begin", "--until", "now", url=broker.url)
    assert heard(done.stdout) == [1]


def test_an_import_that_was_killed_is_resumed(broker: BrokerProcess) -> None:
    lines = QUOTES.splitlines(keepends=True)
    publisher = program("publish", "--name", "import", "--resume", url=broker.url)
    assert publisher.stdin is not None
    publisher.stdin.writelines(["nonsense\n", *lines[:100]])
    publisher.stdin.flush()
    first = finished("subscribe", "n = 99", "--since", "begin", "--count", "1", url=broker.url)
    assert heard(first.stdout) == [99]
    publisher.kill()
    publisher.communicate(timeout=30)
    done = finished(
        *("publish", "--name", "import", "--resume"), url=broker.url, input="nonsense\n" + QUOTES
    )
    assert "200 events published, after 100 that were published before" in done.stderr
    done = finished("subscribe", "n >= 0", "--since", "begin", "--until", "now", url=broker.url)
    assert heard(done.stdout) == list(range(300))


def test_a_rate_is_kept(broker: BrokerProcess) -> None:
    began = time.monotonic()
    finished("publish", "--rate", "50", url=broker.url, input="".join(QUOTES.splitlines(True)[:40]))
    assert time.monotonic() - began > 39 / 50


def test_commands_go_on_when_the_broker_restarts(broker: BrokerProcess) -> None:
    listener = program("subscribe", "n >= 0", url=broker.url)
    publisher = program("publish", url=broker.url)
    assert listener.stdout is not None
    assert publisher.stdin is not None
    with tidings.connect_sync(broker.url) as client:
        for is_wanted in client.interest("n = 1"):
            if is_wanted:
                break
    for n in range(4):
        publisher.stdin.write(f'{{"n": {n}}}\n')
        publisher.stdin.flush()
        assert json.loads(listener.stdout.readline()) == {"n": n}
        if n == 1:
            broker.kill()
            broker.start()
    _, err = publisher.communicate(timeout=30)
    lost, again, published = err.splitlines()  # each said once
    assert lost.startswith("lost the connection: ")
    assert lost.endswith("; trying again")
    assert again == f"connected again to broker paris at 127.0.0.1:{broker.port}"
    assert published.startswith("4 events published")
    listener.send_signal(signal.SIGTERM)
    _, err = listener.communicate(timeout=30)
    assert listener.returncode == 143
    assert err.splitlines()[-1] == "4 events"


def test_publish_waits_for_a_broker_that_is_yet_to_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    [broker.port] = free_ports(1)
    publisher = program("publish", "--wait", '{"n": 1}', url=f"tidings://127.0.0.1:{broker.port}")
    assert publisher.stderr is not None
    said = publisher.stderr.readline()
    where = f"127.0.0.1:{broker.port}"
    assert said == f"no broker can be reached yet at {where}: nobody listens there; trying again\n"
    broker.start()
    try:
        _, said = publisher.communicate(timeout=30)
        assert (publisher.returncode, said) == (0, f"connected to broker paris at {where}\n")
        done = finished("subscribe", "n = 1", "--since", "begin", "--until", "now", url=broker.url)
        assert heard(done.stdout) == [1]
    finally:
        broker.stop()


def test_ctrl_c_ends_the_waiting_for_a_broker() -> None:
    publisher = program("publish", "--wait", '{"n": 1}', url="tidings://127.0.0.1:1")
    assert publisher.stderr is not None
    assert publisher.stderr.readline().endswith("trying again\n")
    publisher.send_signal(signal.SIGINT)
    out, said = publisher.communicate(timeout=30)
    assert (publisher.returncode, out, said.strip()) == (130, "", "")


@pytest.mark.parametrize("command", ["publish", "subscribe"])
def test_help_teaches_by_examples(command: str) -> None:
    done = finished(command, "--help", url="")
    assert done.returncode == 0
    assert f"tidings {command} " in done.stdout.partition("Examples:\n")[2]


def test_durable_subscriptions_are_listed_paused_set_back_and_forgotten(
    broker: BrokerProcess,
) -> None:
    finished("publish", url=broker.url, input='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    read = ("subscribe", "n > 0", "--durable", "desk", "--until", "now")
    assert heard(finished(*read, "--since", "begin", "--count", "2", url=broker.url).stdout) == [
        1,
        2,
    ]
    listed = finished("durables", url=broker.url)
    assert listed.returncode == 0
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["name", "owner", "home", "lag", "last", "seen", "state", "filter", "cursor"],
        ["desk", "local", "paris", "1", "today", "active", "n", ">", "0", "paris:2"],
    ]
    assert listed.stderr == "1 durable subscription\n"
    back = finished("durables", "seek", "desk", "--since", "begin", url=broker.url)
    assert back.stderr == "desk goes on from begin\n"
    assert heard(finished(*read, url=broker.url).stdout) == [1, 2, 3]
    finished("durables", "seek", "desk", "--since", "begin", url=broker.url)
    finished("durables", "seek", "desk", "--since", "now", url=broker.url)
    assert heard(finished(*read, url=broker.url).stdout) == []
    assert "is paused" in finished("durables", "pause", "desk", url=broker.url).stderr
    assert " paused " in finished("durables", url=broker.url).stdout
    assert finished("durables", "resume", "desk", url=broker.url).stderr == "desk goes on\n"
    assert finished("durables", "forget", "desk", url=broker.url).stderr == "desk is forgotten\n"
    for what in ("forget", "pause"):
        none = finished("durables", what, "desk", url=broker.url)
        assert none.returncode == 2
        assert "no broker knows" in none.stderr
    wrong = finished("durables", "seek", "desk", "--since", "soon", url=broker.url)
    assert "says no place" in wrong.stderr
