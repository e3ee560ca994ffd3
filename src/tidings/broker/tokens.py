"""Tokens: secrets by which clients and neighbours prove who they are; only hashes are kept.

A token is 256 random bits that `new_token` drew, never something a person chose. Nobody can guess
such a number, however fast the hash, so a plain SHA-256 is as good as a slow one (scrypt) and
costs a microsecond instead of a twentieth of a second: a slow hash would let a stranger
keep the broker busy, and five thousand clients that reconnect would wait for minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from secrets import token_urlsafe
from typing import Final

_BYTES: Final = 32
"""Random bytes in a token."""
_PREFIX: Final = "tidings_"
"""Makes a token that has leaked into a repository easy to find."""
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


def new_token() -> str:
    """A token that was never given out before."""
    return _PREFIX + token_urlsafe(_BYTES)


def hashed(token: str) -> str:
    """What a broker keeps of a token.

    >>> hashed("tidings_example")[:20]
    'sha256:8e200e65c1dfd'
    """
    return "sha256:" + sha256(token.encode()).hexdigest()


def is_hash(text: str) -> bool:
    """Whether this could have been made by `hashed`."""
    return _HASH.fullmatch(text) is not None


@dataclass(frozen=True)
class Grant:
    """What a broker knows of one token."""

    principal: str
    """Who shows it."""
    hash: str
    until: float = inf
    """When it expires, in seconds since 1970."""

    def expired(self, now: float) -> str | None:
        """A sentence, once it has expired."""
        if now < self.until:
            return None
        when = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (
            f"this token of {self.principal} expired at {when}; "
            f"`tidings token {self.principal}` makes another one"
        )


class Tokens:
    """Who has which tokens; somebody may have several.

    >>> token = new_token()
    >>> tokens = Tokens([Grant("desk", hashed(token), until=100.0)])
    >>> tokens.find(token).principal, tokens.find("guess")
    ('desk', None)
    >>> tokens.objection(tokens.find(token), now=99.0)
    >>> tokens.objection(tokens.find(token), now=100.0)
    'this token of desk expired at 1970-01-01T00:01:40Z; `tidings token desk` makes another one'
    """

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        # Looked up by hash: how long that takes tells nothing about any token.
        self._grants = {grant.hash: grant for grant in grants}

    def __len__(self) -> int:
        return len(self._grants)

    def find(self, token: str) -> Grant | None:
        """What is known of this token, if it is; it may have expired."""
        return self._grants.get(hashed(token))

    def objection(self, grant: Grant, now: float) -> str | None:
        """Why whoever was let in by a token may not stay, if so."""
        known = self._grants.get(grant.hash)
        if known is None or known.principal != grant.principal:
            return f"the token of {grant.principal} that was shown is not valid any longer"
        return known.expired(now)
