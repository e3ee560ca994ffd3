"""Values, their literals, and their JSON."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Filter, Notification
from tidings.events.encoding import from_plain, to_plain
from tidings.events.phrases import literal
from tidings.events.values import Truth, element, exact, parse_time, scalar, time_text

scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(10**14, 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(max_size=6),
    st.datetimes(timezones=st.just(UTC)),
)


@given(scalars)
def test_a_literal_is_read_back_as_the_same_value(value):
    found = Filter.parse(f"x = {literal(value)}")
    assert found.matches(Notification({"x": value}))
    assert str(found) == f"x = {literal(value)}"
    assert from_plain(to_plain(value)) == value


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_has_one_spelling(value):
    assert exact(value) == value
    assert literal(value) == literal(exact(value))
    if value == int(value):
        assert literal(value) == literal(int(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (-0.0, "0"),
        (1e300, "1e+300"),
        (2**53 + 1, "9007199254740993"),
        (10**22, "1e+22"),
        (True, "TRUE"),
        (Truth.FALSE, "FALSE"),
        ("it's", "'it''s'"),
        ("a\\b", r"'a\\b'"),
        (datetime(2026, 1, 1, tzinfo=UTC), "TIMESTAMP '2026-01-01T00:00:00Z'"),
        (b"\x00\xff", "X'00ff'"),
    ],
)
def test_literals(value, text):
    assert literal(value) == text


def test_no_literal_for_what_is_no_constant():
    with pytest.raises(TypeError):
        literal(object())


def test_booleans_are_wrapped_only_inside_sets():
    assert element(True) is Truth.TRUE
    assert scalar(Truth.TRUE) is True
    assert element(1) == 1
    assert scalar("a") == "a"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2026-11-15", "2026-11-15T00:00:00Z"),
        ("2026-11-15T12:00:00+02:00", "2026-11-15T10:00:00Z"),
        ("2026-11-15 12:00:00.5Z", "2026-11-15T12:00:00.500000Z"),
        (" 20261115T120000 ", "2026-11-15T12:00:00Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_read_in_utc(text, canonical):
    assert time_text(parse_time(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "noon", "2026-13-01", "2026-11-15T12:00:00.1234567Z", "2026-11-15T12:00:00,1234567",
     "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-11-15T25:00:00"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_time(text)
