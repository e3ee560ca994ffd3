"""Lakes: events kept for as long as one likes, as Delta tables.

What belongs here writes events into a lake, reads them back exactly, and says how far the lake is
with each stream; `History` goes on where the lake ends, by a client. Arrow and the package
`deltalake` do the work. Nothing here knows Spark or needs Java, looks into a broker's store, or
decides what is archived and when: hosts do that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidings.lakes.errors import LakeError

if TYPE_CHECKING:
    from tidings.lakes.history import History
    from tidings.lakes.lake import Lake

__all__ = ["History", "Lake", "LakeError"]

_WHERE: Final = {"History": "history", "Lake": "lake"}


def __getattr__(name: str) -> Any:
    """Names are fetched when they are first used: to read files alone takes no Delta."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
