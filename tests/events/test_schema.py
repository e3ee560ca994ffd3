"""Schemas: declared domains, whole numbers, and files that are not a schema."""

import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Filter, Notification, Schema, SchemaError

INTEGERS = Schema({"x": "integer"})


def parse(text):
    return Filter.parse(text, schema=INTEGERS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x > 3", "x >= 4"),
        ("x < 3.5", "x <= 3"),
        ("x >= 3.5", "x > 3"),
        ("x > 3 AND x < 5", "x = 4"),
        ("x BETWEEN 0.5 AND 2.5", "x IN (1, 2)"),
        ("x BETWEEN 1 AND 2 OR x BETWEEN 3 AND 4", "x BETWEEN 1 AND 4"),
        ("x <= 3 OR x >= 4", "x IS NUMBER"),
        ("x < 3 OR x = 3 OR x > 3", "x IS NUMBER"),
        ("NOT x > 3", "x < 4"),
        ("x > 3 AND x < 4", "FALSE"),
        ("x = 2.5", "FALSE"),
        ("x != 2.5", "x IS NUMBER"),
        ("(x = 1 OR x = 2) AND (x = 2 OR x = 3)", "x = 2"),
        ("x <= 3 AND y = 1 OR x >= 4 AND y = 1", "x IS NUMBER AND y = 1"),
        ("NOT EXISTS x OR x > 3", "NOT EXISTS x OR x >= 4"),
        ("x > 9007199254740992", "x >= 9007199254740993"),
    ],
)
def test_constraints_on_an_integer_are_the_same_if_they_admit_the_same_whole_numbers(one, other):
    assert parse(one) == parse(other)
    assert Filter.parse(str(parse(one)), schema=INTEGERS) == parse(one)


signs = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
constants = st.sampled_from([0, 0.5, 1, 2, 2.5, 3])


@given(
    st.lists(st.tuples(signs, constants), min_size=1, max_size=4),
    st.lists(st.sampled_from([" AND ", " OR "]), min_size=3, max_size=3),
)
def test_an_integer_filter_admits_the_same_whole_numbers_as_the_undeclared_one(parts, joints):
    conditions = [f"x {sign} {constant}" for sign, constant in parts]
    text = conditions[0] + "".join(
        joint + condition for joint, condition in zip(joints, conditions[1:], strict=False)
    )
    whole, real = parse(text), Filter.parse(text)
    admitted = [n for n in range(-2, 6) if whole.matches(Notification({"x": n}))]
    assert admitted == [n for n in range(-2, 6) if real.matches(Notification({"x": n}))]
    if not admitted:
        assert whole == Filter.none()
    elif admitted == list(range(-2, 6)):
        assert whole == Filter.parse("x IS NUMBER")


def test_what_is_not_declared_stays_free():
    assert Filter.parse("y > 3", schema=INTEGERS) == Filter.parse("y > 3")
    INTEGERS.check(Notification({"y": "anything"}))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2.5, "attribute 'x' is declared integer, not 2.5"),
        (float("inf"), "attribute 'x' is declared integer, not inf"),
        ("2", "attribute 'x' is declared integer, not string"),
        (True, "attribute 'x' is declared integer, not boolean"),
        ([2], "attribute 'x' is declared integer, not set"),
        ([{"a": 1}], "attribute 'x' is declared integer, not presence"),
    ],
)
def test_a_value_of_another_domain_than_declared_is_refused(value, reason):
    with pytest.raises(SchemaError) as caught:
        INTEGERS.check(Notification({"x": value}))
    assert str(caught.value) == reason


def test_values_of_the_declared_domain_pass():
    for value in (2, 2.0, 10**30, -1):
        INTEGERS.check(Notification({"x": value}))
    INTEGERS.check(Notification({}))


def test_text_is_read_as_a_time_where_one_is_declared():
    schema = Schema({"when": "time", "order.placed": "time"})
    read = schema.read({"when": "2026-11-15T12:00:00Z", "order": {"placed": "2026-11-15"}})
    assert read["when"].hour == 12
    assert read["order.placed"].year == 2026
    with pytest.raises(SchemaError, match="attribute 'when': not a time"):
        schema.read({"when": "noon"})


def test_an_unknown_domain_is_refused():
    with pytest.raises(SchemaError, match="attribute 'x' is declared 'colour'; known are boolean"):
        Schema({"x": "colour"})


def test_a_schema_is_loaded_from_toml(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text('[attributes]\nsize = "integer"\n"a.b" = "time"\n[types]\nquote = ["stock"]\n')
    schema = Schema.load(path)
    assert schema.attributes == {"size": "integer", "a.b": "time"}
    assert schema.domain("size") == "number"
    assert schema.types.is_a("quote", "stock")
    assert pickle.loads(pickle.dumps(schema)).types.is_a("quote", "stock")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[attributes", "line 1: Expected"),
        ('[attributes]\nx = "number\n', "line 2: a string has no end: a quote is missing"),
        ("attributes = 5", "must map names to str values"),
        ("[attributes]\nx = 5", "must map names to str values"),
        ("[attributes]\na.b = 'number'", "must map names to str values"),
        ("[attributes]\nx = 'colour'", "declared 'colour'"),
        ("[types]\nx = 'y'", "must map names to list values"),
        ("[types]\nx = [5]", "must list the names of types"),
        ("[types]\nx = [{ y = 1 }]", "must list the names of types"),
        ("[types]\nx = ['x']", "inherit from itself"),
        ("[colours]\nx = 5", "unknown table 'colours'; known are attributes, types"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(tmp_path, content, reason):
    path = tmp_path / "schema.toml"
    path.write_text(content)
    with pytest.raises(SchemaError, match=reason):
        Schema.load(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SchemaError):
        Schema.load(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(SchemaError):
        Schema.load(tmp_path / "latin.toml")


def test_reading_a_notification_again_keeps_sets_that_mix_truths_and_numbers() -> None:
    schema = Schema({"when": "time"})
    given = Notification.from_json('{"when": "2026-11-15", "marks": [true, 1]}')
    read = schema.read(given)
    assert read["when"] == datetime(2026, 11, 15, tzinfo=UTC)
    assert read.to_json() == '{"when":"2026-11-15","marks":[true,1]}'
    assert given["when"] == "2026-11-15"  # and the one given is as it was


def test_what_is_not_declared_is_named_with_what_may_be_meant():
    schema = Schema({"symbol": "string", "price": "number"})
    assert schema.unknown([]) is None
    assert schema.unknown(["price", "symbol"]) is None
    told = schema.unknown(["colour", "symbl", "pric", "x" * 10_000_000, "zebra"])
    assert told == (
        "the schema has no attribute 'colour', 'pric' (did you mean 'price'?), "
        "'symbl' (did you mean 'symbol'?), and 2 more"
    )
    assert len(schema.unknown(["x" * 10_000_000])) < 200
