"""The one family of errors: what was wrong, where, and what would be right."""

from __future__ import annotations

from typing import Any


class TidingsError(Exception):
    """Every error that tidings raises on purpose is one of these."""


class NotificationError(TidingsError, ValueError):
    """Something cannot be a notification; `field` names the attribute at fault, if one is."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(f"attribute {field!r}: {message}" if field is not None else message)
        self.field = field


class SchemaError(TidingsError, ValueError):
    """A schema contradicts itself, or a notification or filter contradicts a schema."""


class FilterError(TidingsError, ValueError):
    """A filter's text is wrong: `line` and `column` (from 1) say where, `reason` what."""

    def __init__(self, reason: str, *, text: str, position: int) -> None:
        position = max(0, min(position, len(text)))
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        self.reason = reason
        self.line = text.count("\n", 0, position) + 1
        self.column = position - start + 1
        self.excerpt = _excerpt(text[start : end if end >= 0 else len(text)], position - start)
        super().__init__(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self.reason, self.__dict__))

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.reason}\n{self.excerpt}"


def _restored(reason: str, state: dict[str, Any]) -> FilterError:
    """A filter error from another process, which did not send the whole text."""
    error = FilterError(reason, text="", position=0)
    error.__dict__.update(state)
    return error


def _excerpt(line: str, column: int, *, around: int = 36) -> str:
    """The line with a caret under `column`, cut to a window that fits a terminal."""
    first = max(0, column - around)
    last = min(len(line), column + around)
    head = "…" if first > 0 else ""
    tail = "…" if last < len(line) else ""
    shown = "".join(c if c.isprintable() else "·" for c in line[first:last])
    return f"  {head}{shown}{tail}\n  {' ' * (column - first + len(head))}^"
