"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

HERE: Final = "tidings://127.0.0.1:7411"
"""The broker that is asked if none is named."""

SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="A TOML file that declares attributes and event types.",
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="TIDINGS_URL",
        show_envvar=True,
        help="The broker: tidings://HOST:PORT, or several with commas, or tidings+tls://.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar="TIDINGS_TOKEN",
        show_envvar=True,
        help="Proves who you are; better in the environment than here, where others see it.",
    ),
]
Authority = Annotated[
    str | None,
    typer.Option(
        "--authority",
        metavar="FILE",
        help="With TLS: who signed the broker's certificate, if not a public authority.",
    ),
]
Master = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn, …",
    ),
]
MasterOrNone = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn, …; none: without Spark.",
    ),
]


def login(url: str, token: str | None, authority: str | None) -> Any:  # a `Login`, likewise
    """What to connect with; a broker that is not there is not waited for."""
    from tidings.client.login import Login

    return Login(url, token, authority, timeout=0.0)


def declared_in(path: Path | None) -> Any:  # a `Schema`, which is not imported before it is needed
    """What a file declares, if one is named."""
    if path is None:
        return None
    from tidings.events import Schema

    return Schema.load(path)
