"""A login: which broker to come to, and as whom; what many connections have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidings.client.client import Client, connect
from tidings.client.dialling import OnStatus, Tls
from tidings.client.plain import PlainClient, connect_sync
from tidings.protocol.addresses import DEFAULT_URL


@dataclass(frozen=True)
class Login:
    """What a program connects with, handed to whatever connects for it."""

    url: str = DEFAULT_URL
    token: str | None = field(default=None, repr=False)
    tls: Tls = None
    """The authority that has signed the broker's certificate; see `connect`."""
    timeout: float = 30.0
    """Seconds that the broker may be away."""

    def client(self, name: str | None = None) -> Client:
        """A client, as `connect` makes it."""
        return connect(self.url, token=self.token, name=name, tls=self.tls, wait=self.timeout)

    def plain(self, name: str | None = None, on_status: OnStatus | None = None) -> PlainClient:
        """A plain client, as `connect_sync` makes it."""
        return connect_sync(
            self.url,
            token=self.token,
            name=name,
            tls=self.tls,
            wait=self.timeout,
            on_status=on_status,
        )
