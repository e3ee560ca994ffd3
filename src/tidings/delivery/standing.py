"""Standing: where readers stand in streams. Moves them as the table says, and keeps what follows.

A reader that waits, or for which a stream was asked, is known to the flow, and one that fetches has
a question under way: each exactly while it stands there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from tidings.delivery.fetching import Fetching
from tidings.delivery.readers import Flow, Reader
from tidings.delivery.stages import AWAY, FETCHING, HELD, PROBING, STAGES, WAITING, Stage, Turn
from tidings.delivery.streams import Reached
from tidings.protocol.epochs import comes_after, epoch_of
from tidings.protocol.host import Damaged


class Standing:
    """Moves readers from stage to stage."""

    def __init__(self, reached: Reached, fetching: Fetching) -> None:
        self._reached, self._fetching = reached, fetching

    def turn(self, reader: Reader, flow: Flow, turn: Turn, to: Stage) -> None:
        """Something happens to a reader in a stream: it stands elsewhere now, or where it stood."""
        stream = flow.stream
        stage = reader.stages.get(stream, AWAY)
        if to not in STAGES[turn].get(stage, ()):
            what = f"reader {reader.id} of {reader.session} is {stage.value} in {stream}"
            raise Damaged(f"{what}, and is to be {to.value}, since {turn.value}")
        if stage is WAITING:
            flow.waiting.pop(reader, None)
        elif stage is PROBING:
            flow.probing.pop(reader, None)
        elif stage is FETCHING:
            self._fetching.forget(reader.fetches.pop(stream, 0))
        reader.stages[stream] = to
        if to is WAITING:
            flow.waiting[reader] = None
        elif to is PROBING:
            flow.probing[reader] = None

    def _leave(self, reader: Reader, flow: Flow) -> None:
        flow.waiting.pop(reader, None)
        flow.probing.pop(reader, None)
        self._fetching.forget(reader.fetches.pop(flow.stream, 0))

    def forget(self, reader: Reader, flows: Iterable[Flow]) -> None:
        """It stands nowhere any more."""
        for flow in flows:
            self._leave(reader, flow)

    # -- epochs --------------------------------------------------------------------------------

    def has_earlier(self, reader: Reader, stream: str) -> bool:
        """Whether a reader has yet to read an earlier stream of the same node to its end."""
        if epoch_of(stream) == 1 or stream not in reader.positions:
            return False
        reachable = self._reached.ways.streams
        unread = [s for s in reader.positions if s in reachable and not reader.follows(s)]
        return comes_after(stream, unread)

    def released(self, reader: Reader) -> Iterator[str]:
        """The streams that a reader was held back from and may come into now, one after another."""
        for stream in [s for s, stage in reader.stages.items() if stage is HELD]:
            is_held = reader.stage(stream) is HELD and self.has_earlier(reader, stream)
            if (
                stream in self._reached.ways.streams
                and reader.stage(stream) is HELD
                and not is_held
            ):
                yield stream

    # -- auditing ------------------------------------------------------------------------------

    def audit(self, reader: Reader, flows: Mapping[str, Flow], *, is_full: bool) -> Iterator[str]:
        """Where it cannot stand, though it is said to."""
        for stream in reader.stages.keys() | self._reached.ways.streams:
            if not self._can_stand(reader, stream, flows.get(stream), is_full=is_full):
                stage = reader.stage(stream).value
                yield f"reader {reader.id} of {reader.session} is not {stage} in {stream}"

    def _can_stand(self, reader: Reader, stream: str, flow: Flow | None, *, is_full: bool) -> bool:
        is_stopped = is_full or stream not in self._reached.ways.streams
        match reader.stage(stream):
            case Stage.AWAY:
                return is_stopped
            case Stage.HELD:
                return is_stopped or self.has_earlier(reader, stream)
            case Stage.WAITING:
                return flow is not None and reader in flow.waiting
            case Stage.PROBING:
                return flow is not None and reader in flow.probing
            case Stage.FETCHING:
                return self._fetching.is_for(reader.fetches.get(stream, 0), reader)
            case Stage.FOLLOWING:
                return flow is not None and stream in reader.positions

    def audit_flow(self, flow: Flow, readers: Collection[Reader]) -> Iterator[str]:
        """Whether those who wait for something in a flow are there, and something is under way."""
        for stage, there in ((WAITING, flow.waiting), (PROBING, flow.probing)):
            if any(r not in readers or r.stage(flow.stream) is not stage for r in there):
                yield f"somebody is not {stage.value} for flow {flow.stream}"
        if flow.probing and not flow.probe:
            yield f"flow {flow.stream} has not been asked where it is"
        if flow.waiting and not flow.probe and flow.stream in self._reached.ways.streams:
            yield f"nobody asks where flow {flow.stream} is"
