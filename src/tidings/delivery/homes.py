"""Homes: at which node of the network a durable subscription lives, and how it moves to another.

A durable name lives at one node. Where somebody wants it who comes to another one, that one asks
all nodes that it can reach what they know of it, and has it given by the node where it lives::

    here   ──Seek──▶  all         what do you know of it?
           ◀─Sought──             nothing | it lives here, epoch 3 | it was given to b, epoch 4
           ──Move──▶  its home    give it to me, if this is its epoch still
           ◀─Moved──              it is yours, under the next epoch: filter, cursor, …

The home compares and swaps: it gives a name once under each epoch, and has on disk to whom before
it says so; it serves nobody under that name from then on. Whoever is given a name has it on disk
before it serves it. So two nodes never serve a name at once, whatever is lost, doubled or late.

An answer counts only while the question is open in this life of the node. So a node that was given
a name, and crashed before that was on disk, does not have it and never will: it says so when it is
asked for the epoch that it was given. Who knows that may have the name given again by the node
that has kept it. Until it can be asked, nobody gets it.

Two nodes where a name is sought that lives nowhere ask each other; of these, the one that comes
first in the alphabet makes it. That answers as surely as a directory of all names would, which
every node had to follow: what may have changed since it was asked is compared when it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidings.delivery.names import Names, Saved
from tidings.delivery.streams import Reached
from tidings.events import Filter
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import Reply
from tidings.protocol.messages import Charge, Charged, Move, Moved, Seek, Sought
from tidings.protocol.parts import Kernel, Neighbour, Session
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Adjust,
    Refused,
    Subscribe,
    Unsubscribe,
)

Errand: TypeAlias = Unsubscribe | Adjust
"""What is done where a name lives: for that it need not move."""
Wish: TypeAlias = Subscribe | Acknowledge | Errand
"""What somebody wants with a durable name."""


_MOST: Final = 1_000
"""Requests of a session that wait, at most."""
_TOO_MANY: Final = (
    "too much of this client waits for durable names that are sought; try again later"
)


class Asker(NamedTuple):
    """Who waits until it is known where a name lives."""

    session: Session
    body: Wish
    time: float


class Said(NamedTuple):
    """What a node has said of a name."""

    answer: Sought
    behind: int
    """The latest epoch that was known when it was asked: so it does not get that any more, if it
    says that it does not have it."""


class Search:
    """One name that is sought here, for all that want it."""

    __slots__ = ("asked", "askers", "first", "giver", "name", "questions", "said")

    def __init__(self, name: str) -> None:
        self.name = name
        self.askers: list[Asker] = []
        self.asked: dict[str, int] = {}
        """The nodes that have yet to answer, and under which number."""
        self.said: dict[str, Said] = {}
        """By node."""
        self.giver = ""
        """The node that was asked to give it."""
        self.first = ""
        """Another node where it is sought, too, and made if it lives nowhere."""
        self.questions: list[tuple[str, Seek]] = []
        """What neighbours asked while it is being given: only then is it known who has it."""


class Keeper(Protocol):
    """What serves the durable subscriptions of a node."""

    names: Names

    def admit(self, session: Session, body: Subscribe, time: float) -> None:
        """Begin to read, or refuse it: the name lives here, or nowhere."""

    def carry_out(self, session: Session, body: Acknowledge | Errand) -> None:
        """Do what is wanted with a name that lives here, or nowhere."""

    def done(self, body: Errand) -> str | None:
        """Do what is wanted elsewhere with a name that lives here; why not, if so."""

    def withheld(self, message: Move) -> str | None:
        """Why a name is not for who asks for it, if so."""

    def given(self, name: str, to: str) -> None:
        """A name is about to be given away: whoever reads it here reads no further."""


class Homes:
    """Who looks for a durable name here, and who is given one."""

    def __init__(self, kernel: Kernel, reached: Reached, keeper: Keeper) -> None:
        self._kernel, self._reached, self._keeper = kernel, reached, keeper
        self._searches: dict[str, Search] = {}
        """By name."""
        self._asked: dict[int, tuple[Search, str, int]] = {}
        """By number, with the node that was asked, and the latest epoch that was known then."""
        self._number = kernel.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""
        self._is_due = False
        """Ways have changed since those who look were last looked after."""

    @property
    def _names(self) -> Names:
        return self._keeper.names

    def pending(self, session: str, kind: type = Subscribe) -> int:
        """How many subscriptions, or requests of another kind, of a session wait."""
        askers = (asker for search in self._searches.values() for asker in search.askers)
        return sum(a.session.name == session and isinstance(a.body, kind) for a in askers)

    def seek(self, session: Session, body: Wish, time: float) -> None:
        """Do what somebody wants with a name that is not here, once it is, or lives nowhere."""
        asker = Asker(session, body, time)
        if self.pending(session.name, object) >= _MOST:
            self._refuse(asker, _TOO_MANY, is_passing=True)
            return
        name = body.durable or ""
        search = self._searches.get(name)
        if search is None:
            search = self._searches[name] = Search(name)
        search.askers.append(asker)
        if len(search.askers) == 1:
            self._go_on(search)

    def join(self, session: Session, body: Acknowledge) -> bool:
        """Acknowledge once the subscription of this id has been let in, if that waits."""
        waited = self._waiting(session, body.id)
        if waited is not None:
            self._searches[waited.durable or ""].askers.append(Asker(session, body, 0.0))
        return waited is not None

    def cancel(self, session: Session, id: str) -> Subscribe | None:
        """Its client no longer wants it; the subscription that waited, if it did."""
        waited = self._waiting(session, id)
        self._leave(lambda asker: asker.session is session and asker.body.id == id)
        return waited if isinstance(waited, Subscribe) else None

    def _waiting(self, session: Session, id: str) -> Wish | None:
        """The first thing that a client asked under an id, and has to wait."""
        for search in self._searches.values():
            for asker in search.askers:
                if asker.session is session and asker.body.id == id:
                    return asker.body
        return None

    def close(self, session: Session) -> None:
        """Its client is gone."""
        self._leave(lambda asker: asker.session is session)

    def _leave(self, is_over: Callable[[Asker], bool]) -> None:
        for search in list(self._searches.values()):
            first = search.askers[0]
            search.askers = [each for each in search.askers if not is_over(each)]
            if not search.askers:
                self._end(search)
            elif search.giver and search.askers[0] is not first:  # it was asked for by that one
                self._begin_anew(search)
                self._go_on(search)

    def anew(self, streams: Iterable[str]) -> None:
        """The ways of these streams have changed, and what was under way on them is lost."""
        nodes = set(map(broker_of, streams))
        for search in self._searches.values():
            for node in nodes & search.asked.keys():
                self._asked.pop(search.asked.pop(node), None)
            if search.giver in nodes:
                self._begin_anew(search)
        self._is_due = True
        self._kernel.soon(self._go_on_with_all)

    def _go_on_with_all(self) -> None:
        """Go on where ways have changed, but not while events are passed on: a reader let in then
        would be told that it is behind events that were matched before it was there.
        """
        if not self._is_due:
            return
        self._is_due = False
        for search in list(self._searches.values()):
            if self._searches.get(search.name) is search:  # else it has ended meanwhile
                self._go_on(search)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it between two inputs."""
        searches = self._searches.values()
        if any(search.name != name for name, search in self._searches.items()):
            yield "somebody looks for a durable name under another one"
        if not all(search.askers for search in searches):
            yield "nobody wants a durable name that is sought"
        asked = {(number, search) for number, (search, _, _) in self._asked.items()}
        if asked != {(n, each) for each in searches for n in each.asked.values()}:
            yield "nobody waits for what was asked about a durable name, or the other way round"
        if any(search.giver and search.giver not in search.asked for search in searches):
            yield "somebody waits for a durable name that nobody was asked for"

    # -- asking --------------------------------------------------------------------------------

    def _go_on(self, search: Search) -> None:
        """Ask those that were not asked yet; decide when all have answered."""
        if search.giver:
            return
        for node in self._reachable():
            if node not in search.said and node not in search.asked:
                self._ask(search, node)
        if not search.asked:
            self._decide(search)

    def _reachable(self) -> dict[str, str]:
        """The other nodes that can be asked, and a stream of each."""
        ways = self._reached.ways
        found = {broker_of(stream): stream for stream in ways.streams}
        return {node: stream for node, stream in found.items() if node not in ways.names}

    def _ask(self, search: Search, node: str) -> None:
        path = (self._kernel.name,)
        number = self._note(search, node)
        stream = self._reachable()[node]
        self._send(stream, Seek(stream, search.name, number, path))

    def _ask_for(self, search: Search, node: str, epoch: int) -> None:
        """Have a node give the name, if it is what it was taken for."""
        if node not in self._reachable():
            self._refuse_unsure(search, [node])
            return
        search.giver = node
        body = search.askers[0].body
        filter_, owner = _condition(body)
        stream, number = self._reachable()[node], self._note(search, node)
        path = (self._kernel.name,)
        is_there = search.said[node].answer.home == node
        if is_there and isinstance(body, Unsubscribe | Adjust):
            self._send(stream, Charge(stream, epoch, number, path, body))
        else:
            self._send(stream, Move(stream, search.name, epoch, number, path, filter_, owner))

    def _note(self, search: Search, node: str) -> int:
        self._number += 1
        search.asked[node] = self._number
        self._asked[self._number] = search, node, self._latest(search)
        return self._number

    def _send(self, stream: str, message: Seek | Move | Charge) -> None:
        via = self._reached.ways.via(stream)
        assert via is not None, "the node's own streams are not asked"
        self._kernel.send(via, message)

    def _latest(self, search: Search) -> int:
        """The latest epoch that is known of a name."""
        epochs = (said.answer.epoch for said in search.said.values())
        return max((self._names.epoch(search.name), *epochs))

    # -- deciding ------------------------------------------------------------------------------

    def _decide(self, search: Search) -> None:
        """All that can be asked have answered: where is it?"""
        names, latest = self._names, self._latest(search)
        if names.has(search.name):
            self._let_in(search)
            return
        knowing = {n: s.answer for n, s in search.said.items() if s.answer.epoch == latest}
        homes = {answer.home for answer in knowing.values()}
        if names.epoch(search.name) == latest:
            homes.add(names.home(search.name))
        if not latest or "" in homes:
            self._make(search, latest)
        elif len(homes) > 1:
            self._refuse_all(search, _in_two_places(homes))
        else:
            self._fetch(search, homes.pop(), knowing, latest)

    def _fetch(self, search: Search, home: str, knowing: dict[str, Sought], latest: int) -> None:
        """Have it given by its home; or, if that never got it, by who gave it away."""
        is_own = home in self._reached.ways.names
        if home in knowing or (is_own and search.name in self._names.saved):
            is_proved = home in knowing and knowing[home].is_proved
            if not is_proved and self._refuse_unsure(search, self._unasked(search)):
                return
        elif not is_own:
            denial = search.said.get(home)
            if denial is None or denial.behind < latest:
                search.said.pop(home, None)
                if home in self._reachable():
                    self._ask(search, home)
                else:
                    self._refuse_unsure(search, [home])
                return
        if home not in knowing and self._names.epoch(search.name) == latest:
            self._take_back(search)
        else:
            self._ask_for(search, home if home in knowing else min(knowing), latest)

    def _take_back(self, search: Search) -> None:
        """It lives here after all: nobody else got it, or has it by now."""
        epoch, saved = self._names.give(search.name, self._kernel.name)
        self._names.take(search.name, saved._replace(epoch=epoch))
        self._let_in(search)

    def _make(self, search: Search, latest: int) -> None:
        """It lives nowhere: whoever wants it may begin, unless another node comes first."""
        if self._refuse_unsure(search, self._unasked(search)):
            return
        if search.first:
            self._refuse_all(search, _sought(search.first), is_passing=True)
            return
        if latest:
            self._names.forgotten(search.name, latest)
        self._let_in(search)

    def _unasked(self, search: Search) -> list[str]:
        """The nodes that may know something, and have not answered."""
        known = {*map(broker_of, self._reached.known), *self._kernel.neighbours}
        return sorted(known - search.said.keys() - self._reached.ways.names.keys())

    def _refuse_unsure(self, search: Search, unasked: list[str]) -> bool:
        if unasked:
            self._refuse_all(search, _unsure(unasked), is_passing=True)
        return bool(unasked)

    # -- the end of a search -------------------------------------------------------------------

    def _let_in(self, search: Search) -> None:
        """It is known where the name lives: here, or nowhere."""
        self._end(search)
        for session, body, time in search.askers:
            if isinstance(body, Subscribe):
                self._keeper.admit(session, body, time)
            else:
                self._keeper.carry_out(session, body)

    def _end(self, search: Search) -> None:
        del self._searches[search.name]
        self._begin_anew(search)

    def _begin_anew(self, search: Search) -> None:
        """What was asked and answered counts no more; no answer that is under way will."""
        for number in search.asked.values():
            del self._asked[number]
        search.asked.clear()
        search.said.clear()
        search.giver = search.first = ""
        questions, search.questions = search.questions, []
        for name, question in questions:
            neighbour = self._kernel.neighbours.get(name)
            if neighbour is not None:
                self._answer(neighbour, question)

    def _refuse_all(self, search: Search, reason: str, *, is_passing: bool = False) -> None:
        self._end(search)
        for asker in search.askers:
            self._refuse(asker, reason, is_passing=is_passing)

    def _refuse(self, asker: Asker, reason: str, *, is_passing: bool = False) -> None:
        is_acknowledgement = isinstance(asker.body, Acknowledge)
        id = f"acknowledge {asker.body.id}" if is_acknowledgement else asker.body.id
        refusal = Refused(id, reason, is_passing=is_passing)
        self._kernel.emit(Reply(asker.session.name, refusal))

    # -- messages ------------------------------------------------------------------------------

    def asked(self, neighbour: Neighbour, message: Seek) -> None:
        """Somebody looks for a durable name."""
        if self._reached.passed_on(neighbour, message):
            return
        search = self._searches.get(message.durable)
        if search is not None and search.giver:
            search.questions.append((neighbour.name, message))
        else:
            self._answer(neighbour, message)

    def _answer(self, neighbour: Neighbour, message: Seek) -> None:
        name, asker, names = message.durable, message.path[0], self._names
        search, epoch = self._searches.get(name), names.epoch(name)
        is_sought = search is not None and self._kernel.name < asker
        if search is not None and not is_sought:
            search.first = asker
        home = names.home(name) if epoch else ""
        is_proved = name not in names.saved or names.has(name)
        found = Sought(message.number, message.path, epoch, home, is_proved, is_sought)
        self._kernel.send(neighbour, found)

    def told(self, _: Neighbour, message: Sought) -> None:
        """Somebody answers what is known of a name there."""
        if self._reached.passed_back(message):
            return
        found = self._asked.get(message.number)
        if found is None or found[0].giver == found[1]:
            return  # nobody waits for that any more
        search, node, behind = self._asked.pop(message.number)
        del search.asked[node]
        search.said[node] = Said(message, behind)
        if message.is_sought:
            search.first = node
        self._go_on(search)

    def wanted(self, neighbour: Neighbour, message: Move) -> None:
        """Another node wants a durable name: it is given once under each epoch."""
        if self._reached.passed_on(neighbour, message):
            return
        answer = Moved(message.number, message.path)
        if self._names.can_give(message.durable, message.epoch):
            reason = self._keeper.withheld(message)
            if reason is None:
                answer = self._give(message)
            else:
                answer = Moved(message.number, message.path, refusal=reason)
        self._kernel.send(neighbour, answer)

    def _give(self, message: Move) -> Moved:
        name, to = message.durable, message.path[0]
        self._keeper.given(name, to)
        epoch, saved = self._names.give(name, to)
        said = saved.filter, saved.cursor, saved.begun, saved.owner, saved.doubts, saved.is_paused
        return Moved(message.number, message.path, epoch, "", *said)

    def moved(self, _: Neighbour, message: Moved) -> None:
        """A durable name is given to this node, or is not."""
        if self._reached.passed_back(message):
            return
        found = self._asked.get(message.number)
        if found is None or found[0].giver != found[1]:
            return  # it was asked for by an earlier node of this name, or nobody wants it any more
        search = found[0]
        if message.refusal:
            self._refuse(self._next(search), message.refusal)
        elif message.filter is None or not message.epoch:
            self._begin_anew(search)
        else:
            if not self._names.has(search.name):
                said = message.begun, message.owner, message.doubts
                saved = Saved(message.filter, dict(message.cursor), *said, message.epoch)
                self._names.take(search.name, saved._replace(is_paused=message.is_paused))
            self._let_in(search)
            return
        if search.askers:
            self._go_on(search)

    def _next(self, search: Search) -> Asker:
        """The one that comes first is dealt with: begin anew for those that follow."""
        asker = search.askers.pop(0)
        if search.askers:
            self._begin_anew(search)
        else:
            self._end(search)
        return asker

    def charged(self, neighbour: Neighbour, message: Charge | Charged) -> None:
        """Another node wants something done with a name that lives here; or it was done there."""
        if isinstance(message, Charge):
            if not self._reached.passed_on(neighbour, message):
                name = message.body.durable or ""
                is_there = name in self._names.saved and self._names.epoch(name) == message.epoch
                refusal = self._keeper.done(message.body) if is_there else None
                answer = Charged(message.number, message.path, is_there, refusal or "")
                self._kernel.send(neighbour, answer)
            return
        if self._reached.passed_back(message):
            return
        found = self._asked.get(message.number)
        if found is None or found[0].giver != found[1]:
            return
        search = found[0]
        if not message.is_there:
            self._begin_anew(search)
        else:
            asker = self._next(search)
            if message.refusal:
                self._refuse(asker, message.refusal)
            else:
                self._kernel.emit(Reply(asker.session.name, Accepted(asker.body.id, 1)))
        if search.askers:
            self._go_on(search)


def _condition(body: Wish) -> tuple[Filter | None, str | None]:
    """What a name must be to be given: which filter it has, and who has taken it last."""
    match body:
        case Subscribe(filter=filter_, replace=False, heard=None):
            return filter_, None
        case Subscribe(heard={}, owner=owner) | Acknowledge(owner=owner):
            return None, owner
    return None, None


def _in_two_places(homes: Iterable[str]) -> str:
    return (
        f"this durable subscription lives at brokers {' and '.join(sorted(homes))}, each with a "
        "position of its own; connect to one of them, and forget it at the others"
    )


def _sought(node: str) -> str:
    return (
        f"a client of broker {node} begins this durable subscription at this moment; try again to "
        "take it over"
    )


def _unsure(unasked: list[str]) -> str:
    return (
        f"this durable subscription may live at {' or '.join(unasked)}, which cannot be asked for "
        'it now; try again later, or begin another one here with home="here" (--here)'
    )
