"""The file: what `tidings.toml` may say about a broker, all of it optional.

    name = "paris"                       # its stream is called so, too
    listen = "0.0.0.0:7411"
    store = "/var/lib/tidings"
    metrics = "127.0.0.1:9411"
    deliverers = ["pipeline"]            # who may run `tidings pipeline deliver` here
    erasers = ["privacy"]                # who may run `tidings erase` here
    schema = "schema.toml"               # which attributes there are
    [neighbours]
    london = "london.example:7411"       # or tidings+tls://…, or {address = "…", role = "child"}
    rome = {}                            # rome dials us
    [tls]
    certificate = "paris.pem"            # what we show to clients and neighbours
    key = "paris.key"
    client_authority = "clients.pem"     # whose certificates let clients in
    neighbour_authority = "brokers.pem"  # whose certificates neighbours show
    [tokens]                             # or above, tokens = "tokens.toml": read when it changes
    desk = "sha256:…"                    # as `tidings token desk` prints it
    [limits]
    connections = 5000
    [retention]
    age = "7d"
    size = "10GB"
    lake = "/srv/quotes"                 # what it lacks is not let go of

An error names the file, the line, what is wrong there and what would be right.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from tidings.broker.configuration.quantities import parse_duration, parse_size
from tidings.broker.configuration.tokens import TokenEntries, TokenEntry, check_tokens, grants
from tidings.broker.tokens import Tokens
from tidings.events import TidingsError
from tidings.events.toml import described, line_of, nearest, unreadable
from tidings.node import Settings
from tidings.overlay import Role
from tidings.protocol.addresses import Address, parse_address, parse_place

USUAL: Final = Path("tidings.toml")
"""The file that is read if no other is named."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What the name of a broker looks like."""
_FIXED: Final = ("at_most_once", "lease")
"""Settings of a node that a broker decides itself."""
_ROUTING: Final = {
    "backlog": 50_000.0,
    "check": 15.0,
    "check_most": 60.0,
    "pause": 10.0,  # a connection loses nothing, and a new one repeats at once
    "silence": 10.0,  # a broken connection is noticed at once; this is for one that hangs
}
"""Settings of a node that suit connections and months, where the file does not say otherwise."""

Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400 * 366)]


class NeighbourEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file says of a neighbour."""

    address: str | None = None
    """Where to reach it, as `host:port` or `tidings+tls://host:port`; without an address, it is the
    one that dials."""
    role: Role = "peer"
    """What it is to this broker, in a hierarchy."""
    own_token_file: str | None = None
    """The file with the token of this broker, which it shows to the neighbour when it dials, in the
    place of its certificate. (What the neighbour shows when *it* dials is known by its hash under
    [tokens].)"""
    server_name: str | None = None
    """The host that its certificate is made out to, if that is not the one in its address."""


class TLS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates. Paths are as seen from the configuration file."""

    certificate: str | None = None
    """What this broker shows to whoever connects, and to neighbours that it dials. With it, the
    broker speaks only TLS."""
    key: str | None = None
    """The private key of that certificate."""
    client_authority: str | None = None
    """The authority whose certificates let clients in: the common name is their principal."""
    neighbour_authority: str | None = None
    """The authority whose certificates neighbours show, those that are dialled and those that dial;
    the common name of one that dials is the name of its broker. Without it, one that is dialled is
    trusted as the system trusts web sites, and one that dials shows a token."""


class ClientLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may ask of a broker."""

    frame: Annotated[int, msgspec.Meta(ge=1024, le=1 << 30)] = 4 << 20
    """Bytes of a frame, at most."""
    attributes: Count = 1000
    """Attributes of a notification."""
    subscriptions: Count = 10_000
    """Subscriptions, watches and advertisements of a session, together."""
    connections: Count = 10_000
    """Connections of all clients; configured neighbours have places of their own."""
    memory: Annotated[int, msgspec.Meta(ge=16384, le=1 << 32)] = 4 << 20
    """Bytes that wait for a client to read them, before it is sent no more events."""
    publish_rate: Count | None = None
    """Events that a session may publish in a second; what comes faster is read later."""
    durables: Count = 1000
    """Durable subscriptions of a principal, whether they are read or not."""
    publishers: Count = 10_000
    """Names under which clients of a principal have published."""
    silence: Seconds = 30.0
    """Seconds until a silent client is asked for a sign of life, and again until it is cut off."""


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long events are kept: for ever, where this says nothing."""

    age: str | float | None = None
    size: str | int | None = None
    lake: str | None = None
    """The folder of a lake. Of what age and size would let go, only what the lake holds may go."""

    @property
    def seconds(self) -> float | None:
        """Events older than this are let go."""
        return None if self.age is None else parse_duration(self.age)

    @property
    def bytes(self) -> int | None:
        """The oldest events above this are let go."""
        return None if self.size is None else parse_size(self.size)


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a broker is to be like."""

    name: str = "broker"
    listen: str = "127.0.0.1:7411"
    store: str = "tidings-store"
    metrics: str | None = None
    schema: str | None = None
    """The file that declares attributes. A subscriber that asks for another one is warned."""
    drain: Seconds = 10.0
    """Seconds that clients and disk have to take what is left when the broker stops."""
    neighbours: dict[str, str | NeighbourEntry] = {}
    routing: dict[str, Any] = {}
    tls: TLS | None = None
    tokens: dict[str, TokenEntries] | str = {}
    """Who has which tokens; or the file that says so, which is read anew when it changes."""
    deliverers: list[str] = []
    """Principals that may publish copies for bulk subscribers, as `tidings pipeline deliver` does.
    Without tokens and certificates, all clients may."""
    erasers: list[str] = []
    """Principals that may erase events, as `tidings erase` does. Without tokens and certificates,
    all clients may."""
    limits: ClientLimits = ClientLimits()
    retention: Retention = Retention()

    @classmethod
    def load(cls, path: str | Path, **given: Any) -> Configuration:
        """Read a TOML file; `TidingsError` says where it is wrong. `given` overrides it."""
        return cls.parse(_read(path), file=str(path), **given)

    @classmethod
    def parse(cls, text: str, *, file: str = str(USUAL), **given: Any) -> Configuration:
        """Read a text in TOML, with relative paths as seen from the folder of the file."""
        plain = _toml(text, file)
        try:
            _convert_each(plain, "neighbours", str | NeighbourEntry)
            _convert_each(plain, "tokens", TokenEntries)
            found: Configuration = _converted(plain | given, cls)
            found.check()
        except _MisplacedError as problem:
            option = problem.place[0] if problem.place else ""
            where = f"--{option}" if option in given else f"{file}{line_of(text, problem.place)}"
            raise TidingsError(f"{where}: {problem}") from None
        seen = found._seen_from(Path(file).parent)
        paths = {"store": seen.store, "schema": seen.schema}
        return msgspec.structs.replace(
            seen, **{name: given.get(name, path) for name, path in paths.items()}
        )

    # -- what follows from it ------------------------------------------------------------------

    @property
    def address(self) -> Address:
        """Where it listens."""
        return parse_address(self.listen)

    @property
    def links(self) -> dict[str, NeighbourEntry]:
        """The neighbours, all in the long form."""
        return {
            name: NeighbourEntry(address=each) if isinstance(each, str) else each
            for name, each in self.neighbours.items()
        }

    @property
    def settings(self) -> Settings:
        """How its node routes. Neighbours agree on a tree, unless the file says otherwise: by
        `tree`, or by roles, since a hierarchy is a tree already."""
        is_graph = bool(self.neighbours) and not self._is_hierarchy
        fields = {"tree": is_graph, **_ROUTING, **self.routing}
        found: Settings = msgspec.convert(fields, Settings)
        return found

    @property
    def token_file(self) -> str | None:
        """The file that says who has which tokens, if there is one."""
        return self.tokens if isinstance(self.tokens, str) else None

    def known_tokens(self) -> Tokens | None:
        """The tokens that are known, by the file that says so if there is one; None if nobody is
        asked for any."""
        if isinstance(self.tokens, str):
            return load_tokens(self.tokens)
        return Tokens(grants(self.tokens)) if self.tokens else None

    @property
    def _is_hierarchy(self) -> bool:
        return any(each.role != "peer" for each in self.links.values())

    # -- what can be wrong ---------------------------------------------------------------------

    def check(self) -> None:
        """`TidingsError` if this cannot be."""
        _check(self._check_name, "name")
        _check(lambda: self.address, "listen")
        if self.metrics is not None:
            _check(lambda: parse_address(self.metrics or ""), "metrics")
        for name in self.neighbours:
            _check(lambda name=name: self._check_neighbour(name), "neighbours", name)
        _check(self._check_tls, "tls")
        self._check_routing()
        self._check_hierarchy()
        _check(lambda: self.retention.seconds, "retention", "age")
        _check(lambda: self.retention.bytes, "retention", "size")
        if isinstance(self.tokens, dict):
            _check_tokens(self.tokens)
        _check(self._check_exposure, "listen")
        _check(self._check_metrics, "metrics")

    def _check_name(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise TidingsError(
                f"a broker's name is 1 to 64 letters, digits, `_`, `.` and `-`, not {self.name!r}"
            )
        if self.neighbours and self.name == "broker":
            raise TidingsError('a broker with neighbours needs a name of its own: name = "…"')

    def _check_neighbour(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise TidingsError(f"{name!r} cannot be the name of a broker")
        if name == self.name:
            raise TidingsError(f"{name} is this broker itself")
        link = self.links[name]
        if link.address is not None:
            parse_place(link.address)

    def _check_tls(self) -> None:
        tls = self.tls
        if tls is None:
            return
        for one, other in (("certificate", "key"), ("key", "certificate")):
            if getattr(tls, one) is not None and getattr(tls, other) is None:
                raise TidingsError(f"`{one}` is given, and `{other}` is missing")
        if tls.client_authority is not None and tls.certificate is None:
            raise TidingsError(
                "clients show certificates only to a broker that shows one: client_authority "
                "needs `certificate` and `key`, too"
            )

    def _check_routing(self) -> None:
        known = [f for f in Settings.__struct_fields__ if f not in _FIXED]
        for key in self.routing:
            if key not in known:
                raise _MisplacedError(nearest(key, known), ("routing", key))
        try:
            _ = self.settings
        except msgspec.ValidationError as problem:
            place, what = described(problem, _fields, ("routing",))
            raise _MisplacedError(what, place) from None
        except TidingsError as problem:
            said = str(problem)
            key = next((k for k, v in self.routing.items() if k in said or str(v) in said), "")
            raise _MisplacedError(said, ("routing", key)) from None

    def _check_hierarchy(self) -> None:
        parents = [name for name, each in self.links.items() if each.role == "parent"]
        if len(parents) > 1:
            raise _MisplacedError(
                f"{parents[0]} and {parents[1]} cannot both be parents: a broker has at most one, "
                "by which it reaches all that is above it",
                ("neighbours", parents[1]),
            )
        if self._is_hierarchy and self.settings.tree:
            raise _MisplacedError(
                "brokers that agree on a tree have neither parent nor children: leave `tree` out, "
                "or the roles of neighbours",
                ("routing", "tree"),
            )

    def _check_exposure(self) -> None:
        if self.address.is_loopback or self.tokens:
            return
        if self.tls is not None and self.tls.client_authority is not None:
            return
        raise TidingsError(
            f"anybody who reaches {self.listen} could publish and listen. Say who may: add the "
            "lines that `tidings token NAME` prints, or a `client_authority` under [tls] for "
            "clients with certificates; or listen on 127.0.0.1"
        )

    def _check_metrics(self) -> None:
        if self.metrics is None or parse_address(self.metrics).is_loopback or self.tokens:
            return
        raise TidingsError(
            f"anybody who reaches {self.metrics} could read the numbers. Say who may: add the "
            "lines that `tidings token NAME` prints, and have Prometheus show that token; or "
            "serve them on 127.0.0.1"
        )

    def _seen_from(self, folder: Path) -> Configuration:
        """With paths that hold wherever the program was started."""
        changes: dict[str, Any] = {"store": str(folder / self.store)}
        if self.schema is not None:
            changes["schema"] = str(folder / self.schema)
        if isinstance(self.tokens, str):
            changes["tokens"] = str(folder / self.tokens)
        if self.tls is not None:
            given = msgspec.structs.asdict(self.tls)
            paths = {name: str(folder / path) for name, path in given.items() if path is not None}
            changes["tls"] = TLS(**paths)
        if self.retention.lake is not None:
            lake = str((folder / self.retention.lake).absolute())
            changes["retention"] = msgspec.structs.replace(self.retention, lake=lake)
        changes["neighbours"] = {
            name: msgspec.structs.replace(each, own_token_file=str(folder / each.own_token_file))
            if isinstance(each, NeighbourEntry) and each.own_token_file is not None
            else each
            for name, each in self.neighbours.items()
        }
        return msgspec.structs.replace(self, **changes)


class _MisplacedError(TidingsError):
    """Something is wrong at a place in the file."""

    def __init__(self, what: str, place: tuple[str, ...]) -> None:
        super().__init__(what)
        self.place = place


def _check(what: Any, *place: str) -> None:
    try:
        what()
    except _MisplacedError:
        raise
    except TidingsError as problem:
        raise _MisplacedError(str(problem), place) from None


def _converted(plain: Any, kind: Any, *place: str) -> Any:
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        where, what = described(problem, _fields, place)
        raise _MisplacedError(what, where) from None


def _convert_each(plain: dict[str, Any], section: str, kind: Any) -> None:
    """One by one, since of a table with any keys msgspec does not say which entry is wrong."""
    entries = plain.get(section, {})
    for name, each in entries.items() if isinstance(entries, dict) else ():
        _converted(each, kind, section, name)


def load_tokens(path: str) -> Tokens:
    """The tokens of a file of their own; `TidingsError` says where it is wrong."""
    text = _read(path)
    plain = _toml(text, path)
    try:
        for key in plain:
            if key != "tokens":
                raise _MisplacedError(nearest(key, ["tokens"]), (key,))
        _convert_each(plain, "tokens", TokenEntries)
        tokens = _converted(plain.get("tokens", {}), dict[str, TokenEntries], "tokens")
        _check_tokens(tokens)
    except _MisplacedError as problem:
        raise TidingsError(f"{path}{line_of(text, problem.place)}: {problem}") from None
    return Tokens(grants(tokens))


def _check_tokens(tokens: dict[str, TokenEntries]) -> None:
    for name, entries in tokens.items():
        _check(lambda name=name, entries=entries: check_tokens(name, entries), "tokens", name)


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as problem:
        raise TidingsError(f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise TidingsError(f"cannot read {path}: it is no text in UTF-8") from None


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise TidingsError(f"{file}{unreadable(problem, text)}") from None


def _fields(place: tuple[str, ...]) -> tuple[str, ...]:
    """Which keys may stand at a place."""
    kinds: dict[str, Any] = {
        "": Configuration,
        "tls": TLS,
        "limits": ClientLimits,
        "retention": Retention,
        "neighbours": NeighbourEntry,
        "tokens": TokenEntry,
    }
    kind = kinds.get(place[0] if place else "", Configuration)
    return tuple(kind.__struct_fields__)
