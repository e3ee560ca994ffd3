"""A node: the kernel that holds its parts. It knows time, ports and effects, and no feature.

           inputs                                                effects
             │                                                      ▲
   ┌─────────▼──────────────────────────────────────────────────────┴────┐
   │ kernel    dispatch · conversations · timers · a queue of effects    │
   ├───────────────┬──────────────┬──────────┬─────────┬─────────────────┤
   │ delivery      │ exchange     │ checks   │ watches │ learning        │
   │ from a log or │ of tables    │ of tables│         │ from statistics │
   │ at most once  │              │          │         │                 │
   └───────────────┴──────────────┴──────────┴─────────┴─────────────────┘

What a part can do, and what it may ask, is in `protocol.parts`. Effects queue, and what a part
wants done `soon` is done when what happens now has been dealt with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from typing import Any, Final

from tidings.delivery import AtMostOnce, FromLog, Quota
from tidings.node.conversations import Conversations
from tidings.node.parts import Parts, Recollection
from tidings.node.ports import Neighbour
from tidings.node.settings import Settings
from tidings.node.timers import Timers
from tidings.overlay import Fixed, Role, Tree, Trees
from tidings.protocol.epochs import epoch_of
from tidings.protocol.host import (
    Damaged,
    Deliver,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    Recall,
    Recalled,
    Received,
    Reply,
    Request,
    Span,
    Store,
    Sync,
    Wake,
    Woken,
)
from tidings.protocol.messages import Account, Event, Member
from tidings.protocol.parts import Delivery, Part, Session, Single
from tidings.protocol.requests import Attach, Detach, Refused, Resend
from tidings.routing.checks import Checks
from tidings.routing.exchange import Exchange
from tidings.routing.learning import Learning
from tidings.routing.naming import Strategy
from tidings.routing.watches import Watches

_INCARNATION: Final = Single[int]("incarnation")
_STARTS: Final = 4_096
"""A node of the next epoch counts as one that was started this many times more."""
_READERS: Final = 5_000
"""Readers that are audited with each check; of a session, all or none."""


class Node:
    """One broker. `start` it, then `handle` what happens, in order.

    >>> from tidings.events import Filter, Notification
    >>> from tidings.protocol.requests import Publish
    >>> node = Node("b1", Settings())
    >>> _ = node.start(now=0.0)
    >>> hears = Attach(subscriptions={"1": Filter.parse("price < 10")})
    >>> _ = node.handle(Request("carol", hears), now=1.0)
    >>> _ = node.handle(Request("bob", Attach()), now=1.0)
    >>> cheap = Publish(1, (Notification({"price": 5}),))
    >>> [type(effect).__name__ for effect in node.handle(Request("bob", cheap), now=2.0)]
    ['Append', 'Store', 'Sync', 'Reply', 'Deliver']
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        neighbours: Mapping[str, Role] | None = None,
        stored: Mapping[str, Any] | None = None,
        logs: Mapping[str, Span] | None = None,
        instance: str = "",
        quota: Quota | None = None,
        was_damaged: bool = False,
    ) -> None:
        """`neighbours` by name with their roles; what an earlier node had stored and logged.

        `logs` are those of the node's own streams in all their epochs, first of the one that its
        clients publish in. `instance` is drawn anew for each node, so that two of one name can be
        told apart. Without a `quota`, a client may ask for anything. What an earlier node that
        `was_damaged` has told may be wrong.
        """
        self.name, self.instance = name, instance
        self.settings = settings
        self._stored = dict(stored or {})
        self._was_damaged = was_damaged
        logs = dict(logs or {name: Span()})
        self._starts = _INCARNATION.found(self._stored, 0) + 1
        # A store that went back has forgotten some: neighbours must not take it for an older node.
        self.incarnation: int = self._starts + _STARTS * (max(map(epoch_of, logs)) - 1)
        self._roles = dict(neighbours or {})
        self._effects: list[Effect] = []
        self._soon: deque[Callable[[], None]] = deque()
        self._timers = Timers()
        self._wake_at = inf
        self.sessions: dict[str, Session] = {}
        self._own: dict[str, Callable[[Deliver | Reply], None]] = {}
        """The node's own sessions, and who hears what a client would."""
        self._order = 0
        self.time = 0.0
        """See `Kernel`."""
        self._recollection: Recollection | None = None
        self._recalls = 0
        """Times that the host was asked for what it knows."""
        self._portions = 0
        """Of the sessions, those up to this one have had their turn to be audited."""
        self.trees = self._overlay()
        self.conversations = self._conversations()
        self.neighbours: dict[str, Neighbour] = self.conversations.neighbours
        self.exchange = Exchange(
            self,
            subscriptions=settings.subscriptions,
            advertisements=settings.advertisements,
            period=settings.check,
        )
        self.delivery = self._delivery(logs, quota or Quota())
        self.learning: Learning | None = None
        if Strategy.parse(settings.subscriptions).learns:
            self.learning = Learning(self, self.exchange, is_durable=not settings.at_most_once)
        self.watches = Watches(self, self.exchange)
        shortest, longest = settings.check, settings.check_most
        self.checks = Checks(self, self.exchange, shortest=shortest, longest=longest)
        self.parts = Parts(list(self._all_parts()))
        self._handlers = self.parts.handlers(lambda part: part.inputs())
        self._messages = self.parts.handlers(lambda part: part.messages())
        self._requests = self.parts.handlers(lambda part: part.requests())
        self._steps = self.parts.steps()
        self._settles = self.parts.settles
        self._handle_own_inputs()

    def _overlay(self) -> Trees:
        settings = self.settings
        if not settings.tree:
            return Fixed(self._roles)
        return Tree(
            self.name,
            incarnation=self.incarnation,
            period=settings.beat,
            expiry=settings.silence,
            peers=self._roles,
            instance=self.instance,
        )

    def _conversations(self) -> Conversations:
        settings = self.settings
        return Conversations(
            self,
            self.trees,
            self._timers,
            incarnation=self.incarnation,
            pause=settings.pause,
            delay=settings.delay,
            patience=settings.patience(),
            backlog=settings.backlog,
        )

    def _delivery(self, logs: Mapping[str, Span], quota: Quota) -> Delivery:
        settings = self.settings
        if settings.at_most_once:
            return AtMostOnce(
                self,
                self.exchange,
                enforce=settings.enforce,
                lease=settings.lease,
                memory=settings.memory,
            )
        return FromLog(
            self,
            self.exchange,
            self._stored,
            logs,
            instance=self.instance,
            quota=quota,
            enforce=settings.enforce,
            margin=settings.margin,
            progress=settings.progress,
        )

    def _all_parts(self) -> Iterator[Part]:
        yield self.delivery
        yield self.watches
        if self.learning is not None:
            yield self.learning
        yield self.exchange
        yield self.checks

    def _handle_own_inputs(self) -> None:
        conversations = self.conversations
        self._messages |= {Member: (conversations.member,), Account: (self._account,)}
        own: dict[type, Callable[[Any], None]] = {
            Received: partial(conversations.received, self._messages),
            Request: self._requested,
            Woken: self._woken,
            LinkUp: conversations.link_up,
            LinkDown: conversations.link_down,
            Recalled: self._recalled,
        }
        self._handlers |= {kind: (handler,) for kind, handler in own.items()}

    @property
    def from_log(self) -> FromLog:
        """Its delivery, if that is from a log, as a broker's is."""
        assert isinstance(self.delivery, FromLog), "this node has no log"
        return self.delivery

    @property
    def now(self) -> float:
        return self.conversations.now

    # -- what hosts call -----------------------------------------------------------------------

    def start(self, now: float, time: float = 0.0) -> list[Effect]:
        """The first input: comes up with what was stored, and greets the neighbours.

        `time` is the time of day, in seconds since 1970, like that of requests.
        """
        self.conversations.now = now
        self.emit(_INCARNATION.put(self._starts))
        self.emit(Sync())
        settings = self.settings
        if not self.trees.is_fixed:
            wake = self.conversations.wake_overlay
            self._timers.every(settings.beat, wake, now, first=now)
        self.conversations.start(self._roles)
        self.parts.start(self._stored, time)
        self._stored.clear()
        if self._was_damaged:
            self.parts.doubted()
        if settings.check < inf:
            self.every(settings.check, self._check_all)
            self.every(self._longest, self._compare)
        return self._finish()

    def handle(self, input: Input, now: float) -> list[Effect]:
        """What to do about something that has happened.

        Whatever it raises, the node is not to be used any more: see `host`.
        """
        self.conversations.now = now
        for handler in self._handlers[input.__class__]:
            handler(input)
        return self._finish()

    def _finish(self) -> list[Effect]:
        """Do what has to be done yet, and hand out the effects."""
        soon = self._soon
        while soon or (self._settles and self.parts.settle()):
            while soon:
                soon.popleft()()
        self.conversations.flush()
        if self._timers.next < self._wake_at:
            self._wake_at = self._timers.next
            self._effects.append(Wake(self._wake_at))
        effects, self._effects = self._effects, []
        if self._recollection is not None:
            self._recollection.changed.update(e.key for e in effects if isinstance(e, Store))
        return effects

    # -- what parts ask: see `Kernel` ----------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        if self._own and isinstance(effect, Deliver | Reply) and effect.session in self._own:
            self._soon.append(partial(self._own[effect.session], effect))
        else:
            self._effects.append(effect)

    def send(self, neighbour: Any, body: Any) -> None:
        self.conversations.send(neighbour, body)

    def pass_on(self, neighbour: Any, event: Event) -> None:
        self.conversations.pass_on(neighbour, event)

    def soon(self, what: Callable[[], None]) -> None:
        self._soon.append(what)

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._timers.at(when, what)

    def every(self, period: float, what: Callable[[], None]) -> None:
        self._timers.every(period, what, self.now)

    def open_session(self, name: str) -> Session:
        session = self.sessions.get(name)
        if session is None:
            self._order += 1
            session = self.sessions[name] = Session(name, self._order)
            self.parts.came(session)
        return session

    def open_own(self, name: str, hear: Callable[[Deliver | Reply], None]) -> Session:
        session = self.sessions[name] = Session(name, 0, is_own=True)
        self._own[name] = hear
        self.parts.came(session)
        return session

    def close_session(self, session: Session) -> None:
        del self.sessions[session.name]
        self.parts.left(session)

    def ask(self, session: Session, body: Any, time: float) -> None:
        self.parts.asked(session)
        for serve in self._requests[body.__class__]:
            serve(session, body, time)

    # -- what happens --------------------------------------------------------------------------

    def _woken(self, input: Woken) -> None:
        self._wake_at = inf
        self.time = input.time
        self._timers.run(self.now)

    def _requested(self, input: Request) -> None:
        body = input.body
        for step in self._steps:
            passed = step(input.session, body)
            if isinstance(passed, Refused):
                self.emit(Reply(input.session, passed))
                return
            body = passed
        session = self.sessions.get(input.session)
        if isinstance(body, Attach):
            self.delivery.attach(input.session, body)
        elif session is not None:
            self.ask(session, body, input.time)
        elif not isinstance(body, Detach):
            self.emit(Reply(input.session, Resend()))

    # -- whether what is remembered can be true ------------------------------------------------

    @property
    def _longest(self) -> float:
        """The longest time between two comparisons."""
        return max(self.settings.check, self.settings.check_most)

    def _check_all(self) -> None:
        """Find out whether this node and its neighbours hold what they should."""
        sound = self.parts.mend()
        for problem in self._problems():
            raise Damaged(problem)
        self.parts.look_after(2 * self._longest)
        if not sound:
            self.parts.doubted()
        self.conversations.mend()
        for neighbour in list(self.neighbours.values()):
            self._give_account(neighbour)

    def _problems(self) -> Iterator[str]:
        """Whatever cannot be true between two inputs; of readers, those of some sessions."""
        yield from self.conversations.audit(self._roles)
        for name, session in self.sessions.items():
            if session.name != name:
                yield f"session {name} is called {session.name}"
        own = {name for name, session in self.sessions.items() if session.is_own}
        if own != self._own.keys():
            yield f"the node's own sessions are {sorted(own)}, and {sorted(self._own)} hear"
        yield from self.parts.audit(self._portion())

    def _portion(self) -> list[Session]:
        """The sessions to audit now, and another time the next: clients wait meanwhile."""
        sessions = list(self.sessions.values())
        begin = self._portions % max(1, len(sessions))
        chosen: list[Session] = []
        readers = 0
        for session in (*sessions[begin:], *sessions[:begin]):
            chosen.append(session)
            readers += self.delivery.size(session)
            if readers >= _READERS:
                break
        self._portions = begin + len(chosen)
        return chosen

    def _give_account(self, neighbour: Neighbour) -> None:
        """Find out whether both ends of a link remember the same conversation."""
        if not neighbour.is_up:
            return
        if not self.conversations.ask(neighbour):
            self.conversations.distrust(neighbour)
        elif neighbour.is_open:
            ways = self.delivery.digest_told(neighbour) if neighbour.is_linked else None
            self.send(neighbour, Account(neighbour.view, neighbour.link.said, ways))

    def _account(self, neighbour: Neighbour, message: Account) -> None:
        """What does not fit what is remembered here: begin anew, whichever end is wrong.

        Of a view, the sender's own number is what it has said last; ours may be news to it.
        """
        if not neighbour.is_open:
            return  # given up by what came just before
        fits = message.view[0] == neighbour.joined_by and message.said + 1 == neighbour.link.heard
        if message.ways is not None and neighbour.sees(message.view):
            fits = fits and message.ways == self.delivery.digest_held(neighbour)
        if not fits:
            self.conversations.distrust(neighbour)

    def _compare(self) -> None:
        """Have the host say what is stored and who is there, to compare it with what is known."""
        kinds = [each.kind for each in self.parts.saved() if each.is_exact]
        kept = {_INCARNATION.kind: self._starts, **self.parts.kept()}
        self._recalls += 1
        self._recollection = Recollection(self._recalls, kept, [_INCARNATION.kind, *kinds])
        self.parts.recall()
        self.emit(Sync())
        self.emit(Recall(self._recalls))

    def _recalled(self, input: Recalled) -> None:
        recollection = self._recollection
        if recollection is None or recollection.number != input.number:
            return  # a disk that is slow may answer only after it was asked again
        self._recollection = None
        recollection.compare(input.stored)
        for name, neighbour in list(self.neighbours.items()):
            if neighbour.is_up and name not in input.neighbours:
                self.conversations.link_down(LinkDown(name))
            elif not neighbour.is_up and name in input.neighbours:
                self.conversations.link_up(LinkUp(name))
        self.parts.recalled(input)
