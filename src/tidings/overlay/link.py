"""Links: one end of an ordered, lossless conversation with a neighbour.

Frames carry a number, and what the other end has received so far; what is not acknowledged is
sent again. A *session* is a pair of identities, one for each end. An end takes a new, larger
identity when it restarts or gives the conversation up; the other end notices, forgets what it
had queued, and both begin a new session at number 1. A frame of an earlier session is ignored.
So within a session everything arrives once and in order, and `opened` tells the node that a new
one has begun, in which it has to say again everything that matters.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any, Final

import msgspec

_GREETING: Final = -1
_BURST: Final = 32
"""So many frames are sent again at a time, and so many are received before an acknowledgement."""
_PATIENCE: Final = 16
"""The pause before sending again doubles up to so many times its first value."""


class Frame(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=32):
    """What travels on a link: perhaps a body, and always an acknowledgement."""

    sender: int
    receiver: int
    """The identities of both ends; 0 is for "I don't know you yet"."""
    number: int
    """Of the body, from 1; 0 if there is none, and -1 if an answer is asked for."""
    received: int
    """The sender of the frame has received all numbers up to this one."""
    body: Any = None


class Link:
    """One end of a link.

    >>> a, b = Link(1, pause=1.0, delay=0.1), Link(1, pause=1.0, delay=0.1)
    >>> a.greet(now=0.0)
    >>> while frames := [(b, f) for f in a.frames()] + [(a, f) for f in b.frames()]:
    ...     for end, frame in frames:
    ...         _ = end.receive(frame, now=0.0)
    >>> a.send("hello", now=1.0)
    >>> [body for frame in a.frames() for body in b.receive(frame, now=1.0)]
    ['hello']
    """

    __slots__ = (
        "_ahead",
        "_delay",
        "_is_known",
        "_out",
        "_pause",
        "_silent",
        "_tries",
        "acknowledge_at",
        "identity",
        "opened",
        "peer",
        "queue",
        "received",
        "repeat_at",
        "sent",
    )

    def __init__(self, identity: int, *, pause: float, delay: float) -> None:
        """Wait `pause` seconds before sending again, `delay` before a bare acknowledgement."""
        self.identity = identity
        self.peer = 0
        """The other end's identity, 0 if unknown: the link is open when it is known."""
        self.opened = False
        """A new session has begun; the node resets this when it has dealt with it."""
        self.sent = 0
        self.received = 0
        self.queue: deque[tuple[int, Any]] = deque()
        """Sent and not acknowledged, in order."""
        self._pause, self._delay = pause, delay
        self._ahead: dict[int, Any] = {}
        self._out: list[Frame] = []
        self.repeat_at = self.acknowledge_at = inf
        """When to send again what is queued, and when to acknowledge what was received."""
        self._tries = 0
        self._silent = 0
        self._is_known = False
        """Whether the other end has called this one by its identity."""

    # -- talking -------------------------------------------------------------------------------

    def greet(self, now: float) -> None:
        """Say that this end is there, and go on saying so until the other end answers."""
        self._push(_GREETING, None)
        if not self._is_known:
            self.repeat_at = now + self._pause
        elif self.queue:
            self._tries = 0
            self.repeat_at = now

    def send(self, body: Any, now: float) -> None:
        """Queue a body; dropped if the link is not open, since all is said anew when it opens."""
        if not self.peer:
            return
        self.sent += 1
        self.queue.append((self.sent, body))
        self._push(self.sent, body)
        if self.repeat_at is inf:
            self.repeat_at = now + self._pause

    def frames(self) -> list[Frame]:
        """What is to be sent now; each frame is handed out once."""
        out, self._out = self._out, []
        return out

    def reset(self, identity: int) -> None:
        """Give the conversation up: forget what is queued, and be somebody new."""
        self.identity = identity
        self.peer = 0
        self._begin()
        self._is_known = self.opened = False

    def _push(self, number: int, body: Any) -> None:
        self._out.append(Frame(self.identity, self.peer, number, self.received, body))
        self.acknowledge_at = inf
        self._silent = 0

    def _begin(self) -> None:
        self.opened = True
        self.sent = self.received = self._tries = self._silent = 0
        self.queue.clear()
        self._ahead.clear()
        self._out.clear()
        self.repeat_at = self.acknowledge_at = inf

    # -- listening -----------------------------------------------------------------------------

    def receive(self, frame: Frame, now: float) -> list[Any]:
        """The bodies that this frame brings into order. The session may begin: see `opened`."""
        if frame.sender < self.peer:
            return []
        if frame.sender > self.peer:
            self.peer = frame.sender
            self._begin()
        self._is_known = frame.receiver == self.identity
        if not self._is_known:  # meant for nobody or for who we were: say who we are
            self._push(_GREETING, None)
            self.repeat_at = min(self.repeat_at, now + self._pause)
            return []
        if self.queue and self.queue[0][0] <= frame.received:
            self._forget(frame.received, now)
        if frame.number == _GREETING:
            self._push(0, None)
        return self._in_order(frame, now) if frame.number > 0 else []

    def _forget(self, received: int, now: float) -> None:
        queue = self.queue
        while queue and queue[0][0] <= received:
            queue.popleft()
        self._tries = 0
        self.repeat_at = now + self._pause if queue else inf

    def _in_order(self, frame: Frame, now: float) -> list[Any]:
        bodies: list[Any] = []
        if frame.number == self.received + 1:
            self.received += 1
            bodies.append(frame.body)
            while self._ahead and self.received + 1 in self._ahead:
                self.received += 1
                bodies.append(self._ahead.pop(self.received))
        elif frame.number > self.received:
            self._ahead[frame.number] = frame.body
        self._silent += 1
        if self._silent >= _BURST:
            self._push(0, None)
        elif self.acknowledge_at is inf:
            self.acknowledge_at = now + self._delay
        return bodies

    # -- waiting -------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """When `wake` is to be called."""
        return min(self.repeat_at, self.acknowledge_at)

    def wake(self, now: float) -> None:
        """Repeat or acknowledge what is due."""
        if now >= self.repeat_at:
            if self._is_known and not self.queue:
                self.repeat_at = inf
            else:
                self._repeat(now)
        if now >= self.acknowledge_at:
            self._push(0, None)

    def _repeat(self, now: float) -> None:
        for number, body in list(self.queue)[:_BURST]:
            self._push(number, body)
        if not self.queue:
            self._push(_GREETING, None)
        self.repeat_at = now + self._pause * min(2**self._tries, _PATIENCE)
        self._tries = min(self._tries + 1, _PATIENCE)
