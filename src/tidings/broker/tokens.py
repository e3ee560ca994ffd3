"""Tokens: secrets by which clients and neighbours prove who they are; only hashes are kept.

A token is 256 random bits that `new_token` drew, never something a person chose. Nobody can guess
such a number, however fast the hash, so a plain SHA-256 is as good as a slow one (scrypt) and
costs a microsecond instead of a twentieth of a second: a slow hash would let a stranger
keep the broker busy, and five thousand clients that reconnect would wait for minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
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


class Tokens:
    """Who has which token.

    >>> token = new_token()
    >>> tokens = Tokens({"desk": hashed(token)})
    >>> tokens.principal(token), tokens.principal("guess")
    ('desk', None)
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        # Looked up by hash: how long that takes tells nothing about any token.
        self._names = {hash: name for name, hash in hashes.items()}

    def __len__(self) -> int:
        return len(self._names)

    def principal(self, token: str) -> str | None:
        return self._names.get(hashed(token))
