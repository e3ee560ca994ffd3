"""A broker on the network: a node with a store, behind a port. Start it, and stop it gently."""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

from tidings.broker import certificates
from tidings.broker.admission import Admission
from tidings.broker.configuration import Configuration
from tidings.broker.counts import Counts
from tidings.broker.gate import Gate
from tidings.broker.host import Host
from tidings.broker.links import Links
from tidings.broker.metrics import Metrics
from tidings.broker.places import Address, parse_address
from tidings.broker.refusals import Refusals
from tidings.broker.retention import Archive, Archived
from tidings.broker.status import LakeStatus, LinkStatus, Rates, Status, StreamStatus
from tidings.broker.store import SQLiteStore, StoreError
from tidings.broker.tokens import Tokens
from tidings.events import TidingsError
from tidings.node import Node, Span

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_TRIM: Final = 60.0
"""The log is trimmed so often,"""
_TRIM_IN_TROUBLE: Final = 2.0
"""and so often while the disk is full, since that is how the store recovers."""
_SAMPLE: Final = 1.0
_UNSPECIFIED: Final = ("0.0.0.0", "::", "")


class Broker:
    """One broker, from `start` to `stop`; or all of it by `async with`.

    What cannot be, such as a port that is taken or a store that is damaged, is a `TidingsError`
    of `start`, and then nothing is left open.
    """

    def __init__(self, configuration: Configuration, *, archived: Archived | None = None) -> None:
        """`archived` is asked for how far the lake is, if the configuration names one."""
        self.configuration = configuration
        self.archive = _archive(configuration, archived)
        self.name = configuration.name
        self.counts = Counts()
        self.address = configuration.address
        """Where it listens, once it has started."""
        self.metrics_address: Address | None = None
        self._rates = Rates()
        self._begun = monotonic()
        self._open = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.host: Host
        self.gate: Gate
        self.links: Links

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- the beginning -------------------------------------------------------------------------

    async def start(self) -> None:
        """Come up with what the store holds, listen, and dial the neighbours."""
        _allow_many_files()
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._open = stack.pop_all()

    async def _start(self, stack: AsyncExitStack) -> None:
        configuration = self.configuration
        listening = self._tls()
        store = await asyncio.to_thread(SQLiteStore, configuration.store, self.name)
        stack.callback(store.close)
        stored = await asyncio.to_thread(store.content)
        node = await asyncio.to_thread(self._node, stored, store.span())
        self.host = Host(node, store, self.counts, Refusals(stored))
        stack.push_async_callback(self.host.close)
        self.gate = Gate(
            self.name,
            self.host,
            self._admission(),
            configuration.limits,
            self.status,
            lake=configuration.retention.lake,
        )
        self.host.start(configuration.neighbours)
        self._server = await self._listen(listening)
        stack.callback(self._server.close)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = Address(host, port)
        self.links = self.gate.links = Links(
            self.name,
            configuration.links,
            self.host,
            connection=self.gate.dialled,
            address=f":{port}" if host in _UNSPECIFIED else str(self.address),
            trust=certificates.dialling(configuration.tls),
        )
        if configuration.metrics is not None:
            metrics = Metrics(self.counts, self.status)
            self.metrics_address = await _served(metrics, parse_address(configuration.metrics))
            stack.push_async_callback(metrics.close)
        if not await self.host.pipeline.settle(configuration.drain):
            raise TidingsError(self.host.trouble or "the store does not answer")
        await self._server.start_serving()
        self.gate.start()
        self.links.start()
        self._tasks = [
            asyncio.create_task(self._keep_trimming()),
            asyncio.create_task(self._keep_sampling()),
        ]

    def _node(self, stored: dict[str, Any], log: Span) -> Node:
        configuration = self.configuration
        return Node(
            self.name,
            configuration.settings,
            neighbours=dict.fromkeys(configuration.neighbours, "peer"),
            stored=stored,
            log=log,
        )

    def _admission(self) -> Admission:
        tls = self.configuration.tls
        return Admission(
            self.name,
            tokens=Tokens(self.configuration.tokens),
            trusts_certificates=tls is not None and tls.authority is not None,
            neighbours=self.configuration.neighbours,
        )

    def _tls(self) -> Any:
        tls = self.configuration.tls
        if tls is None:
            return None
        return certificates.accepting(tls, needs_certificate=not self.configuration.tokens)

    async def _listen(self, context: Any) -> asyncio.Server:
        address = self.configuration.address
        more: dict[str, Any] = {} if context is None else {"ssl_handshake_timeout": 10.0}
        try:
            return await asyncio.get_running_loop().create_server(
                self._accepted,
                *address,
                ssl=context,
                backlog=_BACKLOG,
                start_serving=False,
                **more,
            )
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise TidingsError(f"cannot listen on {address}: {reason}") from None

    def _accepted(self) -> asyncio.Protocol:
        return self.gate.accepted()

    # -- while it runs -------------------------------------------------------------------------

    async def _keep_trimming(self) -> None:
        while True:
            try:
                await self.trim()
            except StoreError as problem:
                _log.error("cannot trim the log: %s", problem)
            waited = 0.0
            while waited < (_TRIM_IN_TROUBLE if self.host.trouble else _TRIM):
                await asyncio.sleep(_TRIM_IN_TROUBLE)
                waited += _TRIM_IN_TROUBLE

    async def trim(self) -> None:
        """Let go of what need not be kept; it happens by itself once in a minute."""
        retention = self.configuration.retention
        seconds = retention.seconds
        before = None if seconds is None else time() - seconds
        upto = None if self.archive is None else await self.archive.look(self._last)
        await self.host.trim(before=before, size=retention.bytes, upto=upto)

    def _last(self) -> int:
        """The last tick on the disk; the lake may have read it before the host heard of it."""
        return self.host.store.span().last

    async def _keep_sampling(self) -> None:
        while True:
            counts = self.counts
            numbers = {
                name: getattr(counts, name)
                for name in ("published", "kept", "delivered", "bytes_in", "bytes_out")
            }
            self._rates.sample(monotonic(), numbers)
            await asyncio.sleep(_SAMPLE)

    def status(self) -> Status:
        """What there is to tell about it now."""
        host, node = self.host, self.host.node
        return Status(
            broker=self.name,
            version=version("tidings"),
            address=str(self.address),
            uptime=monotonic() - self._begun,
            first=host.first,
            last=host.last,
            size=_size(self.configuration.store),
            trouble=host.trouble,
            sessions=len(host.sessions),
            connections=len(self.gate.connections),
            subscriptions=sum(len(s.readers) for s in node.sessions.values()),
            links=tuple(self._link(name) for name in self.configuration.neighbours),
            streams=_streams(node),
            rates=self._rates.rates(),
            lake=None if self.archive is None else self._lake(self.archive),
            ignored=None if node.learning is None else node.learning.ignored,
        )

    def _lake(self, archive: Archive) -> LakeStatus:
        return LakeStatus(archive.folder, archive.upto, archive.trouble)

    def _link(self, name: str) -> LinkStatus:
        node = self.host.node
        neighbour = node.neighbours[name]
        advertisements = node.advertisements
        return LinkStatus(
            name=name,
            is_up=self.links.is_up(name),
            is_in_tree=node.subscriptions.has(neighbour),
            queue=len(neighbour.link.queue),
            waiting=self.links.waiting(name),
            subscriptions=len(node.subscriptions.wanted.get(neighbour, {})),
            advertisements=(
                0 if advertisements is None else len(advertisements.wanted.get(neighbour, {}))
            ),
            address=self.links.addresses.get(name),
        )

    # -- the end -------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Take nothing more in, keep and send what was taken in, and leave.

        What clients have said and the broker has not read is not refused, which would be final:
        it is not accepted, so they say it again to the broker that comes after this one.
        """
        begun, drain = monotonic(), self.configuration.drain
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await self.links.stop()
        self.gate.hold()
        if not await self.host.pipeline.settle(drain):
            _log.error("stopped before all was kept: %s", self.host.trouble or "the disk is slow")
        await self.gate.close(max(0.5, drain - (monotonic() - begun)))
        await self._open.aclose()


def _archive(configuration: Configuration, archived: Archived | None) -> Archive | None:
    folder = configuration.retention.lake
    if folder is None:
        return None
    if archived is None:
        raise TidingsError(f"nobody says how far the lake {folder} is; give `archived`, too")
    return Archive(folder, configuration.name, archived)


async def _served(metrics: Metrics, address: Address) -> Address:
    try:
        return await metrics.serve(address)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise TidingsError(f"cannot serve metrics on {address}: {reason}") from None


def _streams(node: Node) -> dict[str, StreamStatus]:
    deliveries = node.deliveries
    assert deliveries is not None
    flows = deliveries.flows
    return {
        stream: StreamStatus(
            deliveries.ways.path(stream), flows[stream].upto if stream in flows else 0
        )
        for stream in deliveries.ways.streams
    }


def _size(folder: str) -> int:
    """Of all files in it; one may vanish while we look."""
    total = 0
    for path in Path(folder).iterdir():
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def _allow_many_files() -> None:
    """A connection is an open file, and what a process may have by default is for desktops."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            _log.debug("cannot have more than %d open files", soft)
