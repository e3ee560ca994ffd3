"""Telling: what clients are told of their readers: accepted, live, how far, and what is missing.

No cursor that is told passes over an event that the reader was not sent, unless that was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidings.delivery.doubts import Doubts
from tidings.delivery.readers import Client, Flow, Reader
from tidings.delivery.stages import FOLLOWING
from tidings.delivery.streams import Reached
from tidings.protocol.host import Reply
from tidings.protocol.parts import Kernel
from tidings.protocol.requests import Accepted, Answer, Cursor, Missed, Progress


class Starts:
    """Who is told that a durable reader has begun, or ended."""

    def started(self, reader: Reader) -> None:
        """It has begun everywhere: where, in `reader.starts`."""

    def ended(self, reader: Reader) -> None:
        """It reads no more."""


class Telling:
    """Tells clients where their readers are."""

    def __init__(
        self,
        kernel: Kernel,
        reached: Reached,
        doubts: Doubts,
        starts: Starts,
        flows: Mapping[str, Flow],
        clients: Mapping[str, Client],
    ) -> None:
        self._kernel, self._reached, self._doubts = kernel, reached, doubts
        self._starts, self._flows, self._clients = starts, flows, clients
        self.starting: dict[Reader, None] = {}
        """The readers that have not begun in every stream yet."""

    def cursor(self, reader: Reader) -> Cursor:
        """Where a reader is in each stream."""
        return {stream: self.position(reader, stream) for stream in reader.positions}

    def position(self, reader: Reader, stream: str) -> int:
        """Where a reader is in a stream in which it has a position."""
        position = reader.positions[stream]
        is_in_flow = reader.stages.get(stream) is FOLLOWING
        return max(position, self._flows[stream].upto) if is_in_flow else position

    def state(self, reader: Reader) -> None:
        """Accept a reader that has started everywhere; tell it whether it is live."""
        reachable = self._reached.ways.streams
        is_starting = reader in self.starting
        if is_starting:
            if not reader.is_paused and not reader.positions.keys() >= reachable:
                return
            del self.starting[reader]
            self._begin_out_of_reach(reader)
            self._starts.started(reader)
        is_live = all(map(reader.follows, reachable))
        if not is_starting and is_live is reader.is_live:
            return
        self.missed(reader)
        cursor = self.cursor(reader)
        if is_starting:
            begun, doubts = reader.begun, self._doubts.count
            self.reply(reader, Accepted(reader.id, cursor=cursor, begun=begun, doubts=doubts))
        if is_live is not reader.is_live:
            reader.is_live = is_live
            complete = self._complete(reader) if is_live else {}
            self.reply(reader, Progress(reader.id, dict(cursor), is_live, complete))

    def _begin_out_of_reach(self, reader: Reader) -> None:
        """What begins now begins behind what was heard of a stream that cannot be reached."""
        if reader.begins_now:
            reader.begins_now = False
            for stream, tick in self._reached.known.items():
                if stream not in reader.positions:
                    reader.begins(stream, tick)
                    reader.positions[stream] = tick
                    reader.unreached.add(stream)

    def missed(self, reader: Reader) -> None:
        """What it was not sent, if there is any: no cursor may pass over that before."""
        if reader.missed or reader.lost:
            cursor = self.cursor(reader)
            self.reply(reader, Missed(reader.id, reader.missed, cursor, reader.lost))
            reader.missed = reader.lost = 0

    def part(self, reader: Reader, stream: str, upto: int) -> None:
        """It has been sent all up to a tick, and there is more."""
        if reader not in self.starting:
            self.reply(reader, Progress(reader.id, {stream: upto}, False))

    def progress(self) -> None:
        """How far everything is, to all clients that have not been told that yet."""
        cursor = {s: f.upto for s, f in self._flows.items() if f.is_live}
        complete = {s: f.complete for s, f in self._flows.items() if f.is_live and f.complete}
        for name, client in self._clients.items():
            if client.readers and not client.is_full:
                news = {s: t for s, t in cursor.items() if t > client.progress.get(s, -1)}
                times: dict[str, float] = {}
                if client.wants_times:
                    told = client.complete
                    times = {s: t for s, t in complete.items() if t > told.get(s, 0.0)}
                    told.update(times)
                if news or times:
                    client.progress.update(news)
                    self._kernel.emit(Reply(name, Progress("", news, True, times)))

    def _complete(self, reader: Reader) -> dict[str, float]:
        """The times below which a reader that is live has been told everything, if it asks."""
        if not reader.wants_times:
            return {}
        followed = [flow for s, flow in self._flows.items() if flow.is_live and reader.follows(s)]
        return {flow.stream: flow.complete for flow in followed if flow.complete}

    def mend(self) -> None:
        """What cannot have been told is told anew."""
        for client in self._clients.values():
            told, flows = client.progress.items(), self._flows
            client.progress = {s: t for s, t in told if s in flows and t <= flows[s].upto}
            times = client.complete.items()
            client.complete = {s: t for s, t in times if s in flows and t <= flows[s].complete}

    def audit(self, flows: Mapping[str, Flow], clients: Mapping[str, Client]) -> Iterator[str]:
        """Whether it tells of these."""
        if self._flows is not flows or self._clients is not clients:
            yield "what is told is of other flows, or to other clients"

    def reply(self, reader: Reader, answer: Answer) -> None:
        self._kernel.emit(Reply(reader.session, answer))
