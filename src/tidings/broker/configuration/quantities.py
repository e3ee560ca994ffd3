"""Quantities: times and sizes as people write them."""

from __future__ import annotations

import re
from typing import Final

from tidings.events import TidingsError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES: Final = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_duration(text: str | float) -> float:
    """Seconds.

    >>> parse_duration("7d"), parse_duration("1.5h"), parse_duration(90)
    (604800.0, 5400.0, 90.0)
    """
    return _parse(text, _SECONDS, "a time above 0 like 90s, 15m, 12h, 7d or 2w")


def parse_size(text: str | int) -> int:
    """Bytes.

    >>> parse_size("10GB"), parse_size("1 MiB"), parse_size(512)
    (10000000000, 1048576, 512)
    """
    return int(_parse(text, _BYTES | _BINARY, "a size above 0 like 500MB, 10GB or 2TB"))


def _parse(text: str | float, units: dict[str, int], expected: str) -> float:
    if isinstance(text, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text.strip())
        number = float(found[1]) * units[found[2]] if found and found[2] in units else 0.0
    else:
        number = float(text)
    if not 0 < number < 1e18:
        raise TidingsError(f"expected {expected}, not {text!r}")
    return number
