"""The client: how programs connect to a broker, publish, and hear what they asked for.

`session` and what it is made of (`outbox`, `reading`, `copying`) are pure: messages in, messages
out. Around it, `host` has the connections and tasks of asyncio; `client` has the verbs, and `plain`
the same verbs for programs without asyncio. What both know is in `state`; a `Login` makes either.
A client knows the words of the protocol, but nothing of how a node does what it is asked.
"""

from tidings.client.client import Client, connect
from tidings.client.durables import Durable, DurablesFound
from tidings.client.errors import (
    AccessDenied,
    AdvertisementRefused,
    ClientClosed,
    ConnectionFailed,
    ConnectionTimedOut,
    CursorTooOld,
    Fenced,
    OutcomeUnknown,
    PublishRefused,
    PublishRefusedForNow,
    RequestRefused,
    StreamWentBack,
    SubscriptionRefused,
    SubscriptionWarning,
    TimedOut,
)
from tidings.client.event import Event
from tidings.client.login import Login
from tidings.client.plain import PlainClient, PlainSubscription, connect_sync
from tidings.client.reading import Told
from tidings.client.receipts import Receipt, Receipts
from tidings.client.subscription import Subscription
from tidings.client.tls import Certificates
from tidings.protocol.requests import Erasure

__all__ = [
    "AccessDenied",
    "AdvertisementRefused",
    "Certificates",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "ConnectionTimedOut",
    "CursorTooOld",
    "Durable",
    "DurablesFound",
    "Erasure",
    "Event",
    "Fenced",
    "Login",
    "OutcomeUnknown",
    "PlainClient",
    "PlainSubscription",
    "PublishRefused",
    "PublishRefusedForNow",
    "Receipt",
    "Receipts",
    "RequestRefused",
    "StreamWentBack",
    "Subscription",
    "SubscriptionRefused",
    "SubscriptionWarning",
    "TimedOut",
    "Told",
    "connect",
    "connect_sync",
]
