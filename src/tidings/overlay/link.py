"""Links: one end of an ordered, lossless conversation with a neighbour.

Frames carry a number, and what the other end has received so far; what is not acknowledged is
sent again. A *conversation* is between two identities, one for each end. An end takes a new, larger
identity when it restarts or gives the conversation up; the other end notices, forgets what it
had queued, and both begin a new one at number 1. A frame of an earlier conversation is ignored.
So within one everything arrives once and in order, and `opened` tells the node that a new one has
begun, in which it has to say again everything that matters.

An end does not trust its own memory. It asks the other end now and then (`ask`), and holds the
answer against what it remembers; an end that is ignored for its too small identity is believed
when the larger one does not answer. What does not fit is a `fault`: then the node has to `reset`
the link, and both ends begin anew, whichever of them was wrong.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any, Final

from tidings.protocol.messages import Frame

_GREETING: Final = -1
_BURST: Final = 32
"""Frames that are sent again at a time, or received before an acknowledgement."""
_DOUBLINGS: Final = 4
"""Times that the pause before sending again doubles, at most."""
_CHALLENGE: Final = 2
"""Pauses that a larger identity has to answer, when a smaller one is heard."""
_QUESTIONS: Final = 1 << 32
"""Questions are numbered below this."""


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

    def __init__(self, identity: int, *, pause: float, delay: float) -> None:
        """Wait `pause` seconds before sending again, `delay` before a bare acknowledgement."""
        self.identity = identity
        self.peer = 0
        """The other end's identity, 0 if unknown: the link is open when it is known."""
        self.opened = False
        """A new conversation has begun; the node resets this when it has dealt with it."""
        self.fault = ""
        """Why this conversation cannot be right, if so; the node has to `reset` the link."""
        self.sent = 0
        self.received = 0
        self.said = 0
        """Bodies sent in this conversation; counted apart from their numbers, to be compared."""
        self.heard = 0
        """Bodies that the node has taken in this conversation; it counts them."""
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
        self._challenged_at = inf
        """When somebody with a smaller identity was first heard since the peer was."""
        self._question = 0
        """The last question that was asked."""
        self._floor = 0
        """What the other end had acknowledged by then."""

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
        self.said += 1
        self.queue.append((self.sent, body))
        self._push(self.sent, body)
        if self.repeat_at is inf:
            self.repeat_at = now + self._pause

    def ask(self, now: float) -> None:
        """Find out whether the other end remembers the same; see `fault`. Mend what is due."""
        self._mend(now)
        numbers = [number for number, _ in self.queue]
        if numbers != list(range(self.sent - len(numbers) + 1, self.sent + 1)):
            self.fault = f"{numbers} are queued, and {self.sent} was sent last"
        self._floor = self.sent - len(numbers)
        self._question = (self._question + 1) % _QUESTIONS or 1
        self._push(-2 * self._question, None)

    def _mend(self, now: float) -> None:
        """Whatever is to be done at a time that cannot be is done soon."""
        longest = self._pause * 2**_DOUBLINGS
        if (self.queue or not self._is_known) and not self.repeat_at <= now + longest:
            self.repeat_at = now
        if self.acknowledge_at < inf and self.acknowledge_at > now + self._delay:
            self.acknowledge_at = now
        if self._challenged_at > now:
            self._challenged_at = inf

    def frames(self) -> list[Frame]:
        """What is to be sent now; each frame is handed out once."""
        out, self._out = self._out, []
        return out

    def reset(self, identity: int) -> None:
        """Give the conversation up: forget what is queued, and be somebody new."""
        self.identity = identity
        self.peer = 0
        self.fault = ""
        self._challenged_at = inf
        self._begin()
        self._is_known = self.opened = False

    def _push(self, number: int, body: Any) -> None:
        self._out.append(Frame(self.identity, self.peer, number, self.received, body))
        self.acknowledge_at = inf
        self._silent = 0

    def _begin(self) -> None:
        self.opened = True
        self.sent = self.received = self._tries = self._silent = 0
        self.said = self.heard = self._floor = self._question = 0
        self.queue.clear()
        self._ahead.clear()
        self._out.clear()
        self.repeat_at = self.acknowledge_at = inf

    # -- listening -----------------------------------------------------------------------------

    def receive(self, frame: Frame, now: float) -> list[Any]:
        """The bodies that this frame brings into order. A conversation may begin: see `opened`."""
        if frame.sender < self.peer:
            self._challenge(now)
            return []
        if frame.sender > self.peer:
            self.peer = frame.sender
            self._begin()
        self._challenged_at = inf
        self._is_known = frame.receiver == self.identity
        if not self._is_known:  # meant for nobody or for who we were: say who we are
            self._push(_GREETING, None)
            self.repeat_at = min(self.repeat_at, now + self._pause)
            return []
        if self.queue and self.queue[0][0] <= frame.received:
            self._forget(frame.received, now)
        if frame.number == _GREETING:
            self._push(0, None)
        elif frame.number < 0:
            self._compare(frame)
        return self._in_order(frame, now) if frame.number > 0 else []

    def _challenge(self, now: float) -> None:
        """Somebody speaks who was somebody else later on, or the peer is not who we think."""
        if self._challenged_at > now:
            self._challenged_at = now
            self._push(_GREETING, None)
        elif now - self._challenged_at >= _CHALLENGE * self._pause:
            self.fault = f"{self.peer} does not answer, and somebody before it speaks"

    def _compare(self, frame: Frame) -> None:
        """Answer a question; or look whether an answer is what it can be."""
        if frame.number % 2 == 0:
            self._push(frame.number - 1, None)
            return
        is_current = self._question and frame.number == -2 * self._question - 1
        if is_current and not self._floor <= frame.received <= self.sent:
            self.fault = f"{frame.received} was received, of {self._floor} to {self.sent}"

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
        self._tries = min(max(self._tries, 0), _DOUBLINGS)
        self.repeat_at = now + self._pause * 2**self._tries
        self._tries += 1
