"""Certificates: how a broker proves who it is, and whose proofs it believes.

Two authorities are kept apart: one signs what clients show, one what neighbours show. A handshake
accepts what either has signed; `Shown` says which of them it was.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidings.broker.configuration import TLS
from tidings.events import TidingsError

_PEM: Final = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL | re.ASCII
)


@dataclass(frozen=True)
class Shown:
    """The certificate at the other end of a connection, which has proved to be valid."""

    content: Mapping[str, Any]
    """Its fields, as `ssl` has them."""
    is_client: bool = False
    """Whether the authority of clients has signed it."""
    is_neighbour: bool = False
    """Whether the authority of neighbours has."""


class Authorities:
    """Who signs the certificates of clients, and who those of neighbours."""

    def __init__(self, tls: TLS | None) -> None:
        self._clients = _certificates(None if tls is None else tls.client_authority)
        self._neighbours = _certificates(None if tls is None else tls.neighbour_authority)

    @property
    def admits_clients(self) -> bool:
        """Whether a client can prove by a certificate who it is."""
        return bool(self._clients)

    @property
    def admits_neighbours(self) -> bool:
        """Whether a neighbour that dials can."""
        return bool(self._neighbours)

    def shown(self, tls: ssl.SSLObject | None) -> Shown | None:
        """What the other end has shown; None if it was nothing."""
        content = None if tls is None else tls.getpeercert()
        if tls is None or not content:
            return None
        chain = _verified(tls)
        return Shown(
            content, not chain.isdisjoint(self._clients), not chain.isdisjoint(self._neighbours)
        )


def accepting(tls: TLS) -> ssl.SSLContext:
    """For those who connect. Who shows no certificate may still greet, and is told what is missing;
    TLS alone would only hang up."""
    context = _loaded(ssl.PROTOCOL_TLS_SERVER, tls)
    # A conversation that is resumed would not say again who has signed the certificate.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    authorities = {tls.client_authority, tls.neighbour_authority} - {None}
    for authority in authorities:
        _trust(context, authority)
    if authorities:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def dialling(tls: TLS | None, *, shows_certificate: bool) -> ssl.SSLContext:
    """For neighbours, whose authority is theirs alone; without one, as the system trusts."""
    if tls is None:
        return ssl.create_default_context()
    shown = tls if shows_certificate else TLS()
    context = _loaded(ssl.PROTOCOL_TLS_CLIENT, shown)
    if tls.neighbour_authority is not None:
        _trust(context, tls.neighbour_authority)
    else:
        context.load_default_certs()
    return context


def _loaded(protocol: int, tls: TLS) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate is None or tls.key is None:
        return context
    for path in (tls.certificate, tls.key):
        _read(path)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as problem:
        raise TidingsError(
            f"[tls]: {tls.certificate} and {tls.key} are no certificate and its key, "
            f"in PEM format: {problem.reason or problem}"
        ) from None
    return context


def _trust(context: ssl.SSLContext, authority: str | None) -> None:
    for each in _certificates(authority):
        context.load_verify_locations(cadata=each)


def _certificates(path: str | None) -> frozenset[bytes]:
    """The certificates of an authority, in DER."""
    if path is None:
        return frozenset()
    try:
        text = _read(path).decode("ascii", "replace")
        found = frozenset(ssl.PEM_cert_to_DER_cert(each) for each in _PEM.findall(text))
        check = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for each in found:
            check.load_verify_locations(cadata=each)
    except (ssl.SSLError, ValueError) as problem:
        raise _no_authority(path, str(getattr(problem, "reason", "") or problem)) from None
    if not found:
        raise _no_authority(path, "there is none in it")
    return found


def _no_authority(path: str, why: str) -> TidingsError:
    return TidingsError(f"[tls]: {path} holds no certificate of an authority, in PEM format: {why}")


def _verified(tls: Any) -> frozenset[bytes]:
    """The certificates, in DER, by which the one that was shown has proved to be valid."""
    if hasattr(tls, "get_verified_chain"):
        return frozenset(tls.get_verified_chain())
    # Before Python 3.13 only the object inside knows, and it has no bytes at hand.
    chain = tls._sslobj.get_verified_chain() or ()
    return frozenset(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise TidingsError(f"[tls]: cannot read {path}: {problem.strerror}") from None
