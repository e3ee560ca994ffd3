"""tidings: content-based event notification. Say what happened; hear what you asked for.

>>> import tidings
>>> wanted = tidings.Filter.parse("symbol = 'DIS' AND change < 0")
>>> wanted.matches(tidings.Notification({"symbol": "DIS", "change": -4.0}))
True
"""

TYPE_CHECKING = False  # as type checkers know it; `typing` takes longer to import than all this

if TYPE_CHECKING:
    from tidings.client import (
        AccessDenied,
        AdvertisementRefused,
        Certificates,
        Client,
        ClientClosed,
        ConnectionFailed,
        ConnectionTimedOut,
        CursorTooOld,
        Erasure,
        Event,
        Fenced,
        OutcomeUnknown,
        PlainClient,
        PlainSubscription,
        PublishRefused,
        PublishRefusedForNow,
        Receipt,
        Receipts,
        RequestRefused,
        StreamWentBack,
        Subscription,
        SubscriptionRefused,
        SubscriptionWarning,
        TimedOut,
        connect,
        connect_sync,
    )
    from tidings.events import (
        Conjunction,
        Constraint,
        Filter,
        FilterError,
        Limits,
        Notification,
        NotificationError,
        Schema,
        SchemaError,
        TidingsError,
    )
    from tidings.matching import Index
else:
    # Names are fetched when first used: `tidings --help` needs none of them, and the parser
    # they bring along takes longer to import than the help takes to print.

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module("tidings.events")
        if name not in home.__all__:
            home = import_module("tidings.matching" if name == "Index" else "tidings.client")
        globals()[name] = found = getattr(home, name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "AccessDenied",
    "AdvertisementRefused",
    "Certificates",
    "Client",
    "ClientClosed",
    "Conjunction",
    "ConnectionFailed",
    "ConnectionTimedOut",
    "Constraint",
    "CursorTooOld",
    "Erasure",
    "Event",
    "Fenced",
    "Filter",
    "FilterError",
    "Index",
    "Limits",
    "Notification",
    "NotificationError",
    "OutcomeUnknown",
    "PlainClient",
    "PlainSubscription",
    "PublishRefused",
    "PublishRefusedForNow",
    "Receipt",
    "Receipts",
    "RequestRefused",
    "Schema",
    "SchemaError",
    "StreamWentBack",
    "Subscription",
    "SubscriptionRefused",
    "SubscriptionWarning",
    "TidingsError",
    "TimedOut",
    "connect",
    "connect_sync",
]
