"""Addresses: where brokers listen, and the URLs that say it to clients."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

from tidings.events import TidingsError

PORT: Final = 7411
"""Where a broker listens unless told otherwise."""
DEFAULT_URL: Final = f"tidings://127.0.0.1:{PORT}"
"""The broker of clients that name none."""
_LAST_PORT: Final = 65_535
_TLS: Final = "tidings+tls"
_URL: Final = re.compile(r"(tidings|tidings\+tls)://([^/?#@]+)/?")
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?)\]|(?P<host>[^:\[\]\s,/]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class Address(NamedTuple):
    """A host and a port, where one broker listens."""

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


class Place(NamedTuple):
    """Where one broker is reached, and whether by TLS."""

    address: Address
    is_encrypted: bool

    def __str__(self) -> str:
        return f"{_TLS}://{self.address}" if self.is_encrypted else str(self.address)


class Url(NamedTuple):
    """The brokers that a client may come to, and whether it talks TLS to them."""

    addresses: tuple[Address, ...]
    is_encrypted: bool


def parse_address(text: str) -> Address:
    """A host and a port, which is 7411 if none is said; `TidingsError` if it is no address.

    >>> parse_address("paris.example:80"), parse_address("[::1]:0"), parse_address("localhost")
    (Address(host='paris.example', port=80), Address(host='::1', port=0), \
Address(host='localhost', port=7411))
    """
    found = Address(text, PORT) if _is_ipv6(text) else _address(text)
    if found is None:
        raise TidingsError(f"an address is HOST:PORT, like 127.0.0.1:7411, not {text!r}")
    if found.port > _LAST_PORT:
        raise TidingsError(f"a port is a number up to {_LAST_PORT}, not {found.port}")
    return found


def parse_url(url: str) -> Url:
    """The URL `tidings://host:port`, or with several addresses; `TidingsError` if it is none.

    >>> [str(address) for address in parse_url("tidings+tls://a.example:80,[::1]").addresses]
    ['a.example:80', '[::1]:7411']
    """
    parts = _URL.fullmatch(url.strip())
    read = [_address(text.strip()) for text in parts[2].split(",")] if parts else []
    found = [address for address in read if address is not None]
    if parts is None or len(found) != len(read):
        raise TidingsError(
            f"{url!r} is no broker's address; one looks like {DEFAULT_URL}, with more of host:port "
            "after commas, and tidings+tls:// where the broker has a certificate"
        )
    if not all(0 < address.port <= _LAST_PORT for address in found):
        raise TidingsError(f"{url!r}: a port is a number from 1 to {_LAST_PORT}")
    return Url(tuple(found), parts[1] == _TLS)


def parse_place(text: str) -> Place:
    """An address, or the URL of one broker; `TidingsError` if it is neither.

    >>> str(parse_place("paris.example")), str(parse_place("tidings+tls://paris.example"))
    ('paris.example:7411', 'tidings+tls://paris.example:7411')
    """
    if "://" not in text:
        return Place(parse_address(text), False)
    url = parse_url(text)
    if len(url.addresses) > 1:
        raise TidingsError(f"this is the address of one broker, and {text!r} has several")
    return Place(url.addresses[0], url.is_encrypted)


def _address(text: str) -> Address | None:
    parts = _ADDRESS.fullmatch(text)
    if parts is None or not (_is_host(parts["host"]) if parts["host"] else _is_ipv6(parts["v6"])):
        return None
    return Address(parts["host"] or parts["v6"], int(parts["port"] or PORT))


def _is_host(text: str) -> bool:
    """Whether it can be looked up at all."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
