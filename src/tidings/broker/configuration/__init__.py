"""Configuration: what `tidings.toml` may say about a broker, and how a mistake in it is told.

The structure of the file, the quantities in it, and the places in it live here. Nothing here
opens what the file names.
"""

from tidings.broker.configuration.file import (
    TLS,
    USUAL,
    ClientLimits,
    Configuration,
    NeighbourEntry,
    check_token,
)

__all__ = ["TLS", "USUAL", "ClientLimits", "Configuration", "NeighbourEntry", "check_token"]
