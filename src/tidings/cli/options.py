"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer


def option(usage: str, help: str, **more: Any) -> Any:
    """An option, as its help shows it: `--store DIR`, or `--strict` if it takes no value."""
    flag, _, metavar = usage.partition(" ")
    return typer.Option(flag, metavar=metavar or None, help=help, **more)


def group(**more: Any) -> typer.Typer:
    """Commands that belong together.

    Plain help keeps examples as they are written, and needs no Rich to start.
    """
    return typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


def argument(metavar: str, help: str) -> Any:
    """An argument, as its help shows it."""
    return typer.Argument(metavar=metavar, help=help)


HERE: Final = "tidings://127.0.0.1:7411"
"""The broker that is asked if none is named."""

Config = Annotated[Path | None, option("--config FILE", "Else tidings.toml, if it is there.")]
SchemaFile = Annotated[
    Path | None, option("--schema FILE", "A TOML file that declares attributes and event types.")
]
Url = Annotated[
    str,
    option(
        "--url URL",
        "The broker: tidings://HOST:PORT, or several with commas, or tidings+tls://.",
        envvar="TIDINGS_URL",
        show_envvar=True,
    ),
]
Token = Annotated[
    str | None,
    option(
        "--token TOKEN",
        "Proves who you are; better in the environment than here, where others see it.",
        envvar="TIDINGS_TOKEN",
        show_envvar=True,
    ),
]
TokenFile = Annotated[
    Path | None,
    option(
        "--token-file FILE",
        "The file that the token is in, read for each connection.",
        envvar="TIDINGS_TOKEN_FILE",
        show_envvar=True,
    ),
]
Authority = Annotated[
    Path | None,
    option(
        "--authority FILE",
        "With TLS: who signed the broker's certificate, if not a public authority.",
        envvar="TIDINGS_AUTHORITY",
        show_envvar=True,
    ),
]
Certificate = Annotated[
    Path | None,
    option(
        "--certificate FILE",
        "With TLS: your own certificate, where the broker asks who you are.",
        envvar="TIDINGS_CERTIFICATE",
        show_envvar=True,
    ),
]
Key = Annotated[
    Path | None,
    option(
        "--key FILE",
        "The certificate's private key, if it is not in the same file.",
        envvar="TIDINGS_KEY",
        show_envvar=True,
    ),
]
Master = Annotated[
    str, option("--master MASTER", "Where Spark runs: local[*], spark://HOST:PORT, yarn, …")
]
MasterOrNone = Annotated[
    str,
    option(
        "--master MASTER",
        "Where Spark runs: local[*], spark://HOST:PORT, yarn, …; none: without Spark.",
    ),
]


def login(
    url: str,
    token: str | None,
    token_file: Path | None,
    authority: Path | None,
    certificate: Path | None,
    key: Path | None,
    *,
    wait: float = 0.0,
) -> Any:  # a `Login`, which is not imported before it is needed
    """What to connect with; without `wait`, a broker that is not there is not waited for."""
    from tidings.client import Certificates, Login
    from tidings.events.errors import TidingsError

    if token is not None and token_file is not None:
        raise TidingsError(
            "give --token or --token-file, not both; what TIDINGS_TOKEN and TIDINGS_TOKEN_FILE say "
            "counts, too"
        )
    files = [authority, certificate, key]
    tls = Certificates(*files) if any(file is not None for file in files) else None
    return Login(url, token if token_file is None else token_file, tls, timeout=wait)


def declared_in(path: Path | None) -> Any:  # a `Schema`, which is not imported before it is needed
    """What a file declares, if one is named."""
    if path is None:
        return None
    from tidings.events import Schema

    return Schema.load(path)
