"""A node: sessions and neighbours, two kinds of tables, and the events that pass between them.

        clients                          neighbours
           │ requests                      │ frames
           ▼                               ▼
       ┌────────────────────────────────────────────┐
       │  advertisements ──restrict──▶ subscriptions│   tables, a reduction for each neighbour
       └────────────────────────────────────────────┘
           │ events match                  │ updates: the difference, as one message
           ▼                               ▼
        deliver                          send

Whatever changes a table changes what neighbours are to be told, and each of them is told the
difference at once, in one message. That is all there is to subscribing, unsubscribing, covering,
merging and advertising.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from math import inf
from operator import attrgetter
from typing import Any, Final

from tidings.delivery.ages import HOUR
from tidings.events import Filter, Notification
from tidings.node import audits, stabilisation
from tidings.node.deliveries import Deliveries
from tidings.node.learning import Learning
from tidings.node.ports import Neighbour, Port, Session, count
from tidings.node.settings import Settings
from tidings.node.watches import Watches
from tidings.overlay import Link, Tree
from tidings.protocol.epochs import epoch_of
from tidings.protocol.host import (
    Damaged,
    Deliver,
    Drained,
    Effect,
    Full,
    Input,
    LinkDown,
    LinkUp,
    Recall,
    Recalled,
    Received,
    Records,
    Reply,
    Request,
    Send,
    Span,
    Store,
    Sync,
    Trimmed,
    Unreadable,
    Wake,
    Woken,
)
from tidings.protocol.messages import (
    ADVERTISEMENTS,
    SUBSCRIPTIONS,
    Account,
    Check,
    Differ,
    Doubt,
    Event,
    Fetch,
    Fetched,
    Frame,
    Heard,
    Member,
    Offer,
    Repair,
    Seek,
    Silence,
    Sought,
    Streams,
    Update,
)
from tidings.protocol.requests import (
    SESSION,
    Accepted,
    Acknowledge,
    Advertise,
    Answer,
    Attach,
    Detach,
    Interest,
    Publish,
    Refused,
    Renew,
    Resend,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Watch,
)
from tidings.routing import Change, Statistics
from tidings.routing.naming import Strategy
from tidings.routing.tables import Tables

_BY_ORDER = attrgetter("order")
_MOMENT: Final = 0.05
"""Links are woken at multiples of so many seconds, so that a node with many wakes rarely."""
_AUDITED: Final = 20_000
"""Tables are audited with every check, if they hold no more filters than this."""
_READERS: Final = 5_000
"""Readers that are audited with each check; of a session, all or none."""
_STORED: Final = frozenset(
    {"incarnation", "statistics", "session", "durable", "cursor", "publisher", "doubts"}
)
"""What the keys of all that a node stores begin with."""
_STARTS: Final = 4_096
"""A node of the next epoch counts as one that was started so many times more."""
_GENERATIONS: Final = 20
"""A link's identity is the node's incarnation, and in so many low bits how often it gave up."""


class Node:
    """One broker. `start` it, then `handle` what happens, in order.

    >>> from tidings.events import Notification
    >>> node = Node("b1", Settings())
    >>> _ = node.start(now=0.0)
    >>> hears = Attach(subscriptions={"1": Filter.parse("price < 10")})
    >>> _ = node.handle(Request("carol", hears), now=1.0)
    >>> _ = node.handle(Request("bob", Attach()), now=1.0)
    >>> cheap = Publish(1, (Notification({"price": 5}),))
    >>> [effect.session for effect in node.handle(Request("bob", cheap), now=2.0)]
    ['carol']
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        neighbours: Mapping[str, str] | None = None,
        stored: Mapping[str, Any] | None = None,
        logs: Mapping[str, Span] | None = None,
        instance: str = "",
        was_damaged: bool = False,
    ) -> None:
        """`neighbours` by name with their roles; what an earlier node had stored and logged.

        Of `logs`, in order of epochs, the last is the current stream. `instance` is drawn anew
        for each node, so that two of one name can be told apart. What an earlier node that
        `was_damaged` has told may be wrong.
        """
        self.name, self.instance = name, instance
        self.settings = settings
        self._patience = settings.patience()
        self._stored = dict(stored or {})
        self._was_damaged = was_damaged
        logs = dict(logs or {name: Span()})
        self._starts: int = self._stored.get("incarnation", 0) + 1
        # A store that went back has forgotten some: neighbours must not take it for an older node.
        self.incarnation: int = self._starts + _STARTS * (epoch_of(list(logs)[-1]) - 1)
        self.advertisements: Tables[Port] | None = None
        if settings.advertisements is not None:
            self.advertisements = Tables()
        self.subscriptions: Tables[Port] = Tables(limits=self.advertisements)
        self.neighbours: dict[str, Neighbour] = {}
        self.sessions: dict[str, Session] = {}
        self._owners: dict[str, Session] = {}
        """Who has each name under which is published."""
        self.tree: Tree | None = None
        self._roles = dict(neighbours or {})
        self._order = self._generation = 0
        self._now = 0.0
        self._effects: list[Effect] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer = 0
        self._duties: dict[str, tuple[float, Callable[[], None]]] = {}
        self._due: dict[str, float] = {}
        """When each duty is done next."""
        self._recall: Recalling | None = None
        self._recalls = 0
        """Times that the host was asked for what it knows."""
        self._wake_at = self._links_at = inf
        self._audit_at = 0.0
        self._portions = 0
        """Of the sessions, those up to this one have had their turn to be audited."""
        self._touched: dict[Neighbour, None] = {}
        self.deliveries: Deliveries | None = None
        if settings.log:
            identities = self._stored.get("identities", {})
            self.deliveries = Deliveries(self, logs, identities=identities, instance=instance)
        self.learning: Learning | None = None
        if Strategy.parse(settings.subscriptions).learns:
            self.learning = Learning(self, self._learn)
        self._watches = Watches(lambda name, id, is_: self._answer(name, Interest(id, is_)))
        self._heard: dict[str, int] = {}
        self._heard_before: dict[str, int] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            Received: self._received,
            Request: self._requested,
            Woken: self._woken,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Full: self._full,
            Drained: self._drained,
            Records: self._records,
            Unreadable: self._unreadable,
            Trimmed: self._trimmed,
            Heard: self._heard_upto,
            Recalled: self._recalled,
        }
        self._bodies: dict[type, Callable[[Neighbour, Any], None]] = {
            Event: self._event,
            Update: self._update,
            Member: self._member,
            Check: self._check,
            Differ: self._differ,
            Repair: self._repair,
            Account: self._account,
        }
        if self.deliveries is not None:
            self._bodies[Event] = self.deliveries.event
            self._bodies[Streams] = self._streams
            self._bodies[Silence] = self.deliveries.silence
            self._bodies[Heard] = self.deliveries.heard
            self._bodies[Fetch] = self.deliveries.fetch
            self._bodies[Fetched] = self._fetched
            self._bodies[Seek] = self.deliveries.homes.asked
            self._bodies[Sought] = self._sought
            self._bodies[Doubt] = self.deliveries.told_doubts

    def start(self, now: float, time: float = 0.0) -> list[Effect]:
        """The first input: comes up with what was stored, and greets the neighbours.

        `time` is the time of day, in seconds since 1970, like that of requests.
        """
        self._now = now
        self._effects.append(Store("incarnation", self._starts))
        self._effects.append(Sync())
        settings = self.settings
        if settings.tree:
            self.tree = Tree(
                self.name,
                incarnation=self.incarnation,
                period=settings.beat,
                expiry=settings.silence,
            )
            self._every(settings.beat, self._beat, first=now)
        for name, role in self._roles.items():
            self._add_neighbour(name, role)
        for key, content in self._stored.items():
            if key.startswith("session:"):
                session = self._open_session(key.removeprefix("session:"))
                self._become(session, *content)
        if self.deliveries is not None:
            self.deliveries.restore(self._stored)
            if self._was_damaged:
                self.deliveries.doubt()
            self._every(settings.progress, self._tell_progress)
            self._every(HOUR, self._pass_hour)
        if self.learning is not None:
            self.learning.start(self._stored.get("statistics"), time)
        self._stored.clear()
        if settings.check < inf:
            self._every(settings.check, self._check_all)
            self._every(self._longest, self._compare)
        self._every(settings.memory, self._forget_streams)
        return self._finish()

    def handle(self, input: Input, now: float) -> list[Effect]:
        """What to do about something that has happened.

        Whatever it raises, the node is not to be used any more: see `host`.
        """
        self._now = now
        self._handlers[input.__class__](input)
        return self._finish()

    def _finish(self) -> list[Effect]:
        """Hand out the effects, with what links have to send and when to wake."""
        if self.learning is not None:
            self.learning.settle(self._now)
        if self.deliveries is not None:
            self.deliveries.homes.settle()
        if self._touched:
            due = inf
            for neighbour in self._touched:
                link = neighbour.link
                for frame in link.frames():
                    self._effects.append(Send(neighbour.name, frame))
                due = min(due, link.repeat_at, link.acknowledge_at)
            self._touched.clear()
            if due < self._links_at:
                self._wake_links_at(due)
        if self._timers and self._timers[0][0] < self._wake_at:
            self._wake_at = self._timers[0][0]
            self._effects.append(Wake(self._wake_at))
        effects, self._effects = self._effects, []
        if self._recall is not None:
            self._recall.changed.update(e.key for e in effects if isinstance(e, Store))
        return effects

    # -- time ----------------------------------------------------------------------------------

    def _at(self, when: float, what: Callable[[], None]) -> None:
        self._timer += 1
        heappush(self._timers, (when, self._timer, what))

    def _woken(self, _: Woken) -> None:
        self._wake_at = inf
        while self._timers and self._timers[0][0] <= self._now:
            heappop(self._timers)[2]()
        for name, (period, what) in self._duties.items():
            if not self._now < self._due.get(name, self._now) <= self._now + period:
                self._due[name] = self._now + period
                self._at(self._due[name], _nothing)
                what()

    def _every(self, period: float, what: Callable[[], None], *, first: float = inf) -> None:
        """Do something regularly, from a time or from the end of the first period on.

        What is due is looked up whenever the node is woken, so no duty is lost with a timer.
        """
        name = what.__name__
        self._duties[name] = (period, what)
        self._due[name] = min(first, self._now + period)
        self._at(self._due[name], _nothing)

    def _forget_streams(self) -> None:
        self._heard_before, self._heard = self._heard, {}

    # -- links ---------------------------------------------------------------------------------

    def _add_neighbour(self, name: str, role: str) -> Neighbour:
        settings = self.settings
        link = Link(self._identity(), pause=settings.pause, delay=settings.delay)
        self._order += 1
        neighbour = Neighbour(name, self._order, role, link)
        self.neighbours[name] = neighbour
        if not settings.tree:
            self._open_tables(neighbour)
        link.greet(self._now)
        self._touched[neighbour] = None
        return neighbour

    @property
    def identity(self) -> int:
        """The last identity that a link was given."""
        return self.incarnation << _GENERATIONS | self._generation

    def _identity(self) -> int:
        self._generation += 1
        return self.identity

    def _wake_links_at(self, due: float) -> None:
        """All links are looked after together, at whole multiples of a moment."""
        self._links_at = (due // _MOMENT + 1) * _MOMENT
        if self._links_at < due:  # by an error of rounding, which would wake it in vain for ever
            self._links_at += _MOMENT
        self._at(self._links_at, self._wake_links)

    def _wake_links(self) -> None:
        if self._now < self._links_at:
            return  # an earlier call has taken its place
        self._links_at = due = inf
        for neighbour in self.neighbours.values():
            link = neighbour.link
            if link.due <= self._now:
                link.wake(self._now)
                self._touched[neighbour] = None
            else:
                due = min(due, link.due)
        if due < inf:
            self._wake_links_at(due)

    def emit(self, effect: Effect) -> None:
        """Have the host do something; for the parts of a node."""
        if self.learning is None or not self.learning.takes(effect):
            self._effects.append(effect)

    def send(self, neighbour: Neighbour, body: Any) -> None:
        """Tell a neighbour something; for the parts of a node."""
        neighbour.link.send(body, self._now)
        self._touched[neighbour] = None

    def send_event(self, neighbour: Neighbour, event: Event) -> None:
        """Pass an event on; it waits if the neighbour can't be reached, but not for ever."""
        self.send(neighbour, event)
        if not neighbour.is_up:
            self._keep(neighbour)
        if len(neighbour.link.queue) > self.settings.backlog:
            # It can't keep up. Begin anew: it will fetch what it lacks, at its own pace.
            self._begin_anew(neighbour)

    def _begin_anew(self, neighbour: Neighbour) -> None:
        """Give a conversation up, and be somebody new in the next one."""
        neighbour.link.reset(self._identity())
        neighbour.link.greet(self._now)
        self._touched[neighbour] = None

    def _distrust(self, neighbour: Neighbour) -> None:
        """The ends of a link remember differently: begin anew. Something may have been lost."""
        self._begin_anew(neighbour)
        if self.deliveries is not None:
            self.deliveries.doubt()

    def _received(self, input: Received) -> None:
        neighbour = self.neighbours.get(input.neighbour)
        if neighbour is None:
            return
        packet = input.packet
        if packet.__class__ is Offer:
            self._offered(neighbour, packet)
            return
        assert isinstance(packet, Frame)
        if self.tree is not None:
            self.tree.notice(neighbour.name, self._now)
        link = neighbour.link
        bodies = link.receive(packet, self._now)
        self._touched[neighbour] = None
        if link.opened:
            link.opened = False
            self._session_opened(neighbour)
        for body in bodies:
            link.heard += 1
            self._bodies[body.__class__](neighbour, body)
        if link.fault:
            self._distrust(neighbour)

    def _session_opened(self, neighbour: Neighbour) -> None:
        """The conversation begins anew: everything that matters has to be said."""
        if self.tree is None:
            neighbour.joined = neighbour.joined_by = 0
        else:
            joined = int(self.tree.parent == neighbour.name)
            self._change_view(neighbour, joined=joined, joined_by=0)
            if joined:
                self.send(neighbour, Member(joined))
        if self.subscriptions.has(neighbour):
            self._tell_whole(neighbour)

    def _link_up(self, input: LinkUp) -> None:
        neighbour = self.neighbours.get(input.neighbour)
        if neighbour is None:
            self._add_neighbour(input.neighbour, "peer")
            return
        neighbour.is_up = True
        neighbour.lost_at = inf
        neighbour.link.greet(self._now)
        neighbour.link.wake(self._now)
        self._touched[neighbour] = None

    def _link_down(self, input: LinkDown) -> None:
        neighbour = self.neighbours.get(input.neighbour)
        if neighbour is None or not neighbour.is_up:
            return
        neighbour.is_up = False
        if self.tree is not None:
            self._lose(neighbour)
            return
        seconds, events = self._patience
        neighbour.lost_at = self._now + seconds
        neighbour.kept = 0
        if seconds <= 0 or events <= 0:
            self._forsake(neighbour)
        elif seconds < inf:
            self._at(neighbour.lost_at, lambda: self._grace_over(neighbour))

    def _grace_over(self, neighbour: Neighbour) -> None:
        if not neighbour.is_up and self._now >= neighbour.lost_at:
            self._forsake(neighbour)

    def _forsake(self, neighbour: Neighbour) -> None:
        """Give a neighbour up until it comes back: what it wanted, and what was kept for it."""
        neighbour.lost_at = inf
        neighbour.link.reset(self._identity())
        self._replace(SUBSCRIPTIONS, neighbour, {})
        self._replace(ADVERTISEMENTS, neighbour, {})
        if self.deliveries is not None:
            self.deliveries.closed(neighbour)

    # -- the tree ------------------------------------------------------------------------------

    def _beat(self) -> None:
        assert self.tree is not None
        for name in self.tree.silent(self._now):
            self._lose(self.neighbours[name])
        self.tree.wake(self._now)
        self._follow_tree(tell=True)

    def _offered(self, neighbour: Neighbour, offer: Offer) -> None:
        if self.tree is not None:
            self._follow_tree(tell=self.tree.hear(neighbour.name, offer, self._now))

    def _lose(self, neighbour: Neighbour) -> None:
        """A neighbour is dead for all we know: begin anew when it is heard again."""
        assert self.tree is not None
        self._begin_anew(neighbour)
        self._change_view(neighbour, joined=0, joined_by=0)
        self._follow_tree(tell=self.tree.lose(neighbour.name, self._now))

    def _follow_tree(self, *, tell: bool) -> None:
        """Join the parent, leave whoever was it before, and tell all neighbours."""
        assert self.tree is not None
        parent = self.tree.parent
        for neighbour in self.neighbours.values():
            if neighbour.has_joined and neighbour.name != parent:
                self._rejoin(neighbour)
        chosen = self.neighbours[parent] if parent is not None else None
        if chosen is not None and not chosen.has_joined and chosen.link.peer:
            self._rejoin(chosen)
        if tell:
            offer = self.tree.offer()
            for neighbour in self.neighbours.values():
                self._effects.append(Send(neighbour.name, offer))

    def _rejoin(self, neighbour: Neighbour) -> None:
        """Join a neighbour, or leave it if it was joined."""
        number = neighbour.joined + 1
        self._change_view(neighbour, joined=number, joined_by=neighbour.joined_by)
        self.send(neighbour, Member(number))
        self._tell_whole(neighbour)

    def _member(self, neighbour: Neighbour, message: Member) -> None:
        self._change_view(neighbour, joined=neighbour.joined, joined_by=message.number)
        self._tell_whole(neighbour)

    def _change_view(self, neighbour: Neighbour, *, joined: int, joined_by: int) -> None:
        neighbour.joined, neighbour.joined_by = joined, joined_by
        self._close_tables(neighbour)
        if neighbour.is_in_tree:
            self._open_tables(neighbour)

    # -- tables --------------------------------------------------------------------------------

    def _open_tables(self, neighbour: Neighbour) -> None:
        """A parent tells its children only "everything", so what they want goes upwards only."""
        downwards = neighbour.role == "child"
        if self.advertisements is not None:
            strategy = self.settings.advertisements or "simple"
            self.advertisements.open(neighbour, "flooding" if downwards else strategy)
        self.subscriptions.open(neighbour, "flooding" if downwards else self.settings.subscriptions)

    def _close_tables(self, neighbour: Neighbour) -> None:
        self._replace(SUBSCRIPTIONS, neighbour, {}, leaving=True)
        self._replace(ADVERTISEMENTS, neighbour, {}, leaving=True)
        if self.deliveries is not None:
            self.deliveries.closed(neighbour)

    def _tables(self, table: int) -> Tables[Port] | None:
        return self.subscriptions if table == SUBSCRIPTIONS else self.advertisements

    def _replace(
        self, table: int, port: Port, whole: dict[Filter, int], *, leaving: bool = False
    ) -> None:
        tables = self._tables(table)
        if tables is None:
            return
        change = tables.replace(port, whole)
        if leaving:
            tables.close(port)
        self._changed(table, port, change)

    def _change(
        self, table: int, port: Port, added: dict[Filter, int], removed: dict[Filter, int]
    ) -> None:
        tables = self._tables(table)
        if tables is not None:
            self._changed(table, port, tables.change(port, added, removed))

    def _changed(self, table: int, port: Port, change: Change) -> None:
        """What a port wants or advertises has changed: tell each neighbour what follows."""
        if not change:
            return
        if table == SUBSCRIPTIONS and self._watches:
            self._watches.changed(change, self.subscriptions)
        if table == ADVERTISEMENTS and isinstance(port, Neighbour):
            told = port.told
            self.subscriptions.restrict(port, change)
            self._tell(SUBSCRIPTIONS, port)
            if self.deliveries is not None and (change.added or port.told > told):
                self.deliveries.advertised(port, has_grown=port.told > told)
        for neighbour in self.neighbours.values():
            if neighbour is not port:
                self._tell(table, neighbour)

    def _tell(self, table: int, neighbour: Neighbour) -> None:
        tables = self._tables(table)
        if tables is not None and tables.has(neighbour):
            change = tables.drain(neighbour)
            if change and neighbour.link.peer:
                update = Update(table, neighbour.view, change.added, change.removed)
                self.send(neighbour, update)
                neighbour.told += table == SUBSCRIPTIONS

    def _learn(self, statistics: Statistics) -> None:
        """This is known of the events from now on: tell each neighbour what follows."""
        self.subscriptions.learn(statistics)
        for neighbour in self.neighbours.values():
            self._tell(SUBSCRIPTIONS, neighbour)

    def _tell_whole(self, neighbour: Neighbour) -> None:
        for table in (ADVERTISEMENTS, SUBSCRIPTIONS):
            tables = self._tables(table)
            if tables is not None and tables.has(neighbour):
                tables.drain(neighbour)
                told = dict(tables.told(neighbour))
                self.send(neighbour, Update(table, neighbour.view, told, {}, whole=True))
                neighbour.told += table == SUBSCRIPTIONS
        if self.deliveries is not None:
            self.deliveries.opened(neighbour)

    def _update(self, neighbour: Neighbour, message: Update) -> None:
        if not neighbour.sees(message.view):
            return
        if message.whole:
            self._replace(message.table, neighbour, message.added)
        else:
            self._change(message.table, neighbour, message.added, message.removed)

    # -- stabilisation -------------------------------------------------------------------------

    def _check_all(self) -> None:
        """Find out whether this node and its neighbours hold what they should."""
        self._audit()
        self._links_at = inf
        for neighbour in list(self.neighbours.values()):
            self._mend_times(neighbour)
            self._give_account(neighbour)
            if not self._now < neighbour.check_at <= self._now + self._longest:
                neighbour.check_at = self._now + self._check_period(neighbour)
                neighbour.checks += 1
                for table in (ADVERTISEMENTS, SUBSCRIPTIONS):
                    tables = self._tables(table)
                    if tables is not None and tables.has(neighbour):
                        told = tables.told(neighbour)
                        self.send(neighbour, stabilisation.check(table, neighbour.view, told))

    @property
    def _longest(self) -> float:
        """The longest time between two comparisons."""
        return max(self.settings.check, self.settings.check_most)

    def _audit(self) -> None:
        """Compute anew what does not fit, where it can be; else `Damaged`."""
        if self.learning is not None and self.deliveries is None:
            self.learning.renew()
        sound = self._audit_tables()
        for problem in audits.problems(self, self._portion()):
            raise Damaged(problem)
        self._watches.look_again(self.subscriptions, _AUDITED)
        if self.settings.lease < inf:
            for session in self._clients():
                session.expires = min(session.expires, self._now + self.settings.lease)
                if self._now >= session.expires:
                    self._close_session(session)
        if self.deliveries is not None:
            self.deliveries.look_after(self._now, 2 * self._longest)
            if not sound:
                self.deliveries.doubt()

    def _audit_tables(self) -> bool:
        """Compute anew what does not fit; whether all did.

        It looks at every filter at once, while clients wait: with many it is rare, and a node
        without neighbours, which nobody else depends on, does without it.
        """
        parts = len(self.subscriptions) // _AUDITED
        period = self.settings.check * (1 + parts)
        if self._now < self._audit_at <= self._now + period or (parts and not self.neighbours):
            return True
        self._audit_at = self._now + period
        sound = [t.audit() for t in (self.advertisements, self.subscriptions) if t is not None]
        return all(sound)

    def _portion(self) -> list[Session]:
        """The sessions to audit now, and another time the next: clients wait meanwhile."""
        sessions = list(self.sessions.values())
        begin = self._portions % max(1, len(sessions))
        chosen: list[Session] = []
        readers = 0
        for session in (*sessions[begin:], *sessions[:begin]):
            chosen.append(session)
            readers += len(session.readers)
            if readers >= _READERS:
                break
        self._portions = begin + len(chosen)
        return chosen

    def _clients(self) -> list[Session]:
        """The sessions of clients, without the node's own."""
        own = None if self.learning is None else self.learning.session
        return [session for session in self.sessions.values() if session is not own]

    def _mend_times(self, neighbour: Neighbour) -> None:
        """What is to be done at a time that cannot be is done now."""
        seconds, _ = self._patience
        if neighbour.is_up or self.tree is not None or neighbour.lost_at is inf:
            return
        if not self._now < neighbour.lost_at <= self._now + seconds:
            self._forsake(neighbour)

    def _compare(self) -> None:
        """Have the host say what is stored and who is there, to compare it with what is known."""
        logs = {} if self.deliveries is None else self.deliveries.archive.logs
        spans = {s: Span(log.first, log.last, log.time) for s, log in logs.items()}
        self._recalls += 1
        self._recall = Recalling(self._recalls, self._kept(), spans)
        self._effects.append(Sync())
        self._effects.append(Recall(self._recalls))

    def _kept(self) -> dict[str, Any]:
        """All that is stored, if what is known is right."""
        kept: dict[str, Any] = {"incarnation": self._starts}
        if self.learning is not None and self.learning.known is not None:
            kept["statistics"] = self.learning.known.text()
        if self.deliveries is not None:
            return kept | self.deliveries.kept()
        clients = (s for s in self.sessions.values() if s.order)
        return kept | {f"session:{s.name}": (s.subscriptions, s.advertisements) for s in clients}

    def _recalled(self, input: Recalled) -> None:
        recall = self._recall
        if recall is None or recall.number != input.number:
            return  # a disk that is slow may answer only after it was asked again
        self._recall = None
        for problem in recall.problems(input.stored):
            raise Damaged(problem)
        for name, neighbour in list(self.neighbours.items()):
            if neighbour.is_up and name not in input.neighbours:
                self._link_down(LinkDown(name))
            elif not neighbour.is_up and name in input.neighbours:
                self._link_up(LinkUp(name))
        if self.deliveries is not None:
            self._recalled_logs(self.deliveries, recall.spans, input.logs)
            self._recalled_sessions(self.deliveries, input.sessions)

    def _recalled_logs(
        self, deliveries: Deliveries, known: Mapping[str, Span], spans: Mapping[str, Span]
    ) -> None:
        """`known` is what was known when the host was asked; both may have moved on since."""
        logs = deliveries.archive.logs
        if not known.keys() <= spans.keys() <= logs.keys():
            raise Damaged(f"{sorted(spans)} are kept, of logs {sorted(logs)}")
        for stream, span in spans.items():
            log, before = logs[stream], known.get(stream, Span())
            if not (before.first <= span.first and before.last <= span.last <= log.last):
                raise Damaged(f"{span} is kept of {stream}, and {before} was known")
            if span.last == log.last and span.time != log.time:
                raise Damaged(f"{stream} ends at {span.time}, not at {log.time}")
            log.trim(span.first)

    def _recalled_sessions(self, deliveries: Deliveries, connected: dict[str, bool]) -> None:
        for session in self._clients():
            is_full = connected.get(session.name)
            if is_full is None:
                self._close_session(session)
            elif is_full and not session.is_full:
                deliveries.full(session)
            elif session.is_full and not is_full:
                deliveries.drained(session)
        for name in connected.keys() - self.sessions.keys():
            self._answer(name, Resend())

    def _give_account(self, neighbour: Neighbour) -> None:
        """Find out whether both ends of a link remember the same conversation."""
        link = neighbour.link
        if not neighbour.is_up:
            return
        link.ask(self._now)
        self._touched[neighbour] = None
        if link.fault or not 0 < link.identity <= self.identity:
            self._distrust(neighbour)
        elif link.peer:
            ways = None
            if self.deliveries is not None and self.subscriptions.has(neighbour):
                ways = self.deliveries.ways.digest_told(neighbour.name)
            self.send(neighbour, Account(neighbour.view, link.said, ways))

    def _account(self, neighbour: Neighbour, message: Account) -> None:
        """What does not fit what is remembered here: begin anew, whoever is wrong.

        Of a view, the sender's own number is what it has said last; ours may be news to it.
        """
        if not neighbour.link.peer:
            return  # given up by what came just before
        fits = message.view[0] == neighbour.joined_by and message.said + 1 == neighbour.link.heard
        has_ways = message.ways is not None and neighbour.sees(message.view)
        if self.deliveries is not None and has_ways:
            fits = fits and message.ways == self.deliveries.ways.digest_held(neighbour.name)
        if not fits:
            self._distrust(neighbour)

    def _check_soon(self, neighbour: Neighbour) -> None:
        neighbour.checks = 0
        neighbour.check_at = min(neighbour.check_at, self._now + self.settings.check)

    def _check_period(self, neighbour: Neighbour) -> float:
        shortest = self.settings.check
        return max(
            shortest, min(shortest * 2.0 ** min(neighbour.checks, 64), self.settings.check_most)
        )

    def _check(self, neighbour: Neighbour, message: Check) -> None:
        tables = self._tables(message.table)
        if tables is not None and neighbour.sees(message.view):
            answer = stabilisation.compare(
                message, neighbour.view, tables.wanted.get(neighbour, {})
            )
            if answer is not None:
                self._check_soon(neighbour)  # whatever befell it may have befallen us
                self.send(neighbour, answer)

    def _differ(self, neighbour: Neighbour, message: Differ) -> None:
        tables = self._tables(message.table)
        if tables is not None and neighbour.sees(message.view) and tables.has(neighbour):
            self._check_soon(neighbour)
            told = tables.told(neighbour)
            self.send(neighbour, stabilisation.repair(message, neighbour.view, told))

    def _repair(self, neighbour: Neighbour, message: Repair) -> None:
        tables = self._tables(message.table)
        if tables is not None and neighbour.sees(message.view):
            held = tables.wanted.get(neighbour, {})
            self._replace(message.table, neighbour, stabilisation.repaired(message, held))
            if self.deliveries is not None:
                self.deliveries.repaired(neighbour)

    # -- sessions ------------------------------------------------------------------------------

    def _requested(self, input: Request) -> None:
        body = input.body
        session = self.sessions.get(input.session)
        if isinstance(body, Attach):
            self._attach(input.session, body)
        elif session is None:
            if not isinstance(body, Detach):
                self._answer(input.session, Resend())
        else:
            self._renew_lease(session)
            self._serve(session, body, input.time)

    def _serve(self, session: Session, body: Any, time: float) -> None:
        deliveries = self.deliveries
        match body:
            case Publish() if deliveries is not None:
                deliveries.publish(session, body, time, self._is_for_all)
            case Publish():
                self._publish(session, body)
            case Subscribe() if deliveries is not None:
                deliveries.subscribe(session, body, time)
            case Subscribe():
                self._set(session, session.subscriptions, SUBSCRIPTIONS, body.id, body.filter)
            case Unsubscribe() if deliveries is not None:
                self._watches.remove(session.name, body.id)
                deliveries.unsubscribe(session, body)
            case Unsubscribe():
                self._set(session, session.subscriptions, SUBSCRIPTIONS, body.id, None)
            case Acknowledge() if deliveries is not None:
                deliveries.acknowledge(session, body)
            case Watch():
                self._watches.add(session.name, body.id, body.filter, self.subscriptions)
                self._answer(session.name, Accepted(body.id))
            case Advertise():
                self._set(session, session.advertisements, ADVERTISEMENTS, body.id, body.filter)
            case Unadvertise():
                self._set(session, session.advertisements, ADVERTISEMENTS, body.id, None)
            case Renew():
                is_right = session.is_connected and body.digest == session.digest
                if not is_right or not self._is_sound(session):
                    self._answer(session.name, Resend())
            case Detach():
                self._close_session(session)
                if deliveries is not None and body.forget:
                    deliveries.forget_publisher(session.publisher)

    def _open_session(self, name: str) -> Session:
        self._order += 1
        self.sessions[name] = session = Session(name, self._order)
        self._renew_lease(session)
        if self.settings.lease < inf:
            self._at(session.expires, lambda: self._lease_over(session))
        return session

    def _attach(self, name: str, body: Attach) -> None:
        if self.deliveries is not None:
            self._attach_publisher(self.deliveries, name, body)
            return
        session = self.sessions.get(name) or self._open_session(name)
        session.is_connected = True
        self._renew_lease(session)
        for stream, tick in body.cursor.items():
            self._heard[stream] = max(tick, self._last_tick(stream))
        self._become(session, dict(body.subscriptions), dict(body.advertisements))
        self._store(session)
        self._answer(session.name, Accepted("attach"))

    def _attach_publisher(self, deliveries: Deliveries, key: str, body: Attach) -> None:
        """Give a session its name, from whoever has it; unless it is fenced."""
        name = body.name or key
        owner = self._owners.get(name)
        if owner is not None and owner.instance == body.instance and owner.attempt > body.attempt:
            self._answer(key, Refused(SESSION, "this process has attached again meanwhile"))
            return
        epoch = deliveries.claim(name, body)
        if epoch is None:
            self._answer(key, Refused(SESSION, "another process has taken this name over"))
            return
        if owner is not None and owner.name != key:
            self._close_session(owner)
            reason = "another process has come under this name"
            if owner.instance == body.instance:
                reason = "this session goes on in another connection"
            self._answer(owner.name, Refused(SESSION, reason))
        session = self.sessions.get(key) or self._open_session(key)
        session.publisher, self._owners[name] = name, session
        session.instance, session.attempt = body.instance, body.attempt
        session.is_connected = True
        self._renew_lease(session)
        self._become(session, {}, dict(body.advertisements))
        number = deliveries.publishers[name].number
        self._answer(key, Accepted("attach", number, epoch))
        for id, filter_ in body.subscriptions.items():
            deliveries.subscribe(session, Subscribe(id, filter_, since=body.cursor), 0.0)

    def want(self, session: Session, added: dict[Filter, int], removed: dict[Filter, int]) -> None:
        """A session wants more or less; for the parts of a node."""
        self._change(SUBSCRIPTIONS, session, added, removed)

    def _become(
        self,
        session: Session,
        subscriptions: dict[str, Filter],
        advertisements: dict[str, Filter],
    ) -> None:
        if self.deliveries is not None:
            self.deliveries.close(session)
        self._watches.close(session.name)
        session.subscriptions, session.advertisements = subscriptions, advertisements
        self._replace(ADVERTISEMENTS, session, count(advertisements))
        self._replace(SUBSCRIPTIONS, session, count(subscriptions))

    def _set(
        self,
        session: Session,
        filters: dict[str, Filter],
        table: int,
        id: str,
        filter_: Filter | None,
    ) -> None:
        before = filters.pop(id, None)
        if filter_ is not None:
            filters[id] = filter_
        if before != filter_:
            added = {} if filter_ is None else {filter_: 1}
            removed = {} if before is None else {before: 1}
            self._store(session)
            self._change(table, session, added, removed)
        self._answer(session.name, Accepted(id))

    def _is_sound(self, session: Session) -> bool:
        wanted = self.subscriptions.wanted.get(session, {})
        if wanted != count(session.subscriptions):
            return False
        if self.advertisements is None:
            return True
        return self.advertisements.wanted.get(session, {}) == count(session.advertisements)

    def _renew_lease(self, session: Session) -> None:
        session.expires = self._now + self.settings.lease

    def _lease_over(self, session: Session) -> None:
        if self.sessions.get(session.name) is not session:
            return
        if self._now >= session.expires:
            self._close_session(session)
        else:
            self._at(session.expires, lambda: self._lease_over(session))

    def _close_session(self, session: Session) -> None:
        if self.deliveries is not None:
            self.deliveries.close(session)
        self._watches.close(session.name)
        del self.sessions[session.name]
        if self._owners.get(session.publisher) is session:
            del self._owners[session.publisher]
        if self.deliveries is None:
            self._effects.append(Store(f"session:{session.name}", None))
        self._replace(SUBSCRIPTIONS, session, {}, leaving=True)
        self._replace(ADVERTISEMENTS, session, {}, leaving=True)

    def _store(self, session: Session) -> None:
        if self.deliveries is not None:
            return  # a session ends with its connection; what is to last is durable
        content = (dict(session.subscriptions), dict(session.advertisements))
        self._effects.append(Store(f"session:{session.name}", content))
        self._effects.append(Sync())

    def _answer(self, session: str, answer: Answer) -> None:
        self.emit(Reply(session, answer))

    # -- events --------------------------------------------------------------------------------

    def _publish(self, session: Session, body: Publish) -> None:
        for number, notification in enumerate(body.notifications, body.number):
            flood = self._is_for_all(session, notification)
            if flood is None:
                reason = "no advertisement of yours matches this; advertise it first"
                self._answer(session.name, Refused(str(number), reason))
            else:
                self._route(Event(session.name, number, notification, flood), session)

    def _is_for_all(self, session: Session, notification: Notification) -> bool | None:
        """Whether it goes to everybody since it was not advertised; None if it may not go at all.

        Where advertisements don't steer subscriptions, everything may go wherever it is wanted.
        """
        if self.advertisements is None:
            return False
        if any(ad.matches(notification) for ad in session.advertisements.values()):
            return False
        return None if self.settings.enforce else True

    def _event(self, neighbour: Neighbour, event: Event) -> None:
        self._route(event, neighbour)

    def _last_tick(self, stream: str) -> int:
        tick = self._heard.get(stream)
        return self._heard_before.get(stream, 0) if tick is None else tick

    def _route(self, event: Event, source: Port) -> None:
        """Deliver an event and pass it on, unless it or a later one of its stream was here."""
        if event.tick <= self._last_tick(event.stream):
            return
        self._heard[event.stream] = event.tick
        wanted_by = self.subscriptions.match(event.notification)
        if event.flood:
            wanted_by.update(n for n in self.neighbours.values() if self.subscriptions.has(n))
        ordered = sorted(wanted_by, key=_BY_ORDER) if len(wanted_by) > 1 else wanted_by
        for port in ordered:
            if isinstance(port, Session):
                if port.is_connected:
                    self.emit(Deliver(port.name, event))
            elif port is not source:
                self.send_event(port, event)

    def _keep(self, neighbour: Neighbour) -> None:
        """An event waits for a neighbour that can't be reached; too many, and it is given up."""
        neighbour.kept += 1
        if neighbour.kept >= self._patience[1]:
            self._forsake(neighbour)

    # -- with a log ----------------------------------------------------------------------------

    def _streams(self, neighbour: Neighbour, message: Streams) -> None:
        if self.deliveries is not None and neighbour.sees(message.view):
            self.deliveries.told_ways(neighbour, message)

    def _fetched(self, _: Neighbour, message: Fetched) -> None:
        if self.deliveries is not None:
            self.deliveries.fetched(message)

    def _sought(self, _: Neighbour, message: Sought) -> None:
        if self.deliveries is not None:
            self.deliveries.homes.told(message)

    def _full(self, input: Full) -> None:
        session = self.sessions.get(input.session)
        if self.deliveries is not None and session is not None:
            self.deliveries.full(session)

    def _drained(self, input: Drained) -> None:
        session = self.sessions.get(input.session)
        if self.deliveries is not None and session is not None:
            self.deliveries.drained(session)

    def _records(self, input: Records) -> None:
        if self.deliveries is not None:
            self.deliveries.archive.records(input)

    def _unreadable(self, input: Unreadable) -> None:
        if self.deliveries is not None:
            self.deliveries.archive.unreadable(input)

    def _trimmed(self, input: Trimmed) -> None:
        if self.deliveries is not None:
            self.deliveries.archive.logs[input.stream].trim(input.first)

    def _heard_upto(self, input: Heard) -> None:
        if self.deliveries is not None:
            self.deliveries.heard(None, input)

    def _tell_progress(self) -> None:
        if self.deliveries is not None:
            self.deliveries.beat()

    def _pass_hour(self) -> None:
        if self.deliveries is not None:
            self.deliveries.pass_hour()


class Recalling:
    """What a node has asked its host to recall."""

    def __init__(self, number: int, kept: dict[str, Any], spans: dict[str, Span]) -> None:
        """What should be stored, and what should be kept of each log, or less and more of it."""
        self.number, self.kept, self.spans = number, kept, spans
        self.changed: set[str] = set()
        """What has been stored anew since."""

    def problems(self, stored: Mapping[str, Any]) -> Iterator[str]:
        """Whatever is stored but not known, or the other way round."""
        ours = {k: v for k, v in stored.items() if k.partition(":")[0] in _STORED}
        for key in (self.kept.keys() | ours.keys()) - self.changed:
            known, found = self.kept.get(key), ours.get(key)
            if known != (tuple(found) if isinstance(found, list) else found):
                yield f"{key} is {found} in the store, and {known} in memory"


def _nothing() -> None:
    """What a timer does that is only to wake the node."""
