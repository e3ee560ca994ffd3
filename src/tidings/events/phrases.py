"""Phrases: how names, constants and conditions are spelt in the filter language.

The parser's counterpart: every constraint class writes itself as a `Phrase`, and phrases know
where they need parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from tidings.events.values import Truth, exact, time_text

OR_LEVEL: Final = 0
AND_LEVEL: Final = 1
ATOM_LEVEL: Final = 2


class Phrase(NamedTuple):
    """A piece of filter text and how tightly its outermost operator binds."""

    text: str
    level: int = ATOM_LEVEL


def any_of(phrases: Iterable[Phrase]) -> Phrase:
    """The phrases joined by OR."""
    return _joined(list(phrases), " OR ", OR_LEVEL)


def all_of(phrases: Iterable[Phrase]) -> Phrase:
    """The phrases joined by AND, in parentheses where they hold an OR."""
    return _joined(list(phrases), " AND ", AND_LEVEL)


def _joined(phrases: list[Phrase], word: str, level: int) -> Phrase:
    if len(phrases) == 1:
        return phrases[0]
    return Phrase(word.join(p.text if p.level >= level else f"({p.text})" for p in phrases), level)


def listed(values: Iterable[object]) -> str:
    """Constants in parentheses, as IN and the set operators take them."""
    return "(" + ", ".join(literal(v) for v in values) + ")"


_LONG_INTEGER = 10**15


def literal(value: object) -> str:
    """The canonical text of a constant in the filter language.

    >>> print(literal("it's"), literal(2.0), literal(True), literal(b"\\x01"))
    'it''s' 2 TRUE X'01'
    """
    if value is True or value is Truth.TRUE:
        return "TRUE"
    if value is False or value is Truth.FALSE:
        return "FALSE"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{time_text(value)}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    raise TypeError(f"no literal for {value!r}")


def quoted(text: str) -> str:
    """A string literal: quotes and backslashes are doubled."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def escaped_pattern(text: str) -> str:
    """A LIKE pattern that matches just `text`."""
    return re.sub(r"[\\%_]", r"\\\g<0>", text)


def _number(value: int | float) -> str:
    value = exact(value)
    if isinstance(value, float):
        return repr(value)
    if abs(value) < _LONG_INTEGER:
        return str(value)
    try:
        short = repr(float(value))
    except OverflowError:
        return str(value)
    return short if "e" in short and int(float(short)) == value else str(value)


_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
RESERVED: Final = re.compile("and|or|not|exists|true|false", re.IGNORECASE)  # ı and ſ are i and s


def name_text(name: str) -> str:
    """An attribute's name, in backticks where it needs them.

    >>> print(name_text("symbol"), name_text("exists"), name_text("a b"))
    symbol `exists` `a b`
    """
    if _NAME.fullmatch(name) and not RESERVED.fullmatch(name):
        return name
    return f"`{name.replace('`', '``')}`"
