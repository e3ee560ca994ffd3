"""A file of filters, and the index that a process makes of it once.

The file holds the filters as the arrays that an index is laid out from (see `matching.source`),
so that a process that wants the index of a million does not read a million filters first: it maps
the file, which it shares with all others on the machine, and lays the index out::

    a line of JSON      format, version, the lines (attribute and domain), where the arrays lie
    a line of JSON      interned values, and constraints that arrays don't express
    arrays              end to end, each at a multiple of 64 bytes

Its name ends in a digest of its content, so a file of one name never changes, and a process that
has made an index of it keeps it for the next batch and the next query. Nothing here knows of Spark.
"""

from __future__ import annotations

import mmap
import threading
import uuid
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.events import Conjunction, Constraint, Filter, TidingsError
from tidings.events.encoding import decode_json, encode_json, from_plain, to_plain
from tidings.events.strings import NO_TYPES, Types
from tidings.events.values import element, scalar
from tidings.matching.lines import Lines
from tidings.matching.named import NamedIndex, Names, names_of
from tidings.matching.source import FILTERS, NEVER, Source

FORMAT: Final = "tidings filters"
VERSION: Final = 2
_KEPT: Final = 4
"""Files of which a process keeps the indexes: those that were asked last."""
_ALIGNED: Final = 64


def write(filters: Mapping[Any, Filter], folder: Path) -> Path:
    """Write the filters to a file in the folder; equal ones have the same name in a process."""
    pieces = _packed(filters)
    path = folder / f"tidings-filters-{_digest(pieces)}.bin"
    if not path.exists():
        unfinished = path.with_suffix(f".{uuid.uuid4().hex}")  # others may write it now, too
        with unfinished.open("wb") as file:
            file.writelines(pieces)
        unfinished.replace(path)  # it is there whole, or not at all
    return path


def _packed(filters: Mapping[Any, Filter]) -> list[bytes]:
    lines = Lines()
    source = Source.encode(enumerate(filters.values()), lines)
    names = names_of(list(filters))
    arrays: dict[str, Any] = {name: getattr(source, name) for name in FILTERS}
    buffers = enumerate(names.buffers())
    arrays |= {f"names {n}": np.frombuffer(b, np.uint8) for n, b in buffers if b is not None}
    places: dict[str, tuple[str, int, int]] = {}
    at = 0
    for name, array in arrays.items():
        places[name] = (array.dtype.str, at, len(array))
        at += -(-array.nbytes // _ALIGNED) * _ALIGNED
    head = {
        "format": FORMAT,
        "version": VERSION,
        "filters": len(filters),
        "names": str(names.type),
        "lines": [[line.attribute, line.domain, line.elements] for line in lines.lines],
        "arrays": places,
    }
    pieces = [encode_json(head).encode(), b"\n", _values(source, lines), b"\n"]
    pieces.append(bytes(-sum(map(len, pieces)) % _ALIGNED))
    for array in arrays.values():
        pieces += [array.tobytes(), bytes(-array.nbytes % _ALIGNED)]
    return pieces


def _values(source: Source, lines: Lines) -> bytes:
    """What is no array: interned values, and the constraints of conjunctions, each once."""
    types: dict[int, tuple[int, Types]] = {}
    distinct: dict[tuple[str, int | None], int] = {}
    rest: dict[str, list[int]] = {}
    for conj, unsaid in source.rest.items():
        numbers = rest[str(conj)] = []
        for name, constraint in unsaid:
            known = constraint.types
            number = types.setdefault(id(known), (len(types), known))[0] if len(known) else None
            plain = encode_json(Conjunction({name: constraint}).to_plain())
            numbers.append(distinct.setdefault((plain, number), len(distinct)))
    said = {
        "interned": [to_plain(scalar(value)) for value in lines.interned],
        "types": [known.parents for _, known in types.values()],
        "constraints": list(distinct),
        "rest": rest,
    }
    return encode_json(said).encode()


class FilterFile:
    """A file of filters; `TidingsError` if it is damaged, or of a version we do not know."""

    def __init__(self, path: Path) -> None:
        content = self._content(path)
        if path.stem.rpartition("-")[2] != _digest([content]):
            raise TidingsError(f"{path}: its content is not what its name says; it is damaged")
        first = content.find(b"\n")
        about = decode_json(content[:first])
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            raise TidingsError(
                f"{path}: expected {FORMAT!r} of version {VERSION}, found "
                f"{about.get('format')!r} of version {about.get('version')!r}"
            )
        second = content.find(b"\n", first + 1)
        values = decode_json(content[first + 1 : second])
        begin = -(-(second + 1) // _ALIGNED) * _ALIGNED
        arrays: dict[str, Any] = {
            name: np.frombuffer(content, kind, count, begin + at)
            for name, (kind, at, count) in about["arrays"].items()
        }
        count = about["filters"]
        buffers = [
            pa.py_buffer(arrays[f"names {n}"]) if f"names {n}" in arrays else None
            for n in range(3 if about["names"] == "string" else 2)
        ]
        kind = pa.string() if about["names"] == "string" else pa.int64()
        self.names: Names = pa.Array.from_buffers(kind, count, buffers)
        self.lines = Lines()
        for attribute, domain, elements in about["lines"]:
            self.lines.new_line(attribute, domain, elements=elements)
        for value in values["interned"]:
            self.lines.intern(value if value.__class__ is str else element(from_plain(value)))
        self.source = Source(
            keys=np.arange(count, dtype=np.int32),
            died=np.full(count, NEVER, np.int64),
            rest=_rest(values),
            **{name: arrays[name] for name in FILTERS},
        )

    @staticmethod
    def _content(path: Path) -> Any:
        try:
            with path.open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as problem:
            raise TidingsError(f"{path}: {problem.strerror}") from None
        except ValueError:  # it is empty
            return b""


def _rest(values: dict[str, Any]) -> dict[int, list[tuple[str, Constraint]]]:
    hierarchies = [Types(parents) for parents in values["types"]]
    constraints: list[tuple[str, Constraint]] = []
    for plain, number in values["constraints"]:
        types = NO_TYPES if number is None else hierarchies[number]
        conjunction = Conjunction.from_plain(decode_json(plain), types)
        assert conjunction is not None
        constraints += conjunction.constraints.items()
    return {
        int(conj): [constraints[number] for number in numbers]
        for conj, numbers in values["rest"].items()
    }


def read(path: Path) -> dict[Any, Filter]:
    """What `write` wrote; `TidingsError` if it is damaged, or of a version we do not know."""
    held = FilterFile(path)
    names = held.names.to_pylist()
    return {name: held.source.filter(row, held.lines) for row, name in enumerate(names)}


def keys(path: Path) -> list[Any]:
    """The keys in a file, in their order."""
    found: list[Any] = FilterFile(path).names.to_pylist()
    return found


def _digest(pieces: Iterable[Any]) -> str:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


_indexes: dict[str, NamedIndex] = {}
_lock = threading.Lock()


def index_of(path: Path, *, alone: bool = False) -> NamedIndex:
    """The index of a file's filters, made by the first call in this process.

    If it is to be alone, all others are dropped before it is made.
    """
    with _lock:
        found = _indexes.pop(path.name, None)
        if alone:
            _indexes.clear()
        if found is None:
            held = FilterFile(path)
            found = NamedIndex.laid_out(held.source, held.lines, held.names)
        _indexes[path.name] = found
        while len(_indexes) > _KEPT:
            del _indexes[next(iter(_indexes))]
        return found
