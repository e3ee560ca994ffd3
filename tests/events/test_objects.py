"""What programs have in their hands becomes notifications, exactly, or is refused by its path."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.events import Notification, NotificationError
from tidings.events.objects import plain


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Venue:
    name: str
    since: date | None = None


@dataclass(frozen=True)
class Order:
    id: UUID
    price: Decimal
    side: Side
    venue: Venue
    tags: list[Side] = field(default_factory=list)
    venues: list[Venue] = field(default_factory=list)


class Trade(msgspec.Struct, rename="camel", tag="trade", tag_field="kind"):
    trade_id: int
    order: Order
    at: datetime


ID = UUID("12345678-1234-5678-1234-567812345678")
ORDER = Order(ID, Decimal("1.10"), Side.BUY, Venue("XETRA", date(2026, 1, 2)), [Side.SELL])


def test_a_dataclass_is_a_mapping_of_its_fields() -> None:
    assert Notification(ORDER) == Notification(
        {
            "id": str(ID),
            "price": 1.1,
            "side": "buy",
            "venue": {"name": "XETRA", "since": "2026-01-02"},
            "tags": ["sell"],
            "venues": [],
        }
    )


def test_a_struct_has_the_names_of_its_json_and_its_tag() -> None:
    now = datetime(2026, 11, 19, tzinfo=UTC)
    found = Notification(Trade(7, ORDER, now))
    assert (found["kind"], found["tradeId"], found["at"]) == ("trade", 7, now)
    assert found["order.venue.since"] == "2026-01-02"


def test_objects_may_stand_anywhere() -> None:
    order = Order(ID, Decimal(5), Side.BUY, Venue("x"), venues=[Venue("y", date(2026, 1, 2))])
    found = Notification({"orders": [order], "levels": {Level.LOW}, "at": {"t": time(12, 30)}})
    assert found["orders"][0]["price"] == 5
    assert found["orders"][0]["venues"] == [{"name": "y", "since": "2026-01-02"}]
    assert (found["levels"], found["at.t"]) == ({1}, "12:30:00")


def test_attrs_classes_are_mappings_of_their_fields() -> None:
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Point:
        x: int
        inner: Venue

    assert Notification(Point(1, Venue("a"))) == Notification({"x": 1, "inner": {"name": "a"}})


def test_models_of_pydantic_have_the_names_of_their_json() -> None:
    pydantic = pytest.importorskip("pydantic", minversion="2")

    class Inner(pydantic.BaseModel):
        price: Decimal

    class Model(pydantic.BaseModel):
        id: UUID
        inner: Inner
        side: Side = pydantic.Field(serialization_alias="buyOrSell")

    made = Model(id=ID, inner=Inner(price=Decimal("0.1")), side=Side.SELL)
    wanted = {"id": str(ID), "inner.price": 0.1, "buyOrSell": "sell"}
    assert dict(Notification(made)) == wanted


@given(st.decimals(allow_nan=False))
@example(Decimal("1E+28"))
def test_a_decimal_stays_the_same_number_or_is_refused(value: Decimal) -> None:
    nested = {"x": {"y": value}}
    is_whole = value == value.to_integral_value() and (
        value.is_infinite() or value.adjusted() <= 4_300
    )
    if is_whole or Decimal(repr(float(value))) == value:
        found = plain(nested)["x"]["y"]
        assert type(found) in (int, float)
        assert Decimal(repr(found) if isinstance(found, float) else found) == value
    else:
        with pytest.raises(NotificationError) as caught:
            plain(nested)
        assert caught.value.field == "x.y"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.1", 0.1), ("0.10", 0.1), ("100", 100), ("1E+30", 10**30), ("-0.5", -0.5), ("Inf", None)],
)
def test_a_decimal_is_the_number_that_one_means(text: str, number: Any) -> None:
    found = plain(Decimal(text))
    assert (found, type(found)) == ((number, type(number)) if number else (float("inf"), float))


class Pair(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Decimal("NaN"), "a.b"),
        (Decimal("0.1234567890123456789"), "a.b"),
        (Decimal("1E+5000"), "a.b"),
        (timedelta(seconds=1), "a.b"),
        (Path("x"), "a.b"),
        (Fraction(1, 3), "a.b"),
        (object(), "a.b"),
        ([Decimal("NaN")], "a.b"),
        ([{"c": Decimal("NaN")}], "a.b.c"),
        (Venue("x", Decimal("NaN")), "a.b.since"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_published_is_named_by_its_path(value: object, path: str) -> None:
    with pytest.raises(NotificationError) as caught:
        Notification({"a": {"b": value}})
    assert caught.value.field == path
    with pytest.raises(NotificationError):
        Notification(Venue(name={"b": value}))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [7, "text", [1], Decimal(1), Side.BUY, None, object(), Venue])
def test_what_has_no_fields_is_no_notification(value: object) -> None:
    with pytest.raises(NotificationError, match="a mapping of attributes, or an object"):
        Notification(value)


def test_an_object_that_holds_itself_is_refused() -> None:
    @dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    with pytest.raises(NotificationError, match="nested more than 100 deep"):
        Notification(node)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@given(PLAIN)
def test_what_is_plain_is_left_alone(value: Any) -> None:
    assert plain(value) is value
