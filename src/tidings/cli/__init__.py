"""Commands: what `tidings` does in a terminal, one file for each; `commands` has their help.

A command reads its arguments, calls the library and writes text; nothing is decided here that a
program could not decide with the library alone. Whatever takes long to import is imported inside
the command that needs it, so that help and usage errors answer at once.
"""

__all__ = ["main"]


def main() -> None:
    """Run the command that the program's arguments name."""
    import sys

    try:
        from tidings.cli.app import app, have_streams

        have_streams()
        app(prog_name="tidings")
    except KeyboardInterrupt:  # before the command could hear it
        sys.exit(130)
    finally:
        _leave_quietly()


def _leave_quietly() -> None:
    """What is left to do is Python's, and an interrupt of that not worth a traceback."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
