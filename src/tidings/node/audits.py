"""Audits: whether what a node remembers can be true.

Much of it is there twice: readers by session and by filter, names by owner, positions and the
flows they belong to. An audit looks for two that do not agree, and for somebody who waits for
what nobody has been asked for. It looks into every part, as nothing else does, and changes
nothing. What it finds is a sentence; the node raises the first as `Damaged`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidings.delivery import Flow, Reader
from tidings.node.ports import Session, count

if TYPE_CHECKING:
    from tidings.node.deliveries import Deliveries
    from tidings.node.node import Node


def problems(node: Node, sessions: Iterable[Session]) -> Iterator[str]:
    """Whatever cannot be true of a node between two inputs; of readers, those of some sessions."""
    yield from _neighbours(node)
    for name, session in node.sessions.items():
        if session.name != name:
            yield f"session {name} is called {session.name}"
    if node.learning is not None:
        yield from node.learning.audit()
    yield from node._watches.audit(node.sessions)
    if node.deliveries is not None:
        yield from node.deliveries.archive.audit()
        yield from node.deliveries.ways.audit()
        yield from node.deliveries.homes.audit()
        yield from _names(node, node.deliveries)
        yield from _flows(node.deliveries)
        yield from _readers(node, node.deliveries, sessions)


def _neighbours(node: Node) -> Iterator[str]:
    if not node._roles.keys() <= node.neighbours.keys():
        yield f"a neighbour is missing among {sorted(node.neighbours)}"
    if node._generation < len(node.neighbours):
        yield f"{len(node.neighbours)} links have identities, and {node._generation} were given"
    for name, neighbour in node.neighbours.items():
        role = node._roles.get(name, "peer")
        if (neighbour.name, neighbour.role) != (name, role):
            yield f"neighbour {name} is the {neighbour.role} {neighbour.name}"
        belongs = node.tree is None or neighbour.is_in_tree
        for tables in (node.subscriptions, node.advertisements):
            if tables is not None and tables.has(neighbour) is not belongs:
                yield f"the tables of {name} are open: {not belongs}"
    known = {*node.neighbours.values(), *node.sessions.values()}
    for tables in (node.subscriptions, node.advertisements):
        if tables is not None and not tables.wanted.keys() <= known:
            yield "there is a table of somebody who is not there"


def _names(node: Node, deliveries: Deliveries) -> Iterator[str]:
    learning = None if node.learning is None else node.learning.session
    clients = [s for s in node.sessions.values() if s is not learning]
    if len(node._owners) != len(clients):
        yield f"{len(clients)} sessions have {len(node._owners)} names"
    for session in clients:
        if node._owners.get(session.publisher) is not session:
            yield f"{session.name} does not have the name {session.publisher}"
        if deliveries.publishers[session.publisher].instance != session.instance:
            yield f"{session.publisher} is not {session.instance}"
        ads = node.advertisements
        if ads is not None and ads.wanted.get(session, {}) != count(session.advertisements):
            yield f"what {session.name} advertises is not in the table"


def _flows(deliveries: Deliveries) -> Iterator[str]:
    for stream, log in deliveries.archive.logs.items():
        own = deliveries.flows.get(stream)
        if own is None or not own.is_live or own.upto != log.last:
            yield f"the node's own flow of {stream} is not where its log is"
    followed = {stream for reader in deliveries.readers for stream in reader.follows}
    for stream, flow in deliveries.flows.items():
        if flow.stream != stream:
            yield f"flow {stream} is that of {flow.stream}"
        if any(number and number not in deliveries._asked for number in (flow.fetch, flow.probe)):
            yield f"flow {stream} waits for what was not asked"
        if flow.is_live and flow.fetch:
            yield f"flow {stream} is live, and lacks something"
        if not (flow.waiting.keys() | flow.probing.keys()) <= deliveries.readers.keys():
            yield f"somebody waits for flow {stream} who is not there"
        if flow.probing and not flow.probe:
            yield f"flow {stream} has not been asked where it is"
        if stream not in deliveries.ways.streams:
            continue
        if flow.waiting and not flow.probe:
            yield f"nobody asks where flow {stream} is"
        if stream in followed and not (flow.is_live or flow.fetch):
            yield f"nobody asks for what flow {stream} lacks"


def _readers(node: Node, deliveries: Deliveries, sessions: Iterable[Session]) -> Iterator[str]:
    readers = deliveries.readers
    if sum(len(s.readers) for s in node.sessions.values()) != len(readers):
        yield "a session has a reader that is not there, or lacks one"
    if sum(len(same) for same in deliveries._by_filter.values()) != len(readers):
        yield "there are readers without a filter, or filters without a reader"
    if not deliveries._starting.keys() <= readers.keys():
        yield "somebody starts who is not there"
    if sum(reader.durable is not None for reader in readers) != len(deliveries._durable):
        yield "durable subscriptions and those who have them differ in number"
    for session in sessions:
        for id, reader in session.readers.items():
            if reader not in readers or (reader.session, reader.id) != (session.name, id):
                yield f"{session.name} does not have the reader {id}"
            else:
                yield from _reader(deliveries, reader, session)
        wanted = node.subscriptions.wanted.get(session, {})
        if wanted != count({id: reader.filter for id, reader in session.readers.items()}):
            yield f"what {session.name} wants is not in the table"


def _reader(deliveries: Deliveries, reader: Reader, session: Session) -> Iterator[str]:
    what = f"reader {reader.id} of {reader.session}"
    if reader not in deliveries._by_filter.get(reader.filter, {}):
        yield f"{what} is not known by its filter"
    if reader.durable is not None:
        saved = deliveries.saved.get(reader.durable)
        if deliveries._durable.get(reader.durable) is not reader or saved is None:
            yield f"{what} does not have {reader.durable}"
        elif saved.filter != reader.filter:
            yield f"{what} has another filter than {reader.durable}"
    if not reader.follows <= reader.positions.keys():
        yield f"{what} has no position in {reader.follows - reader.positions.keys()}"
    logs = deliveries.archive.logs.items()
    if any(reader.positions.get(stream, 0) > log.last for stream, log in logs):
        yield f"{what} is ahead of the log"
    streams = deliveries.ways.streams
    if reader in deliveries._starting:
        if reader.positions.keys() >= streams:
            yield f"{what} has started, and was not accepted"
    elif reader.is_live is not (reader.follows >= streams):
        yield f"{what} was not told that it is live, or that it is not"
    if not session.is_full:
        for stream in streams - reader.follows:
            if not _is_on_its_way(deliveries, reader, deliveries._flow(stream)):
                yield f"nobody asks for what {what} lacks of {stream}"


def _is_on_its_way(deliveries: Deliveries, reader: Reader, flow: Flow) -> bool:
    """Whether a reader that does not follow a flow will."""
    asked = deliveries._asked.get(reader.fetches.get(flow.stream, 0))
    is_fetched = asked is not None and asked[0] is reader
    return is_fetched or reader in flow.waiting or reader in flow.probing
