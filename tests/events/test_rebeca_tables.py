"""The rules of content-based filtering as the literature tables them (Mühl 2002, chapter 4).

Every row is one case. A row is a statement about all its constants, so a case tries all small
ones: two templates, and the condition under which the one covers, overlaps or merges with the
other. Rows marked "also" are missing from the printed tables and follow from them; the thesis
has no table of overlaps, so section 2.4 is what follows from the definition.
"""

import re
from itertools import chain, combinations, product

import pytest

from tidings import Filter, Notification, Schema

parse = Filter.parse

NUMBERS = [1, 2, 3]
RANGES = [(low, high) for low, high in product(range(1, 5), repeat=2) if low <= high]
WORDS = ["".join(w) for n in (1, 2, 3) for w in product("ab", repeat=n)]
GROUPS = [frozenset(g) for g in chain.from_iterable(combinations(NUMBERS, n) for n in range(1, 4))]


def spelt(template, name, constant):
    """The template with the constant in place of its name."""
    if isinstance(constant, frozenset):
        constant = f"({', '.join(map(str, sorted(constant)))})"
    if isinstance(constant, tuple):
        constant = f"{constant[0]} AND {constant[1]}"
    return template.replace(name, str(constant))


def inside(small, large):
    return large[0] <= small[0] and small[1] <= large[1]


def all_constants(one, other, constants):
    """The two filters for every two constants."""
    firsts, seconds = constants if isinstance(constants, tuple) else (constants, constants)
    for c1, c2 in product(firsts, seconds):
        yield c1, c2, parse(spelt(one, "c1", c1)), parse(spelt(other, "c2", c2))


def holds(condition, c1, c2):
    return bool(eval(condition, {"inside": inside}, {"c1": c1, "c2": c2}))


def rows(verb, table):
    return [
        pytest.param(*row[1:], id=f"{row[0]}: {row[1]} {verb} {row[2]} iff {row[3]}")
        for row in table
    ]


# -- covering: tables 4.1 to 4.7 -------------------------------------------------------------

COVERING = [
    ("4.2", "x = c1", "x = c2", "c1 == c2", NUMBERS),
    ("4.2", "x != c1", "x = c2", "c1 != c2", NUMBERS),
    ("4.2", "x != c1", "x != c2", "c1 == c2", NUMBERS),
    ("4.3", "x != c1", "x < c2", "c1 >= c2", NUMBERS),
    ("4.3", "x != c1", "x <= c2", "c1 > c2", NUMBERS),
    ("4.3", "x != c1", "x >= c2", "c1 < c2", NUMBERS),
    ("4.3", "x != c1", "x > c2", "c1 <= c2", NUMBERS),
    ("4.3", "x > c1", "x = c2", "c1 < c2", NUMBERS),
    ("4.3", "x > c1", "x > c2", "c1 <= c2", NUMBERS),
    ("4.3", "x > c1", "x >= c2", "c1 < c2", NUMBERS),
    ("4.3 also", "x >= c1", "x = c2", "c1 <= c2", NUMBERS),
    ("4.3 also", "x >= c1", "x > c2", "c1 <= c2", NUMBERS),
    ("4.3 also", "x >= c1", "x >= c2", "c1 <= c2", NUMBERS),
    ("4.3 also", "x < c1", "x = c2", "c1 > c2", NUMBERS),
    ("4.3 also", "x < c1", "x < c2", "c1 >= c2", NUMBERS),
    ("4.3 also", "x < c1", "x <= c2", "c1 > c2", NUMBERS),
    ("4.3 also", "x <= c1", "x = c2", "c1 >= c2", NUMBERS),
    ("4.3 also", "x <= c1", "x < c2", "c1 >= c2", NUMBERS),
    ("4.3 also", "x <= c1", "x <= c2", "c1 >= c2", NUMBERS),
    ("4.3 also", "x = c1", "x > c2", "False", NUMBERS),
    ("4.3 also", "x > c1", "x < c2", "False", NUMBERS),
    ("4.3 also", "x > c1", "x != c2", "False", NUMBERS),
    ("4.4", "x BETWEEN c1", "x BETWEEN c2", "inside(c2, c1)", RANGES),
    ("4.4", "x NOT BETWEEN c1", "x NOT BETWEEN c2", "inside(c1, c2)", RANGES),
    ("4.5", "x LIKE 'c1%'", "x LIKE 'c2%'", "c2.startswith(c1)", WORDS),
    ("4.5", "x LIKE '%c1'", "x LIKE '%c2'", "c2.endswith(c1)", WORDS),
    ("4.5", "x LIKE '%c1%'", "x LIKE '%c2%'", "c1 in c2", WORDS),
    ("4.5 also", "x LIKE '%c1%'", "x LIKE 'c2%'", "c1 in c2", WORDS),
    ("4.5 also", "x LIKE '%c1%'", "x LIKE '%c2'", "c1 in c2", WORDS),
    ("4.5 also", "x LIKE '%c1%'", "x = 'c2'", "c1 in c2", WORDS),
    ("4.5 also", "x LIKE 'c1%'", "x = 'c2'", "c2.startswith(c1)", WORDS),
    ("4.5 also", "x LIKE '%c1'", "x = 'c2'", "c2.endswith(c1)", WORDS),
    ("4.6", "x IN c1", "x IN c2", "c1 >= c2", GROUPS),
    ("4.6", "x NOT IN c1", "x NOT IN c2", "c1 <= c2", GROUPS),
    ("4.6 also", "x NOT IN c1", "x IN c2", "not c1 & c2", GROUPS),
    ("4.6 also", "x < c1", "x IN c2", "max(c2) < c1", (NUMBERS, GROUPS)),
    ("4.7", "x SUBSET OF c1", "x SUBSET OF c2", "c1 >= c2", GROUPS),
    ("4.7", "x CONTAINS c1", "x SUPERSET OF c2", "c1 in c2", (NUMBERS, GROUPS)),
    ("4.7", "x SUPERSET OF c1", "x SUPERSET OF c2", "c1 <= c2", GROUPS),
    ("4.7", "x NOT CONTAINS c1", "x DISJOINT FROM c2", "c1 in c2", (NUMBERS, GROUPS)),
    ("4.7", "x DISJOINT FROM c1", "x DISJOINT FROM c2", "c1 <= c2", GROUPS),
    ("4.7", "x OVERLAPS c1", "x OVERLAPS c2", "c1 >= c2", GROUPS),
    ("4.7 also", "x OVERLAPS c1", "x SUPERSET OF c2", "c1 & c2", GROUPS),
    ("4.7 also", "x SUBSET OF c1", "x SUPERSET OF c2", "False", GROUPS),
    ("4.7 also", "x DISJOINT FROM c1", "x SUBSET OF c2", "not c1 & c2", GROUPS),
]


@pytest.mark.parametrize(("one", "other", "condition", "constants"), rows("covers", COVERING))
def test_covering(one, other, condition, constants):
    for c1, c2, first, second in all_constants(one, other, constants):
        assert first.covers(second) == holds(condition, c1, c2), (c1, c2)


ANY = [
    *("x = 1", "x != 1", "x < 1", "x >= 1", "x IN (1, 2)", "x NOT BETWEEN 1 AND 2"),
    *("x LIKE 'a%'", "x LIKE '%a'", "x LIKE '%a%'", "x UNDER 'a'", "x IS A 'stock'"),
    *("x SUBSET OF (1)", "x CONTAINS 1", "x DISJOINT FROM (1)", "x OVERLAPS (1, 2)", "x IS SET"),
    *("x", "x = X'00'", "x < TIMESTAMP '2026-01-01'"),
]


@pytest.mark.parametrize("other", ANY)
def test_covering_4_3_3_exists_covers_any_constraint_on_the_attribute(other):
    assert parse("EXISTS x").covers(parse(other))
    assert not parse(other).covers(parse("EXISTS x"))
    assert not parse("EXISTS y").covers(parse(other))


VALUES = ["1", "2", "0.5", "TRUE", "'a'", "'ab'", "'b'", "'stock'", "''", "X'00'", "X'01'"]


@pytest.mark.parametrize("one", [*ANY, "x NOT LIKE '%a'", "x NOT LIKE 'a%b' AND x > 'a'"])
def test_covering_2_3_also_a_list_is_covered_iff_each_value_matches(one):
    found = parse(one)
    for value in VALUES:
        single = parse(f"x = {value}")
        event = single.example()
        assert found.covers(single) == found.matches(event) == found.overlaps(single)
    for first, second in combinations([v for v in VALUES if "'" in v and "X" not in v], 2):
        each = found.covers(parse(f"x = {first}")) and found.covers(parse(f"x = {second}"))
        assert found.covers(parse(f"x IN ({first}, {second})")) == each


TYPES = Schema(
    types={
        "event": [],
        "stock": ["event"],
        "priced": ["event"],
        "stock.quote": ["stock", "priced"],
        "weather": ["event"],
    }
)


@pytest.mark.parametrize(
    ("above", "below", "covers"),
    [
        pytest.param("stock", "stock", True, id="4.1: T1 = T2"),
        pytest.param("stock", "stock.quote", True, id="4.1: T1 is a supertype of T2"),
        pytest.param("priced", "stock.quote", True, id="4.1: T1 is another supertype of T2"),
        pytest.param("event", "stock.quote", True, id="4.1: T1 is a supertype of a supertype"),
        pytest.param("stock.quote", "stock", False, id="4.1: not if T1 is a subtype of T2"),
        pytest.param("stock", "weather", False, id="4.1: not if T1 and T2 are unrelated"),
    ],
)
def test_covering_of_types(above, below, covers):
    one = parse(f"type IS A '{above}'", schema=TYPES)
    other = parse(f"type IS A '{below}'", schema=TYPES)
    assert one.covers(other) == covers
    assert one.matches(Notification({"type": below})) == covers


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("x CONTAINS 1", "x SUPERSET OF (1)", id="4.7 also: contains a is superset"),
        pytest.param("x CONTAINS 1", "x OVERLAPS (1)", id="4.7 also: contains a is overlaps"),
        pytest.param("x NOT CONTAINS 1", "x DISJOINT FROM (1)", id="4.7 also: notContains"),
        pytest.param("x = 1", "x IN (1)", id="4.8: = is a set of one"),
        pytest.param("x != 1", "x NOT IN (1)", id="4.8: != is all but a set of one"),
    ],
)
def test_two_names_of_one_constraint(one, other):
    assert parse(one) == parse(other)


# -- overlap: the pairs that the definition implies ------------------------------------------

OVERLAP = [
    ("2.4", "x = c1", "x = c2", "c1 == c2", NUMBERS),
    ("2.4", "x = c1", "x < c2", "c1 < c2", NUMBERS),
    ("2.4", "x != c1", "x = c2", "c1 != c2", NUMBERS),
    ("2.4", "x != c1", "x != c2", "True", NUMBERS),
    ("2.4", "x < c1", "x > c2", "c1 > c2", NUMBERS),
    ("2.4", "x <= c1", "x >= c2", "c1 >= c2", NUMBERS),
    ("2.4", "x BETWEEN c1", "x BETWEEN c2", "c1[0] <= c2[1] and c2[0] <= c1[1]", RANGES),
    ("2.4", "x NOT BETWEEN c1", "x NOT BETWEEN c2", "True", RANGES),
    ("2.4", "x IN c1", "x < c2", "min(c1) < c2", (GROUPS, NUMBERS)),
    ("2.4", "x IN c1", "x IN c2", "c1 & c2", GROUPS),
    ("2.4", "x NOT IN c1", "x NOT IN c2", "True", GROUPS),
    ("2.4", "x LIKE 'c1%'", "x LIKE 'c2%'", "c1.startswith(c2) or c2.startswith(c1)", WORDS),
    ("2.4", "x LIKE 'c1%'", "x LIKE '%c2'", "True", WORDS),
    ("2.4", "x LIKE '%c1%'", "x LIKE 'c2%'", "True", WORDS),
    ("2.4", "x LIKE '%c1%'", "x LIKE '%c2'", "True", WORDS),
    ("2.4", "x LIKE '%c1%'", "x LIKE '%c2%'", "True", WORDS),
    ("2.4", "x SUBSET OF c1", "x SUBSET OF c2", "True", GROUPS),
    ("2.4", "x SUBSET OF c1", "x DISJOINT FROM c2", "True", GROUPS),
    ("2.4", "x DISJOINT FROM c1", "x DISJOINT FROM c2", "True", GROUPS),
    ("2.4", "x SUPERSET OF c1", "x SUPERSET OF c2", "True", GROUPS),
    ("2.4", "x OVERLAPS c1", "x OVERLAPS c2", "True", GROUPS),
    ("2.4", "x SUPERSET OF c1", "x SUBSET OF c2", "c1 <= c2", GROUPS),
    ("2.4", "x SUPERSET OF c1", "x DISJOINT FROM c2", "not c1 & c2", GROUPS),
    ("2.4", "x OVERLAPS c1", "x SUBSET OF c2", "c1 & c2", GROUPS),
    ("2.4", "x OVERLAPS c1", "x DISJOINT FROM c2", "not c1 <= c2", GROUPS),
]


@pytest.mark.parametrize(("one", "other", "condition", "constants"), rows("overlaps", OVERLAP))
def test_overlap(one, other, condition, constants):
    for c1, c2, first, second in all_constants(one, other, constants):
        assert first.overlaps(second) == holds(condition, c1, c2), (c1, c2)
        assert second.overlaps(first) == first.overlaps(second)


def test_overlap_of_postfixes_never_says_too_little():
    for a, b, one, other in all_constants("x LIKE '%c1'", "x LIKE '%c2'", WORDS):
        if a.endswith(b) or b.endswith(a):
            assert one.overlaps(other)


@pytest.mark.parametrize("other", ANY)
def test_overlap_of_exists_and_any_constraint(other):
    assert parse("EXISTS x").overlaps(parse(other))
    assert not parse("NOT EXISTS x").overlaps(parse(other))


def test_overlap_of_types_is_conservative_since_a_common_subtype_may_exist():
    one, other = (parse(f"type IS A '{t}'", schema=TYPES) for t in ("stock", "priced"))
    assert one.overlaps(other)
    assert one.intersect(other).matches(Notification({"type": "stock.quote"}))


# -- lifting to conjunctions: corollaries 4.1 to 4.3 -----------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("x = 1 AND y = 2", "y = 2 AND x = 1", True, id="4.1: pairwise identical"),
        pytest.param("x = 1 AND y = 2", "x = 1", False, id="4.1: another number of attributes"),
        pytest.param("x = 1 AND y = 2", "x = 1 AND z = 2", False, id="4.1: other attributes"),
        pytest.param(
            "x >= 5 AND x <= 5", "x = 5", True, id="4.1 erratum: {x>=5, x<=5} is {x=5}"
        ),
        pytest.param(
            "x > 5 AND x < 5", "x != 5", False, id="4.1 erratum: {x>5, x<5} is not {x!=5}"
        ),
    ],
)  # fmt: skip
def test_identity_of_conjunctions(one, other, same):
    assert (parse(one) == parse(other)) == same


def test_identity_erratum_the_printed_counterexample_matches_nothing():
    assert parse("x > 5 AND x < 5") == Filter.none()


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        pytest.param("x > 1", "x > 2 AND y = 1", True, id="4.2: fewer attributes"),
        pytest.param("x > 1 AND y < 9", "x > 2 AND y = 1", True, id="4.2: each covers one"),
        pytest.param("x > 1 AND y < 9", "x > 2 AND y = 9", False, id="4.2: one does not"),
        pytest.param("x > 1 AND z = 1", "x > 2 AND y = 1", False, id="4.2: one has no partner"),
        pytest.param("TRUE", "x > 2", True, id="4.2: the empty filter covers all"),
        pytest.param("x > 2", "TRUE", False, id="4.2: nothing else covers the empty filter"),
        pytest.param(
            "x BETWEEN 5 AND 8",
            "x BETWEEN 4 AND 7 AND x BETWEEN 6 AND 9",
            True,
            id="4.2 erratum: several on one attribute are one: [5,8] covers [4,7] and [6,9]",
        ),
    ],
)
def test_covering_of_conjunctions(one, other, covers):
    assert parse(one).covers(parse(other)) == covers


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        pytest.param("x > 5 AND y = 1", "x < 5 AND y = 1", False, id="4.3: a disjoint pair"),
        pytest.param("x > 5 AND y = 1", "x < 6 AND y = 1", True, id="4.3: no disjoint pair"),
        pytest.param("x = 1", "y = 2", True, id="4.3: no attribute in common"),
        pytest.param(
            "x BETWEEN 1 AND 4 AND x BETWEEN 3 AND 9",
            "x BETWEEN 1 AND 2",
            False,
            id="4.3: several on one attribute are one",
        ),
    ],
)
def test_disjointness_of_conjunctions(one, other, overlaps):
    assert parse(one).overlaps(parse(other)) == overlaps


# -- perfect merging: table 4.8 --------------------------------------------------------------

PRESENT = "x IS NUMBER"
"""The table says "exists x"; here an attribute may be of another domain, which neither admits."""

PROBES = [-1, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
SETS = [frozenset(g) for n in range(5) for g in combinations([1, 2, 3, 4], n)]


MERGING = [
    ("4.8", "x IN c1", "x IN c2", "True", GROUPS, "x IN {c1 | c2}"),
    ("4.8", "x NOT IN c1", "x NOT IN c2", "not c1 & c2", GROUPS, PRESENT),
    ("4.8", "x NOT IN c1", "x NOT IN c2", "c1 & c2", GROUPS, "x NOT IN {c1 & c2}"),
    ("4.8", "x OVERLAPS c1", "x OVERLAPS c2", "True", GROUPS, "x OVERLAPS {c1 | c2}"),
    ("4.8", "x = c1", "x != c2", "c1 == c2", NUMBERS, PRESENT),
    ("4.8", "x < c1", "x > c2", "c1 > c2", NUMBERS, PRESENT),
    ("4.8", "x < c1", "x >= c2", "c1 >= c2", NUMBERS, PRESENT),
    ("4.8", "x <= c1", "x > c2", "c1 >= c2", NUMBERS, PRESENT),
    ("4.8", "x <= c1", "x >= c2", "c1 >= c2", NUMBERS, PRESENT),
    ("4.8 text", "x < c1", "x > c2", "c1 <= c2", NUMBERS, "x NOT BETWEEN c1 AND c2"),
    (
        "4.8 text", "x BETWEEN c1", "x BETWEEN c2", "c1[0] <= c2[1] and c2[0] <= c1[1]", RANGES,
        "x >= {min(c1[0], c2[0])} AND x <= {max(c1[1], c2[1])}",
    ),
    (
        "4.8 also", "x BETWEEN c1", "x BETWEEN c2", "True", RANGES,
        "x BETWEEN c1 OR x BETWEEN c2",
    ),
    ("4.8 also", "x = c1", "x < c2", "c1 == c2", NUMBERS, "x <= c1"),
]  # fmt: skip


def filled(template, c1, c2):
    """A template with its constants, and with what stands in braces computed from them."""
    pieces = re.split(r"\{(.*?)\}", template)
    computed = [eval(piece, {}, {"c1": c1, "c2": c2}) for piece in pieces[1::2]]
    pieces[1::2] = [spelt("c", "c", value) for value in computed]
    return spelt(spelt("".join(pieces), "c1", c1), "c2", c2)


@pytest.mark.parametrize(
    ("one", "other", "condition", "constants", "merger"), rows("merges with", MERGING)
)
def test_merging(one, other, condition, constants, merger):
    applied = 0
    for c1, c2, first, second in all_constants(one, other, constants):
        if not holds(condition, c1, c2):
            continue
        applied += 1
        found = first.merge(second)
        assert found == parse(filled(merger, c1, c2)), (c1, c2)
        for value in (*PROBES, *SETS, "1"):
            n = Notification({"x": value})
            assert found.matches(n) == (first.matches(n) or second.matches(n))
    assert applied


def test_merging_erratum_the_printed_rule_for_disjunct_sets_is_not_perfect():
    """Table 4.8 merges `disjunct M1` and `disjunct M2` into `disjunct (M1 ∩ M2)`, or `exists`."""
    one, other, printed = (
        parse(t) for t in ("x DISJOINT FROM (1)", "x NOT CONTAINS 2", "x IS SET")
    )
    both = Notification({"x": {1, 2}})
    assert printed.matches(both)
    assert not one.matches(both)
    assert not other.matches(both)
    assert one.merge(other) is None


def test_merging_erratum_disjunct_sets_merge_only_where_one_covers_the_other():
    disjoint = ("x DISJOINT FROM c1", "x DISJOINT FROM c2")
    for a, b, one, other in all_constants(*disjoint, GROUPS):
        merger = one.merge(other)
        assert (merger is not None) == (a <= b or b <= a)
        assert merger in (None, one, other)


@pytest.mark.parametrize(
    ("one", "other", "merger"),
    [
        pytest.param(
            "x = 5 AND y IN (2, 3)", "x = 5 AND y IN (4, 5)", "x = 5 AND y IN (2, 3, 4, 5)",
            id="4.3.7: identical in all but one attribute",
        ),
        pytest.param("x = 5 AND y = 1", "x = 6 AND y = 2", None, id="4.3.7: not if two differ"),
        pytest.param("x = 5 AND y = 1", "x = 6 AND z = 1", None, id="4.3.7: not if others differ"),
        pytest.param(
            "x = 5 AND y < 3", "x = 5 AND y >= 3", "x = 5 AND y IS NUMBER",
            id="4.3.7: jointly any value of the domain",
        ),
        pytest.param(
            "x = 5 AND EXISTS y", "x = 5 AND NOT EXISTS y", "x = 5",
            id="4.3.7: dropped only when absence is admitted too",
        ),
    ],
)  # fmt: skip
def test_merging_of_conjunctions(one, other, merger):
    assert parse(one).merge(parse(other)) == (None if merger is None else parse(merger))


def test_merging_of_types_answers_where_one_covers_the_other():
    above, below, apart = (
        parse(f"type IS A '{t}'", schema=TYPES) for t in ("stock", "stock.quote", "weather")
    )
    assert above.merge(below) == above
    assert above.merge(apart) is None


def test_discrete_types_are_normalised_so_that_neighbours_merge():
    integers = Schema({"x": "integer"})
    neighbours, whole = "x BETWEEN 1 AND 2 OR x BETWEEN 3 AND 4", "x BETWEEN 1 AND 4"
    assert parse(neighbours, schema=integers) == parse(whole, schema=integers)
    assert parse(neighbours) != parse(whole)
