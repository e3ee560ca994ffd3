"""Notifications: what becomes of values on the way in, and what is refused."""

import enum
import pickle
import re
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Filter, Notification, NotificationError, TidingsError
from tidings.events.values import domain_of

# -- values ----------------------------------------------------------------------------------


class Colour(str, enum.Enum):  # noqa: UP042 - its str() is not its value, unlike StrEnum's
    RED = "red"


EAST = timezone(timedelta(hours=1))


class Level(enum.IntEnum):
    HIGH = 3


def shown(value):
    """An id that is the same in every process."""
    return "a set" if isinstance(value, frozenset) else re.sub(r" at 0x\w+", "", repr(value))


@pytest.mark.parametrize(
    ("given_", "held"),
    [
        (True, True),
        (5, 5),
        (10**30, 10**30),
        (2.5, 2.5),
        (float("inf"), float("inf")),
        ("text", "text"),
        (b"\x00", b"\x00"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (np.int64(5), 5),
        (np.uint8(5), 5),
        (np.float64(2.5), 2.5),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"),
        ([1, 2, 2], frozenset({1, 2})),
        (("a", "b"), frozenset({"a", "b"})),
        ({"a"}, frozenset({"a"})),
        ([], frozenset()),
        ([1, 1.0], frozenset({1})),
        ([np.int64(1), Colour.RED], frozenset({1, "red"})),
        ([{"a": 1}], [{"a": 1}]),
        ([[1], [2]], [[1], [2]]),
        ([1, None], [1, None]),
        (datetime(2026, 1, 1, 1, tzinfo=EAST), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
    ids=shown,
)  # fmt: skip
def test_a_value_is_held_in_the_one_form_of_its_domain(given_, held):
    found = Notification({"x": given_})["x"]
    assert found == held
    assert type(found) is type(held)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "NaN is not a number that can be compared"),
        (np.float32("nan"), "NaN is not a number that can be compared"),
        ([1, float("nan")], "NaN is not a number that can be compared"),
        ([[float("nan")]], "cannot be carried"),
        ([{"a": float("inf")}], "cannot be carried"),
        (datetime(2026, 1, 1), "a time needs a zone"),  # noqa: DTZ001 - that is the point
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "out of range in UTC"),
        ("\ud800", "half of a surrogate pair"),
        (["\ud800"], "half of a surrogate pair"),
        (timedelta(1), "a timedelta is none of boolean, number, string, time, bytes, or a set"),
        (object(), "a object is none of"),
        (1j, "a complex is none of"),
        (np.array([1, 2]), "a ndarray is none of"),
        ([object(), {}], "cannot be carried"),
        ({"$time": "noon"}, "Invalid isoformat"),
        ({"$bytes": "?"}, ""),
        ({"$number": "5"}, "can't be"),
        ({"$number": "0x1_0"}, "can't be"),
        ({"$number": "0x"}, "can't be"),
    ],
    ids=shown,
)
def test_what_cannot_be_a_value_is_refused_by_name(value, reason):
    with pytest.raises(NotificationError) as caught:
        Notification({"ok": 1, "nested": {"x": value}})
    assert reason in str(caught.value)
    assert caught.value.field == "nested.x"
    assert str(caught.value).startswith("attribute 'nested.x': ")


def test_booleans_and_numbers_are_different_even_in_sets():
    assert Notification({"x": True}) != Notification({"x": 1})
    assert Notification({"x": [True]}) != Notification({"x": [1]})
    assert len(Notification({"x": [True, 1]}).attributes["x"]) == 2
    assert Notification({"x": [True]})["x"] == frozenset({True})
    assert Notification({"x": 1}) == Notification({"x": 1.0})


# -- names -----------------------------------------------------------------------------------


def test_nested_mappings_become_dotted_names():
    found = Notification({"a": {"b": {"c": 1}, "d": 2}, "e": MappingProxyType({"f": 3}), "g": {}})
    assert dict(found) == {"a.b.c": 1, "a.d": 2, "e.f": 3}
    assert len(found) == 3
    assert "a.b.c" in found
    assert "a" not in found


def test_none_is_absence():
    assert dict(Notification({"a": None, "b": {"c": None}})) == {}
    assert Filter.parse("NOT EXISTS a").matches(Notification({"a": None}))


@pytest.mark.parametrize("attributes", [{"a.b": 1, "a": {"b": 2}}, {"a": {"b": 2}, "a.b": 1}])
def test_a_name_given_twice_is_refused(attributes):
    with pytest.raises(NotificationError, match=r"attribute 'a\.b': given twice"):
        Notification(attributes)


@pytest.mark.parametrize("key", ["", 5, None, b"a", ("a",)])
def test_a_name_is_a_string_with_something_in_it(key):
    with pytest.raises(NotificationError, match="non-empty string"):
        Notification({key: 1})
    with pytest.raises(NotificationError, match=r"attribute 'a\.'.*non-empty string"):
        Notification({"a": {key: 1}})


def test_a_name_with_half_a_surrogate_pair_is_refused():
    with pytest.raises(NotificationError):
        Notification({"\ud800": 1})


@pytest.mark.parametrize("name", ["a.b", "a b", "'", '"', "`", "a\nb", "é", "\0", "and"])
def test_any_other_name_is_fine(name):
    found = Notification({name: 1})
    assert Notification.from_json(found.to_json()) == found


def test_depth_is_no_trouble():
    deep = {"x": 1}
    for _ in range(2_000):
        deep = {"a": deep}
    assert Notification(deep)["a." * 2_000 + "x"] == 1


def test_ten_thousand_attributes_and_a_megabyte_are_no_trouble():
    found = Notification({f"a{i}": i for i in range(10_000)} | {"text": "x" * 1_000_000})
    assert Notification.from_json(found.to_json()) == found
    wanted = Filter.parse(" AND ".join(f"a{i} = {i}" for i in range(10_000)))
    assert wanted.matches(found)


# -- JSON ------------------------------------------------------------------------------------

scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(max_size=5),
    st.datetimes(timezones=st.just(UTC)),
)
values = scalars | st.lists(scalars, max_size=4)
names = st.text(min_size=1, max_size=5)


@given(st.dictionaries(names, values, max_size=5))
def test_json_and_pickle_round_trip(attributes):
    found = Notification(attributes)
    assert Notification.from_json(found.to_json()) == found
    assert Notification.from_json(found.to_json().encode()) == found
    assert pickle.loads(pickle.dumps(found)) == found
    for value in found.attributes.values():
        assert domain_of(value) != "carried"


@given(st.dictionaries(names, values, min_size=1, max_size=3), st.data())
def test_damaged_json_is_refused_or_still_a_notification(attributes, data):
    json = Notification(attributes).to_json()
    at = data.draw(st.integers(0, len(json)))
    piece = data.draw(st.text('{}[]":,\\u0159.eE-+tfn$\0', max_size=3))
    damaged = json[:at] + piece + json[at + data.draw(st.integers(0, 3)) :]
    try:
        found = Notification.from_json(damaged)
    except TidingsError:
        return
    assert Notification.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("nonsense", "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": 1e999}', "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON"),
        ('{"a": "\\ud800"}', "not valid JSON: half of a surrogate pair is no character"),
        ('{"\\udfff": 1}', "half of a surrogate pair"),
        ('{"a": "\udcff"}', "half of a surrogate pair"),
        (b'{"a": "\xed\xa0\x80"}', "not valid JSON"),
        ('{"a": "\\ud800"', "not valid JSON"),
        ("[]", "expected a JSON object, found an array"),
        ("null", "expected a JSON object, found null"),
        ("5", "expected a JSON object, found a number"),
        ('"a"', "expected a JSON object, found a string"),
        ("true", "expected a JSON object, found a boolean"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"": 1}', "non-empty string"),
        ('{"a": {"$time": 5}}', "can't be 5"),
        ('{"a": [{"$bytes": "?"}]}', "attribute 'a'"),
        ('{"a": ' + "[" * 900 + "]" * 900 + "}", "attribute 'a'"),
    ],
)
def test_json_that_is_no_notification_is_refused(text, reason):
    with pytest.raises(NotificationError, match=reason):
        Notification.from_json(text)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_of_too_many_digits_for_json_is_tagged(sign):
    for held in (10**4000, 2**14_000 - 1, 2**14_000, 10**5000, 10**100_000):
        said = Notification({"x": sign * held, "set": [sign * held, "a"]})
        assert Notification.from_json(said.to_json()) == said
    assert Notification({"x": sign * 16**4_000}).to_json() == (
        f'{{"x":{{"$number":"{"-" if sign < 0 else ""}0x1{"0" * 4_000}"}}}}'
    )


# -- CloudEvents -----------------------------------------------------------------------------

EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", %s}'


def test_a_cloudevent_is_read_with_its_data_and_time():
    found = Notification.from_json(
        EVENT % '"time": "2026-11-15T13:00:00+01:00", "data": {"n": 1, "tags": ["a"]}'
    )
    assert found["time"] == datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert found["data.n"] == 1
    wanted = "type = 't' AND time < TIMESTAMP '2026-11-16' AND data.tags CONTAINS 'a'"
    assert Filter.parse(wanted).matches(found)


def test_the_binary_data_of_a_cloudevent_is_bytes():
    assert Notification.from_json(EVENT % '"data_base64": "AQI="')["data"] == b"\x01\x02"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ('"time": "noon"', "attribute 'time': not an RFC 3339 time"),
        ('"data_base64": "?"', "attribute 'data'"),
        ('"data": 1, "data_base64": "AQI="', "data or data_base64, not both"),
    ],
)
def test_a_wrong_cloudevent_is_refused(members, reason):
    with pytest.raises(NotificationError, match=reason):
        Notification.from_json(EVENT % members)


def test_without_specversion_a_time_is_just_text():
    assert Notification.from_json('{"time": "noon"}')["time"] == "noon"
