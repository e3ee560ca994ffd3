"""Erasing: events that are to be gone from all logs that can be reached.

An event lives in the log of the node where it was published, and nowhere else among brokers. So
the node that is asked erases in its own logs, and asks every other that it can reach, hop by hop::

    client ──Erase──▶ a ──EraseAt──▶ b ──EraseAt──▶ c        each has its host erase (`EraseLog`)
                      a ◀─ErasedAt── b ◀─ErasedAt── c        when it is gone from the disk
                      a ──EraseAt──▶ b ──EraseAt──▶ c        all logs are done
                      a ◀─ErasedAt── b ◀─ErasedAt── c        what was on its way has come
    client ◀─Erasure─ a                                      and a publishes the record

What was accepted before a node was asked is covered: its host erases behind all that was written
before. What is in memory is erased first, and what was being read for somebody is read again. The
second round is a barrier: on a link nothing overtakes, and each log's answer came behind what had
been sent of it. So once the client is answered, no node that has answered tells anybody of it.

To erase again is no error: what was erased under an id before counts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from tidings.protocol.messages import EraseAt, ErasedAt, Event
from tidings.protocol.parts import Kernel, Neighbour, Session, Wants
from tidings.protocol.requests import Cursor, Erase, Erasure

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
        self.upto: Cursor = {}
        self.problems: list[str] = []
        self.numbers: dict[int, str] = {}
        """What the host has not answered yet, with the stream."""
        self.waiting: dict[str, _Done] = {}
        """By the node that has asked: whom to tell."""

    def answer(self, number: int, path: tuple[str, ...]) -> ErasedAt:
        """What to tell who has asked."""
        problem = ". ".join(self.problems)
        return ErasedAt(number, path, self.erased, self.upto, problem)


class _Task:
    """An erasure that a client of this node has asked for."""

    __slots__ = ("answer", "asked", "body", "by", "erased", "passed", "session", "time")

    def __init__(self, session: str, by: str, body: Erase, time: float) -> None:
        self.session, self.by, self.body, self.time = session, by, body, time
        self.asked: dict[str, int] = {}
        """The nodes that were asked, and under which number."""
        self.erased: set[str] = set()
        """The nodes that have erased."""
        self.passed: set[str] = set()
        """The nodes to which all has come that was on its way before."""
        self.answer = Erasure(body.id, is_done=False)

    @property
    def what(self) -> _What:
        """Which erasure it is."""
        return self.body.id, self.body.filter, self.body.is_dry


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

    @property
    def is_busy(self) -> bool:
        """Whether anything is to be erased yet."""
        return bool(self._tasks or self._work)

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
            self._begin(task.what, "", partial(self._erased_here, task))
            self._go_on(task)

    def _erased_here(self, task: _Task, work: _Work) -> None:
        self._has_erased(task, self._kernel.name, work.answer(0, ()))

    def _has_erased(self, task: _Task, node: str, found: ErasedAt) -> None:
        """The logs of a node are done."""
        task.erased.add(node)
        task.passed = {self._kernel.name}
        for other in task.erased & task.asked.keys():  # a barrier that does not count any more
            del self._asked[task.asked.pop(other)]
        before = task.answer
        task.answer = msgspec.structs.replace(
            before,
            erased=before.erased | found.erased,
            upto=before.upto | found.upto,
            problems=before.problems | ({node: found.problem} if found.problem else {}),
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
        reachable = {broker_of(stream): stream for stream in self._reached.ways.streams}
        is_barrier = reachable.keys() <= task.erased and not task.body.is_dry
        answered = task.passed if is_barrier else task.erased
        if reachable.keys() <= answered:
            others = {*map(broker_of, self._reached.known), *self._kernel.neighbours}
            self._end(task, tuple(sorted((others | task.erased) - answered)))
        else:
            self._ask(task, reachable, answered, is_barrier=is_barrier)

    def _ask(
        self, task: _Task, reachable: Mapping[str, str], answered: set[str], *, is_barrier: bool
    ) -> None:
        for node, stream in reachable.items():
            via = self._reached.ways.via(stream)
            if node in answered or node in task.asked or via is None:
                continue
            self._number += 1
            task.asked[node] = self._number
            self._asked[self._number] = task, node
            path = (self._kernel.name,)
            self._kernel.send(via, EraseAt(stream, *task.what, self._number, path, is_barrier))

    def _end(self, task: _Task, unreached: tuple[str, ...]) -> None:
        """All have answered that can be reached."""
        for number in task.asked.values():
            del self._asked[number]
        events = [] if task.body.is_dry else self._keep_record(task, unreached)
        place = "".join(f"{event.stream}:{event.tick}" for event in events)
        task.answer = msgspec.structs.replace(
            task.answer, unreached=unreached, record=place, is_done=True
        )
        key = task.by, task.body.id
        del self._tasks[key]
        self._answers[key] = task.answer
        while len(self._answers) > _REMEMBERED:
            del self._answers[next(iter(self._answers))]
        self._kernel.emit(Reply(task.session, task.answer))
        self._kernel.soon(partial(self._flow, events))

    def _keep_record(self, task: _Task, unreached: tuple[str, ...]) -> list[Event]:
        said = record(
            task.body.id,
            task.body.filter,
            erased=task.answer.count,
            by=principal_of(task.by),
            unreached=(*unreached, *task.answer.problems),
            reason=task.body.reason,
        )
        told = [(said, self._wants.is_advertised, "")]
        events = self._logs.keep(self._logs.published, told, task.time)
        self._kernel.emit(Sync())
        return events

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
            self._logs.erase(Eraser(filter_, id))
        for stream, log in self._logs.logs.items():
            self._number += 1
            work.numbers[self._number] = stream
            self._kernel.emit(EraseLog(self._number, stream, log.last, filter_, id, is_dry))

    def erased(self, input: LogErased) -> None:
        """The host has erased in a log."""
        for what, work in list(self._work.items()):
            stream = work.numbers.pop(input.number, None)
            if stream is None:
                continue
            work.erased[stream], work.upto[stream] = input.erased, input.last
            if input.problem:
                work.problems.append(input.problem)
            if not work.numbers:
                del self._work[what]
                if not what[2]:
                    self._logs.read_again()
                for done in work.waiting.values():
                    done(work)

    # -- messages ------------------------------------------------------------------------------

    def asked(self, neighbour: Neighbour, message: EraseAt) -> None:
        """Somebody's client wants something erased everywhere."""
        if self._reached.passed_on(neighbour, message):
            return
        done = partial(self._answer, message.number, message.path)
        if message.is_barrier:
            done(_Work())
        else:
            what = message.id, message.filter, message.is_dry
            self._begin(what, message.path[0], done)

    def _answer(self, number: int, path: tuple[str, ...], work: _Work) -> None:
        neighbour = self._kernel.neighbours.get(path[-1])
        if neighbour is not None:
            self._kernel.send(neighbour, work.answer(number, path))

    def told(self, _: Neighbour, message: ErasedAt) -> None:
        """Somebody has done what was asked."""
        if self._reached.passed_back(message):
            return
        task, node = self._asked.pop(message.number, (None, ""))
        if task is None:
            return
        del task.asked[node]
        if message.erased:
            self._has_erased(task, node, message)
        else:  # a node has one log at least
            task.passed.add(node)
            self._go_on(task)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it between two inputs."""
        asked = {(n, task) for n, (task, _) in self._asked.items()}
        if asked != {(n, each) for each in self._tasks.values() for n in each.asked.values()}:
            yield "nobody waits for what was asked about an erasure, or the other way round"
        if any(not work.numbers for work in self._work.values()):
            yield "an erasure is done, and nobody was told"
