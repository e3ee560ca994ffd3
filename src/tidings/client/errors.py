"""What can go wrong between a client and its broker; every message is a sentence.

Each is a `TidingsError`, and also the built-in error that it is: `ConnectionError`,
`PermissionError`, `TimeoutError`.
"""

from __future__ import annotations

from tidings.events import TidingsError
from tidings.protocol.cursors import cursor_text
from tidings.protocol.requests import Refused


class TimedOut(TidingsError, TimeoutError):  # noqa: N818
    """What was waited for has not come in time."""


class ConnectionFailed(TidingsError, ConnectionError):  # noqa: N818
    """No broker could be reached, or what answered is none that this client can talk to."""


class ConnectionTimedOut(ConnectionFailed, TimedOut):
    """No broker has answered in time."""


class AccessDenied(TidingsError, PermissionError):  # noqa: N818
    """The broker does not let this client in, and says why: its token is wrong, for example."""


class ClientClosed(TidingsError):  # noqa: N818
    """The client was closed before it could do this."""


class OutcomeUnknown(TidingsError):  # noqa: N818
    """A notification was sent to a broker that no longer knows, or is no longer asked: it may be
    kept, or not."""


class Fenced(OutcomeUnknown, ClientClosed):
    """Another process has come under this client's name, and has it now.

    What this client was publishing may be kept or not. It is closed, and cannot come back: a
    process that takes the name over again is a new client.
    """


class RequestRefused(TidingsError):  # noqa: N818
    """The broker did not do what it was asked to."""


class AdvertisementRefused(RequestRefused):
    """The broker does not let this client publish what it wanted to advertise."""


class PublishRefused(RequestRefused):
    """The broker did not take a notification, so no subscriber will hear of it."""


class PublishRefusedForNow(PublishRefused):
    """The broker cannot write to its disk. Published again later, the notification may be kept."""


class SubscriptionRefused(RequestRefused):
    """The broker did not start a subscription, or has ended it."""


class SubscriptionWarning(UserWarning):
    """The broker has begun a subscription, and finds something odd about it: that its filter names
    an attribute which the broker's schema does not know, for example."""


class CursorTooOld(SubscriptionRefused):
    """Where the subscription was to go on, the broker no longer has the events.

    They are not kept any more, or cannot be read since the log is damaged: the message says so.
    `cursor` is where it can go on: subscribe again with `since=problem.cursor` to do so, knowing
    that what lies before it is lost. `stream` is the one whose events are gone, those behind the
    tick `position`; the cursor may be further in others, too, by what was told meanwhile.
    """

    def __init__(self, message: str, cursor: str, stream: str = "", position: int = 0) -> None:
        super().__init__(message, cursor, stream, position)
        self.cursor = cursor
        self.stream = stream
        self.position = position

    def __str__(self) -> str:
        return str(self.args[0])


class StreamWentBack(CursorTooOld):
    """The broker has lost the end of a stream, and the subscription was told some of that.

    Its log was damaged, or it was restored from an older copy. What the subscription was told
    behind the tick where `stream` now ends, up to `position`, is in no log any more; programs that
    must agree with what others hear undo it. Subscribe again with `since=problem.cursor` to hear
    everything that is left and all that comes: nothing of that is left out or repeated.
    """


def cannot_go_on(refusal: Refused) -> CursorTooOld:
    """The error for a refusal that says where to go on."""
    assert refusal.cursor is not None
    goes_on = refusal.cursor.get(refusal.stream, 0)
    kind = StreamWentBack if refusal.position > goes_on else CursorTooOld
    return kind(refusal.reason, cursor_text(refusal.cursor), refusal.stream, refusal.position)
