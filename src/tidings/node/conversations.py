"""Conversations: the links of a node, which of them the overlay uses, and since when.

Everything that neighbours say to each other is said in a conversation, in order, and each begins
with all that matters. When an end cannot go on with one, it is somebody new in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import inf
from typing import Any, Final

from tidings.node.ports import Neighbour
from tidings.node.timers import Timers
from tidings.overlay import Join, Leave, Link, Meet, Quit, Role, Say, Trees
from tidings.protocol.host import Connect, Disconnect, LinkDown, LinkUp, Received, Send
from tidings.protocol.messages import Event, Frame, Member
from tidings.protocol.parts import Kernel

_MOMENT: Final = 0.05
"""Seconds; links are woken at multiples of it, so that a node with many of them wakes rarely."""
_GENERATIONS: Final = 20
"""A link's identity is the node's incarnation, and in this many low bits how often it gave up."""


class Conversations:
    """The neighbours of a node, and what is said to them."""

    def __init__(
        self,
        kernel: Kernel,
        trees: Trees,
        timers: Timers,
        *,
        incarnation: int,
        pause: float,
        delay: float,
        patience: tuple[float, float],
        backlog: float,
    ) -> None:
        """Of a neighbour that cannot be reached, tables and events are kept for `patience`, in
        seconds and in events. One that has a `backlog` of messages unread begins anew.
        """
        self.trees = trees
        self.neighbours: dict[str, Neighbour] = {}
        self.now = 0.0
        self._kernel, self._timers = kernel, timers
        self._incarnation = incarnation
        self._pause, self._delay = pause, delay
        self._patience, self._backlog = patience, backlog
        self._order = self._generation = 0
        self._links_at = inf
        self._touched: dict[Neighbour, None] = {}
        self._hopeless: dict[Neighbour, None] = {}
        """Those to give up or to begin anew with, once what happens now has been dealt with."""
        self._parted: set[str] = set()
        """Those that were neighbours, until the overlay decided otherwise."""

    # -- talking -------------------------------------------------------------------------------

    def send(self, neighbour: Neighbour, body: Any) -> None:
        """Say something; nothing if there is no conversation."""
        neighbour.link.send(body, self.now)
        self._touched[neighbour] = None

    def pass_on(self, neighbour: Neighbour, event: Event) -> None:
        """Send an event; it waits if the neighbour can't be reached, but not for ever."""
        self.send(neighbour, event)
        is_hopeless = len(neighbour.link.queue) > self._backlog
        if not neighbour.is_up:
            neighbour.kept += 1
            is_hopeless = is_hopeless or self._is_given_up(neighbour)
        if is_hopeless:
            if not self._hopeless:
                self._kernel.soon(self._begin_anew_with_all)
            self._hopeless[neighbour] = None

    def _is_given_up(self, neighbour: Neighbour) -> bool:
        return not neighbour.is_up and neighbour.kept >= self._patience[1]

    def _begin_anew_with_all(self) -> None:
        hopeless, self._hopeless = self._hopeless, {}
        for neighbour in hopeless:
            if self._is_given_up(neighbour):
                self._give_up(neighbour)
            else:  # it can't keep up: it will fetch what it lacks, at its own pace
                self.begin_anew(neighbour)

    def flush(self) -> None:
        """Hand out what links have to send, and see to it that they are woken in time."""
        if not self._touched:
            return
        due = inf
        for neighbour in self._touched:
            link = neighbour.link
            for frame in link.frames():
                self._kernel.emit(Send(neighbour.name, frame))
            due = min(due, link.repeat_at, link.acknowledge_at)
        self._touched.clear()
        if due < self._links_at:
            self._wake_links_at(due)

    # -- links come and go ---------------------------------------------------------------------

    def add(self, name: str, role: Role) -> Neighbour:
        """There is another neighbour; it counts as reachable until the host says otherwise."""
        link = Link(self._new_identity(), pause=self._pause, delay=self._delay)
        self._order += 1
        neighbour = Neighbour(name, self._order, role, link)
        self.neighbours[name] = neighbour
        if self.trees.is_fixed:
            neighbour.is_linked = True
            self._kernel.parts.linked(neighbour)
        self._greet(neighbour)
        return neighbour

    @property
    def identity(self) -> int:
        """The last identity that a link was given."""
        return self._incarnation << _GENERATIONS | self._generation

    def _new_identity(self) -> int:
        self._generation += 1
        return self.identity

    def _greet(self, neighbour: Neighbour) -> None:
        neighbour.link.greet(self.now)
        self._touched[neighbour] = None

    def _remove(self, neighbour: Neighbour) -> None:
        """It is a neighbour no longer, and nothing is kept for it."""
        neighbour.is_up, neighbour.lost_at = False, inf
        neighbour.link.reset(self._new_identity())
        if neighbour.is_linked:
            neighbour.is_linked = False
            self._kernel.parts.unlinked(neighbour)
        del self.neighbours[neighbour.name]
        self._touched.pop(neighbour, None)
        self._hopeless.pop(neighbour, None)

    def begin_anew(self, neighbour: Neighbour) -> None:
        """Give a conversation up, and be somebody new in the next one."""
        neighbour.link.reset(self._new_identity())
        self._greet(neighbour)

    def distrust(self, neighbour: Neighbour) -> None:
        """The ends of a link remember differently: begin anew. Something may have been lost."""
        self.begin_anew(neighbour)
        self._kernel.parts.doubted()

    def _give_up(self, neighbour: Neighbour) -> None:
        """Until it comes back: what it wanted, and what was kept for it."""
        neighbour.lost_at, neighbour.kept = inf, 0
        neighbour.link.reset(self._new_identity())
        self._kernel.parts.given_up(neighbour)

    def link_up(self, input: LinkUp) -> None:
        """A neighbour can be reached, perhaps for the first time."""
        neighbour = self.neighbours.get(input.neighbour)
        if neighbour is None:
            self.trees.up(input.neighbour, input.cost, self.now)
            self.add(input.neighbour, self.trees.links().get(input.neighbour, "peer"))
            self._follow()
            return
        neighbour.is_up = True
        neighbour.lost_at, neighbour.kept = inf, 0
        neighbour.link.greet(self.now)
        neighbour.link.wake(self.now)
        self._touched[neighbour] = None

    def link_down(self, input: LinkDown) -> None:
        neighbour = self.neighbours.get(input.neighbour)
        if neighbour is None or not neighbour.is_up:
            return
        neighbour.is_up, neighbour.kept = False, 0
        self.trees.down(neighbour.name, self.now)
        self._follow()
        if not self.trees.is_fixed:
            return
        seconds, events = self._patience
        neighbour.lost_at = self.now + seconds
        if seconds <= 0 or events <= 0:
            self._give_up(neighbour)
        elif seconds < inf:
            self._timers.at(neighbour.lost_at, partial(self._patience_over, neighbour))

    def _patience_over(self, neighbour: Neighbour) -> None:
        if not neighbour.is_up and self.now >= neighbour.lost_at:
            self._give_up(neighbour)

    def mend(self) -> None:
        """What is to be done at a time that cannot be is done now."""
        self._links_at = inf
        seconds, _ = self._patience
        for neighbour in list(self.neighbours.values()):
            is_waiting = self.trees.is_fixed and not neighbour.is_up and neighbour.lost_at < inf
            if is_waiting and not self.now < neighbour.lost_at <= self.now + seconds:
                self._give_up(neighbour)

    # -- listening -----------------------------------------------------------------------------

    def received(
        self,
        handlers: Mapping[type, Iterable[Callable[[Neighbour, Any], None]]],
        input: Received,
    ) -> None:
        """A neighbour says something; what it brings into order is heard by those handlers."""
        neighbour = self.neighbours.get(input.neighbour)
        if neighbour is None:
            return
        packet = input.packet
        if packet.__class__ is not Frame:
            self.trees.hear(neighbour.name, packet, self.now)
            self._follow()
            return
        assert isinstance(packet, Frame)
        if not self.trees.is_fixed:
            self.trees.notice(neighbour.name, self.now)
        link = neighbour.link
        bodies = link.receive(packet, self.now)
        self._touched[neighbour] = None
        if link.opened:
            link.opened = False
            self._begun(neighbour)
            if neighbour.name not in self.neighbours:
                return  # the overlay has parted from it
        for body in bodies:
            link.heard += 1
            for handler in handlers[body.__class__]:
                handler(neighbour, body)
        if link.fault:
            self.distrust(neighbour)

    def _begun(self, neighbour: Neighbour) -> None:
        """The conversation begins anew: everything that matters has to be said."""
        self.trees.up(neighbour.name, 0.0, self.now)
        if self.trees.is_fixed:
            neighbour.joined = neighbour.joined_by = 0
        else:
            joined = int(self._is_wanted(neighbour))
            self._change_view(neighbour, joined=joined, joined_by=0)
            if joined:
                self.send(neighbour, Member(joined))
        self._kernel.parts.begun(neighbour)
        self._follow()

    # -- the overlay ---------------------------------------------------------------------------

    def start(self, roles: Mapping[str, Role]) -> None:
        """The configured neighbours are there."""
        for name, role in roles.items():
            self.add(name, role)

    def wake_overlay(self) -> None:
        """A period of the overlay is over."""
        self.trees.wake(self.now)
        self._follow()
        for neighbour in self.neighbours.values():
            self._heed(neighbour)

    def _follow(self) -> None:
        """Carry out what the overlay has decided."""
        for move in self.trees.moves():
            neighbour = self.neighbours.get(move.peer)
            match move:
                case Say(peer, packet):
                    self._kernel.emit(Send(peer, packet))
                case Quit(is_dead=True) if neighbour is not None:
                    self.begin_anew(neighbour)
                    self._change_view(neighbour, joined=0, joined_by=0)
                case Join() | Quit() if neighbour is not None:
                    self._heed(neighbour)
                case Meet(peer, address):
                    self._parted.discard(peer)
                    self._kernel.emit(Connect(peer, address))
                case Leave(peer):
                    self._parted.add(peer)
                    if neighbour is not None:
                        self._remove(neighbour)
                    self._kernel.emit(Disconnect(peer))

    def _heed(self, neighbour: Neighbour) -> None:
        """Join a neighbour or leave it, if that is not so yet; its conversation must have begun."""
        is_wanted = self._is_wanted(neighbour)
        is_so = self.trees.is_fixed or neighbour.has_joined is is_wanted
        if is_so or (is_wanted and not neighbour.is_open):
            return
        number = neighbour.joined + 1
        self._change_view(neighbour, joined=number, joined_by=neighbour.joined_by)
        self.send(neighbour, Member(number))
        self._kernel.parts.begun(neighbour)

    def _is_wanted(self, neighbour: Neighbour) -> bool:
        return neighbour.name in self.trees.links(neighbour.lane)

    def member(self, neighbour: Neighbour, message: Member) -> None:
        """A neighbour has joined, or left."""
        self._change_view(neighbour, joined=neighbour.joined, joined_by=message.number)
        self._kernel.parts.begun(neighbour)

    def _change_view(self, neighbour: Neighbour, *, joined: int, joined_by: int) -> None:
        """Every change of it begins with empty tables."""
        neighbour.joined, neighbour.joined_by = joined, joined_by
        if neighbour.is_linked:
            neighbour.is_linked = False
            self._kernel.parts.unlinked(neighbour)
        if neighbour.is_in_use:
            neighbour.is_linked = True
            self._kernel.parts.linked(neighbour)

    # -- time ----------------------------------------------------------------------------------

    def _wake_links_at(self, due: float) -> None:
        """All links are looked after together, at whole multiples of a moment."""
        self._links_at = (due // _MOMENT + 1) * _MOMENT
        if self._links_at < due:  # by an error of rounding, which would wake it in vain for ever
            self._links_at += _MOMENT
        self._timers.at(self._links_at, self._wake_links)

    def _wake_links(self) -> None:
        if self.now < self._links_at:
            return  # an earlier call has taken its place
        self._links_at = due = inf
        for neighbour in self.neighbours.values():
            link = neighbour.link
            if link.due <= self.now:
                link.wake(self.now)
                self._touched[neighbour] = None
            else:
                due = min(due, link.due)
        if due < inf:
            self._wake_links_at(due)

    # -- auditing ------------------------------------------------------------------------------

    def ask(self, neighbour: Neighbour) -> bool:
        """Find out whether the other end remembers the same; whether that may be so."""
        link = neighbour.link
        link.ask(self.now)
        self._touched[neighbour] = None
        return not link.fault and 0 < link.identity <= self.identity

    def audit(self, roles: Mapping[str, Role]) -> Iterator[str]:
        """Whatever cannot be true of them; `roles` are those that were configured."""
        if self._hopeless:
            yield f"{sorted(each.name for each in self._hopeless)} are yet to begin anew"
        if not roles.keys() - self._parted <= self.neighbours.keys():
            yield f"a neighbour is missing among {sorted(self.neighbours)}"
        if self._generation < len(self.neighbours):
            yield f"{len(self.neighbours)} links have identities, and {self._generation} were given"
        for name, neighbour in self.neighbours.items():
            role = roles.get(name) or self.trees.links().get(name, "peer")
            if (neighbour.name, neighbour.lane, neighbour.role) != (name, 0, role):
                yield f"{name} is the {neighbour.role} {neighbour.name} on lane {neighbour.lane}"
            if neighbour.is_linked is not (self.trees.is_fixed or neighbour.is_in_use):
                yield f"the link to {name} is used: {neighbour.is_linked}"
