"""TLS: how a client encrypts what it says, whom it believes to be the broker, and what it shows."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tidings.events import TidingsError
from tidings.protocol.addresses import Url


@dataclass(frozen=True)
class Certificates:
    """Files of certificates, in PEM format, that a client needs for TLS."""

    authority: str | Path | None = None
    """Who has signed the broker's certificate; without it, whom the system trusts."""
    certificate: str | Path | None = None
    """What the client shows to prove who it is, where a broker asks for it."""
    key: str | Path | None = None
    """The private key of `certificate`, if that is not in the same file."""


Tls: TypeAlias = ssl.SSLContext | Certificates | str | Path | None
"""A context, or files; a single one is the authority that has signed the broker's certificate."""


def tls_context(url: Url, tls: Tls) -> ssl.SSLContext | None:
    """How to encrypt, or None; `TidingsError` if the two contradict each other."""
    if url.is_encrypted:
        return trusting(tls)
    if tls is not None:
        raise TidingsError(
            "certificates are given, but the address says no TLS: write tidings+tls://"
        )
    return None


def trusting(tls: Tls) -> ssl.SSLContext:
    """How to encrypt; `TidingsError` if a file cannot be used."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    files = tls if isinstance(tls, Certificates) else Certificates(tls)
    try:
        authority = None if files.authority is None else str(files.authority)
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as problem:
        raise TidingsError(
            f"{files.authority}: cannot be used as a certificate authority: {_why(problem)}"
        ) from None
    if files.certificate is None:
        if files.key is not None:
            raise TidingsError(f"{files.key} is the key of a certificate: name that, too")
        return context
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as problem:
        and_key = "" if files.key is None else f" and {files.key}"
        raise TidingsError(
            f"{files.certificate}{and_key}: cannot be used as a certificate and its key, in PEM "
            f"format: {_why(problem)}"
        ) from None
    return context


def tls_trouble(problem: ssl.SSLError) -> str:
    """Why no TLS could be agreed on with a broker."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {problem.verify_message}"
    if problem.reason == "WRONG_VERSION_NUMBER":  # of what is no TLS at all
        return "the broker there speaks no TLS: write tidings:// instead of tidings+tls://"
    return f"no TLS can be agreed on: {problem.reason or problem}"


def _why(problem: OSError) -> str:
    if isinstance(problem, ssl.SSLError):
        return problem.reason or str(problem)
    return problem.strerror or str(problem)
