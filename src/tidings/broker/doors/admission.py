"""Admission: which principal is at the other end of a connection, and may it come in. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from tidings.broker.tokens import Tokens
from tidings.delivery.copies import EVERYBODY
from tidings.events import TidingsError
from tidings.protocol.wire import Hello

_LONGEST_NAME: Final = 256
"""Characters of the name of a session, at most."""


class UnwelcomeError(TidingsError):
    """A client or a broker may not come in, and why."""


class Admission:
    """Whom a broker lets in.

    A broker that knows tokens or trusts an authority wants to see a token or a certificate. If
    both are shown, the certificate counts.
    """

    def __init__(
        self,
        broker: str,
        *,
        tokens: Tokens,
        trusts_certificates: bool,
        neighbours: Collection[str],
        deliverers: Collection[str] = (),
        erasers: Collection[str] = (),
    ) -> None:
        self._broker = broker
        self._tokens = tokens
        self._trusts_certificates = trusts_certificates
        self._neighbours = neighbours
        self._deliverers = deliverers
        self._erasers = erasers

    def admit(self, hello: Hello, certificate: Mapping[str, Any] | None) -> str:
        """The principal who says this, or `UnwelcomeError`."""
        principal = self._principal(hello.token, certificate)
        if hello.role == "broker":
            self._check_broker(hello.name, principal)
        elif hello.role != "client":
            raise UnwelcomeError(f"there are clients and brokers, but no {hello.role!r}")
        elif len(hello.name) > _LONGEST_NAME:
            raise UnwelcomeError(f"the name of a session has at most {_LONGEST_NAME} characters")
        return principal or EVERYBODY

    def may_deliver(self, principal: str) -> bool:
        """Whether a principal may publish copies for bulk subscribers.

        Where neither tokens nor certificates are asked for, all may.
        """
        return principal in self._deliverers or self._asks_nobody

    def may_erase(self, principal: str) -> bool:
        """Whether a principal may erase events, whoever has published them.

        Where neither tokens nor certificates are asked for, all may.
        """
        return principal in self._erasers or self._asks_nobody

    @property
    def _asks_nobody(self) -> bool:
        return not (self._tokens or self._trusts_certificates)

    def _principal(self, token: str | None, certificate: Mapping[str, Any] | None) -> str | None:
        if self._trusts_certificates and certificate:
            return _common_name(certificate)
        if not self._tokens and not self._trusts_certificates:
            return None
        if not token:
            wanted = " or ".join(
                ["a token"] * bool(self._tokens)
                + ["a client certificate"] * self._trusts_certificates
            )
            raise UnwelcomeError(f"{self._broker} lets nobody in without {wanted}")
        principal = self._tokens.principal(token)
        if principal is None:
            raise UnwelcomeError(f"{self._broker} does not know this token")
        return principal

    def _check_broker(self, name: str, principal: str | None) -> None:
        if principal is not None and principal != name:
            raise UnwelcomeError(
                f"whoever says to be broker {name} has proved to be {principal}: the name of its "
                f"token or certificate must be {name}"
            )
        if name == self._broker:
            raise UnwelcomeError(f"there cannot be two brokers called {name} in a network")
        if name not in self._neighbours:
            raise UnwelcomeError(
                f"{name} is no neighbour of {self._broker}; for it to be one, {self._broker} "
                f"needs a line `{name} = {{}}` under [neighbours]"
            )


def _common_name(certificate: Mapping[str, Any]) -> str:
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName" and value and "/" not in value:
                return str(value)
    raise UnwelcomeError("the client certificate has no common name that could be a principal")
