"""The node: one broker as a pure state machine. Inputs and the time go in, effects come out.

No clock, no socket, no thread and no randomness live here: the broker on the network and the
simulator are hosts of the same class, and whatever happens to one can be replayed in the other.
"""

from tidings.node.host import (
    Deliver,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    Received,
    Reply,
    Request,
    Send,
    Store,
    Sync,
    Wake,
    Woken,
)
from tidings.node.messages import Event
from tidings.node.node import Node
from tidings.node.requests import (
    Accepted,
    Advertise,
    Attach,
    Detach,
    Publish,
    Refused,
    Renew,
    Resend,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from tidings.node.settings import Settings

__all__ = [
    "Accepted",
    "Advertise",
    "Attach",
    "Deliver",
    "Detach",
    "Effect",
    "Event",
    "Input",
    "LinkDown",
    "LinkUp",
    "Node",
    "Publish",
    "Received",
    "Refused",
    "Renew",
    "Reply",
    "Request",
    "Resend",
    "Send",
    "Settings",
    "Store",
    "Subscribe",
    "Sync",
    "Unadvertise",
    "Unsubscribe",
    "Wake",
    "Woken",
]
