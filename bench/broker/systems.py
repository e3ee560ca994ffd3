"""Systems: how each broker is started and spoken to, ours and three others.

All are spoken to in the same way: raw sockets, what is published encoded beforehand, what is
heard taken apart by hand, so that no library is slower than another. (Only RabbitMQ's handshake,
which is not measured, is spelt by pika.) An event is the same MessagePack map for all. Each has
its fast mode, at most once: MQTT's quality of service 0, core NATS, AMQP without acknowledgements
or persistence. Ours has no such mode: it writes every event to disk and syncs before delivery.

A topic cannot say `price BETWEEN 17.00 AND 17.09`. So there are two ways to use the others:

*all*      everybody is sent everything and filters it: the consumer decodes the price of each
           event, and nothing else of it, and compares.
*buckets*  the publisher knows which attribute will be asked for and how wide the ranges are, and
           says of each event in which of 1 000 slices of prices it lies; a subscriber takes the
           one or two slices that its range touches, and filters what is left.

RabbitMQ's headers exchange matches headers for equality only, so buckets are all that it can do:
the slice is a header, and each subscriber's queue is bound to its slices.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.msgpack import Decoder

from bench.broker.crowd import Ear
from bench.broker.servers import BROKERS_CORE, Server, broker, free_port, program, running
from bench.broker.tongue import Heard, Line, Splitter, messages, publications
from tidings.events import Notification
from tidings.protocol.records import pack_notification
from tidings.workloads.conditions import Range, filter_of
from tidings.workloads.quotes import PRICE

SLICE = 10
"""Steps of the price in a range, and in a bucket: 0.1 % of the 10 001 that there are."""


class Want(NamedTuple):
    """Prices from this many steps on: a `SLICE` of them."""

    first: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest price."""
        return self.first / PRICE.scale, (self.first + SLICE - 1) / PRICE.scale

    @property
    def buckets(self) -> range:
        """Those that it touches."""
        return range(self.first // SLICE, (self.first + SLICE - 1) // SLICE + 1)


def bucket(notification: Notification) -> int:
    """In which slice of prices it lies."""
    return round(notification.attributes["price"] * PRICE.scale) // SLICE  # type: ignore[operator]


class _Priced(msgspec.Struct, gc=False):
    """An event, as far as a filtering consumer decodes it."""

    price: float


_priced = Decoder(_Priced).decode


class System:
    """A kind of broker, used in one way."""

    name: str
    how: str
    floods = False
    """Whether everybody is sent everything."""

    @abstractmethod
    def start(self) -> Any:
        """A context manager for a `Server`."""

    @abstractmethod
    def publisher(self, port: int) -> tuple[socket.socket, Ear]:
        """A connection that may publish."""

    @abstractmethod
    def subscriber(self, port: int, number: int, want: Want) -> tuple[socket.socket, Ear]:
        """A connection that has subscribed."""

    @abstractmethod
    def encoded(self, some: Sequence[Notification], first: int) -> bytes:
        """What the publisher sends for these events, the first of which is the first-th."""


class _Ear:
    """Takes a stream of packets apart; what is left over waits for the next chunk."""

    def __init__(self, want: Want) -> None:
        self._low, self._high = want.bounds
        self._rest = b""

    def due(self, now: float) -> bytes:
        return b""


class _Deaf:
    """Of a publisher that is told nothing of interest."""

    def hear(self, chunk: bytes) -> tuple[int, int]:
        return 0, 0

    def due(self, now: float) -> bytes:
        return b""


def _connected(port: int) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.settimeout(30)
    return line


# -- ours --------------------------------------------------------------------------------------


class Tidings(System):
    name = "tidings"
    how = "a filter each; every event is logged and synced before it is delivered"

    def start(self) -> Any:
        return broker()

    def publisher(self, port: int) -> tuple[socket.socket, Ear]:
        return Line(port, "publisher").socket, _Deaf()

    def subscriber(self, port: int, number: int, want: Want) -> tuple[socket.socket, Ear]:
        line = Line(port, f"subscriber-{number}")
        line.subscribe([("s", filter_of((Range("price", *want.bounds),)))], durable=False)
        return line.socket, _OurEar(want)

    def encoded(self, some: Sequence[Notification], first: int) -> bytes:
        return publications(some, first, len(some))[0]


class _OurEar(_Ear):
    """Decodes what it is sent as the others do, and sees that it was wanted."""

    def __init__(self, want: Want) -> None:
        super().__init__(want)
        self._splitter = Splitter(1 << 28)

    def hear(self, chunk: bytes) -> tuple[int, int]:
        count = wanted = 0
        for payload in self._splitter.feed(chunk):
            for message in messages(payload):
                if message.__class__ is Heard:
                    count += 1
                    wanted += self._low <= _priced(message.event.notification).price <= self._high
        return count, wanted


# -- Mosquitto ---------------------------------------------------------------------------------


class Mosquitto(System):
    def __init__(self, *, floods: bool) -> None:
        self.floods = floods
        self.name = "mosquitto" if floods else "mosquitto, buckets"
        self.how = (
            "one topic, QoS 0: everybody is sent everything and filters it"
            if floods
            else "1 000 topics, QoS 0: the publisher knows the attribute and how wide ranges are"
        )

    @contextmanager
    def start(self) -> Iterator[Server]:
        server, port = program("mosquitto", "mosquitto"), free_port()
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "conf").write_text(
                f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
                "user root\nmax_queued_messages 0\nmax_queued_bytes 0\nlog_type error\n",
                encoding="utf-8",
            )
            command = [server, "-c", str(folder / "conf")]
            with running(command, folder, port=port, core=BROKERS_CORE) as found:
                yield found

    def _connect(self, port: int, name: str) -> socket.socket:
        line = _connected(port)
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack(">H", len(name)) + name.encode()
        line.sendall(b"\x10" + _varint(len(body)) + body)
        _exactly(line, 4, b"\x20\x02\x00\x00")
        return line

    def publisher(self, port: int) -> tuple[socket.socket, Ear]:
        return self._connect(port, "publisher"), _Deaf()

    def subscriber(self, port: int, number: int, want: Want) -> tuple[socket.socket, Ear]:
        line = self._connect(port, f"subscriber-{number}")
        topics = [b"q"] if self.floods else [b"q/%d" % each for each in want.buckets]
        body = b"\x00\x01" + b"".join(struct.pack(">H", len(t)) + t + b"\x00" for t in topics)
        line.sendall(b"\x82" + _varint(len(body)) + body)
        _exactly(line, 4 + len(topics), b"\x90" + bytes([2 + len(topics)]) + b"\x00\x01")
        return line, _MosquittoEar(want)

    def encoded(self, some: Sequence[Notification], first: int) -> bytes:
        packets = []
        for each in some:
            topic = b"q" if self.floods else b"q/%d" % bucket(each)
            body = struct.pack(">H", len(topic)) + topic + bytes(pack_notification(each))
            packets.append(b"\x30" + _varint(len(body)) + body)
        return b"".join(packets)


def _varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


def _exactly(line: socket.socket, size: int, start: bytes) -> bytes:
    found = b""
    while len(found) < size:
        chunk = line.recv(size - len(found))
        if not chunk:
            break
        found += chunk
    if not found.startswith(start):
        raise RuntimeError(f"the broker has answered {found!r}, not {start!r}")
    return found


class _MosquittoEar(_Ear):
    def hear(self, chunk: bytes) -> tuple[int, int]:
        data = self._rest + chunk if self._rest else chunk
        low, high, priced = self._low, self._high, _priced
        at, end, count, wanted = 0, len(data), 0, 0
        while end - at > 4:
            size, body = data[at + 1], at + 2
            if size > 0x7F:  # no packet here is longer than 16 383 bytes
                size, body = (size & 0x7F) | data[at + 2] << 7, at + 3
            stop = body + size
            if stop > end:
                break
            price = priced(data[body + 2 + data[body + 1] : stop]).price
            count += 1
            if low <= price <= high:
                wanted += 1
            at = stop
        self._rest = data[at:]
        return count, wanted


# -- NATS --------------------------------------------------------------------------------------


class Nats(System):
    def __init__(self, *, floods: bool) -> None:
        self.floods = floods
        self.name = "nats" if floods else "nats, buckets"
        self.how = (
            "one subject: everybody is sent everything and filters it"
            if floods
            else "1 000 subjects: the publisher knows the attribute and how wide ranges are"
        )

    @contextmanager
    def start(self) -> Iterator[Server]:
        server, port = program("nats-server", "nats-server"), free_port()
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "conf").write_text(
                f'listen: "127.0.0.1:{port}"\nping_interval: "1h"\nwrite_deadline: "60s"\n',
                encoding="utf-8",
            )
            command = [server, "-c", str(folder / "conf")]
            with running(command, folder, port=port, core=BROKERS_CORE) as found:
                yield found

    def _connect(self, port: int, *subjects: bytes) -> socket.socket:
        line = _connected(port)
        subs = b"".join(b"SUB %s %d\r\n" % (s, n) for n, s in enumerate(subjects, 1))
        line.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n' + subs + b"PING\r\n")
        found = b""
        while b"PONG\r\n" not in found:
            chunk = line.recv(4096)
            if not chunk:
                raise RuntimeError(f"the broker has answered {found!r}")
            found += chunk
        return line

    def publisher(self, port: int) -> tuple[socket.socket, Ear]:
        return self._connect(port), _Deaf()

    def subscriber(self, port: int, number: int, want: Want) -> tuple[socket.socket, Ear]:
        subjects = [b"q"] if self.floods else [b"q.%d" % each for each in want.buckets]
        return self._connect(port, *subjects), _NatsEar(want)

    def encoded(self, some: Sequence[Notification], first: int) -> bytes:
        packets = []
        for each in some:
            subject = b"q" if self.floods else b"q.%d" % bucket(each)
            body = bytes(pack_notification(each))
            packets.append(b"PUB %s %d\r\n%s\r\n" % (subject, len(body), body))
        return b"".join(packets)


class _NatsEar(_Ear):
    def hear(self, chunk: bytes) -> tuple[int, int]:
        data = self._rest + chunk if self._rest else chunk
        low, high, priced = self._low, self._high, _priced
        at, end, count, wanted = 0, len(data), 0, 0
        while True:
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                break
            if data[at] != 77:  # not MSG but PING, +OK or INFO
                at = line_end + 2
                continue
            body = line_end + 2
            stop = body + int(data[data.rfind(b" ", at, line_end) : line_end])
            if stop + 2 > end:
                break
            price = priced(data[body:stop]).price
            count += 1
            if low <= price <= high:
                wanted += 1
            at = stop + 2
        self._rest = data[at:]
        return count, wanted


# -- RabbitMQ ----------------------------------------------------------------------------------


class Rabbit(System):
    name = "rabbitmq, buckets"
    how = "headers exchange by bucket, without acknowledgements; consumers filter the rest"
    _server = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    """The one in the path insists on a user of its own."""

    @contextmanager
    def start(self) -> Iterator[Server]:
        plain = program("rabbitmq-server", "rabbitmq-server")
        server = self._server if os.path.exists(self._server) else plain
        port, names = free_port(), free_port()
        with tempfile.TemporaryDirectory() as place:
            folder, mapper = Path(place), Path(place) / "epmd"
            mapper.mkdir()
            environment = {
                "HOME": place,
                "ERL_EPMD_PORT": str(names),
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODENAME": f"bench{port}@localhost",
                "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": str(port),
                "RABBITMQ_DIST_PORT": str(free_port()),
                "RABBITMQ_MNESIA_BASE": place,
                "RABBITMQ_LOG_BASE": place,
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
                "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
                "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            }
            (folder / "plugins").write_text("[].\n", encoding="utf-8")
            (folder / "rabbitmq.conf").write_text("heartbeat = 0\n", encoding="utf-8")
            epmd = [program("epmd", "erlang-base"), "-port", str(names)]
            with (
                running(epmd, mapper, port=names),
                running(
                    [server], folder, port=port, core=BROKERS_CORE, environment=environment
                ) as found,
            ):
                yield found

    def publisher(self, port: int) -> tuple[socket.socket, Ear]:
        return _Amqp(port).socket, _Deaf()

    def subscriber(self, port: int, number: int, want: Want) -> tuple[socket.socket, Ear]:
        from pika import spec

        line = _Amqp(port)
        queue = f"subscriber-{number}"
        line.ask(spec.Queue.Declare(queue=queue, exclusive=True, auto_delete=True))
        for each in want.buckets:
            arguments = {"x-match": "all", "bucket": each}
            line.ask(
                spec.Queue.Bind(
                    queue=queue, exchange="amq.headers", routing_key="", arguments=arguments
                )
            )
        line.ask(spec.Basic.Consume(queue=queue, no_ack=True, consumer_tag="c"))
        return line.socket, _RabbitEar(want)

    def encoded(self, some: Sequence[Notification], first: int) -> bytes:
        from pika import frame, spec

        method = frame.Method(1, spec.Basic.Publish(exchange="amq.headers")).marshal()
        packets = []
        for each in some:
            body = bytes(pack_notification(each))
            properties = spec.BasicProperties(headers={"bucket": bucket(each)}, delivery_mode=1)
            header = frame.Header(1, len(body), properties).marshal()
            packets.append(method + header + frame.Body(1, body).marshal())
        return b"".join(packets)


class _Amqp:
    """A connection with one open channel, for asking and waiting."""

    def __init__(self, port: int) -> None:
        from pika import frame, spec

        self._spec, self._frame = spec, frame
        self._data = b""
        self.socket = _connected(port)
        self.socket.sendall(frame.ProtocolHeader().marshal())
        self._answer()
        self._say(0, spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"))
        tune = self._answer()
        self._say(0, spec.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        self._say(0, spec.Connection.Open("/"))
        self._answer()
        self.ask(spec.Channel.Open())

    def _say(self, channel: int, method: Any) -> None:
        self.socket.sendall(self._frame.Method(channel, method).marshal())

    def _answer(self) -> Any:
        while True:
            size, found = self._frame.decode_frame(self._data)
            if found is not None:
                self._data = self._data[size:]
                if not isinstance(found, self._frame.Method):
                    continue
                if isinstance(found.method, self._spec.Channel.Close | self._spec.Connection.Close):
                    raise RuntimeError(f"the broker says: {found.method.reply_text}")
                return found.method
            chunk = self.socket.recv(4096)
            if not chunk:
                raise RuntimeError("the broker has closed a connection")
            self._data += chunk

    def ask(self, method: Any) -> Any:
        """Say it, and wait for the answer."""
        self._say(1, method)
        return self._answer()


class _RabbitEar(_Ear):
    def hear(self, chunk: bytes) -> tuple[int, int]:
        data = self._rest + chunk if self._rest else chunk
        low, high, priced = self._low, self._high, _priced
        at, end, count, wanted = 0, len(data), 0, 0
        while end - at > 7:
            stop = at + 7 + int.from_bytes(data[at + 3 : at + 7], "big")
            if stop >= end:
                break
            if data[at] == 3:  # a body; before it came a method and a header
                price = priced(data[at + 7 : stop]).price
                count += 1
                if low <= price <= high:
                    wanted += 1
            at = stop + 1
        self._rest = data[at:]
        return count, wanted


SYSTEMS: tuple[System, ...] = (
    Tidings(),
    Mosquitto(floods=True),
    Nats(floods=True),
    Rabbit(),
    Mosquitto(floods=False),
    Nats(floods=False),
)
