"""Places: where brokers listen, as text."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

from tidings.events import TidingsError

DEFAULT_PORT: Final = 7411


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """A host and a port, which is 7411 if none is said.

    >>> parse_address("paris.example:80"), parse_address("[::1]:0"), parse_address("localhost")
    (Address(host='paris.example', port=80), Address(host='::1', port=0), \
Address(host='localhost', port=7411))
    """
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or not (port.isascii() and port.isdigit() if port else not text.endswith(":")):
        raise TidingsError(f"an address is HOST:PORT, like 127.0.0.1:7411, not {text!r}")
    number = int(port or DEFAULT_PORT)
    if number > 65535:
        raise TidingsError(f"a port is a number up to 65535, not {port}")
    return Address(host, number)
