"""Ways: by which neighbour each stream of the network comes.

Each node tells its neighbours the streams that come by it, and the nodes on the way, so that
nobody takes a way that leads through itself. A neighbour that is told of a stream anew knows that
its flow has been interrupted somewhere on the way and begins anew, even if the way is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
"""The nodes on the way, the stream's own first. Empty: there is no way."""
NOWHERE: Path = ()


class Ways:
    """The streams that a node knows, and how they come to it.

    >>> ways = Ways("berlin")
    >>> ways.told("paris", {"madrid": ("madrid", "paris"), "rome": ("rome", "berlin", "paris")})
    ['madrid']
    >>> ways.via("madrid")
    'paris'
    >>> ways.to_tell("prague")
    {'berlin': ('berlin',), 'madrid': ('madrid', 'paris', 'berlin')}
    >>> ways.lost("paris")
    ['madrid']
    """

    def __init__(self, own: str) -> None:
        self.own = own
        self._offers: dict[str, dict[str, Path]] = {}
        self._via: dict[str, str] = {own: own}

    @property
    def streams(self) -> KeysView[str]:
        """All that can be reached, this node's own among them."""
        return self._via.keys()

    def via(self, stream: str) -> str | None:
        """The neighbour by which a stream comes; the node's own name for its own stream."""
        return self._via.get(stream)

    def path(self, stream: str) -> Path:
        """The nodes on the way from the stream's own node to this one."""
        via = self._via.get(stream)
        if via is None:
            return NOWHERE
        if via == self.own:
            return (self.own,)
        return (*self._offers[via][stream], self.own)

    def told(self, neighbour: str, paths: Mapping[str, Path]) -> list[str]:
        """A neighbour tells ways: the streams whose flow begins anew or has ended thereby."""
        offers = self._offers.setdefault(neighbour, {})
        changed = []
        for stream, path in paths.items():
            if stream == self.own:
                continue
            before = self._via.get(stream)
            if path and self.own not in path:
                offers[stream] = path
            else:
                offers.pop(stream, None)
            if self._choose(stream) != before or before == neighbour:
                changed.append(stream)
        return changed

    def lost(self, neighbour: str) -> list[str]:
        """A neighbour is gone: the streams whose flow begins anew or has ended thereby."""
        streams = self._offers.pop(neighbour, {})
        changed = [s for s in streams if self._via.get(s) == neighbour]
        for stream in changed:
            self._choose(stream)
        return changed

    def to_tell(self, neighbour: str, streams: Iterable[str] | None = None) -> dict[str, Path]:
        """What to tell a neighbour of some streams, or of all there are.

        A stream that comes by the neighbour itself does not come to it by this node.
        """
        if streams is None:
            return {s: self.path(s) for s in self._via if self._via[s] != neighbour}
        return {s: NOWHERE if self._via.get(s) == neighbour else self.path(s) for s in streams}

    def _choose(self, stream: str) -> str | None:
        """The shortest way; of several, the one by which it came before."""
        ways = [n for n, offers in self._offers.items() if stream in offers]
        before = self._via.pop(stream, None)
        if not ways:
            return None
        best = min(ways, key=lambda n: (len(self._offers[n][stream]), n != before, n))
        self._via[stream] = best
        return best
