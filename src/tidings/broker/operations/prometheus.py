"""Prometheus: the metrics of a broker, in the format of Prometheus, over HTTP.

On the loopback address any program may ask. Elsewhere the request has to show one of the broker's
tokens: `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import time
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidings.broker.operations.metrics import STEPS, Metrics
from tidings.broker.operations.status import Status
from tidings.broker.tokens import Tokens
from tidings.protocol.addresses import Address

_LONGEST_REQUEST: Final = 8192
"""Bytes of a request that are read, at most."""
_PATIENCE: Final = 5.0
"""Seconds for a request and its answer, at most."""

_COUNTERS: Final = {
    "connections_opened": ("opened", "Connections accepted or dialled"),
    "events_published": ("published", "Notifications that clients handed in"),
    "events_kept": ("kept", "Events committed to the log"),
    "events_delivered": ("delivered", "Events handed to clients"),
    "events_missed": ("missed", "Events of live subscriptions not sent to slow clients"),
    "refusals": ("refused", "Requests and connections refused"),
    "nodes_replaced": ("replaced", "Times that damaged memory was thrown away"),
    "received_bytes": ("bytes_in", "Bytes received"),
    "sent_bytes": ("bytes_out", "Bytes sent"),
}


class Exporter(Collector):
    """A broker's numbers, read at each request."""

    def __init__(
        self,
        metrics: Metrics,
        status: Callable[[], Status],
        *,
        tokens: Callable[[], Tokens | None] | None = None,
    ) -> None:
        """A request must show one of the `tokens` that are known now, if they are given."""
        self._metrics = metrics
        self._status = status
        self._tokens = tokens
        self._server: asyncio.Server | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()  # registering does not ask for the numbers then

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        for name, (field, help) in _COUNTERS.items():
            yield CounterMetricFamily(f"tidings_{name}", help, getattr(metrics, field))
        buckets, total = [], 0
        for step, number in zip((*STEPS, float("inf")), metrics.commits, strict=True):
            total += number
            buckets.append((str(step) if step < 1e9 else "+Inf", total))
        yield HistogramMetricFamily(
            "tidings_commit_seconds", "How long commits took", buckets, metrics.commit_seconds
        )
        yield from _gauges(self._status())

    # -- over HTTP -----------------------------------------------------------------------------

    # The servers that prometheus-client offers would serve strangers without a bound. Its own has a
    # thread for each connection, which collects while the event loop changes what is collected.
    # Its ASGI app needs uvicorn, which waits for ever for the rest of a request, and would not be
    # shorter: the token must be checked, and the port bound and closed, here in any case.

    async def serve(self, address: Address) -> Address:
        """Answer GET /metrics there; where that is, if the port was 0."""
        self._server = await asyncio.start_server(self._answer, *address, limit=_LONGEST_REQUEST)
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _may_ask(self, shown: str) -> bool:
        if self._tokens is None:
            return True
        grant = (self._tokens() or Tokens()).find(shown)
        return grant is not None and grant.expired(time()) is None

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        more = ""
        if not self._may_ask(_shown(head)):
            status, body = "401 Unauthorized", b"show a token of this broker\n"
            more = "WWW-Authenticate: Bearer\r\n"
        elif method != b"GET" or path not in (b"/metrics", b"/"):
            status, body = "404 Not Found", b"the metrics are at /metrics\n"
        else:
            status, body = "200 OK", generate_latest(self.registry)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
        ).encode() + body


def _shown(head: bytes) -> str:
    """The token of a request; empty if there is none."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        scheme, _, token = value.strip().partition(b" ")
        if name.strip().lower() == b"authorization" and scheme.lower() == b"bearer":
            return token.strip().decode("latin-1")
    return ""


def _gauges(status: Status) -> Iterator[Metric]:
    yield GaugeMetricFamily("tidings_connections", "Open connections", status.connections)
    yield GaugeMetricFamily("tidings_sessions", "Sessions of clients", status.sessions)
    yield GaugeMetricFamily(
        "tidings_subscriptions", "Filters that clients want matched", status.subscriptions
    )
    yield GaugeMetricFamily("tidings_store_bytes", "Size of the store", status.size)
    yield GaugeMetricFamily(
        "tidings_log_events", "Events kept in the log", status.last - status.first + 1
    )
    yield GaugeMetricFamily(
        "tidings_trouble", "1 while nothing can be published", int(status.trouble is not None)
    )
    yield GaugeMetricFamily(
        "tidings_warnings", "Warnings that `tidings network` shows", len(status.warnings)
    )
    if (lake := status.lake) is not None:
        yield GaugeMetricFamily(
            "tidings_lake_trouble",
            "1 while no event is let go of, since the lake cannot be read",
            int(lake.trouble is not None),
        )
        if lake.upto is not None:
            lag = max(0, status.last - lake.upto)
            yield GaugeMetricFamily("tidings_lake_lag_events", "Events that the lake lacks", lag)
    if status.ignored is not None:
        yield CounterMetricFamily(
            "tidings_statistics_ignored",
            "Events that should have been statistics, and were not",
            status.ignored,
        )
    up = GaugeMetricFamily("tidings_link_up", "1 if connected", labels=["neighbour"])
    tree = GaugeMetricFamily("tidings_link_in_tree", "1 if events pass", labels=["neighbour"])
    queue = GaugeMetricFamily(
        "tidings_link_queue", "Messages not acknowledged", labels=["neighbour"]
    )
    table = GaugeMetricFamily(
        "tidings_link_table", "Filters that it wants matched", labels=["neighbour"]
    )
    for link in status.links:
        up.add_metric([link.name], int(link.is_up))
        tree.add_metric([link.name], int(link.is_in_tree))
        queue.add_metric([link.name], link.queue)
        table.add_metric([link.name], link.subscriptions)
    yield from (up, tree, queue, table)
