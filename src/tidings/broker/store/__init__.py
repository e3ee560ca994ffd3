"""The store: a folder in which a broker keeps its node's values and its logs across a crash.

Whatever opens, writes, proves, checks, trims, copies or restores that folder lives here; nothing
here knows of sockets or of the node. The host sees a `Disk`, which `SQLiteStore` is.
"""

from tidings.broker.store.database import DisorderError, LogDamageError, StoreError
from tidings.broker.store.disk import Disk, Erased
from tidings.broker.store.sqlite import SQLiteStore

__all__ = ["Disk", "DisorderError", "Erased", "LogDamageError", "SQLiteStore", "StoreError"]
