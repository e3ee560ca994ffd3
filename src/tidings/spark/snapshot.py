"""Snapshots: a set of filters as a file, and the index that a process makes of it once.

The file is text: a line that says what it is, then a line for each filter. Its name ends in a
digest of its content, so a file of one name never changes, and a process that has made an index
of it keeps it for the next batch and the next query. Nothing here knows of Spark.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidings.events import Conjunction, Filter, TidingsError
from tidings.events.encoding import decode_json, encode_json
from tidings.events.strings import NO_TYPES, IsA, Strings, Types
from tidings.matching import Index

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "tidings filters"
VERSION: Final = 1
_KEPT: Final = 4
"""A process keeps the indexes of so many snapshots, those that were asked last."""


def write(filters: Mapping[str, Filter], folder: Path) -> Path:
    """Write the filters to a file in the folder; equal ones always have the same name."""
    types: dict[int, tuple[int, Types]] = {}
    lines = []
    for key, filter_ in filters.items():
        known = _types(filter_.conjunctions)
        number = types.setdefault(id(known), (len(types), known))[0] if len(known) else None
        plain = {"any": [c.to_plain() for c in filter_.conjunctions]}
        lines.append(encode_json([key, plain] if number is None else [key, plain, number]))
    hierarchies = [known.parents for _, known in types.values()]
    head = {"format": FORMAT, "version": VERSION, "filters": len(lines), "types": hierarchies}
    content = "\n".join([encode_json(head), *lines, ""]).encode()
    path = folder / f"tidings-filters-{_digest(content)}.jsonl"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.replace(path)  # whoever sees it sees all of it
    return path


def _types(conjunctions: Iterable[Conjunction]) -> Types:
    """The hierarchy that the filter's `IS A` refers to."""
    for conjunction in conjunctions:
        for constraint in conjunction.constraints.values():
            for part in constraint.parts.values():
                if isinstance(part, Strings):
                    for test in part.passing | part.failing:
                        if isinstance(test, IsA) and len(test.types):
                            return test.types
    return NO_TYPES


def read(path: Path) -> dict[str, Filter]:
    """What `write` wrote; `TidingsError` if it is damaged, or of a version we do not know."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise TidingsError(f"{path}: {problem.strerror}") from None
    if path.stem.rpartition("-")[2] != _digest(content):
        raise TidingsError(f"{path}: its content is not what its name says; it is damaged")
    head, *lines = content.splitlines()
    about = decode_json(head)
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise TidingsError(
            f"{path}: expected {FORMAT!r} of version {VERSION}, found "
            f"{about.get('format')!r} of version {about.get('version')!r}"
        )
    hierarchies = [Types(parents) for parents in about["types"]]
    return dict(_entry(decode_json(line), hierarchies) for line in lines)


def _entry(plain: list[Any], hierarchies: list[Types]) -> tuple[str, Filter]:
    key, filter_, *number = plain
    types = hierarchies[number[0]] if number else NO_TYPES
    conjunctions = (Conjunction.from_plain(c, types) for c in filter_["any"])
    return key, Filter(c for c in conjunctions if c is not None)


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


class Matches:
    """The index of a snapshot, for batches of events."""

    def __init__(self, filters: Mapping[str, Filter]) -> None:
        import pyarrow as pa

        from tidings.matching import warm

        warm.wait()  # so that the filters are laid out once, not tried one by one before
        self._keys = pa.array(list(filters), pa.string())
        self._index = Index()
        self._index.add_many(enumerate(filters.values()))

    def of(self, events: pa.RecordBatch) -> pa.Array:
        """For each event the keys that match, as an array of lists of strings."""
        import numpy as np
        import pyarrow as pa

        rows, numbers = self._index.match_batch(events)
        counts = np.bincount(np.asarray(rows), minlength=events.num_rows)
        starts = np.zeros(events.num_rows + 1, np.int32)
        np.cumsum(counts, out=starts[1:])
        return pa.ListArray.from_arrays(pa.array(starts), self._keys.take(numbers.cast(pa.int64())))


_matches: dict[str, Matches] = {}
_lock = threading.Lock()


def matches(path: Path) -> Matches:
    """The index of the snapshot, made by the first who asks in this process."""
    with _lock:
        found = _matches.pop(path.name, None) or Matches(read(path))
        _matches[path.name] = found
        while len(_matches) > _KEPT:
            del _matches[next(iter(_matches))]
        return found
