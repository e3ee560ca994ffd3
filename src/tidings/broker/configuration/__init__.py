"""Configuration: what `tidings.toml` may say about a broker, and how a mistake in it is told.

The structure of the file, the quantities in it, and the places in it live here. Of what the file
names, only the file of tokens is opened here.
"""

from tidings.broker.configuration.file import (
    TLS,
    USUAL,
    ClientLimits,
    Configuration,
    NeighbourEntry,
    load_tokens,
)
from tidings.broker.configuration.tokens import check_name

__all__ = [
    "TLS",
    "USUAL",
    "ClientLimits",
    "Configuration",
    "NeighbourEntry",
    "check_name",
    "load_tokens",
]
