"""`tidings simulate`, with the real simulator: what it prints, draws, finds wrong and replays."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.conftest import PROGRAM, Run
from tests.simulation.random_runs import random_scenario
from tidings.cli.app import app
from tidings.delivery import AtMostOnce
from tidings.delivery.reading import Reading
from tidings.events import Filter
from tidings.node import Settings
from tidings.protocol.messages import Event
from tidings.protocol.parts import Neighbour, Port
from tidings.routing.exchange import Exchange
from tidings.simulation.scenario import Scenario

EXAMPLES = sorted(Path(__file__).parents[2].glob("scenarios/*.toml"))

SMALL = """
title = "A small ring"
seed = 1
duration = 30

[network]
kind = "ring"
nodes = 5

[settings]
tree = true
lease = 3.0

[conditions]
loss = 0.05

[workload]
kind = "dense-eq"
subscriptions = 2
events = 4
churn = 0.1
begin = 8

[faults]
cuts = 6

[[steps]]
at = 20
do = "crash"
node = "b2"
"""

DAMAGED = """
duration = 5

[network]
kind = "line"
nodes = 3

[settings]
subscriptions = "simple"

[[steps]]
at = 0
do = "join"
client = "ann"
node = "b0"

[[steps]]
at = 1
do = "subscribe"
client = "ann"
filter = "price < 10"

[[steps]]
at = 4
do = "corrupt"
node = "b1"
number = 3
"""
"""Nobody compares digests, so the damage stays."""


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "damaged.toml"
    path.write_text(DAMAGED)
    return path


def numbers(pattern: str, text: str) -> list[int]:
    found = re.search(pattern, text)
    assert found, text
    return [int(number.replace(",", "")) for number in found.groups()]


def test_the_summary_tells_what_there_is_and_what_has_happened(small: Path) -> None:
    done = simulate(small)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "A small ring"
    assert "time      30 s" in lines
    assert "network   5 nodes, 5 links, 5 clients" in lines
    assert "          down: b2" in lines
    assert re.search(r"^tree      root b0, 3 links, at most 2 links from there$", done.stdout, re.M)
    (entries, largest) = numbers(r"tables    (\d+) entries; (\d+) of them at b\d", done.stdout)
    assert 0 < largest <= entries
    (total,) = numbers(r"messages  ([\d,]+) between nodes", done.stdout)
    (control,) = numbers(r"([\d,]+) change tables", done.stdout)
    (events,) = numbers(r"([\d,]+) carry events", done.stdout)
    (reading,) = numbers(r"([\d,]+) tell how far streams are", done.stdout)
    (others,) = numbers(r"([\d,]+) keep trees and tables right", done.stdout)
    assert total == control + events + reading + others
    (published, delivered) = numbers(r"(\d+) published, (\d+) delivered", done.stdout)
    assert published == 88
    assert delivered > 0
    assert f"{events / published:.2f} messages for each" in done.stdout
    assert numbers(r"(\d+) more were lost", done.stdout)[0] > 0
    assert re.fullmatch(r"simulated in [\d.]+ s; [\d,]+ packets a second\n", done.stderr)


def test_the_busiest_links_come_first(small: Path) -> None:
    shown = simulate(small).stdout.partition("busiest")[2].splitlines()
    carried = [int(line.split()[0]) for line in shown]
    assert len(carried) == 5
    assert carried == sorted(carried, reverse=True)


@pytest.mark.slow
def test_the_same_file_gives_the_same_summary_drawing_and_steps_to_the_byte(small: Path) -> None:
    outcomes = []
    for seed in ("1", "2"):  # whatever Python's own hashes are
        files = [small.with_name(f"{seed}.svg"), small.with_name(f"{seed}.json")]
        done = subprocess.run(
            [*PROGRAM, "simulate", small, "--check", "--draw", files[0], "--save-steps", files[1]],
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=60,
            check=True,
        )
        outcomes.append([done.stdout, *(file.read_bytes() for file in files)])
    assert outcomes[0] == outcomes[1]


@pytest.mark.slow
def test_another_seed_gives_another_run(small: Path) -> None:
    assert simulate(small, "--seed", "1").stdout == simulate(small).stdout
    assert simulate(small, "--seed", "2").stdout != simulate(small).stdout


def test_saved_steps_replay_the_run(small: Path) -> None:
    kept = small.with_suffix(".json")
    shown = simulate(small, "--save-steps", kept).stdout
    assert Scenario.load(kept).workload is None
    assert simulate(kept).stdout == shown


@pytest.mark.slow
def test_checks_tell_what_held_and_when_it_converged(small: Path) -> None:
    done = simulate(small, "--check")
    assert done.exit_code == 0
    told = done.stdout.partition("checked   ")[2].splitlines()
    assert told[0] == "tables and what clients hear, at every step"
    assert re.fullmatch(
        r" *after all faults, tables were right within (\d+\.\d) s; (\d+\.\d) s are allowed",
        told[1],
    )
    assert re.fullmatch(r" *\d+ probes from every client reached exactly who wants them", told[2])


@pytest.mark.slow
def test_checking_changes_nothing_about_the_run(small: Path) -> None:
    assert simulate(small, "--check").stdout.startswith(simulate(small).stdout)


@pytest.mark.slow
def test_large_scenarios_are_checked_where_clients_hear_and_at_the_end(small: Path) -> None:
    small.write_text(SMALL.replace("subscriptions = 2", "subscriptions = 20"))
    told = simulate(small, "--check").stdout.partition("checked   ")[2]
    assert told.startswith("what clients hear, at every step; tables, at the end\n")
    assert "tables agreed within" in told  # they were not compared with the plain functions
    assert "were right" not in told


def forget_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in fifty times a broker does not tell a neighbour what has changed."""
    tell, calls = Exchange._tell, count(1)

    def forgetful(exchange: Exchange, table: int, neighbour: Neighbour) -> None:
        tables = exchange.tables(table)
        if next(calls) % 50 == 0 and tables is not None and tables.has(neighbour):
            tables.drain(neighbour)
        else:
            tell(exchange, table, neighbour)

    monkeypatch.setattr(Exchange, "_tell", forgetful)


def deliver_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker tells its readers of every fifth event once more."""
    notify = Reading.notify

    def repeated(reading: Reading, event: Event, filters: list[Filter]) -> None:
        for _ in range(2 if event.tick % 5 == 0 else 1):
            notify(reading, event, filters)

    monkeypatch.setattr(Reading, "notify", repeated)


def route_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker forgets which events it had, and deals with every fifth once more."""
    route = AtMostOnce._route

    def forgetful(delivery: AtMostOnce, event: Event, source: Port) -> None:
        for _ in range(2 if event.tick % 5 == 0 else 1):
            delivery._heard.clear()
            delivery._heard_before.clear()
            route(delivery, event, source)

    monkeypatch.setattr(AtMostOnce, "_route", forgetful)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [forget_to_tell, deliver_again, route_again])
@pytest.mark.parametrize("subscriptions", [2, 20])
@pytest.mark.parametrize("advertisements", ["", '\nadvertisements = "covering"'])
def test_a_broker_that_makes_mistakes_is_found_out_in_scenarios_of_any_size(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
    subscriptions: int,
    advertisements: str,
) -> None:
    text = SMALL.replace("subscriptions = 2", f"subscriptions = {subscriptions}")
    if mistake is route_again:
        text = text.replace("tree = true", "tree = true\nat_most_once = true")
    small.write_text(text.replace("tree = true", f"tree = true{advertisements}"))
    mistake(monkeypatch)
    assert simulate(small, "--check").exit_code == 1


def test_what_must_not_happen_is_told_with_the_command_that_shows_it_again(damaged: Path) -> None:
    done = simulate(damaged, "--check", "--seed", "3")
    assert done.exit_code == 1
    assert "error: this must not happen: at " in done.stderr
    assert f"it happens again with: tidings simulate {damaged} --check --seed 3" in done.stderr
    assert "checked" not in done.stdout


def test_without_checks_damage_is_nobodys_business(damaged: Path) -> None:
    assert simulate(damaged).exit_code == 0


def test_damage_that_is_repaired_is_told_but_no_failure(damaged: Path) -> None:
    settings = "[settings]\ncheck = 1.0\nlease = 2.0"
    damaged.write_text(DAMAGED.replace("[settings]", settings))
    done = simulate(damaged, "--check")
    assert done.exit_code == 0
    assert "from 4.0 s on, with damaged tables, only for what is made up" in done.stdout


def test_a_kept_random_run_is_played_to_its_probes(tmp_path: Path) -> None:
    scenario = random_scenario(
        3,
        settings=Settings(),
        network={"kind": "line", "nodes": 2},
        faults="links",
        steps=25,
    )
    scenario.save(tmp_path / "run-3.json")
    done = simulate("--check", tmp_path / "run-3.json")
    assert done.exit_code == 0
    assert done.stdout.startswith("random run 3, faults: links\n")
    assert numbers(r"(\d+) probes", done.stdout)[0] >= 21


def test_the_drawing_shows_tables_traffic_the_tree_and_who_is_down(small: Path) -> None:
    picture = small.with_suffix(".svg")
    shown = simulate(small, "--draw", picture).stdout
    drawing = picture.read_text()
    assert "<title>A small ring</title>" in drawing
    (_, largest) = numbers(r"tables    (\d+) entries; (\d+) of them at b\d", shown)
    assert f": {largest} entries</title>" in drawing
    assert "<title>b2, down</title>" in drawing
    assert "not in the tree" in drawing
    busiest = re.search(r"busiest   (\S+)  (b\d – b\d)", shown)
    assert busiest
    assert f"<title>{busiest[2]}: {busiest[1]} messages</title>" in drawing


def test_what_was_there_when_a_promise_broke_is_drawn(damaged: Path) -> None:
    picture = damaged.with_suffix(".svg")
    assert simulate(damaged, "--check", "--draw", picture).exit_code == 1
    assert picture.read_text().startswith("<svg")


def test_events_without_an_advertisement_are_refused_and_counted(small: Path) -> None:
    text = SMALL.replace("tree = true", 'tree = true\nadvertisements = "simple"')
    small.write_text(text)
    assert "refused" not in simulate(small).stdout
    small.write_text(text.replace("[workload]", "[workload]\nadvertise = false"))
    assert "refused" in simulate(small).stdout


def test_a_hierarchy_tells_its_root(small: Path) -> None:
    text = SMALL.replace("nodes = 5", 'nodes = 5\nroot = "b3"').replace("tree = true", "")
    small.write_text(text)
    assert "tree      hierarchy under b3" in simulate(small).stdout


def test_a_network_in_which_nothing_happens_has_little_to_tell(tmp_path: Path) -> None:
    (tmp_path / "idle.toml").write_text('[network]\nkind = "single"\n')
    done = simulate(tmp_path / "idle.toml", "--check")
    assert done.exit_code == 0
    assert "network   1 node, 0 links, 0 clients\n" in done.stdout
    assert "events    0 published, 0 delivered to clients\n" in done.stdout
    assert "busiest" not in done.stdout
    assert "probes" not in done.stdout


def test_a_tree_that_is_not_agreed_on_is_told(tmp_path: Path) -> None:
    text = '[network]\nlinks = [["a", "b"]]\n[settings]\ntree = true\n'
    cut = '[[steps]]\nat = 0\ndo = "cut"\nnode = "a"\nto = "b"\n'
    (tmp_path / "apart.toml").write_text(text + cut)
    shown = simulate(tmp_path / "apart.toml").stdout
    assert "cut: a – b" in shown
    assert "tree      not agreed on; roots a (1 node), b (1 node); 0 links" in shown
    crash = "".join(f'[[steps]]\nat = 1\ndo = "crash"\nnode = "{n}"\n' for n in "ab")
    (tmp_path / "apart.toml").write_text(text + crash)
    shown = simulate(tmp_path / "apart.toml").stdout
    assert "down: a, b" in shown
    assert "tables    none, all nodes are down" in shown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("duration = \n", ", line 1, column 12: Invalid value"),
        ('[network]\nkind = "lin"', "did you mean 'line'?"),
        (SMALL.replace("b2", "b7"), "step 1 (crash at 20 s): no node 'b7'; there are b0, b1"),
        (SMALL.replace("tree =", "tre ="), "settings: no field 'tre' (did you mean 'tree'?)"),
    ],
)
def test_a_wrong_scenario_is_an_error_that_says_where(
    tidings: Run, tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    done = tidings("simulate", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {path}")
    assert reason in done.stderr


@pytest.mark.slow
def test_files_that_cannot_be_read_or_written_are_errors(tidings: Run, small: Path) -> None:
    done = tidings("simulate", str(small.with_name("none.toml")))
    assert done.returncode == 2
    assert "none.toml: No such file or directory" in done.stderr
    for option in ("--draw", "--save-steps"):
        done = tidings("simulate", str(small), option, str(small.parent / "none" / "file"))
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no folder" in done.stderr


def test_help_teaches_with_a_scenario_that_works(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["simulate", "--help"], terminal_width=100).output
    assert "tidings simulate market.toml --check --draw market.svg" in shown
    example = shown.partition("market.toml:\n")[2].partition("\n\n")[0]
    path = tmp_path / "market.toml"
    path.write_text(example)
    done = simulate(path)
    assert done.exit_code == 0
    assert "network   30 nodes" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_all_promises_hold_in_the_examples(path: Path) -> None:
    done = simulate(path, "--check")
    assert (done.exit_code, done.stderr.partition(" in ")[0]) == (0, "simulated")
