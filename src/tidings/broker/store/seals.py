"""Seals: a checksum before whatever is kept, so that nothing else is ever taken for it."""

from __future__ import annotations

import zlib


class Damage(Exception):  # noqa: N818 - it is told as a `StoreError`, which names the file
    """Something in the store is not what was written."""


def seal(content: bytes, *label: object) -> bytes:
    """The content behind its checksum, which also covers the place where it belongs."""
    return zlib.crc32(content, zlib.crc32(repr(label).encode())).to_bytes(4, "big") + content


def unseal(sealed: object, *label: object) -> bytes:
    """What was sealed with this label; `Damage` if it is not that any more."""
    if not isinstance(sealed, bytes) or seal(sealed[4:], *label) != sealed:
        raise Damage("a checksum is wrong")
    return sealed[4:]
