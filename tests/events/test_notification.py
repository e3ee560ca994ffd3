"""Notifications: what becomes of values on the way in, and what is refused."""

import enum
import json
import pickle
import re
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidings import Filter, Notification, NotificationError, TidingsError

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
        ([[float("nan")]], "NaN is not a number that can be compared"),
        (datetime(2026, 1, 1), "a time needs a zone"),  # noqa: DTZ001 - that is the point
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "out of range in UTC"),
        ("\ud800", "half of a surrogate pair"),
        (["\ud800"], "half of a surrogate pair"),
        (timedelta(1), "a timedelta is none of boolean, number, string, time, bytes, or a set"),
        (object(), "a object is none of"),
        (1j, "a complex is none of"),
        (np.array([1, 2]), "a ndarray is none of"),
        ([object(), {}], "a object is none of"),
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


def test_two_that_filters_cannot_tell_apart_are_equal_only_if_they_say_the_same():
    one, other = Notification({"x": 1, "y": [1, 2]}), Notification({"x": 1.0, "y": [2, 1]})
    assert one.attributes == other.attributes
    assert one != other
    assert one != Notification({"y": [1, 2], "x": 1})
    assert one == Notification({"x": 1, "y": [1, 2]})


# -- names -----------------------------------------------------------------------------------


def test_nested_mappings_become_dotted_names():
    found = Notification({"a": {"b": {"c": 1}, "d": 2}, "e": MappingProxyType({"f": 3}), "g": {}})
    inner = {"a": {"b": {"c": 1}, "d": 2}, "a.b": {"c": 1}, "e": {"f": 3}, "g": {}}
    assert dict(found) == {"a.b.c": 1, "a.d": 2, "e.f": 3, **inner}
    assert len(found) == 7


def test_an_object_is_there_and_has_no_value_to_compare():
    found = Notification({"data": {"n": 1}, "legs": [{"n": 1}], "empty": {}})
    for there in ("data", "data.n", "legs", "empty"):
        assert Filter.parse(f"EXISTS {there}").matches(found)
    assert not Filter.parse("data = 1 OR legs = 1 OR empty IS STRING OR legs.n = 1").matches(found)


def test_none_is_absence():
    assert dict(Notification({"a": None, "b": {"c": None}})) == {"b": {"c": None}}
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


@pytest.mark.parametrize("kind", ["objects", "arrays"])
def test_what_is_nested_too_deeply_is_refused(kind):
    deep = {"x": 1}
    for depth in range(2, 300):
        deep = {"a": deep if kind == "objects" else [deep["a"]] if "a" in deep else [1]}
        if depth == 100:
            assert Notification(deep) == Notification.from_json(json.dumps(deep))
        if depth > 100:
            with pytest.raises(NotificationError, match="nested more than 100 deep, the limit"):
                Notification(deep)
            with pytest.raises(NotificationError, match="nested more than 100 deep, the limit"):
                Notification.from_json(json.dumps(deep))


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


inner = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(names, each, max_size=4),
    max_leaves=12,
)  # fmt: skip


def is_plain_object(value):
    """Whether neither of its names, once flattened, is given twice, nor anything in it tagged."""
    try:
        Notification(value)
    except NotificationError:
        return False
    return True


@given(st.dictionaries(names, inner, max_size=5).filter(is_plain_object))
def test_any_json_object_is_heard_as_it_was_said(said):
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    of_text, of_value = Notification.from_json(text), Notification(said)
    assert of_text.body.decode() == text
    assert json.dumps(of_text.value) == json.dumps(said)  # tells 1 from 1.0 and True, and the order
    assert json.dumps(of_value.value) == json.dumps(said)
    assert of_text.attributes == of_value.attributes
    spaced = json.dumps(said, ensure_ascii=False, indent=1)
    assert Notification.from_json(spaced) == of_text
    assert Notification.from_json(of_text.to_json()) == of_text


@pytest.mark.parametrize(
    "text",
    ['{"x":1.10}', '{"x":1e3}', '{"x":-0}', '{"x":-0.0}', '{"x":1E+2}', '{"x":"\\u0041"}',
     '{"x":[1.0,1]}', '{"x":12345678901234567890.5}', '{"b":1,"a":2}', '{"a.b":1}', '{"x":[]}'],
)  # fmt: skip
def test_numbers_and_texts_stay_as_they_were_written(text):
    assert Notification.from_json(text).body.decode() == text


def test_a_body_is_kept_only_where_attributes_do_not_say_it():
    for plain in (
        '{"a":1,"b":"x","c":2.5,"d":true}',
        '{"t":["a","b"]}',
        '{"a.b":{"$bytes":"AQI="}}',
    ):
        assert Notification.from_json(plain).content is None
        assert Notification(json.loads(plain)).content is None
    for more in ('{"t":["b","a"]}', '{"a":null}', '{"a":{}}', '{"a":{"$bytes":"AQI="},"b":[1,1]}'):
        assert Notification.from_json(more).content == Notification(json.loads(more)).content
        assert Notification.from_json(more).content == more.encode()


@given(st.binary(), st.text("abc/", min_size=1), st.dictionaries(names, values, max_size=3))
def test_bytes_are_heard_as_they_were_said(content, kind, beside):
    assume("$body" not in beside)
    said = Notification.of_bytes(content, kind, beside)
    assert (said.body, said.value, said.content_type) == (content, content, kind)
    assert said.attributes == Notification(beside).attributes
    assert Notification.from_json(said.to_json()) == said
    assert pickle.loads(pickle.dumps(said)) == said


@pytest.mark.parametrize(
    "said",
    [
        '{"$body":5}',
        '{"$body":{"type":"a"}}',
        '{"$body":{"type":"a","base64":"?"}}',
        '{"$body":{"type":"a","base64":"","more":1}}',
        '{"$body":{"type":5,"base64":""}}',
        '{"$body":{"type":"","base64":""}}',
    ],
)
def test_what_only_looks_like_bytes_is_a_value_like_any_other(said):
    found = Notification.from_json(said)
    assert found.bytes_type is None
    assert found.to_json() == said


def test_objects_beside_bytes_are_refused():
    with pytest.raises(NotificationError, match=r"attribute .a.: attributes beside"):
        Notification.of_bytes(b"", attributes={"a": {"b": 1}})
    with pytest.raises(NotificationError, match="content type"):
        Notification.of_bytes(b"", "")


@given(st.dictionaries(names, values, min_size=1, max_size=3), st.data())
def test_damaged_json_is_refused_or_still_a_notification(attributes, data):
    text = Notification(attributes).to_json()
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.text('{}[]":,\\u0159.eE-+tfn$\0', max_size=3))
    damaged = text[:at] + piece + text[at + data.draw(st.integers(0, 3)) :]
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
        ('{"a": 1, "b": 2, "a": 1}', "attribute 'a': given twice in one JSON object"),
        ('{"a": [{"b": 1, "c": {"d": 1, "d": 2}}]}', "attribute 'd': given twice"),
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


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1,)])
def test_a_name_in_an_object_in_a_list_is_a_string(key: object) -> None:
    with pytest.raises(NotificationError, match=r"attribute 'legs': a name in an object is a str"):
        Notification({"legs": [{key: "a", str(key): "b"}]})


@pytest.mark.parametrize("depth", [101, 500, 3_000])
def test_lists_that_are_too_deep_are_refused_with_the_limit(depth: int) -> None:
    nested: object = 1
    for _ in range(depth):
        nested = [nested]
    with pytest.raises(NotificationError, match="nested more than 100 deep"):
        Notification({"a": nested})


def test_nanoseconds_are_compared_to_the_microsecond_and_kept_as_they_were_written():
    text = '{"at":{"$time":"2026-11-15T12:00:00.123456789Z"}}'
    found = Notification.from_json(text)
    assert found["at"] == datetime(2026, 11, 15, 12, 0, 0, 123_456, tzinfo=UTC)
    assert found.to_json() == text
    event = '{"specversion":"1.0","id":"1","time":"2026-11-15T13:00:00.000000999+01:00"}'
    assert Notification.from_json(event)["time"] == datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert Notification(json.loads(event)).to_json() == event


def test_an_attribute_beside_bytes_is_not_called_as_the_bytes_are_in_json() -> None:
    with pytest.raises(NotificationError, match=r"attribute '\$body': beside a body of bytes"):
        Notification.of_bytes(b"x", "a/b", {"$body": 1})
