"""Tokens: how a configuration, or a file of its own, says who has which.

    [tokens]
    desk-7 = "sha256:…"
    prometheus = {hash = "sha256:…", until = 2026-12-19T12:00:00Z}
    london = ["sha256:…", {hash = "sha256:…", until = 2026-12-19T12:00:00Z}]

Whoever has several may show any of them, so a new one can come before the old one goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from tidings.broker.tokens import Grant, is_hash
from tidings.events import TidingsError


class TokenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One token, of which only the hash is known."""

    hash: str
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """When it expires."""


TokenEntries: TypeAlias = str | TokenEntry | list[str | TokenEntry]
"""The tokens of one principal: each a hash, or a hash and when it expires."""


def grants(tokens: Mapping[str, TokenEntries]) -> Iterator[Grant]:
    """The tokens, one by one."""
    for name, entries in tokens.items():
        for each in entries if isinstance(entries, list) else [entries]:
            if isinstance(each, str):
                yield Grant(name, each)
            elif each.until is None:
                yield Grant(name, each.hash)
            else:
                yield Grant(name, each.hash, each.until.timestamp())


def check_tokens(name: str, entries: TokenEntries) -> None:
    """`TidingsError` if a principal cannot be called so, or this is no hash of its token."""
    check_name(name)
    for grant in grants({name: entries}):
        if not is_hash(grant.hash):
            raise TidingsError(
                "this is no hash of a token, and tokens themselves do not belong here; "
                f"`tidings token {name}` prints a new token and the line for this file"
            )


def check_name(name: str) -> None:
    """`TidingsError` if a principal cannot be called so."""
    if not name or "/" in name or not name.isprintable():
        raise TidingsError(
            f"the name of whoever has a token has no `/` in it, and can be printed: {name!r}"
        )
