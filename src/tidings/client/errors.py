"""What can go wrong between a client and its broker; every message is a sentence."""

from __future__ import annotations

from tidings.events import TidingsError


class ConnectionFailed(TidingsError):  # noqa: N818
    """No broker could be reached, or what answered is none that this client can talk to."""


class AccessDenied(TidingsError):  # noqa: N818
    """The broker does not let this client in: its token is missing or wrong."""


class ClientClosed(TidingsError):  # noqa: N818
    """The client was closed before it could do this."""


class RequestRefused(TidingsError):  # noqa: N818
    """The broker did not do what it was asked to."""


class AdvertisementRefused(RequestRefused):
    """The broker does not let this client publish what it wanted to advertise."""


class PublishRefused(RequestRefused):
    """The broker did not take a notification. Nobody will hear of it."""


class PublishRefusedForNow(PublishRefused):
    """The broker cannot write to its disk. Published again later, the notification may be kept."""


class SubscriptionRefused(RequestRefused):
    """The broker did not start a subscription, or has ended it."""


class CursorTooOld(SubscriptionRefused):
    """Where the subscription was to go on, the broker no longer keeps the events.

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
