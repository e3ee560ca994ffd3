"""`tidings subscribe`: what does not go together is refused before any broker is asked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tidings.cli.app import app


def said(*arguments: str, **environment: str) -> str:
    """What is wrong with the usage, on one line."""
    here = {"TIDINGS_URL": "tidings://127.0.0.1:1", "COLUMNS": "200", **environment}
    done = CliRunner().invoke(app, ["subscribe", *arguments], env=here)
    assert done.exit_code == 2
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("--bulk a --lake l", "--bulk goes without --lake"),
        ("--bulk a --durable d --since begin", "--bulk goes without --durable, --since"),
        ("--filters f --lake l", "--filters goes without --lake"),
        (
            "--filters f --until now --count 3 --with-meta",
            "--filters goes without --until, --count, --with-meta",
        ),
        ("--filters f --cancel --count 3", "--filters goes without --count"),
        ("--bulk a --cancel --with-meta", "--cancel goes without --with-meta"),
        ("--bulk a --cancel --lake l", "--cancel goes without --lake"),
    ],
)
def test_what_would_be_ignored_is_refused(arguments: str, wanted: str) -> None:
    assert f"{wanted}\n" in said(*arguments.split())


@pytest.mark.parametrize("filter", [["x > 1"], []])
def test_what_is_cancelled_has_to_be_said(filter: list[str]) -> None:
    assert "--cancel needs --bulk NAME or --filters FILE" in said(*filter, "--cancel")


def test_a_lake_of_the_environment_is_no_option_that_was_given() -> None:
    assert "goes without" not in said("--filters", "no-such-file", TIDINGS_LAKE="lake")
