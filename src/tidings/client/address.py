"""Addresses: where brokers listen, and how to talk to them."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tidings.events import TidingsError

PORT: Final = 7411
DEFAULT: Final = f"tidings://127.0.0.1:{PORT}"
_URL: Final = re.compile(r"(tidings|tidings\+tls)://([^/?#@]+)/?")
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]+)(?::([0-9]{1,5}))?")

Tls: TypeAlias = ssl.SSLContext | str | Path | None
"""A context, or the file of the authority that signed the broker's certificate."""


class Place(NamedTuple):
    """Where one broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(NamedTuple):
    """What a URL says."""

    places: tuple[Place, ...]
    is_encrypted: bool


def read_address(url: str) -> Address:
    """Read `tidings://host:port`, or several places with commas between; `TidingsError` if wrong.

    >>> [str(place) for place in read_address("tidings+tls://a.example:7411,[::1]").places]
    ['a.example:7411', '[::1]:7411']
    """
    parts = _URL.fullmatch(url.strip())
    places = [_PLACE.fullmatch(p.strip()) for p in parts[2].split(",")] if parts else [None]
    found = [Place(p[1].strip("[]"), int(p[2] or PORT)) for p in places if p is not None]
    if parts is None or len(found) != len(places):
        raise TidingsError(
            f"{url!r} is no broker's address; one looks like {DEFAULT}, with more of host:port "
            "after commas, and tidings+tls:// where the broker has a certificate"
        )
    for place in found:
        if not 0 < place.port < 65536:
            raise TidingsError(f"{url!r}: a port is a number from 1 to 65535")
    return Address(tuple(found), parts[1] == "tidings+tls")


def context(address: Address, tls: Tls) -> ssl.SSLContext | None:
    """How to encrypt, or None; `TidingsError` if the two contradict each other."""
    if not address.is_encrypted:
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
