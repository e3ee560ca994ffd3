"""Tokens: what a client shows to prove who it is, given as it is or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from tidings.client.names import check_name
from tidings.events import TidingsError

Token: TypeAlias = str | Path | None
"""A token, or the file that it is in, which is read for each connection."""


def token_of(token: Token) -> str | None:
    """The token to show now; `TidingsError` if its file cannot be read."""
    if not isinstance(token, Path):
        check_name("token", token)
        return token
    try:
        found = token.read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise TidingsError(f"cannot read the token in {token}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise TidingsError(f"there is no token in {token}: it is no text in UTF-8") from None
    if not found:
        raise TidingsError(f"there is no token in {token}: it is empty")
    return found
