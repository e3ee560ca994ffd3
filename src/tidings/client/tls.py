"""TLS: how a client encrypts what it says, and whom it believes to be the broker."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TypeAlias

from tidings.events import TidingsError
from tidings.protocol.addresses import Url

Tls: TypeAlias = ssl.SSLContext | str | Path | None
"""A context, or the file of the authority that signed the broker's certificate."""


def tls_context(url: Url, tls: Tls) -> ssl.SSLContext | None:
    """How to encrypt, or None; `TidingsError` if the two contradict each other."""
    if not url.is_encrypted:
        if tls is not None:
            raise TidingsError("tls= was given, but the address says no TLS: use tidings+tls://")
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    try:
        return ssl.create_default_context(cafile=None if tls is None else str(tls))
    except (OSError, ssl.SSLError) as problem:
        said = problem.strerror or str(problem)
        raise TidingsError(f"{tls}: cannot be used as a certificate authority: {said}") from None
