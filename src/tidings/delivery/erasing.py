"""Erasing: events that are to be gone from all logs that can be reached.

An event lives in the log of the node where it was published, and nowhere else among brokers. So
the node that is asked erases in its own logs, and asks every other that it can reach, hop by hop::

    client ──Erase──▶ a ──EraseAt──▶ b ──EraseAt──▶ c        each has its host erase (`EraseLog`)
                      a ◀─ErasedAt── b ◀─ErasedAt── c        when it is gone from the disk
    client ◀─Erasure─ a                                      and a publishes the record

What was accepted before a node was asked is covered: its host erases behind all that was written
before. What is in memory, and what waits for a neighbour, is erased first; what was being read for
somebody is read again afterwards. So once a node has answered, nothing of it is told by that
node any more. To erase again is no error: what was erased under an id before counts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec

from tidings.delivery.ages import principal_of
from tidings.delivery.erased import Eraser, record
from tidings.delivery.logs import Logs
from tidings.delivery.streams import Reached
from tidings.events import Filter
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import EraseLog, LogErased, Reply, Sync
from tidings.protocol.messages import EraseAt, ErasedAt, Event, Fetched
from tidings.protocol.parts import Kernel, Neighbour, Session, Wants
from tidings.protocol.requests import Erase, Erasure

_REMEMBERED: Final = 100
"""Erasures of which the answer is remembered, for clients that ask again."""

_What: TypeAlias = tuple[str, Filter, bool]
"""An erasure: its id and filter, and whether it only counts."""
_Done: TypeAlias = Callable[["_Work"], None]


class _Work:
    """An erasure in the node's own logs."""

    __slots__ = ("erased", "numbers", "problems", "upto", "waiting")

    def __init__(self) -> None:
        self.erased: dict[str, int] = {}
        self.upto: dict[str, int] = {}
        self.problems: list[str] = []
        self.numbers: dict[int, str] = {}
        """What the host has not answered yet, with the stream."""
        self.waiting: dict[str, _Done] = {}
        """By the node that has asked: whom to tell."""


class _Task:
    """An erasure that a client of this node has asked for."""

    __slots__ = ("answer", "answered", "asked", "body", "by", "session", "time")

    def __init__(self, session: str, by: str, body: Erase, time: float) -> None:
        self.session, self.by, self.body, self.time = session, by, body, time
        self.asked: dict[str, int] = {}
        """The nodes that were asked, and under which number."""
        self.answered: set[str] = set()
        """The nodes that have erased."""
        self.answer = Erasure(body.id, is_done=False)


class Erasing:
    """The erasures that clients have asked this node for, and those in its own logs."""

    def __init__(
        self,
        kernel: Kernel,
        wants: Wants,
        reached: Reached,
        logs: Logs,
        flow: Callable[[Sequence[Event]], None],
    ) -> None:
        """The record of an erasure may `flow` when it is kept."""
        self._kernel, self._wants = kernel, wants
        self._reached, self._logs, self._flow = reached, logs, flow
        self._tasks: dict[tuple[str, str], _Task] = {}
        """By the name of who has asked, and the id."""
        self._answers: dict[tuple[str, str], Erasure] = {}
        """The latest that are done."""
        self._asked: dict[int, tuple[_Task, str]] = {}
        """By number, with the node that was asked."""
        self._work: dict[_What, _Work] = {}
        self._number = kernel.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""

    # -- clients -------------------------------------------------------------------------------

    def erase(self, session: Session, publisher: str, body: Erase, time: float) -> None:
        """A client that publishes under this name asks for an erasure."""
        key = publisher, body.id
        if (answer := self._answers.get(key)) is not None:
            self._kernel.emit(Reply(session.name, answer))
        elif (task := self._tasks.get(key)) is not None:
            task.session = session.name  # it has lost its connection, and come again
        else:
            task = self._tasks[key] = _Task(session.name, publisher, body, time)
            self._begin((body.id, body.filter, body.is_dry), "", partial(self._own, task))
            self._go_on(task)

    def _own(self, task: _Task, work: _Work) -> None:
        """The node's own logs are done."""
        self._add(task, self._kernel.name, work.erased, work.upto, ". ".join(work.problems))

    def _add(
        self, task: _Task, node: str, erased: dict[str, int], upto: dict[str, int], problem: str
    ) -> None:
        """A node has answered."""
        task.answered.add(node)
        before = task.answer
        task.answer = msgspec.structs.replace(
            before,
            erased=before.erased | erased,
            upto=before.upto | upto,
            problems=before.problems | ({node: problem} if problem else {}),
        )
        self._go_on(task)
        if not task.answer.is_done:
            self._kernel.emit(Reply(task.session, task.answer))

    def anew(self, streams: Iterable[str]) -> None:
        """The ways of these streams have changed, and what was under way on them is lost."""
        for task in list(self._tasks.values()):
            for node in map(broker_of, streams):
                self._asked.pop(task.asked.pop(node, 0), None)
        self._kernel.soon(self._go_on_with_all)

    def _go_on_with_all(self) -> None:
        for task in list(self._tasks.values()):
            self._go_on(task)

    def _go_on(self, task: _Task) -> None:
        """Ask those that were not asked yet; it is done when all have answered that can."""
        if task.answer.is_done:
            return
        answered = task.answered
        reachable = {broker_of(stream): stream for stream in self._reached.ways.streams}
        for node, stream in reachable.items():
            via = self._reached.ways.via(stream)
            if node in answered or node in task.asked or via is None:
                continue
            self._number += 1
            task.asked[node] = self._number
            self._asked[self._number] = task, node
            body, path = task.body, (self._kernel.name,)
            about = stream, body.id, body.filter, body.is_dry
            self._kernel.send(via, EraseAt(*about, self._number, path))
        if reachable.keys() <= answered:
            others = {*map(broker_of, self._reached.known), *self._kernel.neighbours}
            self._end(task, tuple(sorted(others - answered)))

    def _end(self, task: _Task, unreached: tuple[str, ...]) -> None:
        """All have answered that can be reached."""
        for number in task.asked.values():
            self._asked.pop(number, None)
        body, answer = task.body, task.answer
        events: list[Event] = []
        if not body.is_dry:
            said = record(
                body.id,
                body.filter,
                erased=answer.count,
                by=principal_of(task.by),
                unreached=(*unreached, *answer.problems),
                reason=body.reason,
            )
            told = [(said, self._wants.is_advertised)]
            events = self._logs.keep(self._logs.published, told, task.time)
            self._kernel.emit(Sync())
        place = "".join(f"{event.stream}:{event.tick}" for event in events)
        done = msgspec.structs.replace(answer, unreached=unreached, record=place, is_done=True)
        task.answer = done
        key = task.by, body.id
        del self._tasks[key]
        self._answers[key] = done
        while len(self._answers) > _REMEMBERED:
            del self._answers[next(iter(self._answers))]
        self._kernel.emit(Reply(task.session, done))
        self._kernel.soon(partial(self._flow, events))

    # -- the node's own logs -------------------------------------------------------------------

    def _begin(self, what: _What, asker: str, done: _Done) -> None:
        """Erase in all logs of the node, and tell who has asked; if it is under way, him, too."""
        work = self._work.get(what)
        if work is not None:
            work.waiting[asker] = done
            return
        work = self._work[what] = _Work()
        work.waiting[asker] = done
        id, filter_, is_dry = what
        if not is_dry:
            self._logs.erase(eraser := Eraser(filter_, id))
            self._kernel.amend(partial(_without, eraser))
        for stream, log in self._logs.logs.items():
            self._number += 1
            work.numbers[self._number] = stream
            work.upto[stream] = log.last
            self._kernel.emit(EraseLog(self._number, stream, log.last, filter_, id, is_dry))

    def erased(self, input: LogErased) -> None:
        """The host has erased in a log."""
        for what, work in list(self._work.items()):
            stream = work.numbers.pop(input.number, None)
            if stream is None:
                continue
            work.erased[stream] = input.erased
            if input.problem:
                work.problems.append(input.problem)
            if not work.numbers:
                del self._work[what]
                if not what[2]:
                    self._logs.read_again()
                    self._kernel.amend(partial(_without, Eraser(what[1], what[0])))
                for done in work.waiting.values():
                    done(work)

    # -- messages ------------------------------------------------------------------------------

    def asked(self, neighbour: Neighbour, message: EraseAt) -> None:
        """Somebody's client wants something erased everywhere."""
        if self._reached.passed_on(neighbour, message):
            return
        done = partial(self._answer, message.number, message.path)
        self._begin((message.id, message.filter, message.is_dry), message.path[0], done)

    def _answer(self, number: int, path: tuple[str, ...], work: _Work) -> None:
        neighbour = self._kernel.neighbours.get(path[-1])
        if neighbour is not None:
            problem = ". ".join(work.problems)
            self._kernel.send(neighbour, ErasedAt(number, path, work.erased, work.upto, problem))

    def told(self, _: Neighbour, message: ErasedAt) -> None:
        """Somebody has erased what was to be erased."""
        if self._reached.passed_back(message):
            return
        task, node = self._asked.pop(message.number, (None, ""))
        if task is not None:
            del task.asked[node]
            self._add(task, node, message.erased, message.upto, message.problem)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it between two inputs."""
        asked = {(n, task) for n, (task, _) in self._asked.items()}
        if asked != {(n, each) for each in self._tasks.values() for n in each.asked.values()}:
            yield "nobody waits for what was asked about an erasure, or the other way round"
        if any(not work.numbers for work in self._work.values()):
            yield "an erasure is done, and nobody was told"


def _without(eraser: Eraser, body: object) -> object:
    """What is to be said to a neighbour, without what is erased."""
    if isinstance(body, Event) and eraser.matches(body):
        return eraser.tombstone(body)
    if isinstance(body, Fetched) and any(map(eraser.matches, body.events)):
        left = tuple(event for event in body.events if not eraser.matches(event))
        return msgspec.structs.replace(body, events=left)
    return body
