"""The terminal: how commands write text to it."""

from __future__ import annotations

from rich.console import Console


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit by itself; let the one handler of all commands do it."""
        raise BrokenPipeError


def output() -> Console:
    """Where a command's answer goes: styled in a terminal, plain text elsewhere.

    Long lines are left to the terminal to wrap, so that filters can be copied from it.
    """
    return _Output(highlight=False, markup=False, soft_wrap=True, emoji=False)
