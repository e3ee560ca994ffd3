"""TOML: where in a file something stands, and what is wrong with it, in the words of the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final, TypeAlias

import msgspec

Place: TypeAlias = tuple[str, ...]
"""Keys that lead to a value, the outermost first."""

# Lines are found by hand, since neither tomllib nor tomlkit says where a value stands. If one is
# not found, as in a text over several lines, no more than a line number is missing.
_PART: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[\w-]+")
_WHERE: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_UNCLOSED: Final = (
    "Found invalid character '\\n'",
    "Illegal character '\\n'",
    "Unterminated string",
    'Expected "\'"',
)
_KEY: Final = re.compile(rf"\s*((?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*)\s*=")


def line_of(text: str, place: Place) -> str:
    """`, line N` for where this stands, or as much of it as can be found; else nothing.

    >>> line_of('name = "a"\\n[limits]\\nframe = 0\\n', ("limits", "frame"))
    ', line 3'
    >>> line_of("limits = {frame = 0}", ("limits", "frame"))
    ', line 1'
    """
    for length in range(len(place), 0, -1):
        number = _find(text, place[:length])
        if number:
            return f", line {number}"
    return ""


def unreadable(problem: tomllib.TOMLDecodeError, text: str) -> str:
    """Where a text is no TOML, and why, in words that say what to do.

    >>> try:
    ...     tomllib.loads('store = "a"\\nname = "paris\\n')
    ... except tomllib.TOMLDecodeError as problem:
    ...     unreadable(problem, 'store = "a"\\nname = "paris\\n')
    ', line 2: a string has no end: a quote is missing'
    """
    said = _WHERE.fullmatch(str(problem))
    if said is None:
        return f": {problem}"
    what, line, column = said[1], said[2], said[3]
    if what in _UNCLOSED:
        what, column = "a string has no end: a quote is missing", None
    column = f", column {column}" if column else ""
    return f", line {line or _begins(str(problem), text)}{column}: {what}"


def _begins(said: str, text: str) -> int:
    """The line from which on it is wrong, if that was only noticed at the end."""
    lines = text.splitlines()
    for number in range(1, len(lines)):
        try:
            tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError as problem:
            if str(problem) == said:
                return number
    return max(1, len(lines))


def _find(text: str, place: Place) -> int:
    section: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+([^\]]+)\]", line):
            section = _keys(header[1])
            if section == place:
                return number
        elif key := _KEY.match(line):
            found = (*section, *_keys(key[1]))
            if found == place:
                return number
            if len(found) < len(place) and found == place[: len(found)]:
                return number  # inside a table on one line
    return 0


def _keys(dotted: str) -> Place:
    return tuple(key.strip("\"'") for key in _PART.findall(dotted))


def described(
    problem: msgspec.ValidationError,
    fields: Callable[[Place], Iterable[str]],
    begin: Place = (),
) -> tuple[Place, str]:
    """Where and what is wrong; `fields` says which keys may stand at a place.

    What was converted stands at the place `begin` of the file.
    """
    what, _, path = str(problem).partition(" - at ")
    place = (*begin, *re.findall(r"[^.\[\]$`]+", path))
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        return (*place, unknown[1]), nearest(unknown[1], fields(place))
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return place, f"`{missing[1]}` is missing" + (f" in {'.'.join(place)}" if place else "")
    what = what.replace("`", "")
    if "datetime" in what:
        what = "expected a time with its zone, like 2026-12-19T12:00:00Z"
    plain = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
    plain |= {"object": "a table", "array": "a list", "null": "nothing"}
    for word, meaning in plain.items():
        what = re.sub(rf"\b{word}\b", meaning, what)
    return place, f"{'.'.join(place)}: {what[0].lower()}{what[1:]}"


def nearest(name: str, names: Iterable[str]) -> str:
    """That there is no such key, which one may be meant, and which there are.

    >>> nearest("fram", ["frame", "memory"])
    "there is no key 'fram' (did you mean 'frame'?); there are frame, memory"
    """
    known = list(names)
    near = get_close_matches(name, known, n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    listed = f"; there are {', '.join(known)}" if len(known) <= 20 else ""
    return f"there is no key {name!r}{meant}{listed}"
