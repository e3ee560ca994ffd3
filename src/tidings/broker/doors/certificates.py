"""Certificates: how a broker proves who it is, and whose proofs it believes."""

from __future__ import annotations

import ssl

from tidings.broker.configuration import TLS
from tidings.events import TidingsError


def accepting(tls: TLS, *, needs_certificate: bool) -> ssl.SSLContext:
    """For those who connect. They must show a certificate if nothing else says who they are."""
    context = _loaded(ssl.PROTOCOL_TLS_SERVER, tls)
    if tls.authority is not None:
        _trust(context, tls.authority)
        context.verify_mode = ssl.CERT_REQUIRED if needs_certificate else ssl.CERT_OPTIONAL
    return context


def dialling(tls: TLS | None) -> ssl.SSLContext:
    """For neighbours. They are trusted like the clients, or else as the system trusts."""
    context = ssl.create_default_context()
    if tls is not None:
        context = _loaded(ssl.PROTOCOL_TLS_CLIENT, tls)
        if tls.authority is not None:
            _trust(context, tls.authority)
        else:
            context.load_default_certs()
    return context


def _loaded(protocol: int, tls: TLS) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (tls.certificate, tls.key):
        _check_readable(path)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as problem:
        raise TidingsError(
            f"[tls]: {tls.certificate} and {tls.key} are no certificate and its key, "
            f"in PEM format: {problem.reason or problem}"
        ) from None
    return context


def _trust(context: ssl.SSLContext, authority: str) -> None:
    _check_readable(authority)
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as problem:
        raise TidingsError(
            f"[tls]: {authority} holds no certificate of an authority, in PEM format: "
            f"{problem.reason or problem}"
        ) from None


def _check_readable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as problem:
        raise TidingsError(f"[tls]: cannot read {path}: {problem.strerror}") from None
