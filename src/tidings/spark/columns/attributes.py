"""Attributes: what the rows of a DataFrame say, in the terms of notifications.

Each column, or field of a struct, is an attribute of one domain. Both Spark's own expressions and
our index take it from here, so that both see the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as T  # noqa: N812

from tidings.events.errors import TidingsError
from tidings.events.values import BOOLEAN, BYTES, NUMBER, SET, STRING, TIME


def is_variants(kind: T.DataType | None) -> bool:
    """Whether a column holds all attributes of an event, as the format reads them."""
    return (
        isinstance(kind, T.MapType)
        and isinstance(kind.keyType, T.StringType)
        and isinstance(kind.valueType, T.VariantType)
    )


def has_all_attributes(schema: T.StructType) -> bool:
    """Whether the attributes of events are in one column, `attributes`, and not in their own."""
    return any(field.name == "attributes" and is_variants(field.dataType) for field in schema)


class Kind(NamedTuple):
    """How values of a domain are held."""

    domain: str
    cast: str | None = None
    """What Spark has to convert them to first."""
    is_float: bool = False
    is_zoned: bool = True


NESTED: Final = Kind(SET, "nested")
"""An element that is no scalar, so that what holds it is no set."""
PRESENCE: Final = Kind("presence", "nested")
"""What is there, and has no value: a struct."""

Path: TypeAlias = tuple[str, ...]
"""A column, and a field in it, and so on."""
_LONG: Final = 18
"""Digits of the longest decimals that all fit 64 bits."""


class AttributeColumn(NamedTuple):
    """One attribute of the rows; null is absence."""

    name: str
    value: Column
    kind: Kind
    element: Kind | None = None
    """Of the elements, if it is a set."""
    may_hold_null: bool = False

    @property
    def is_present(self) -> Column:
        """Whether a row has it: true or false, never null."""
        there = self.value.isNotNull()
        return there & ~F.isnan(self.value) if self.kind.is_float else there

    @property
    def has_gap(self) -> Column | bool:
        """Whether the array holds null or NaN; false or null if the array is absent."""
        assert self.element is not None
        if self.element.is_float:
            return F.exists(self.value, lambda e: e.isNull() | F.isnan(e))
        return F.exists(self.value, lambda e: e.isNull()) if self.may_hold_null else False

    @property
    def normal(self) -> Column:
        """The value as our index takes it: null where it is absent."""
        if self.kind.is_float:
            return _without_nan(self.value)
        # What is inside does not matter, and may be of any type.
        something = F.array(F.array()).cast("array<array<boolean>>")
        if self.kind is PRESENCE:
            return F.when(self.value.isNotNull(), something)
        if self.element is NESTED:
            nothing = F.array().cast("array<array<boolean>>")
            chosen = F.when(F.size(self.value) == 0, nothing).otherwise(something)
            return F.when(self.value.isNotNull(), chosen)
        if self.element is not None and self.element.is_float:
            return F.transform(self.value, _without_nan)
        return self.value


def _without_nan(number: Column) -> Column:
    return F.when(~F.isnan(number), number)


class AttributeColumns(Mapping[str, AttributeColumn]):
    """The attributes of a schema; one that cannot be compared is an error only if asked for."""

    def __init__(
        self,
        fields: dict[str, tuple[Path, T.DataType]],
        spelt: dict[Path, list[Path]] | None = None,
    ) -> None:
        """`spelt` are columns, and their fields, by their names in small letters; without it, no
        two of them have the same."""
        self._fields, self._spelt = fields, spelt or {}

    def __getitem__(self, name: str) -> AttributeColumn:
        path, held = self._fields[name]
        self._check(name, path)
        value = F.col(".".join(map(quoted, path)))
        if isinstance(held, T.StructType):
            return AttributeColumn(name, value, PRESENCE)
        if isinstance(held, T.ArrayType):
            element = _kind(held.elementType, name, nested=True)
            if element.cast is not None and element is not NESTED:
                value = value.cast(f"array<{element.cast}>")
            return AttributeColumn(name, value, Kind(SET), element, held.containsNull)
        kind = _kind(held, name)
        return AttributeColumn(name, value if kind.cast is None else value.cast(kind.cast), kind)

    def _check(self, name: str, path: Path) -> None:
        """`TidingsError` if Spark cannot tell it from another one."""
        for end in range(1, len(path) + 1):
            alike = self._spelt.get(_small(path[:end]), [])
            if len(alike) > 1 and not _is_case_sensitive():
                columns = " and ".join(sorted(repr(".".join(each)) for each in alike))
                raise TidingsError(
                    f"attribute {name!r}: Spark takes the columns {columns} for the same one; "
                    "rename one of them, or set spark.sql.caseSensitive to true"
                )

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def attributes(schema: T.StructType) -> AttributeColumns:
    """The attributes of rows with this schema, by name."""
    found: dict[str, tuple[Path, T.DataType]] = {}
    spelt: dict[Path, list[Path]] = {}
    waiting: list[tuple[Path, T.DataType]] = [
        ((field.name,), field.dataType) for field in schema.fields
    ]
    while waiting:
        path, held = waiting.pop()
        spelt.setdefault(_small(path), []).append(path)
        name = ".".join(path)
        if isinstance(held, T.StructType):
            waiting += [((*path, field.name), field.dataType) for field in held.fields]
        if name in found:
            raise TidingsError(f"attribute {name!r}: there are two such columns")
        elif not isinstance(held, T.NullType):
            found[name] = (path, held)
    return AttributeColumns(found, spelt)


def _small(path: Path) -> Path:
    return tuple(name.lower() for name in path)


def _is_case_sensitive() -> bool:
    return SparkSession.active().conf.get("spark.sql.caseSensitive") == "true"


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _kind(held: T.DataType, name: str, *, nested: bool = False) -> Kind:
    if isinstance(held, T.StringType) and not isinstance(held, T.CharType):
        if not held.isUTF8BinaryCollation():
            raise TidingsError(
                f"attribute {name!r}: a column with the collation {held.collation} compares "
                "strings differently from filters; convert it to STRING first"
            )
        return Kind(STRING)
    if isinstance(held, T.DecimalType):
        if held.scale <= 0 and held.precision <= _LONG:
            return Kind(NUMBER, "bigint")
        return Kind(NUMBER, "double", is_float=True)
    for types, kind in _KINDS:
        if isinstance(held, types):
            return kind
    if nested and isinstance(held, T.ArrayType | T.StructType | T.MapType | T.NullType):
        return NESTED
    raise TidingsError(
        f"attribute {name!r}: a column of {held.simpleString()} is none of boolean, number, "
        "string, time, bytes, or an array of these"
    )


_KINDS: Final[tuple[tuple[type | tuple[type, ...], Kind], ...]] = (
    (T.BooleanType, Kind(BOOLEAN)),
    (T.IntegralType, Kind(NUMBER)),
    ((T.FloatType, T.DoubleType), Kind(NUMBER, is_float=True)),
    (T.BinaryType, Kind(BYTES)),
    (T.TimestampType, Kind(TIME)),
    (T.TimestampNTZType, Kind(TIME, is_zoned=False)),
    (T.DateType, Kind(TIME, "timestamp_ntz", is_zoned=False)),
)
