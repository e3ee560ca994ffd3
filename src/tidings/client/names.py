"""Names: what programs call their sessions, subscriptions and tokens, and what cannot be one."""

from __future__ import annotations

from tidings.events import TidingsError


def check_name(what: str, name: object) -> None:
    """`TidingsError` if a name cannot be written: None is no name, and may be.

    A message that cannot be written would stay with its client, and so would all behind it.

    >>> check_name("name", "desk-7")
    >>> check_name("token", chr(0xD800))
    Traceback (most recent call last):
        ...
    tidings.events.errors.TidingsError: the token '\\ud800' holds half of a surrogate pair
    """
    if name is None:
        return
    if not isinstance(name, str):
        raise TidingsError(f"the {what} is a text, not a {type(name).__name__}")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise TidingsError(f"the {what} {name!a} holds half of a surrogate pair")
