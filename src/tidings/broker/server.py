"""A broker on the network: a node with a store, behind a port. Start it, and stop it gently."""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from time import monotonic, time
from typing import Any, Final

import msgspec

from tidings.broker.configuration import TLS, Configuration, NeighbourEntry
from tidings.broker.doors import certificates
from tidings.broker.doors.admission import Admission
from tidings.broker.doors.arrivals import Arrivals
from tidings.broker.doors.gate import Gate
from tidings.broker.doors.links import Links
from tidings.broker.host import Host
from tidings.broker.operations.metrics import Metrics
from tidings.broker.operations.prometheus import Exporter
from tidings.broker.operations.status import (
    LakeStatus,
    LinkStatus,
    PrincipalStatus,
    Rates,
    Status,
    StreamStatus,
)
from tidings.broker.operations.unused import Unused
from tidings.broker.retention import Archived, LakeProgress
from tidings.broker.store import SQLiteStore, StoreError
from tidings.broker.token_file import TokenFile
from tidings.delivery import Quota
from tidings.delivery.ages import HOUR, principal_of
from tidings.events import Schema, TidingsError
from tidings.node import Node
from tidings.overlay import Tree
from tidings.protocol.addresses import Address, parse_address
from tidings.protocol.host import Span
from tidings.protocol.messages import Heard
from tidings.routing.learning import SESSION as LEARNING

_log = logging.getLogger(__name__)

_TRIM: Final = 60.0
"""Seconds from one trim of the log to the next."""
_TRIM_IN_TROUBLE: Final = 2.0
"""Seconds from one trim to the next while the disk is full, as that is how the store recovers."""
_SAMPLE: Final = 1.0
"""Seconds from one sample of the metrics to the next."""
_STRANGERS: Final = 1024
"""Connections that have not said Hello, and whose greeting is not read yet, at most."""
_FILES: Final = 512
"""Open files that are kept for the store, the log, and greetings that are being read."""
_NAMED: Final = 5
"""Unused durable subscriptions of a principal that a status names, at most."""
_UNSPECIFIED: Final = ("0.0.0.0", "::", "")
"""Hosts that mean every address of the machine."""


class Broker:
    """One broker, from `start` to `stop`; or all of it by `async with`.

    `start` raises `TidingsError` for a port that is taken, a store that is damaged and the like,
    and then nothing is left open.
    """

    def __init__(self, configuration: Configuration, *, archived: Archived | None = None) -> None:
        """`archived` is asked for how far the lake is, if the configuration names one."""
        self.configuration = configuration
        self.lake = _lake(configuration, archived)
        self.name = configuration.name
        self.metrics = Metrics()
        self.address = configuration.address
        """Where it listens, once it has started."""
        self.metrics_address: Address | None = None
        self._rates = Rates()
        self._instance = token_hex(8)
        """Tells this broker from another of the same name, whatever node it has."""
        self._warned: set[str] = set()
        self._begun = monotonic()
        self._open = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.host: Host
        self.gate: Gate
        self.arrivals: Arrivals
        self.links: Links
        self.token_file: TokenFile

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def is_encrypted(self) -> bool:
        """Whether it speaks only TLS."""
        tls = self.configuration.tls
        return tls is not None and tls.certificate is not None

    # -- the beginning -------------------------------------------------------------------------

    async def start(self) -> None:
        """Come up with what the store holds, listen, and dial the neighbours."""
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._open = stack.pop_all()

    async def _start(self, stack: AsyncExitStack) -> None:
        configuration = self.configuration
        clients, strangers = self._places(_allow_many_files())
        self.token_file = TokenFile(configuration)
        self._authorities = certificates.Authorities(configuration.tls)
        schema = None if configuration.schema is None else Schema.load(configuration.schema)
        listening = self._tls()
        store = await asyncio.to_thread(SQLiteStore, configuration.store, self.name)
        stack.callback(store.close)
        stored = await asyncio.to_thread(store.content)
        node = await asyncio.to_thread(self._node, stored, store.spans())
        again = partial(self._node, was_damaged=True)
        self.host = Host(node, store, self.metrics, again)
        stack.push_async_callback(self.host.close)
        neighbours = configuration.links
        self.gate = Gate(
            self.name,
            self.host,
            self._admission(neighbours),
            self._authorities,
            msgspec.structs.replace(configuration.limits, connections=clients),
            self.status,
            lake=configuration.retention.lake,
            schema=schema,
        )
        self.links = self.gate.links = self.host.linker = Links(
            self.name,
            neighbours,
            self.host,
            connection=self.gate.dialled,
            trust=_trust(configuration.tls),
        )
        self.host.start(configuration.neighbours)
        self.arrivals = Arrivals(self.gate.greeted, self.metrics, tls=listening, most=strangers)
        stack.callback(self.arrivals.close)
        self.address = await self.arrivals.bind(configuration.address)
        if configuration.metrics is not None:
            asked = parse_address(configuration.metrics)
            tokens = None if asked.is_loopback else self.token_file.tokens
            exporter = Exporter(self.metrics, self.status, tokens=tokens)
            self.metrics_address = await _served(exporter, asked)
            stack.push_async_callback(exporter.close)
        if not await self.host.commits.settle(configuration.drain):
            raise TidingsError(self.host.trouble or "the store does not answer")
        self.arrivals.start()
        self.gate.start()
        host, port = self.address
        place = f":{port}" if host in _UNSPECIFIED else str(self.address)
        self.links.start(f"tidings+tls://{place}" if self.is_encrypted else place)
        self._tasks = [
            asyncio.create_task(self._keep_trimming()),
            asyncio.create_task(self._keep_warning()),
            asyncio.create_task(self._keep_sampling()),
        ]

    def _places(self, files: int) -> tuple[int, int]:
        """How many clients may be connected, and how many who have not said Hello.

        Together they leave enough open files for the neighbours and the store.
        """
        strangers = min(_STRANGERS, files // 4)
        wanted = self.configuration.limits.connections
        most = files - strangers - _FILES - 2 * len(self.configuration.neighbours)
        if most < wanted:
            _log.warning(
                "%d files may be open: %d clients are let in, not %d. More are allowed by "
                "`ulimit -n`, or LimitNOFILE of systemd",
                files,
                max(1, most),
                wanted,
            )
        return max(1, min(wanted, most)), strangers

    def _node(
        self, stored: dict[str, Any], logs: dict[str, Span], *, was_damaged: bool = False
    ) -> Node:
        configuration, limits = self.configuration, self.configuration.limits
        return Node(
            self.name,
            configuration.settings,
            neighbours={name: each.role for name, each in configuration.links.items()},
            stored=stored,
            logs=logs,
            instance=self._instance,
            quota=Quota(limits.subscriptions, limits.durables, limits.publishers),
            was_damaged=was_damaged,
        )

    def _admission(self, neighbours: Collection[str]) -> Admission:
        """Lets in those who are neighbours at the time."""
        return Admission(
            self.name,
            tokens=self.token_file.tokens,
            authorities=self._authorities,
            neighbours=neighbours,
            deliverers=self.configuration.deliverers,
            erasers=self.configuration.erasers,
        )

    def _tls(self) -> ssl.SSLContext | None:
        tls = self.configuration.tls
        if tls is None or not self.is_encrypted:
            return None
        return certificates.accepting(tls)

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

    async def _keep_warning(self) -> None:
        unused = Unused(self.host.node.from_log.subscriptions.names.holdings)
        while True:
            for sentence in unused.look():
                _log.warning("%s", sentence)
            await asyncio.sleep(HOUR)

    async def trim(self) -> None:
        """Let go of what need not be kept; it happens by itself once in a minute."""
        retention = self.configuration.retention
        seconds = retention.seconds
        before = None if seconds is None else time() - seconds
        upto = None if self.lake is None else self._may_go(await self.lake.look())
        await self.host.trim(before=before, size=retention.bytes, upto=upto)

    def _may_go(self, held: Mapping[str, int]) -> dict[str, int]:
        """What the lake holds may go, but not of a stream that the lake has more of than there is:
        behind the end of that may be something that it never got."""
        # On the disk, since the lake may have read it before the host heard of it.
        ends = {stream: span.last for stream, span in self.host.store.spans().items()}
        if any(tick > ends.get(stream, tick) for stream, tick in held.items()):
            self.host.handle(Heard(dict(held)))
        return {stream: tick for stream, tick in held.items() if tick <= ends.get(stream, 0)}

    async def _keep_sampling(self) -> None:
        while True:
            metrics = self.metrics
            numbers = {
                name: getattr(metrics, name)
                for name in ("published", "kept", "delivered", "bytes_in", "bytes_out")
            }
            self._rates.sample(monotonic(), numbers)
            self._look_at_tokens()
            self._tell_warnings()
            await asyncio.sleep(_SAMPLE)

    def _look_at_tokens(self) -> None:
        """End the connections whose token is known no longer, or has expired."""
        self.token_file.look()
        tokens = self.token_file.tokens()
        if tokens is not None:
            self.gate.check_tokens(tokens)

    def _tell_warnings(self) -> None:
        """Log what is new among the warnings."""
        warnings = set(self._warnings())
        for warning in warnings - self._warned - {self.host.raised}:
            _log.error("%s", warning)
        self._warned = warnings

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
            connections=len(self.gate.connections) + len(self.arrivals),
            subscriptions=len(node.from_log.reading.readers),
            links=tuple(self._link(name) for name in node.neighbours),
            streams=_streams(node),
            rates=self._rates.rates(),
            lake=None if self.lake is None else self._lake_status(self.lake),
            ignored=None if node.learning is None else node.learning.ignored,
            principals=_principals(node),
            durables=self.configuration.limits.durables,
            publishers=self.configuration.limits.publishers,
            stream=_current(host),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[str]:
        """What the people who run it should know, though it goes on."""
        if self.host.raised is not None:
            yield self.host.raised
        if self.token_file.trouble is not None:
            yield self.token_file.trouble
        for name, ways in self._doubles():
            yield _double(name, ways)
        for name, (first, other) in self.links.contested.items():
            yield (
                f"two brokers are named {name}: one is linked here from {first}, and another from "
                f"{other.rpartition(':')[0]} is refused; each broker needs a name of its own"
            )

        yield from self.links.unfit

    def _doubles(self) -> Iterator[tuple[str, Iterable[tuple[str, ...]]]]:
        """The names that several brokers have, and the ways to each, as far as they are known."""
        node = self.host.node
        doubles = node.from_log.reached.doubles
        for name, ways in doubles.items():
            yield name, ways.values()
        if isinstance(node.trees, Tree):
            for name, found in node.trees.doubles().items():
                if name not in doubles:
                    yield name, found

    def _lake_status(self, lake: LakeProgress) -> LakeStatus:
        held = lake.held
        upto = None if held is None else held.get(_current(self.host), 0)
        return LakeStatus(lake.folder, upto, lake.trouble)

    def _link(self, name: str) -> LinkStatus:
        node = self.host.node
        neighbour = node.neighbours[name]
        advertisements = node.exchange.advertisements
        return LinkStatus(
            name=name,
            role=neighbour.role,
            is_up=self.links.is_up(name),
            is_in_tree=node.exchange.subscriptions.has(neighbour),
            queue=len(neighbour.link.queue),
            waiting=self.links.waiting(name),
            subscriptions=len(node.exchange.subscriptions.wanted.get(neighbour, {})),
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
        self.arrivals.close()
        for task in self._tasks:
            task.cancel()
        await self.links.stop()
        self.gate.hold()
        if not await self.host.commits.settle(drain):
            _log.error("stopped before all was kept: %s", self.host.trouble or "the disk is slow")
        await self.gate.close(max(0.5, drain - (monotonic() - begun)))
        await self._open.aclose()


def _trust(tls: TLS | None) -> Callable[[NeighbourEntry], ssl.SSLContext]:
    """A neighbour is shown the broker's certificate, if not a token instead."""
    with_token, with_certificate = (
        certificates.dialling(tls, shows_certificate=shows) for shows in (False, True)
    )
    return lambda neighbour: with_token if neighbour.own_token_file else with_certificate


def _lake(configuration: Configuration, archived: Archived | None) -> LakeProgress | None:
    folder = configuration.retention.lake
    if folder is None:
        return None
    if archived is None:
        raise TidingsError(f"nobody says how far the lake {folder} is; give `archived`, too")
    return LakeProgress(folder, archived)


def _current(host: Host) -> str:
    """The stream in which is published now."""
    return list(host.store.spans())[-1]


async def _served(exporter: Exporter, address: Address) -> Address:
    try:
        return await exporter.serve(address)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise TidingsError(f"cannot serve metrics on {address}: {reason}") from None


def _streams(node: Node) -> dict[str, StreamStatus]:
    ways, flows = node.from_log.reached.ways, node.from_log.reading.flows
    return {
        stream: StreamStatus(ways.path(stream), flows[stream].upto if stream in flows else 0)
        for stream in ways.streams
    }


def _principals(node: Node) -> tuple[PrincipalStatus, ...]:
    holdings = node.from_log.subscriptions.names.holdings
    durables, publishers = holdings.durables.counts, node.from_log.publishers.ages.counts
    idle: dict[str, list[str]] = {}
    for name in holdings.idle():
        idle.setdefault(principal_of(name), []).append(name.partition("/")[2])
    return tuple(
        PrincipalStatus(
            name=name,
            durables=durables.get(name, 0),
            publishers=publishers.get(name, 0),
            idle=len(idle.get(name, ())),
            names=tuple(sorted(idle.get(name, ()))[:_NAMED]),
        )
        for name in sorted({*durables, *publishers})
        if name != LEARNING  # the broker's own
    )


def _double(name: str, ways: Iterable[tuple[str, ...]]) -> str:
    """A sentence that names all brokers of one name."""
    told = " and ".join("this one" if len(way) == 1 else " → ".join(way) for way in ways)
    return (
        f"several brokers are named {name} ({told}), and only one of them is heard here: "
        "each needs a name of its own"
    )


def _size(folder: str) -> int:
    """Of all files in it; one may vanish while we look."""
    total = 0
    for path in Path(folder).iterdir():
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def _allow_many_files() -> int:
    """A connection is an open file, and what a process may have by default is for desktops.

    Returns how many may be open now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            _log.debug("cannot have more than %d open files", soft)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if allowed == resource.RLIM_INFINITY else allowed
