"""Admission: which principal is at the other end of a connection, and may it come in. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidings.broker.doors.certificates import Authorities, Shown
from tidings.broker.tokens import Grant, Tokens
from tidings.delivery.copies import EVERYBODY
from tidings.events import TidingsError
from tidings.protocol.wire import Hello

_LONGEST_NAME: Final = 256
"""Characters of the name of a session, at most."""


class UnwelcomeError(TidingsError):
    """A client or a broker may not come in, and why."""


@dataclass(frozen=True)
class Admitted:
    """Who may come in, and why."""

    principal: str
    grant: Grant | None = None
    """The token that was shown, if that is what counted: with its end, the connection ends."""


class Admission:
    """Whom a broker lets in.

    Clients prove who they are by a token, or by a certificate of their authority, if the broker
    knows of either; neighbours likewise, by theirs. If both are shown, the certificate counts. A
    broker that knows of no tokens and no authority believes everybody.
    """

    def __init__(
        self,
        broker: str,
        *,
        tokens: Callable[[], Tokens | None],
        authorities: Authorities,
        neighbours: Collection[str],
        deliverers: Collection[str] = (),
        erasers: Collection[str] = (),
    ) -> None:
        """`tokens` says which are known now; None if none are asked for."""
        self._broker = broker
        self._tokens = tokens
        self._authorities = authorities
        self._neighbours = neighbours
        self._deliverers = deliverers
        self._erasers = erasers

    def admit(self, hello: Hello, shown: Shown | None, now: float) -> Admitted:
        """Who says this, or `UnwelcomeError`."""
        if hello.role == "broker":
            admitted = self._neighbour(hello, shown, now)
            self._check_broker(hello.name, None if admitted is None else admitted.principal)
        elif hello.role == "client":
            admitted = self._client(hello, shown, now)
            if len(hello.name) > _LONGEST_NAME:
                raise UnwelcomeError(
                    f"the name of a session has at most {_LONGEST_NAME} characters"
                )
        else:
            raise UnwelcomeError(f"there are clients and brokers, but no {hello.role!r}")
        return admitted or Admitted(EVERYBODY)

    def may_deliver(self, principal: str) -> bool:
        """Whether a principal may publish copies for bulk subscribers.

        Where clients need not say who they are, all may.
        """
        return principal in self._deliverers or self._asks_nobody

    def may_erase(self, principal: str) -> bool:
        """Whether a principal may erase events, whoever has published them.

        Where neither tokens nor certificates are asked for, all may.
        """
        return principal in self._erasers or self._asks_nobody

    @property
    def _asks_nobody(self) -> bool:
        return not self._asks_clients

    @property
    def _asks_clients(self) -> bool:
        return self._tokens() is not None or self._authorities.admits_clients

    def _client(self, hello: Hello, shown: Shown | None, now: float) -> Admitted | None:
        if not self._asks_clients:
            return None
        if shown is not None and shown.is_client:
            return Admitted(_common_name(shown.content))
        if hello.token:
            return self._by_token(hello.token, now)
        if shown is not None:
            raise UnwelcomeError(
                f"this certificate is of the authority of {self._broker}'s neighbours "
                "(neighbour_authority), which lets no client in"
            )
        wanted = ["a token"] * (self._tokens() is not None)
        wanted += ["a client certificate"] * self._authorities.admits_clients
        raise UnwelcomeError(f"{self._broker} lets nobody in without {' or '.join(wanted)}")

    def _neighbour(self, hello: Hello, shown: Shown | None, now: float) -> Admitted | None:
        if not self._asks_clients and not self._authorities.admits_neighbours:
            return None
        if shown is not None and shown.is_neighbour:
            return Admitted(_common_name(shown.content))
        if hello.token:
            return self._by_token(hello.token, now)
        reason = f"{self._broker} lets no broker in without a token or a certificate"
        if not self._authorities.admits_neighbours:
            reason += (
                ": for one with certificates, it needs a `neighbour_authority` under [tls]"
                + (", since a client_authority is for clients alone" if shown is not None else "")
            )
        elif shown is not None:
            reason += " of its neighbour_authority; this one is of the client_authority"
        raise UnwelcomeError(reason)

    def _by_token(self, token: str, now: float) -> Admitted:
        grant = (self._tokens() or Tokens()).find(token)
        if grant is None:
            raise UnwelcomeError(f"{self._broker} does not know this token")
        expired = grant.expired(now)
        if expired is not None:
            raise UnwelcomeError(expired)
        return Admitted(grant.principal, grant)

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
    raise UnwelcomeError("the certificate that was shown has no common name to be known by")
