"""Ways: by which neighbour each stream of the network comes.

Each node tells its neighbours the streams that come by it, and the nodes on the way, so that
nobody takes a way that leads through itself. A neighbour that is told of a stream anew knows that
its flow has been interrupted somewhere on the way and begins anew, even if the way is the same.

Two nodes of one name would be taken for one. So a way also says which process the stream's own
node is: a node that hears of two under one name keeps to the one that it had, and can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping
from operator import itemgetter
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from tidings.protocol.epochs import broker_of
from tidings.protocol.messages import Path, Way

NOWHERE = Way()


class Named(Protocol):
    """A neighbour, on one lane."""

    @property
    def name(self) -> str: ...

    def __hash__(self) -> int: ...


N = TypeVar("N", bound=Named)


class Ways(Generic[N]):
    """The streams that a node knows, and how they come to it.

    >>> from collections import namedtuple
    >>> ways, Neighbour = Ways("berlin", {"berlin": ""}), namedtuple("Neighbour", "name")
    >>> paris, prague = Neighbour("paris"), Neighbour("prague")
    >>> ways.told(paris, {"rome": Way(("rome", "paris")), "oslo": Way(("oslo", "berlin"))})
    ['rome']
    >>> ways.via("rome")
    Neighbour(name='paris')
    >>> {stream: way.path for stream, way in ways.to_tell(prague).items()}
    {'berlin': ('berlin',), 'rome': ('rome', 'paris', 'berlin')}
    >>> ways.lost(paris)
    ['rome']
    """

    def __init__(self, own: str, identities: Mapping[str, str], *, instance: str = "") -> None:
        """`identities` are those of the node's own streams, `instance` is the node's."""
        self.own = own
        self.instance = instance
        self._offers: dict[N, dict[str, Way]] = {}
        self._own: dict[str, Way] = {}
        self.names: dict[str, None] = {}
        """What the node's own streams are called, in whatever epoch."""
        self._via: dict[str, N | None] = {}
        """None for the node's own streams."""
        self._followed: dict[str, str] = {}
        """The instance that each stream came from last."""
        for stream, identity in identities.items():
            self.begin(stream, identity)

    def begin(self, stream: str, identity: str) -> None:
        """The node has this stream itself."""
        self._own[stream] = Way((self.own,), identity, self.instance)
        self.names[broker_of(stream)] = None
        self._via[stream] = None

    @property
    def streams(self) -> KeysView[str]:
        """All that can be reached, this node's own among them."""
        return self._via.keys()

    def via(self, stream: str) -> N | None:
        """The neighbour by which a stream comes, if it comes by one."""
        return self._via.get(stream)

    def way(self, stream: str) -> Way:
        """How a stream comes from its own node to this one."""
        via = self._via.get(stream)
        if via is None:
            return self._own.get(stream, NOWHERE)
        offer = self._offers[via][stream]
        return Way((*offer.path, self.own), offer.identity, offer.instance)

    def path(self, stream: str) -> Path:
        """The nodes on the way from the stream's own node to this one."""
        return self.way(stream).path

    def told(self, neighbour: N, ways: Mapping[str, Way]) -> list[str]:
        """A neighbour tells ways: the streams whose flow begins anew or has ended thereby."""
        offers = self._offers.setdefault(neighbour, {})
        changed = []
        for stream, way in ways.items():
            before = self._via.get(stream)
            if way.path and self.own not in way.path[1:]:
                offers[stream] = way
            else:
                offers.pop(stream, None)
            if broker_of(stream) in self.names:
                continue  # somebody else's, of the same name: see `doubles`
            if self._choose(stream) is not before or before is neighbour:
                changed.append(stream)
        return changed

    def lost(self, neighbour: N) -> list[str]:
        """A neighbour is gone: the streams whose flow begins anew or has ended thereby."""
        streams = self._offers.pop(neighbour, {})
        changed = [s for s in streams if self._via.get(s) is neighbour]
        for stream in changed:
            self._choose(stream)
        return changed

    def to_tell(self, neighbour: N, streams: Iterable[str] | None = None) -> dict[str, Way]:
        """What to tell a neighbour of some streams, or of all there are.

        A stream that comes by the neighbour itself does not come to it by this node.
        """
        if streams is None:
            return {s: self.way(s) for s in self._via if self._via[s] is not neighbour}
        return {s: NOWHERE if self._via.get(s) is neighbour else self.way(s) for s in streams}

    def doubles(self) -> dict[str, dict[str, Path]]:
        """The names under which several nodes are told of, and by instance the way to each.

        One that has just restarted elsewhere may be among them for a while.
        """
        here: Path = (self.own,)
        found = {name: {self.instance: here} for name in self.names}
        for offers in self._offers.values():
            for stream, way in offers.items():
                known = found.setdefault(broker_of(stream), {})
                known.setdefault(way.instance, (*way.path, self.own))
        return {name: known for name, known in found.items() if len(known) > 1}

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of them."""
        if self.names.keys() != set(map(broker_of, self._own)):
            yield f"{sorted(self._own)} are the node's own streams, called {sorted(self.names)}"
        offered = {stream for offers in self._offers.values() for stream in offers}
        others = {stream for stream in offered if broker_of(stream) not in self.names}
        if self._via.keys() != others | self._own.keys():
            yield f"ways lead to {sorted(self._via)}, and {sorted(offered)} are offered"
        for stream, via in self._via.items():
            if stream in self._own:
                if via is not None or self._own[stream].path != (self.own,):
                    yield f"the node's own stream {stream} comes by {via and via.name}"
                continue
            ranks = {n: self._rank(stream, n) for n, o in self._offers.items() if stream in o}
            if via is None or ranks.get(via) != min(ranks.values(), default=None):
                named = {n.name: rank for n, rank in ranks.items()}
                yield f"{stream} comes by {via and via.name}, and there are {named}"

    def digest_told(self, neighbour: N) -> int:
        """Of all that a neighbour has been told, as far as it can use it."""
        told = self.to_tell(neighbour).items()
        return _digest({s: w for s, w in told if w.path and neighbour.name not in w.path[1:]})

    def digest_held(self, neighbour: N) -> int:
        """Of all that is known by a neighbour: the same as the neighbour's `digest_told`."""
        return _digest(self._offers.get(neighbour, {}))

    def _choose(self, stream: str) -> N | None:
        """The shortest way; of several, the one by which it came before.

        While the node that it came from is told of, no other one of the same name is taken.
        """
        ways = {n: offers[stream] for n, offers in self._offers.items() if stream in offers}
        before = self._via.pop(stream, None)
        if not ways:
            return None
        best = min(ways, key=lambda n: (self._rank(stream, n), n is not before, n.name))
        self._via[stream], self._followed[stream] = best, ways[best].instance
        return best

    def _rank(self, stream: str, neighbour: N) -> tuple[bool, int]:
        """The lower, the better is the way by a neighbour."""
        way = self._offers[neighbour][stream]
        return way.instance != self._followed.get(stream), len(way.path)


def _digest(ways: Mapping[str, Way]) -> int:
    return crc32(repr(sorted(ways.items(), key=itemgetter(0))).encode())
