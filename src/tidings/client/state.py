"""State: what a client and a subscription know, and say without waiting, with asyncio or not."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.client.event import Event
from tidings.client.host import SessionHost
from tidings.client.reading import Reading
from tidings.events import Filter
from tidings.protocol.cursors import cursor_text


class ClientState:
    """What a client knows of its session and its broker."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._outbox = host.session.outbox

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now. While there is none, everything waits for one."""
        return self._host.is_connected

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def broker(self) -> str:
        """The name of the broker, or nothing while there is no connection."""
        return self._host.session.broker

    @property
    def kept(self) -> int:
        """How many notifications the broker has kept of this session's name, in all its life.

        A program that always publishes the same under one name can go on behind them.
        """
        return self._outbox.kept

    @property
    def refusals(self) -> dict[int, str]:
        """Numbers that the broker has refused to an earlier client of this name, and why.

        That client may have ended before it heard of it. A broker tells the last 8,192 to each
        client that connects, also after it was killed itself; but none above `kept`: those may be
        published again.
        """
        return dict(self._outbox.refusals)

    @property
    def largest(self) -> int:
        """The bytes of the largest notification that the broker takes."""
        return self._outbox.largest

    @property
    def lake(self) -> str | None:
        """The folder of a lake that has what its broker no longer keeps, if it has told of one."""
        return self._host.lake

    @property
    def principal(self) -> str:
        """Who the broker takes this client for."""
        return self._host.principal


class SubscriptionState:
    """What a subscription knows of how far it was told."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @property
    def filter(self) -> Filter:
        """What it hears."""
        return self._reading.filter

    @property
    def is_live(self) -> bool:
        """Whether it has been told all that was published before, as far as can be known."""
        return self._reading.is_live

    @property
    def missed(self) -> int:
        """How many events it was not told of, since the ones before were not read; only if live.

        Where `lost` is above 0, up to that many more may be missing.
        """
        return self._reading.missed

    @property
    def lost(self) -> int:
        """How many ticks brokers no longer kept when it was to be told of them; only if live.

        It cannot be said how many of them were events that it wants.
        """
        return self._reading.lost_ticks

    @property
    def doubted(self) -> int:
        """How often a broker has found its memory damaged.

        Each time, what was told before may lack events or repeat some. To be certain, begin anew
        from an earlier cursor.
        """
        return self._reading.doubted

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return len(self._reading.inbox)

    @property
    def cursor(self) -> str:
        """How far it was told, for `since`. Events that wait to be read lie before it."""
        return cursor_text(self._reading.position)

    @property
    def complete(self) -> dict[str, float]:
        """Below which time all of a stream was read that will ever be there.

        In seconds since 1970, as `Event.seconds`; infinitely late (1e300) if the stream is closed.
        Empty unless `times` was asked for, and as long as no broker has promised a time. What
        counts in `missed` and `lost` was not read, of course.
        """
        found = dict(self._reading.complete)  # before what waits, of which more may come meanwhile
        for event in self._unread():
            if event.stream in found:
                found[event.stream] = min(found[event.stream], event.seconds)
        return found

    def _unread(self) -> Sequence[Event]:
        """The events that wait to be read."""
        return list(self._reading.inbox)
