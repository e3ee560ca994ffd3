"""Filters against set arithmetic on every notification of a small universe."""

import pickle
import subprocess
import sys
from textwrap import dedent

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import tidings
from tests.oracles import filters as oracle
from tests.oracles.filters import admitted, expected, text
from tidings import Conjunction, Filter, Notification, TidingsError

parse = Filter.parse


def parsed(node):
    return parse(text(node))


pairs = st.tuples(oracle.anything, oracle.anything)
exact_pairs = st.tuples(oracle.conjunctions, oracle.conjunctions)
filters = oracle.anything.map(parsed)

# -- against the oracle ----------------------------------------------------------------------


@given(oracle.anything)
def test_a_filter_matches_exactly_what_the_oracle_admits(node):
    assert admitted(parsed(node)) == expected(node)


@given(oracle.anything)
def test_not_matches_what_is_false_and_nothing_that_is_neither(node):
    negation = oracle.Not(node)
    assert admitted(parsed(negation)) == expected(negation)
    assert expected(negation) & expected(node) == 0


@given(pairs)
def test_intersect_is_exact(pair):
    one, other = map(parsed, pair)
    assert admitted(one.intersect(other)) == expected(pair[0]) & expected(pair[1])


@given(pairs)
def test_union_is_exact(pair):
    one, other = map(parsed, pair)
    assert admitted(one.union(other)) == expected(pair[0]) | expected(pair[1])


@given(pairs)
def test_overlaps_never_says_too_little(pair):
    one, other = map(parsed, pair)
    if expected(pair[0]) & expected(pair[1]):
        assert one.overlaps(other)
        assert other.overlaps(one)


@given(pairs)
def test_covers_never_says_too_much(pair):
    one, other = map(parsed, pair)
    if one.covers(other):
        assert expected(pair[1]) & ~expected(pair[0]) == 0


@given(pairs)
def test_what_is_equal_admits_the_same(pair):
    one, other = map(parsed, pair)
    if one == other:
        assert expected(pair[0]) == expected(pair[1])


@given(st.tuples(oracle.anything_exact, oracle.anything_exact))
def test_overlaps_is_exact_for_unions_over_ordered_scalars_and_sets(pair):
    one, other = map(parsed, pair)
    assert one.overlaps(other) == bool(expected(pair[0]) & expected(pair[1]))


@given(exact_pairs)
def test_covers_is_exact_for_conjunctions_over_ordered_scalars_and_sets(pair):
    one, other = map(parsed, pair)
    assume(len(one.conjunctions) <= 1)
    assert one.covers(other) == (expected(pair[1]) & ~expected(pair[0]) == 0)


@given(exact_pairs)
def test_equality_is_exact_for_conjunctions_over_ordered_scalars_and_sets(pair):
    one, other = map(parsed, pair)
    assume(len(one.conjunctions) <= 1 and len(other.conjunctions) <= 1)
    assert (one == other) == (expected(pair[0]) == expected(pair[1]))


@given(pairs)
def test_a_merger_is_one_conjunction_and_exactly_the_union(pair):
    one, other = map(parsed, pair)
    merger = one.merge(other)
    if merger is not None:
        assert len(merger.conjunctions) <= 1
        assert admitted(merger) == expected(pair[0]) | expected(pair[1])
        assert merger.covers(one)
        assert merger.covers(other)


scalars = oracle.conditions("x", sets=False)


@given(
    st.lists(scalars, min_size=1, max_size=2),
    st.lists(scalars, min_size=1, max_size=2),
    st.lists(oracle.conditions("y"), max_size=2),
)
def test_conjunctions_that_differ_in_one_ordered_attribute_always_merge(mine, theirs, shared):
    one = parsed(oracle.And((*mine, *shared)))
    other = parsed(oracle.And((*theirs, *shared)))
    merger = one.merge(other)
    assert merger is not None
    assert admitted(merger) == admitted(one) | admitted(other)


@given(filters, filters)
def test_mergers_do_not_depend_on_the_order(one, other):
    assert one.merge(other) == other.merge(one)
    assert one.union(other) == other.union(one)
    assert one.intersect(other) == other.intersect(one)
    assert one.overlaps(other) == other.overlaps(one)


@given(oracle.anything_exact)
def test_an_example_is_found_for_whatever_is_not_empty(node):
    found = parsed(node).example()
    assert (found is not None) == bool(expected(node))
    assert found is None or parsed(node).matches(found)


@given(filters)
def test_an_example_is_an_example(found):
    sample = found.example()
    assert sample is None or found.matches(sample)


# -- covers is a partial order ---------------------------------------------------------------


@given(filters)
def test_covers_is_reflexive(one):
    assert one.covers(one)
    assert Filter.all().covers(one)
    assert one.covers(Filter.none())


@given(filters, filters)
def test_covers_is_antisymmetric(one, other):
    if one.covers(other) and other.covers(one):
        assert one == other


@given(filters, filters, filters)
@example(Filter.all(), parse("x NOT LIKE '%a'"), parse("x = ''"))
def test_covers_is_transitive(one, other, third):
    smaller = one.intersect(other)
    smallest = smaller.intersect(third)
    assert one.covers(smaller)
    assert smaller.covers(smallest)
    assert one.covers(smallest)
    if one.covers(other) and other.covers(third):
        assert one.covers(third)


@given(filters, filters)
def test_covers_agrees_with_intersect_and_union(one, other):
    if one.covers(other):
        assert one.intersect(other) == other
        assert one.union(other) == one
    if other.conjunctions and one.covers(other):
        assert one.overlaps(other)


@given(filters)
def test_all_and_none_are_neutral(one):
    assert one.intersect(Filter.all()) == one
    assert one.union(Filter.none()) == one
    assert one.intersect(Filter.none()) == Filter.none()
    assert one.union(Filter.all()) == Filter.all()
    assert one.overlaps(Filter.all()) == bool(one.conjunctions)
    assert one.merge(one) == (one if len(one.conjunctions) <= 1 else None)


# -- one canonical form ----------------------------------------------------------------------


@given(filters)
def test_text_round_trips(found):
    assert parse(str(found)) == found


@given(filters, filters)
@example(parse("x < 5 OR x LIKE '%b'"), parse("x LIKE '%a'"))
def test_the_text_of_unions_and_intersections_round_trips(one, other):
    for found in (one.union(other), one.intersect(other)):
        again = parse(str(found))
        assert again == found
        assert str(again) == str(found)


@given(filters)
def test_json_round_trips(found):
    again = Filter.from_json(found.to_json())
    assert again == found
    assert again.key == found.key


@given(filters)
def test_pickle_round_trips(found):
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert hash(again) == hash(found)
    assert again.key == found.key


@given(filters, filters)
def test_hash_key_and_text_agree_with_equality(one, other):
    assert (one == other) == (one.key == other.key) == (str(one) == str(other))
    if one == other:
        assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x >= 5 AND x <= 5", "x = 5"),
        ("NOT (x < 4 OR x > 7)", "x BETWEEN 4 AND 7"),
        ("x < 4 OR x > 7", "x NOT BETWEEN 4 AND 7"),
        ("x IN (1, 2.0, 2)", "x = 2 OR x = 1"),
        ("x LIKE 'ab%'", "x >= 'ab' AND x < 'ac'"),
        ("x = 'a' OR x LIKE 'a.%'", "x UNDER 'a'"),
        ("a = 1 AND b = 2", "b = 2 AND (a = 1)"),
        ("a = 1 AND (b = 1 OR b = 2)", "a = 1 AND b = 1 OR a = 1 AND b = 2"),
        ("tags CONTAINS 1", "tags SUPERSET OF (1)"),
        ("tags OVERLAPS (1)", "tags CONTAINS 1"),
        ("NOT tags CONTAINS 1", "tags DISJOINT FROM (1)"),
        ("x IS NULL", "NOT EXISTS x"),
        ("x >= TRUE", "x"),
        ("x < TRUE", "NOT x"),
        ("x != TRUE", "x = FALSE"),
        ("x > TIMESTAMP '2026-01-01T00:00:00Z'", "x >= TIMESTAMP '2026-01-01T00:00:00.000001Z'"),
        ("x = TIMESTAMP '2026-01-01T01:00:00+01:00'", "x = TIMESTAMP '2026-01-01'"),
        ("x > 'a'", r"x >= 'a" + "\0'"),
        ("x LIKE '%__%'", "x LIKE '__%%'"),
        ("x = 0", "x = -0.0"),
        ("x = 9007199254740992", "x = 9007199254740992.0"),
        ("x = 1e3", "x = 1000"),
        ("EXISTS x AND x = 1", "x = 1"),
        ("TRUE OR x = 1", "TRUE"),
        ("x = 1 AND x = 2", "FALSE"),
        ("EXISTS x OR NOT EXISTS x", "TRUE"),
        ("(x IS NULL OR x = 1) AND (x IS NULL OR x = 2)", "x IS NULL"),
        ("(x IS NOT STRING OR x = 'a') AND EXISTS x", "x = 'a' OR x IS NOT STRING"),
        ("x NOT LIKE '%a' OR x = ''", "x NOT LIKE '%a'"),
    ],
)
def test_equal_sets_are_equal_whatever_the_spelling(one, other):
    assert parse(one) == parse(other)
    assert parse(one).key == parse(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 9007199254740993", "x = 9007199254740992.0"),
        ("x = 1", "x = TRUE"),
        ("x = '1'", "x = 1"),
        ("x CONTAINS 1", "x CONTAINS TRUE"),
        ("x < 5", "NOT x >= 5 OR NOT EXISTS x"),
        ("x IS NUMBER", "EXISTS x"),
        ("NOT x = 5", "x IS NOT NUMBER"),
    ],
)
def test_different_sets_differ(one, other):
    assert parse(one) != parse(other)
    assert parse(one).key != parse(other).key


def test_a_key_is_the_same_in_every_process():
    program = dedent("""
        from tidings import Filter
        for text in {
            "tags OVERLAPS ('a', 'b', 1, TRUE) AND NOT tags CONTAINS 'c'",
            "x LIKE '%a' AND x LIKE 'b%' AND x NOT LIKE '%c%' OR y IN (3, 1, 2)",
            "`a b` = 1 OR x < TIMESTAMP '2026-01-01' OR x = X'00' OR NOT EXISTS x",
        }:
            print(text, Filter.parse(text).key, Filter.parse(text), sep="|")
    """)
    outputs = {
        frozenset(
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
                text=True,
                timeout=300,
            ).stdout.splitlines()
        )
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    for line in outputs.pop():
        source, key, canonical = line.split("|")
        assert (parse(source).key, str(parse(source))) == (key, canonical)


def test_a_key_never_changes():
    assert parse("symbol = 'DIS' AND change < 0").key == "9ca514df16989ca5416358ef89708c3b"
    assert Filter.all().key == "f104ce1f41f25889d26a0b8c32ccc210"


# -- JSON from outside -----------------------------------------------------------------------


def use(found):
    """Everything one does with a filter; none of it may fail once the filter was accepted."""
    assert parse(str(found)) == found
    assert Filter.from_json(found.to_json()) == found
    assert found.key
    for value in (True, 5, 0.5, "a", oracle.NOON, b"a", ["a", 1], [{"a": 1}]):
        found.matches(Notification({"x": value}))
    found.example()
    found.merge(parse("x > 3 OR x < 'b' OR x SUBSET OF (1)"))


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "5",
        "null",
        "[]",
        "{}",
        "nonsense",
        '{"any": 5}',
        '{"any": ""}',
        '{"any": {"a": 1}}',
        '{"any": [5]}',
        '{"any": [{"x": 5}]}',
        '{"any": [{"x": {"colour": []}}]}',
        '{"any": [{"x": {"carried": []}}]}',
        '{"any": [{"": {"absent": true}}]}',
        '{"any": [{"x": {"number": 5}}]}',
        '{"any": [{"x": {"number": {}}}]}',
        '{"any": [{"x": {"number": [{"eq": "a"}]}}]}',
        '{"any": [{"x": {"number": [{"eq": true}]}}]}',
        '{"any": [{"x": {"number": [{"eq": [1]}]}}]}',
        '{"any": [{"x": {"number": [{"eq": null}]}}]}',
        '{"any": [{"x": {"number": [{"near": 1}]}}]}',
        '{"any": [{"x": {"number": [{"eq": {"$number": "Infinity"}}]}}]}',
        '{"any": [{"x": {"number": [{"eq": {"$number": "NaN"}}]}}]}',
        '{"any": [{"x": {"number": [{"eq": {"$number": "0x' + "f" * 4_000 + '"}}]}}]}',
        '{"any": [{"x": {"set": {"superset": [{"$number": "0x' + "f" * 4_000 + '"}]}}}]}',
        '{"any": [{"x": {"boolean": [{"eq": 1}]}}]}',
        '{"any": [{"x": {"time": [{"ge": 5}]}}]}',
        '{"any": [{"x": {"time": [{"ge": {"$time": "noon"}}]}}]}',
        '{"any": [{"x": {"bytes": [{"ge": {"$bytes": "?"}}]}}]}',
        '{"any": [{"x": {"string": {"within": [{"lt": 5}]}}}]}',
        '{"any": [{"x": {"string": {"within": [{"eq": "\\ud800"}]}}}]}',
        '{"any": [{"x": {"string": {}}}]}',
        '{"any": [{"x": {"string": {"within": [{}], "passing": [{"like": "a"}]}}}]}',
        '{"any": [{"x": {"string": {"within": [{}], "passing": [{"like": 5}]}}}]}',
        '{"any": [{"x": {"string": {"within": [{}], "failing": [{"is b": "x"}]}}}]}',
        '{"any": [{"x": {"set": 5}}]}',
        '{"any": [{"x": {"set": {"superset": "abc"}}}]}',
        '{"any": [{"x": {"set": {"superset": [[1]]}}}]}',
        '{"any": [{"x": {"set": {"superset": [null]}}}]}',
        '{"any": [{"x": {"set": {"superset": [{"$number": "Infinity"}]}}}]}',
        '{"any": [{"x": {"set": {"hits": [{"under": [1]}]}}}]}',
        '{"any": [{"x": {"set": {"superset": ' + "[" * 900 + "]" * 900 + "}}}]}",
        '{"any": ' + "[" * 100_000,
    ],
)
def test_damaged_json_is_refused_with_the_librarys_own_error(damaged):
    with pytest.raises(TidingsError):
        Filter.from_json(damaged)


@given(filters.map(Filter.to_json), st.data())
def test_randomly_damaged_json_is_refused_or_makes_a_sound_filter(json, data):
    at = data.draw(st.integers(0, len(json) - 1))
    length = data.draw(st.integers(0, 3))
    inserted = data.draw(st.text('{}[]":,0159.eE-+tfn$\\ax%_ é\0', max_size=3))
    damaged = json[:at] + inserted + json[at + length :]
    try:
        found = Filter.from_json(damaged)
    except TidingsError:
        return
    use(found)


json_words = st.sampled_from(
    [
        *("eq", "lt", "le", "gt", "ge", "others", "absent", "$time", "$bytes", "$number"),
        *("boolean", "number", "string", "time", "bytes", "set"),
        *("within", "passing", "failing", "like", "is a"),
        *("superset", "subset", "disjoint", "hits", "overlaps", "beyond"),
    ]
)
json_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False), st.text("a$%")
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(json_words, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
def test_strange_json_is_refused_or_makes_a_sound_filter(value):
    try:
        found = Filter.from_json(msgspec.json.encode({"any": [{"x": value}]}))
    except TidingsError:
        return
    use(found)


# -- small things ----------------------------------------------------------------------------


def test_the_public_names_are_there():
    for name in tidings.__all__:
        assert getattr(tidings, name).__name__ == name


def test_a_filter_is_not_equal_to_anything_else():
    assert parse("x = 1") != "x = 1"
    assert Conjunction({}) != Filter.all()


def test_repr_can_be_evaluated():
    found = parse("symbol = 'it''s' AND x > 3")
    assert eval(repr(found)) == found


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1 AND x = 2", "x = 1 excludes x = 2"),
        ("x < 3 AND y = 1 AND x > 5", "x < 3 excludes x > 5"),
        ("(x = 1 OR x = 2) AND x > 5", "x > 5 excludes x IN (1, 2)"),
        ("x BETWEEN 5 AND 3", "a condition on x admits no value at all"),
        ("NOT EXISTS x AND x = 1", "NOT EXISTS x excludes x = 1"),
        ("x = 1 AND x = 'a'", "x = 1 excludes x = 'a'"),
        ("tags SUBSET OF ('a') AND tags CONTAINS 'b'", "tags SUBSET OF ('a') excludes "
         "tags CONTAINS 'b'"),
    ],
)  # fmt: skip
def test_a_filter_that_can_never_match_says_why(source, reason):
    assert parse(source) == Filter.none()
    assert reason in parse(source).reasons
