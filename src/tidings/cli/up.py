"""`tidings up`: run a broker until somebody stops it. `tidings token`: let somebody in."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import typer

from tidings.broker.configuration import USUAL, Configuration, check_name
from tidings.broker.configuration.quantities import parse_duration
from tidings.broker.operations import diagnostics
from tidings.broker.retention import Archived
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.cli.complaints import counted, remark
from tidings.events import TidingsError

_log = logging.getLogger("tidings.broker")

_YOUNG: Final = 50_000
_LONGEST: Final = 100 * 365 * 86400.0


def run_broker(
    config: Path | None,
    *,
    listen: str | None,
    store: Path | None,
    name: str | None,
    schema: Path | None,
) -> None:
    """Run a broker; returns when it was stopped by SIGINT or SIGTERM."""
    if config is None and USUAL.exists():
        config = USUAL
    paths = {"store": store, "schema": schema}
    options = {"listen": listen, "name": name} | {
        option: None if path is None else str(path) for option, path in paths.items()
    }
    given = {option: value for option, value in options.items() if value is not None}
    configuration = (
        Configuration.parse("", **given) if config is None else Configuration.load(config, **given)
    )
    diagnostics.set_up(configuration.name)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(configuration))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # there is none for every platform
        return None
    return uvloop.new_event_loop


async def _run(configuration: Configuration) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    loop.set_exception_handler(_unexpected)
    broker = Broker(configuration, archived=_archived(configuration))
    await broker.start()
    # Events live for moments and tables for hours: look at the long-lived ones rarely.
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)
    typer.echo(ready(broker))
    await stopped.wait()
    remark(f"{broker.name} is shutting down; what was taken in is being kept and sent")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)  # a second one ends it at once
    await broker.stop()


def _archived(configuration: Configuration) -> Archived | None:
    """How to find out what the lake has of this broker's stream, if there is to be one."""
    if configuration.retention.lake is None:
        return None
    from tidings.lakes.committed import Committed

    return Committed(configuration.retention.lake, configuration.name)


def _unexpected(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A mistake of ours: it costs a connection at most, and must be seen."""
    problem = context.get("exception")
    if isinstance(problem, OSError):  # of a client that vanished, or failed to agree on TLS
        _log.info("%s: %s", context.get("message"), problem)
    else:
        _log.error("%s", context.get("message"), exc_info=problem)


def ready(broker: Broker) -> str:
    """The line that says that a broker is up."""
    host, scheme = broker.host, "tidings+tls" if broker.is_encrypted else "tidings"
    kept = host.last - host.first + 1
    line = f"{broker.name} listens on {scheme}://{broker.address}, "
    line += f"store {broker.configuration.store}, {counted(kept, 'event')} kept"
    if broker.metrics_address is not None:
        line += f", metrics on http://{broker.metrics_address}/metrics"
    return line


def print_token(name: str, lasting: str | None) -> None:
    """Print a new token, and what a broker needs to know of it."""
    token = new_token()
    check_name(name)
    known, end = f'"{hashed(token)}"', ""
    if lasting is not None:
        until = datetime.now(UTC) + timedelta(seconds=_duration(lasting))
        end = f"{until:%Y-%m-%dT%H:%M:%SZ}"
        known = f"{{hash = {known}, until = {end}}}"
    lasts = f", until {end}" if end else ""
    typer.echo(f"The token of {name}; whoever has it is {name}{lasts}. It is not kept anywhere:")
    typer.echo(f"\n  {token}\n")
    typer.echo("For tidings.toml, or the file of tokens, of each broker that is to let it in:")
    typer.echo(f"\n  [tokens]\n  {quoted(name)} = {known}\n")


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > _LONGEST:
        raise TidingsError("a token that lasts longer than a hundred years needs no --for")
    return seconds


def quoted(name: str) -> str:
    """As a key of TOML."""
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
