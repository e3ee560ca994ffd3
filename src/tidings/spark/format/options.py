"""Options: what a user of the format "tidings" may say, checked before anything begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext
from typing import Final, Literal, cast
from urllib.parse import unquote, urlsplit

from tidings.client import Certificates, Login
from tidings.events import Filter, TidingsError
from tidings.protocol.addresses import DEFAULT_URL, parse_url
from tidings.protocol.cursors import beginning
from tidings.protocol.requests import Since
from tidings.spark.archiving.archive import IN_MEMORY
from tidings.spark.streams.absence import OnGap

_BOTH: Final = (
    *("url", "token", "tokenFile", "timeout"),
    *("authority", "certificate", "certificateKey"),  # for TLS
)
_READING: Final = (
    *_BOTH,
    "filter",
    "since",
    "until",
    "maxEventsPerTrigger",
    "onGap",
    "onMismatch",
    "partitionTicks",
    "schemaOf",
    "lake",  # instead of a broker: see `lake_reader`
)
_DELIVERING: Final = ("subscriptions", "deliver", "deadLetters")
"""What `tidings.spark.deliver` says when it reads; others have no need to."""
AS_OF: Final = "asOf"
"""What `tidings.spark.events` has fixed: the bounds of a batch, or the version of a lake."""
_UNTOLD: Final = (*_DELIVERING, AS_OF)
_OF_STREAMS: Final = ("maxEventsPerTrigger", *_DELIVERING)
_WRITING: Final = (*_BOTH, "staging", "deadLetters", "maxEventBytes", "advertise", "key")
_AT_A_TIME: Final = 1_000_000
"""Whatever has gathered, a batch of a stream has no more ticks, so that it ends before long."""
_SPARKS: Final = frozenset({"checkpointlocation", "queryname"})
"""What Spark itself says to every format."""


@dataclass(frozen=True)
class ReadOptions:
    """What to read, and how."""

    login: Login
    filter: Filter
    since: Since
    until: Since
    most: int
    """Ticks of a batch of a stream, at most."""
    on_gap: OnGap
    on_mismatch: Literal["null", "fail"]
    partition: int
    """Ticks of a stream that make a task of a batch."""
    subscriptions: str | None = None
    """A lake of registrations: only what they want is read, and which of them want it."""
    deliver: bool = False
    """Whether to publish what is wanted for those who want it; rows are then counts."""
    dead_letters: str | None = None
    """Where deliveries go that cannot be published."""


@dataclass(frozen=True)
class WriteOptions:
    """Where to publish, and what to keep for it."""

    login: Login
    staging: str | None
    """A folder that the driver and all workers can reach."""
    dead_letters: str | None
    most: int
    """A row of more bytes is no notification."""
    advertise: Filter | None
    """What to say first that will be published."""
    key: tuple[str, ...]
    """The columns by which a row is known that is not published."""


def reading(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """The options of a source; `TidingsError` says what is wrong with them."""
    said = _known(options, _READING, more=_UNTOLD)
    if is_stream and "until" in said:
        raise TidingsError("option until: a stream has no end; read a batch, or leave it out")
    if not is_stream and "maxEventsPerTrigger" in said:
        raise TidingsError("option maxEventsPerTrigger: a batch is read as a whole; leave it out")
    if not is_stream and "subscriptions" in said:
        raise TidingsError("option subscriptions: of a stream only; for a batch, there is match")
    deliver = _one_of(said, "deliver", ("false", "true")) == "true"
    if deliver:
        _check_delivering(said)
    elif "deadLetters" in said:
        raise TidingsError(
            "option deadLetters: reading publishes nothing that could be refused, but with "
            "deliver = true; leave it out"
        )
    return ReadOptions(
        login=_login(said),
        filter=Filter.parse(said["filter"]) if "filter" in said else Filter.all(),
        since=_place("since", said, None if is_stream else "begin"),
        until=_place("until", said, None),
        most=_count("maxEventsPerTrigger", said.get("maxEventsPerTrigger", str(_AT_A_TIME))),
        on_gap=cast(OnGap, _one_of(said, "onGap", ("fail", "continue"))),
        on_mismatch=cast(Literal["null", "fail"], _one_of(said, "onMismatch", ("null", "fail"))),
        partition=_count("partitionTicks", said.get("partitionTicks", "100000")),
        subscriptions=_folder("subscriptions", said),
        deliver=deliver,
        dead_letters=_folder("deadLetters", said),
    )


def columns(options: Mapping[str, str]) -> tuple[bool, bool, str | None]:
    """Whether events are judged, and delivered; and a lake whose columns to read."""
    said = _known(options, _READING, more=_UNTOLD)
    return "subscriptions" in said, said.get("deliver") == "true", _folder("schemaOf", said)


def may_be_batch(options: Mapping[str, str]) -> bool:
    """Whether these may be the options of a batch to read.

    Spark makes a source for whatever it is used for, and does not say for what. A sink that is
    given no option of its own cannot be told from a batch of all that a broker keeps.
    """
    others = {*_OF_STREAMS, *_WRITING, *_SPARKS} - {*_BOTH}
    return {name.lower() for name in options}.isdisjoint(name.lower() for name in others)


def writing(options: Mapping[str, str]) -> WriteOptions:
    """The options of a sink; `TidingsError` says what is wrong with them."""
    said = _known(options, _WRITING)
    login = _login(said)
    _check_single(login)
    checkpoint = options.get("checkpointLocation")
    folder = said.get("staging") or (None if checkpoint is None else f"{checkpoint}/tidings")
    return WriteOptions(
        login=login,
        staging=None if folder is None else folder_of("staging", folder),
        dead_letters=_folder("deadLetters", said),
        most=_count("maxEventBytes", said.get("maxEventBytes", str(1 << 20))),
        advertise=Filter.parse(said["advertise"]) if "advertise" in said else None,
        key=tuple(name.strip() for name in said["key"].split(",")) if "key" in said else (),
    )


def _check_delivering(said: Mapping[str, str]) -> None:
    for needed in ("subscriptions", "deadLetters"):
        if needed not in said:
            raise TidingsError(f"option deliver: it needs the option {needed}, too")
    _check_single(_login(said))


def _check_single(login: Login) -> None:
    if len(parse_url(login.url).addresses) > 1:
        raise TidingsError(
            f"option url: {login.url} names several brokers, but only one of them can know what "
            "was published already; give one"
        )


def _known(
    options: Mapping[str, str], names: Sequence[str], *, more: Sequence[str] = ()
) -> dict[str, str]:
    """What was said, under our names: Spark does not tell upper from lower case.

    `TidingsError` if there is no such option; of `more`, users need not know.
    """
    spelt = {name.lower(): name for name in (*names, *more)}
    for option in options:
        refuse_path(option)
        if option.lower() not in spelt and option.lower() not in _SPARKS:
            raise TidingsError(f"there is no option {option!r}; there are {', '.join(names)}")
    return {spelt[o.lower()]: text for o, text in options.items() if o.lower() in spelt}


def refuse_path(option: str) -> None:
    """`TidingsError` if an option is what `load` and `save` were given, as if all were a file."""
    if option.lower() == "path":
        raise TidingsError(
            "option path: there is nothing at a path; use the option url for a broker, or lake for "
            "the folder of a lake to read"
        )


def _login(said: Mapping[str, str]) -> Login:
    url = said.get("url", DEFAULT_URL)
    parse_url(url)
    text = said.get("timeout", "30")
    try:
        timeout = float(text)
    except ValueError:
        timeout = -1.0
    if not 0 < timeout < 1e6:
        raise TidingsError(f"option timeout: {text!r} is no number of seconds")
    if "token" in said and "tokenFile" in said:
        raise TidingsError("options token and tokenFile: give one of them")
    file = _folder("tokenFile", said)
    token = said.get("token") if file is None else Path(file)
    names = ("authority", "certificate", "certificateKey")
    files = Certificates(*(_folder(name, said) for name in names))
    return Login(url, token, None if files == Certificates() else files, timeout)


def spoken(login: Login) -> dict[str, str]:
    """The options that say how to log in; nothing of the time-out."""
    files = login.tls
    if isinstance(files, SSLContext):
        raise TidingsError(IN_MEMORY)
    files = files if isinstance(files, Certificates) else Certificates(files)
    found = {
        "url": login.url,
        "tokenFile" if isinstance(login.token, Path) else "token": login.token,
        "authority": files.authority,
        "certificate": files.certificate,
        "certificateKey": files.key,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _place(name: str, said: Mapping[str, str], default: Since) -> Since:
    text = said.get(name)
    try:
        return default if text is None else beginning(text)
    except TidingsError as problem:
        raise TidingsError(f"option {name}: {problem}") from None


def _count(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise TidingsError(f"option {name}: {text!r} is no whole number from 1 on")
    return int(text)


def _one_of(said: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = said.get(name, choices[0])
    if text not in choices:
        raise TidingsError(f"option {name}: {text!r} is none of {', '.join(choices)}")
    return text


def _folder(name: str, said: Mapping[str, str]) -> str | None:
    return folder_of(name, said[name]) if name in said else None


def folder_of(name: str, text: str) -> str:
    """A path of the file system: all that happens there happens by renaming files.

    It is absolute, since workers have working directories of their own.
    """
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = unquote(parts.path)
    elif parts.scheme:
        raise TidingsError(
            f"option {name}: {text!r} is no folder of a file system; give one that the driver "
            "and all workers can reach"
        )
    return str(Path(text).absolute())


def time_text(seconds: float) -> str:
    """A time in seconds since 1970, as an offset holds it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
