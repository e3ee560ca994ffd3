from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.conftest import Run
from tidings.cli.app import app
from tidings.cli.explain import relation
from tidings.events import Filter, Notification


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)


def section(output: str, title: str) -> list[str]:
    """The lines below a heading."""
    lines = output.partition(f"{title}\n")[2].split("\n\n")[0].splitlines()
    return [line.strip() for line in lines]


def test_one_filter_shows_its_normal_form_a_picture_and_an_example() -> None:
    done = explain("symbol = 'DIS' AND NOT (price >= 50 AND price <= 60)")
    assert done.exit_code == 0
    assert section(done.output, "Normal form") == ["price NOT BETWEEN 50 AND 60 AND symbol = 'DIS'"]
    assert "price   number  ━━━━━━━━━━━━○───────────○━━━━━━━━━━━━" in done.output
    (example,) = section(done.output, "For example")
    wanted = Filter.parse("symbol = 'DIS' AND price NOT BETWEEN 50 AND 60")
    assert wanted.matches(Notification.from_json(example))


def test_alternatives_are_shown_one_by_one() -> None:
    done = explain("a = 1 OR b = 2")
    assert section(done.output, "It admits")[0].startswith("a  number")
    assert section(done.output, "\nor")[0].startswith("b  number")


def test_a_long_list_of_alternatives_is_cut() -> None:
    done = explain(" OR ".join(f"a{i} = 1" for i in range(100)))
    assert "and 90 more" in done.output


@pytest.mark.parametrize(
    ("filter_text", "words"),
    [
        ("a LIKE '%x'", "ends with 'x'"),
        ("a LIKE '%x%'", "contains 'x'"),
        ("a LIKE 'a_c'", "is LIKE 'a_c'"),
        ("a NOT LIKE '%x'", "does not end with 'x'"),
        ("a IS A 'stock'", "is 'stock' or a type below it"),
        ("a IS NOT A 'stock'", "is not 'stock' or a type below it"),
        ("a CONTAINS 1", "contains 1"),
        ("a SUBSET OF (1, 2)", "contains nothing but 1 and 2"),
        ("a SUBSET OF ()", "is empty"),
        ("a DISJOINT FROM (1, 2, 3)", "does not contain 1, 2 or 3"),
        ("a OVERLAPS (1, 2)", "contains one of 1 or 2"),
        ("a NOT SUBSET OF (1)", "contains something besides 1"),
        ("a", "boolean  TRUE"),
        ("a IS NUMBER", "number  any"),
        ("EXISTS a", "any  anything"),
        ("NOT EXISTS a", "absent  it must be missing"),
        ("NOT EXISTS a OR a = 1", "absent  it may be missing"),
        ("a IS NOT STRING", "string  none"),
        ("TRUE", "It matches every notification"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_words(filter_text: str, words: str) -> None:
    assert words in explain(filter_text).output


def test_a_filter_that_never_matches_says_why() -> None:
    done = explain("a = 1 AND a > 5")
    assert done.exit_code == 0
    assert section(done.output, "It can never match") == ["a = 1 excludes a > 5"]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("x > 1", "x > 2", "The first covers the second."),
        ("x > 2", "x > 1", "The first is covered by the second."),
        ("x > 2", "NOT (x <= 2)", "They are equal."),
        ("x > 2", "x < 5", "They overlap. Each also admits what the other does not."),
        ("x > 5", "x < 2", "They are disjoint."),
        ("x = 1", "x = 'a'", "They are disjoint."),
        ("x > 2 OR y = 1", "y > 0", "They overlap. Neither was found to cover the other."),
        ("x LIKE '%a%b'", "x LIKE '_'", "They may overlap."),
        ("x = 1 AND x = 2", "x = 1", "The first can never match."),
        ("TRUE", "FALSE", "The second can never match."),
    ],
)
def test_the_relation_of_two_filters_is_told(first: str, second: str, verdict: str) -> None:
    done = explain(first, second)
    assert done.exit_code == 0
    assert verdict in done.output
    assert " ".join(relation(Filter.parse(first), Filter.parse(second))).startswith(verdict)


def test_two_filters_show_intersection_and_merger() -> None:
    done = explain("price < 10", "price BETWEEN 5 AND 30")
    both, example = section(done.output, "Both admit")
    assert both == "price >= 5 AND price < 10"
    assert json.loads(example.removeprefix("for example ")) == {"price": 5}
    assert section(done.output, "Merged into one") == ["price <= 30"]


def test_two_filters_without_a_merger_show_their_union() -> None:
    done = explain("a = 1", "b = 1")
    assert section(done.output, "Merged into one")[1] == "a = 1 OR b = 1"


def test_disjoint_filters_say_why() -> None:
    assert section(explain("a < 1", "a > 5").output, "Why") == ["a < 1 excludes a > 5"]


def test_a_schema_is_used(tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text('[attributes]\nsize = "integer"\n[types]\nquote = ["stock"]\n')
    assert "size >= 4" in explain("size > 3", "--schema", str(schema)).output
    equal = explain("size > 3", "size >= 4", "--schema", str(schema))
    assert "They are equal." in equal.output
    wrong = explain("size = 'large'", "--schema", str(schema))
    assert wrong.exit_code == 2
    assert "declared number" in wrong.stderr


@pytest.mark.parametrize(
    "content", [None, "[attributes\n", '[attributes]\na = "colour"\n', "[other]\n", b"\xff\xfe"]
)
def test_a_bad_schema_is_an_error(content: str | bytes | None, tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    if content is not None:
        schema.write_bytes(content.encode() if isinstance(content, str) else content)
    done = explain("a = 1", "--schema", str(schema))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "filter_text", ["", "x >", "x = 'a", "x ~ 1", "\udcff = 1", "x = '\udcff'"]
)
def test_a_wrong_filter_is_shown_with_a_caret(filter_text: str) -> None:
    done = explain(filter_text)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: line 1, column ")
    assert done.stderr.rstrip("\n").endswith("^")


def test_the_second_filter_may_be_wrong_too() -> None:
    done = explain("x = 1", "y =")
    assert done.exit_code == 2
    assert "  y =\n" in done.stderr


@pytest.mark.slow
def test_huge_and_odd_filters_work(tidings: Run) -> None:
    text = "x" * 100_000
    assert tidings("explain", f"a = '{text}'").returncode == 0
    assert tidings("explain", f"`{text}` = 1").returncode == 0
    assert tidings("explain", f"a IN ({', '.join(map(str, range(10_000)))})").returncode == 0
    assert tidings("explain", "`a.\"b' ``c` = 1").returncode == 0
    assert "nested more than" in tidings("explain", "(" * 5_000).stderr


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_pictures_fit_the_terminal(tidings: Run, columns: int) -> None:
    values = ", ".join(str(n * 1000) for n in range(50))
    done = tidings("explain", f"price IN ({values})", columns=columns)
    drawn = [line for line in done.stdout.splitlines() if "─" in line]
    assert len(drawn) == 1
    assert all(len(line) <= max(columns, 60) for line in drawn)


def test_output_that_is_no_terminal_has_no_colours(tidings: Run) -> None:
    done = tidings("explain", "a = 1", "b = 2")
    assert "\x1b" not in done.stdout + done.stderr
