"""The language: what a text means, what is said of a text that means nothing, and its limits."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracles import filters as oracle
from tidings import Filter, FilterError, Limits, Notification, Schema
from tidings.events import language

parse = Filter.parse


def admits(text, **attributes):
    return parse(text).matches(Notification(attributes))


# -- meaning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 OR b = 1 AND c = 1", "a = 1 OR (b = 1 AND c = 1)"),
        ("NOT a = 1 AND b = 1", "(NOT a = 1) AND b = 1"),
        ("NOT a = 1 OR b = 1", "(NOT (a = 1)) OR b = 1"),
        ("NOT NOT NOT a = 1", "a != 1"),
        ("NOT (a = 1 AND b = 1)", "a != 1 OR b != 1"),
        ("NOT (a = 1 OR b = 1)", "a != 1 AND b != 1"),
        ("a BETWEEN 1 AND 2 AND b = 1", "(a BETWEEN 1 AND 2) AND (b = 1)"),
        ("a = 1 and not b or exists c", "a = 1 AND NOT b OR EXISTS c"),
        ("5 < a", "a > 5"),
        ("'x' != a", "a <> 'x'"),
        ("a NOT IN (1, 2)", "NOT a IN (1, 2)"),
        ("a NOT LIKE '%b'", "NOT a LIKE '%b'"),
        ("a NOT BETWEEN 1 AND 2", "a < 1 OR a > 2"),
        ("a IS NOT NULL", "EXISTS a"),
        ("a NOT CONTAINS 1", "NOT a CONTAINS 1"),
        ("a = .5", "a = 0.5"),
        ("a = +5.", "a = 5"),
        ('a = "x"', "a = 'x'"),
        ("`a` = 1", "a = 1"),
        ("a=1AND b=1".replace("1A", "1 A"), "a = 1 AND b = 1"),
        ("a\n=\t1", "a = 1"),
        ("a = timestamp'2026-01-01'", "a = TIMESTAMP '2026-01-01T00:00:00Z'"),
        ("a = x'0A'", "a = X'0a'"),
        ("a IN (TRUE, FALSE)", "a IS BOOLEAN"),
        ("NOT TRUE", "FALSE"),
    ],
)
def test_two_texts_mean_the_same(one, other):
    assert parse(one) == parse(other)


@pytest.mark.parametrize(
    "word",
    [
        "in",
        "like",
        "between",
        "is",
        "null",
        "timestamp",
        "x",
        "a",
        "set",
        "number",
        "of",
        "from",
        "under",
        "escape",
        "contains",
    ],
)
def test_a_word_of_the_language_is_a_name_where_no_doubt_arises(word):
    assert parse(f"{word} = 1") == parse(f"`{word}` = 1")
    assert parse(f"EXISTS {word} AND 5 < {word}") == parse(f"`{word}` > 5")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a b",
            "a`b",
            "`",
            "a.b.c",
            ".",
            "a..b",
            "5",
            "a-b",
            "'",
            '"',
            "a\nb",
            "\0",
            " ",
            "é",
            "名",
        ),
        *(
            "and",
            "OR",
            "Not",
            "exists",
            "TRUE",
            "false",
            "exısts",
            "falſe",
            "x = 1",
            "😀",
            "²",
            "a.",
        ),
    ],
)
def test_any_name_can_be_said_and_is_printed_so_that_it_can_be_read(name):
    found = parse(f"`{name.replace('`', '``')}` = 1")
    assert list(found.conjunctions[0].constraints) == [name]
    assert parse(str(found)) == found
    assert parse(
        str(parse(f"NOT EXISTS ({name!r})".replace(f"({name!r})", str(found)[:-4])))
    ) == parse(f"NOT EXISTS {str(found)[:-4]}")
    assert found.matches(Notification({name: 1}))


@given(st.text(max_size=6), st.text(max_size=8))
@example("a", "\\")
@example("a", "\\'")
@example("a", "''")
@example("a", "%_\\%")
def test_any_string_can_be_said(name, value):
    name = name or "a"
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    text = f"`{name.replace('`', '``')}` = '{quoted}'"
    found = parse(text)
    assert found.matches(Notification({name: value}))
    assert parse(str(found)) == found
    pattern = "".join("\\" + c if c in "\\%_" else c for c in value)
    quoted = pattern.replace("\\", "\\\\").replace("'", "''")
    assert parse(f"`{name.replace('`', '``')}` LIKE '{quoted}'") == found


# CloudEvents SQL has these constructs too, and for attributes that are present and of the right
# type they mean the same here.
@pytest.mark.parametrize(
    ("text", "attributes", "admitted"),
    [
        (r"source = 'it\'s'", {"source": "it's"}, True),
        (r'source = "say \"hi\""', {"source": 'say "hi"'}, True),
        ('source = "it\'s"', {"source": "it's"}, True),
        ("source LIKE '%.com'", {"source": "example.com"}, True),
        ("source LIKE 'a_c'", {"source": "abc"}, True),
        ("source LIKE 'a_c'", {"source": "ac"}, False),
        (r"source LIKE '100\%'", {"source": "100%"}, True),
        (r"source LIKE '100\%'", {"source": "100 percent"}, False),
        (r"source LIKE 'a\_c'", {"source": "a_c"}, True),
        (r"source LIKE 'a\_c'", {"source": "abc"}, False),
        ("source NOT LIKE 'a%'", {"source": "b"}, True),
        ("subject IN ('a', 'b')", {"subject": "b"}, True),
        ("subject NOT IN ('a', 'b')", {"subject": "b"}, False),
        ("EXISTS subject", {"subject": ""}, True),
        ("EXISTS subject", {"source": ""}, False),
        ("NOT EXISTS subject", {"source": ""}, True),
        ("NOT EXISTS subject AND source = 'a'", {"source": "a"}, True),
        ("NOT n = 1 AND n = 2", {"n": 2}, True),
        ("n = 1 OR n = 2 AND m = 1", {"n": 1, "m": 9}, True),
        ("n <> 1", {"n": 2}, True),
        ("n != 1", {"n": 1}, False),
        ("n >= -3 AND n <= 3", {"n": -3}, True),
        ("flag", {"flag": True}, True),
        ("NOT flag", {"flag": True}, False),
        ("flag = TRUE", {"flag": True}, True),
        ("TRUE", {}, True),
        ("FALSE", {}, False),
    ],
)
def test_what_cloudevents_sql_shares_means_the_same(text, attributes, admitted):
    assert admits(text, **attributes) == admitted


@pytest.mark.parametrize(
    "text", ["a = 1", "a != 1", "a < 1", "a >= 1", "a IN (1)", "a NOT IN (1)", "a LIKE '%b'",
             "a NOT LIKE '%b'", "a CONTAINS 1", "a NOT CONTAINS 1", "a", "NOT a", "a IS NUMBER",
             "a IS NOT NUMBER", "a UNDER 'b'", "NOT a UNDER 'b'", "a IS A 'b'", "a IS NOT A 'b'",
             "a NOT BETWEEN 1 AND 2", "EXISTS a", "a IS NOT NULL"],
)  # fmt: skip
def test_an_absent_attribute_satisfies_no_comparison_nor_its_negation(text):
    assert not admits(text)
    if "EXISTS" not in text and "NULL" not in text:
        assert not admits(f"NOT ({text})")


def test_escape_chooses_another_escape_character():
    assert admits("a LIKE '10!%' ESCAPE '!'", a="10%")
    assert not admits("a LIKE '10!%' ESCAPE '!'", a="10a")
    assert admits("a LIKE '!!_' ESCAPE '!'", a="!x")
    assert admits("a LIKE '%%' ESCAPE '%'", a="%")


# -- errors ----------------------------------------------------------------------------------

OPERATORS = "=, !=, <, <=, >, >=, IN, BETWEEN, LIKE, UNDER, CONTAINS, IS, …"


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("", 1, 1, "the filter is empty; TRUE admits everything"),
        (" \n ", 1, 1, "the filter is empty; TRUE admits everything"),
        ("x = ", 1, 4, "expected a constant, found the end"),
        ("x == 5", 1, 4, "expected a constant, found '='"),
        ("x = y", 1, 5, "expected a constant, found 'y'"),
        ("x = 12abc", 1, 5, "expected a constant, found '12abc'"),
        ("0x = 5", 1, 1, "expected a condition, such as price > 10, found '0x'"),
        ("x = 'abc", 1, 5, "this ' is never closed"),
        ('x = "abc\\"', 1, 5, 'this " is never closed'),
        ("a = 1 AND `x = 5", 1, 11, "this ` is never closed"),
        ("(x = 1", 1, 7, "expected ')', found the end"),
        ("x = 1)", 1, 6, "expected the end, found ')'"),
        ("x = 1 y = 2", 1, 7, "expected the end or AND or OR, found 'y'"),
        ("x = 1 -- why", 1, 7, "expected the end or AND or OR, found '-'"),
        ("AND x", 1, 1, "'AND' is a word of the language; as a name it needs backticks"),
        ("5 = true", 1, 5, "'true' is a word of the language; as a name it needs backticks"),
        ("x AND", 1, 6, "expected a condition, such as price > 10, found the end"),
        ("x IN 5", 1, 6, "expected '(', found '5'"),
        ("x IN ()", 1, 6, "IN needs at least one value"),
        ("x IN (1, 'a')", 1, 6, "the list mixes number and string"),
        ("x IN (1 2)", 1, 9, "expected ',' or ')', found '2'"),
        ("x LIKE 5", 1, 8, "expected a string in quotes, found '5'"),
        ("x LIKE 'a!b' ESCAPE '!'", 1, 8, "'!' must be followed by %, _ or itself"),
        ("x LIKE 'a' ESCAPE 'ab'", 1, 19, "ESCAPE takes a single character"),
        ("x BETWEEN 1", 1, 12, "expected AND, found the end"),
        ("x BETWEEN 1 AND 'b'", 1, 17, "BETWEEN a number AND a string means nothing"),
        ("x CONTIANS 5", 1, 3, f"'CONTIANS' is no operator; expected {OPERATORS}"),
        ("x MATCHES (5)", 1, 3, f"'MATCHES' is no operator; expected {OPERATORS}"),
        ("x = 1 OR\n  y @ 3", 2, 5, f"expected an operator ({OPERATORS}), found '@'"),
        ("x = 1e999", 1, 5, "1e999 is too large for a floating-point number"),
        (f"x = {2**14_000}", 1, 5, f"{2**14_000}"[:40] + " is too large for a constant"),
        ("EXISTS 'a'", 1, 8, "expected an attribute's name, found \"'a'\""),
        ("x = 1\n\nAND y = '\ud800'", 3, 10, "half of a surrogate pair is no character"),
    ],
)  # fmt: skip
def test_an_error_says_where_and_what(text, line, column, reason):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column, caught.value.reason) == (line, column, reason)


def test_an_error_shows_the_line_with_a_caret():
    with pytest.raises(FilterError) as caught:
        parse("symbol = 'DIS' AND\n  price = 5 AND\n  change => 0")
    assert str(caught.value) == (
        "line 3, column 11: expected a constant, found '>'\n    change => 0\n            ^"
    )


def test_an_error_in_a_long_line_shows_what_is_around_it():
    with pytest.raises(FilterError) as caught:
        parse("a = 1 AND " * 1000 + "b == 1" + " AND a = 1" * 1000)
    first, excerpt, caret = str(caught.value).split("\n")
    assert first == "line 1, column 10004: expected a constant, found '='"
    assert len(excerpt) < 80
    assert excerpt[caret.index("^")] == "="
    assert excerpt[caret.index("^") - 3 : caret.index("^") + 3] == "b == 1"


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("size = 'a'", 8, "size is declared number, this is a string"),
        ("size IN ('a')", 9, "size is declared number, this is a string"),
        ("size LIKE 'a%'", 11, "size is declared number, this is a string"),
        ("a = 1 AND size", 11, "size is declared number, so it needs a comparison"),
        ("size CONTAINS 5", 1, "size is declared number, not a set"),
        ("on = 5", 6, "on is declared boolean, this is a number"),
        ("type IS A 'stok'", 11, "the schema declares no type 'stok'; did you mean 'stock'?"),
        ("type IS 'nothing'", 9, "the schema declares no type 'nothing'"),
        ("a = 1 AND a = 2 AND size = 'a'", 28, "size is declared number, this is a string"),
        ("FALSE AND size = 'a'", 18, "size is declared number, this is a string"),
    ],
)
def test_a_type_error_says_where_and_what(text, column, reason):
    schema = Schema({"size": "integer", "on": "boolean"}, types={"stock.quote": ["stock"]})
    with pytest.raises(FilterError) as caught:
        parse(text, schema=schema)
    assert (caught.value.column, caught.value.reason) == (column, reason)


def test_an_error_travels_between_processes():
    with pytest.raises(FilterError) as caught:
        parse("x ==\n 5")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.line, again.column, again.reason) == (1, 4, caught.value.reason)


# -- shapes and their cache ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        ("x = 1 AND y IN (1, 2)", "x = 10000000 AND y IN (1, 'a')", 23),
        ("x BETWEEN 1 AND 2", "x BETWEEN 1000 AND 'b'", 20),
        ("x LIKE 'a' ESCAPE '!'", "x LIKE 'aaaaaaa' ESCAPE '!!'", 25),
        ("x = 1 AND y = TIMESTAMP '2026-01-01'", "x = 1.5e3 AND y = TIMESTAMP 'never'", 19),
        ("x = 1 AND y = 1.5", "x = 1000 AND y = 1e999", 18),
    ],
)
def test_an_error_points_into_this_text_though_the_shape_was_seen_in_another(first, second, column):
    parse(first)
    with pytest.raises(FilterError) as caught:
        parse(second)
    assert caught.value.column == column


@given(st.lists(st.tuples(oracle.anything, st.booleans()), min_size=2, max_size=4))
def test_a_cached_shape_binds_the_constants_of_the_text_at_hand(nodes):
    texts = [oracle.text(node) for node, _ in nodes]
    warm = [parse(text) for text in texts for _ in range(2)]
    language._templates.clear()
    for at, text in enumerate(texts):
        language._templates.clear()
        assert parse(text) == warm[2 * at] == warm[2 * at + 1]


def test_texts_of_one_shape_share_a_template():
    language._templates.clear()
    for i in range(50):
        assert parse(f"x = {i} AND y = 's{i}'").matches(Notification({"x": i, "y": f"s{i}"}))
    assert len(language._templates) == 1


@pytest.mark.parametrize(
    ("cached", "text"),
    [
        ("x = 5", "0x = 5"),  # with a depth of 10, the two once had one key
        ("x = 'abc'", "x = 'abc"),
        ("x = 5", "x = \0"),
        ("x = 5 AND y = 5", "x = \0 AND y = 5"),
        ("x IN (5)", "x IN (5"),
    ],
)
def test_a_wrong_text_is_refused_though_a_similar_shape_is_cached(cached, text):
    for limits in (Limits(depth=10), Limits(depth=1), Limits(depth=100)):
        parse(cached)
        with pytest.raises(FilterError):
            parse(text, limits=limits)


def test_a_tight_limit_holds_though_the_shape_is_cached():
    nested = "((x = 1))"
    parse(nested)
    with pytest.raises(FilterError, match="nested more than 1 deep"):
        parse(nested, limits=Limits(depth=1))


def test_the_cache_stays_small_however_many_shapes_come(monkeypatch):
    monkeypatch.setattr(language, "_compile", lambda text, limits: text)
    language._templates.clear()
    for i in range(100_000):
        language._template_and_constants(f"x{i} = 1", language.DEFAULT_LIMITS)
    assert len(language._templates) == language._MOST_CACHED_SHAPES
    language._template_and_constants("x" * 100_000, language.DEFAULT_LIMITS)
    assert max(map(len, language._templates)) <= language._LONGEST_CACHED_SHAPE
    language._templates.clear()


# -- limits ----------------------------------------------------------------------------------


def test_a_text_may_be_long_up_to_a_limit():
    with pytest.raises(FilterError, match=r"the filter has 21 characters; the limit is 20"):
        parse("x = 'aaaaaaaaaaaaaaa'", limits=Limits(characters=20))
    with pytest.raises(FilterError, match="4,000,000"):
        parse(f"x = '{'a' * 4_000_000}'")


@pytest.mark.slow
def test_a_text_may_be_nested_up_to_a_limit():
    at_limit = "(" * 100 + "x = 1" + ")" * 100
    assert parse(at_limit) == parse("x = 1")
    with pytest.raises(FilterError) as caught:
        parse(f"({at_limit})")
    assert (caught.value.column, caught.value.reason) == (101, "nested more than 100 deep")
    with pytest.raises(FilterError):
        parse("(" * 1_000_000)
    with pytest.raises(ValueError, match="200"):
        Limits(depth=201)


@pytest.mark.slow
def test_the_deepest_nesting_allowed_is_evaluated():
    deep = Limits(depth=200)
    text = "x = 0"
    for i in range(200):
        text = f"({text}) {'AND' if i % 2 else 'OR'} y{i % 3} = {i}"
    assert parse(text, limits=deep).conjunctions
    negated = "x = 0"
    for i in range(200):
        negated = f"NOT ({negated} OR x = {i})"
    assert parse(negated, limits=deep) is not None


def test_negations_do_not_count_as_nesting():
    many = " AND ".join(f"NOT (a = {i} OR b = {i})" for i in range(300))
    assert len(parse(many).conjunctions) == 1
    assert parse("NOT " * 1000 + "x") == parse("x")


@pytest.mark.slow
def test_alternatives_are_bounded():
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(30))
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.reason == (
        "written without nested ORs, the filter has more than 1,000 alternatives; "
        "split it into several"
    )
    eight = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(3))
    assert len(parse(eight, limits=Limits(conjunctions=8)).conjunctions) == 8
    with pytest.raises(FilterError, match="more than 7 alternatives"):
        parse(eight, limits=Limits(conjunctions=7))


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    ["x{i} = 1", "x LIKE '%s{i}'", "x SUPERSET OF ({i}, {j})", "x{i} LIKE '%a'"],
)
def test_too_many_alternatives_are_refused_before_they_are_compared(condition):
    text = " OR ".join(condition.format(i=i, j=i + 10_000) for i in range(10_000))
    with pytest.raises(FilterError, match="more than 1,000 alternatives"):
        parse(text)


# -- large texts -----------------------------------------------------------------------------


def test_a_list_may_hold_ten_thousand_values():
    text = f"x IN ({', '.join(str(2 * i) for i in range(10_000))})"
    found = parse(text)
    assert found.matches(Notification({"x": 19_998}))
    assert not found.matches(Notification({"x": 9_999}))
    assert parse(str(found)) == found
    assert Filter.from_json(found.to_json()) == found
    assert parse(text, schema=Schema({"x": "integer"})) == found
    assert parse(text.replace("IN", "NOT IN")).merge(found) == parse("x IS NUMBER")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("joint", "condition"),
    [(" OR ", "x = {i}"), (" OR ", "x = 's{i}'"), (" AND ", "x != {i}"), (" AND ", "x{i} = 1")],
)
def test_ten_thousand_conditions_are_read(joint, condition):
    text = joint.join(condition.format(i=2 * i) for i in range(10_000))
    found = parse(text)
    assert len(found.conjunctions) == 1
    assert str(parse(str(found))) == str(found)


@pytest.mark.parametrize(
    "condition", ["x LIKE '%s{i}%'", "x NOT LIKE '%s{i}'", "x OVERLAPS ({i}, -{i})"]
)
def test_hundreds_of_conditions_on_one_attribute_are_read(condition):
    found = parse(" AND ".join(condition.format(i=i) for i in range(100, 400)))
    assert parse(str(found)) == found


MEGABYTE = "ab" * 500_000


def test_a_megabyte_of_string_is_a_constant_like_any_other():
    found = parse(f"x = '{MEGABYTE}'")
    assert found.matches(Notification({"x": MEGABYTE}))
    assert not found.matches(Notification({"x": MEGABYTE + "a"}))
    assert parse(f"x LIKE '{MEGABYTE}%'").covers(found)
    assert parse("x LIKE '%ba%'").covers(found)
    assert parse(f"x UNDER '{MEGABYTE}'").covers(found)
    assert parse(str(found)) == found
    assert len(found.key) == 32


def test_a_megabyte_of_string_is_matched_by_patterns():
    event = Notification({"x": MEGABYTE})
    assert parse("x LIKE '%" + "b%a" * 20 + "%'").matches(event)
    assert not parse("x LIKE '%" + "b%a" * 20 + "%c'").matches(event)
    assert parse("x LIKE 'a" + "_%" * 50 + "b'").matches(event)
    assert not parse("x LIKE '%a_b_a_c%'").matches(event)


@pytest.mark.slow
def test_a_pattern_may_be_a_megabyte():
    found = parse(f"x LIKE '%{MEGABYTE}_'")
    assert found.matches(Notification({"x": "z" + MEGABYTE + "a"}))
    assert not found.matches(Notification({"x": MEGABYTE}))
    assert not found.matches(Notification({"x": MEGABYTE * 2}))
    assert parse("x LIKE '%b_'").covers(found) in (True, False)
    assert parse("x LIKE '%ba%'").covers(parse(f"x LIKE '%{MEGABYTE}'")) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = '" + r"\'" * 200_000, id="an unclosed string of escaped quotes"),
        pytest.param("x = " + "'" * 200_001, id="an odd number of quotes"),
        pytest.param("`" * 200_001, id="an odd number of backticks"),
        pytest.param("x" * 200_000 + " foo 5", id="a very long name before a mistake"),
        pytest.param("x = " + "9" * 200_000, id="a very long number"),
        pytest.param("x = " + "9" * 200_000 + "a", id="a very long number and a letter"),
        pytest.param("x = 1" + " " * 200_000 + "@", id="very much space"),
        pytest.param("x IN (" + "1, " * 20_000 + "TRUE", id="a list that is never closed"),
        pytest.param("x IN (" + "(" * 100_000, id="many parentheses in a list"),
        pytest.param("x = TIMESTAMP " * 20_000, id="many tags without a constant"),
        pytest.param("\n" * 200_000 + "x ==", id="a mistake far down"),
        pytest.param("x AND " * 10_000, id="a long unfinished conjunction"),
    ],
)  # fmt: skip
def test_a_long_wrong_text_is_refused_at_once(text):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert len(str(caught.value)) < 400


# -- texts that nobody meant to write ----------------------------------------------------------

WORDS = " AND | OR | NOT |NOT(| IN | IS | LIKE | BETWEEN | EXISTS | TRUE | NULL | ESCAPE | UNDER "
PIECES = [
    *("'\"`()%_\\,.;=<>!-+*/#$€\0\n\t "),
    *WORDS.split("|"),
    *("é", "ſ", "ı", "\ud800", "\ufeff", "٣", "²", "😀", "''", "\\'", "(((", ")))", "TIMESTAMP '"),
    *("X'", "1e5", "1e999", "-5", "0x", "9" * 30, "1.2.3", " CONTAINS ", "a", " SUBSET OF ()"),
    *("(1, 'a')", "(1, TRUE)", " IS A 'b'"),
]


@st.composite
def mutated(draw):
    text = oracle.text(draw(oracle.anything))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 2, 5]))
        piece = draw(st.sampled_from(PIECES) | st.text(max_size=2) | st.just(""))
        text = text[:at] + piece + text[at + length :]
    return text


@given(mutated())
@example("x = 1 AND `a\0b` = 2 AND")
@example("x IN (X'00', TIMESTAMP '2026-01-01', 'a')")
@example("a.timestamp 'x' = 5")
@example("x = 5X'00'")
@example("x NOT between 1.0 and0")
def test_a_mutated_text_is_a_filter_or_raises_the_librarys_own_error(text):
    found = attempt(text)
    if isinstance(found, FilterError):
        assert 1 <= found.line <= text.count("\n") + 1
        assert found.column >= 1
        assert found.reason
        assert str(found).endswith("^")
        assert str(attempt(text)) == str(found)
    else:
        assert parse(str(found)) == found
        assert Filter.from_json(found.to_json()) == found
        assert found.key
        found.example()


def attempt(text):
    try:
        return parse(text)
    except FilterError as error:
        return error


@given(st.text(max_size=30))
def test_any_text_is_a_filter_or_raises_the_librarys_own_error(text):
    assert attempt(text) is not None


def test_a_filter_is_parsed_alike_in_optimised_mode():
    """Nothing that a user can do is guarded by an assertion."""
    program = "from tidings import Filter; print(Filter.parse(\"NOT x IN (1, 2) AND y LIKE '%a'\"))"
    run = subprocess.run(
        [sys.executable, "-OO", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert run.stdout.strip() == str(parse("NOT x IN (1, 2) AND y LIKE '%a'"))
