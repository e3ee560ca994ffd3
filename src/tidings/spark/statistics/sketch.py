"""Sketches: what a lake's rows say of the distribution of values, in bounded memory.

A sketch of some rows and one of others make one of both, so each task makes one and the driver
adds them up. Events are counted exactly, and how many have an attribute; so is each string, as
long as an attribute has not more than `_COUNTED` different ones. Quantiles are those of a sample:
the rows whose hash is least, so that it is the same however the rows were divided among tasks, and
as long as there are not more than `SAMPLE` of them it is all rows. Nothing here knows of Spark.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidings.events.encoding import decode_json, encode_json
from tidings.lakes.layout import REST, columns_of
from tidings.routing.statistics import LONGEST_LISTED, Attribute, Statistics
from tidings.spark.statistics.quantiles import (
    FEWEST,
    ORDERED,
    STEPS,
    Floats,
    distribution,
    is_number,
    known_given,
    nearest,
    numbers_in_rest,
    ordered_values,
    rounded,
    shortened,
)

SAMPLE: Final = 50_000
"""Rows looked at for quantiles."""
LISTED: Final = 128
"""Strings of an attribute that are told: the most frequent ones."""
_COUNTED: Final = 16_384
"""Of more strings than these, only the more frequent half is gone on with; one that is dropped and
comes again is counted too low, and what is lacking is among the unlisted."""
_OWN: Final = "tidings."
"""Events with attributes that begin like this are about us: statistics, bulk subscriptions."""
_KEY: Final = "$key"


class Sketch:
    """A summary of rows.

    >>> rows = {"stream": ["a"] * 4, "tick": [1, 2, 3, 4], "n": [1, 2, 2, None]}
    >>> sketch = Sketch()
    >>> sketch.add(pa.RecordBatch.from_pydict(rows))
    >>> known = sketch.statistics().attributes["n"]
    >>> known.present, known.number.quantiles[0], known.number.quantiles[-1]
    (0.75, 1.0, 2.0)
    """

    def __init__(self, sample: int = SAMPLE) -> None:
        self.events = 0
        self._most = sample
        self._held: Counter[str] = Counter()
        """How many rows have something in a column."""
        self._odd: Counter[str] = Counter()
        """How many rows have an attribute in `rest`."""
        self._huge: Counter[str] = Counter()
        """How many of these have a number there."""
        self._strings: dict[str, Counter[str]] = {}
        self._sample: pa.Table | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Count these rows in; all batches have the same columns."""
        self.events += batch.num_rows
        keys = _hashed(batch["stream"], batch["tick"])
        rows = pa.array(np.flatnonzero(keys < self._edge()))
        kept: dict[str, Any] = {_KEY: pa.array(keys).take(rows)}
        for name, kinds in columns_of(batch.schema).items():
            for kind, column in kinds.items():
                values = batch[column]
                self._held[column] += batch.num_rows - values.null_count
                if kind == "string":
                    values = _short(values)
                    self._count(name, values)
                if kind in ORDERED or kind == "string":
                    kept[column] = values.take(rows)
        if REST in batch.schema.names:
            for said in map(decode_json, batch[REST].drop_null().to_pylist()):
                self._odd.update(said.keys())
                self._huge.update(name for name, value in said.items() if is_number(value))
            kept[REST] = pa.array(map(_numbers, batch[REST].take(rows).to_pylist()), pa.string())
        if len(rows):
            self._take(pa.table(kept))

    def merge(self, other: Sketch) -> None:
        """Count in what another sketch has seen, of other rows of the same lake."""
        self.events += other.events
        self._held.update(other._held)
        self._odd.update(other._odd)
        self._huge.update(other._huge)
        for name, strings in other._strings.items():
            self._strings.setdefault(name, Counter()).update(strings)
            self._trim(name)
        if other._sample is not None:
            self._take(other._sample)

    def _count(self, name: str, column: Any) -> None:
        found = self._strings.setdefault(name, Counter())
        for pair in pc.value_counts(column.drop_null()).to_pylist():
            found[pair["values"]] += pair["counts"]
        self._trim(name)

    def _trim(self, name: str) -> None:
        if len(self._strings[name]) > _COUNTED:
            self._strings[name] = Counter(dict(_most(self._strings[name], _COUNTED // 2)))

    def _edge(self) -> np.uint64:
        """Rows from this hash on need not be looked at: the sample is full of lower ones."""
        if self._sample is None or self._sample.num_rows < self._most:
            return np.uint64(2**64 - 1)
        return np.uint64(pc.max(self._sample[_KEY]).as_py())

    def _take(self, rows: pa.Table) -> None:
        both = rows if self._sample is None else pa.concat_tables([self._sample, rows])
        if both.num_rows > self._most:
            keys = both[_KEY].to_numpy()
            both = both.take(pa.array(np.argpartition(keys, self._most)[: self._most]))
        self._sample = both.combine_chunks()

    # -- what it says ----------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """What is known of all attributes, and where it matters of one given another one."""
        if self._sample is None or not self.events:
            return Statistics()
        columns = columns_of(self._sample.drop_columns([_KEY]).schema)
        huge = numbers_in_rest(self._sample)
        values = {
            (name, domain): ordered_values(self._sample, kinds, domain, huge.get(name, {}))
            for name, kinds in columns.items()
            for domain in ("number", "time")
            if any(ORDERED.get(kind) == domain for kind in kinds)
        }
        attributes = {
            name: self._attribute(name, kinds, values)
            for name, kinds in columns_of(self._schema()).items()
        }
        attributes |= {
            name: Attribute(present=odd / self.events)
            for name, odd in self._odd.items()
            if name not in attributes
        }
        given = self._given(attributes, columns, values)
        return shortened(Statistics(self.events, attributes, given))

    def _schema(self) -> pa.Schema:
        """Of all columns that hold something; of those not in the sample, the type is no matter."""
        sample = self._sample.schema if self._sample is not None else pa.schema([])
        fields = []
        for column, held in self._held.items():
            at = sample.get_field_index(column)
            if held:
                fields.append(sample.field(at) if at >= 0 else pa.field(column, pa.bool_()))
        return pa.schema(fields)

    def _attribute(
        self, name: str, kinds: dict[str, str], values: dict[tuple[str, str], Floats]
    ) -> Attribute:
        held = sum(self._held[column] for column in kinds.values()) + self._odd[name]
        counts = Counter(number=self._huge[name])
        for kind, column in kinds.items():
            counts[ORDERED.get(kind, kind)] += self._held[column]
        number, time = (
            distribution(counts[domain] / self.events, values.get((name, domain)), STEPS)
            for domain in ("number", "time")
        )
        strings = self._strings.get(name, Counter[str]())
        listed = {text: count / self.events for text, count in _most(strings, LISTED)}
        return Attribute(
            present=min(1.0, held / self.events),
            number=number,
            time=time,
            strings=listed,
            unlisted=rounded(counts["string"] / self.events - sum(listed.values())),
        )

    def _given(
        self,
        attributes: dict[str, Attribute],
        columns: dict[str, dict[str, str]],
        values: dict[tuple[str, str], Floats],
    ) -> dict[str, dict[str, dict[str, Attribute]]]:
        """Numbers and times given a frequent string, where they are not what they are at large."""
        assert self._sample is not None
        found: dict[str, dict[str, dict[str, Attribute]]] = {}
        for asked, kinds in columns.items():
            if "string" not in kinds or asked not in attributes:
                continue
            texts = self._sample[kinds["string"]].combine_chunks()
            codes = pc.index_in(texts, pa.array(list(attributes[asked].strings), pa.string()))
            codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
            for code, (text, share) in enumerate(attributes[asked].strings.items()):
                rows = np.flatnonzero(codes == code)
                if len(rows) >= FEWEST:
                    known = known_given(rows, share, attributes, values)
                    if known:
                        found.setdefault(asked, {})[text] = known
        return found


def _short(texts: Any) -> Any:
    """The strings without those that are too long to be listed: they would fill the memory."""
    return pc.if_else(pc.less_equal(pc.utf8_length(texts), LONGEST_LISTED), texts, None)


def _numbers(rest: str | None) -> str | None:
    """What quantiles need of `rest`."""
    found = {n: nearest(v) for n, v in decode_json(rest).items() if is_number(v)} if rest else {}
    return encode_json(found) if found else None


def _hashed(streams: Any, ticks: Any) -> npt.NDArray[np.uint64]:
    """A number for each row, as good as random and the same for ever."""
    encoded = streams.dictionary_encode()
    seeds = [crc32((name or "").encode()) << 32 for name in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    numbers = ticks.to_numpy(zero_copy_only=False).astype(np.uint64)
    found: npt.NDArray[np.uint64] = np.array(seeds, np.uint64)[codes] ^ numbers
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


def _most(strings: Counter[str], number: int) -> list[tuple[str, int]]:
    """The most frequent ones, whatever the order in which they came."""
    return sorted(strings.items(), key=lambda item: (-item[1], item[0]))[:number]


def of_the_world(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are not about us: what we publish must not steer what we publish.

    >>> batch = pa.RecordBatch.from_pydict({"tidings.statistics": ["merger", None], "n": [1, 2]})
    >>> of_the_world(batch).to_pylist()
    [{'tidings.statistics': None, 'n': 2}]
    """
    for name in batch.schema.names:
        if name.startswith(_OWN) and batch[name].null_count < batch.num_rows:
            batch = batch.filter(batch[name].is_null())
    return batch
