"""`tidings durables`: a principal's durable subscriptions, and what can be done with them."""

from __future__ import annotations

from tidings.cli.complaints import connection_told, counted, remark
from tidings.client import Durable, Login
from tidings.events import TidingsError

_COLUMNS = ("name", "owner", "home", "lag", "last seen", "state", "filter", "cursor")


def show_durables(login: Login) -> int:
    """Print them; the exit code is 1 if there are brokers that could not be asked."""
    with login.plain(on_status=connection_told()) as client:
        found, unasked = client.durables()
    if found:
        rows = [_COLUMNS, *map(_row, found)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
    remark(counted(len(found), "durable subscription"))
    if unasked:
        remark(f"there may be more at {', '.join(unasked)}, which cannot be asked now")
    return 1 if unasked else 0


def _row(durable: Durable) -> tuple[str, ...]:
    return (
        *(durable.name, durable.owner, durable.home, f"{durable.lag:,}", _seen(durable)),
        *("paused" if durable.is_paused else "active", str(durable.filter), durable.cursor),
    )


def _seen(durable: Durable) -> str:
    """When it was read last: its home counts the days on which it runs."""
    if durable.is_read:
        return "now"
    return f"{counted(durable.idle, 'day')} ago" if durable.idle else "today"


def seek(name: str, since: str, login: Login) -> None:
    """Set one back or ahead."""
    with login.plain(on_status=connection_told()) as client:
        client.seek(name, since)
    remark(f"{name} goes on from {since}")


def pause(name: str, login: Login) -> None:
    """Have one told nothing."""
    with login.plain(on_status=connection_told()) as client:
        client.pause(name)
    remark(f"{name} is paused; tidings durables resume {name} lets it go on")


def resume(name: str, login: Login) -> None:
    """Let one go on."""
    with login.plain(on_status=connection_told()) as client:
        client.resume(name)
    remark(f"{name} goes on")


def forget(name: str, login: Login) -> None:
    """Let brokers forget one; `TidingsError` if there is none of this name."""
    with login.plain(on_status=connection_told()) as client:
        if not client.forget(name):
            raise TidingsError(f"no broker knows a durable subscription {name!r}")
    remark(f"{name} is forgotten")
