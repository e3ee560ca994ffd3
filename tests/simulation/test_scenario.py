"""Scenario files: read, refused with a reason, kept and read again."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import msgspec
import pytest

from tests.simulation.random_runs import random_scenario
from tidings.events import TidingsError
from tidings.node import Settings
from tidings.simulation.scenario import ACTIONS, Faults, Scenario, Step, Workload

LINE = """
[network]
kind = "line"
nodes = 2
"""
ANN = f"""
{LINE}
[[steps]]
at = 0
do = "join"
client = "ann"
node = "b0"

[[steps]]
"""


def load(folder: Path, text: str, name: str = "scenario.toml") -> Scenario:
    path = folder / name
    path.write_text(text)
    return Scenario.load(path)


def test_a_file_says_everything_that_a_scenario_is(tmp_path: Path) -> None:
    text = """
        title = "all of it"
        seed = 3
        duration = 5
        [network]
        links = [["a", "b"], ["b", "c", 0.5], ["c", "d", 0.5, 2]]
        root = "b"
        [settings]
        subscriptions = "merging"
        check = inf
        [conditions]
        loss = 0.1
        [workload]
        kind = "sparse"
        [faults]
        cuts = 2
        [[steps]]
        at = 1
        do = "publish"
        client = "a-1"
        event = { price = 5, at = 2026-11-15T12:00:00Z }
    """
    scenario = load(tmp_path, text)
    assert scenario == Scenario(
        title="all of it",
        seed=3,
        duration=5.0,
        network={
            "links": [["a", "b"], ["b", "c", 0.5], ["c", "d", 0.5, 2]],
            "root": "b",
        },
        settings=Settings(subscriptions="merging"),
        conditions={"loss": 0.1},
        workload=Workload(kind="sparse"),
        faults=Faults(cuts=2.0),
        steps=(
            Step(
                1.0,
                "publish",
                client="a-1",
                event={"price": 5, "at": datetime(2026, 11, 15, 12, tzinfo=UTC)},
            ),
        ),
    )
    network = scenario.topology()
    assert network.root == "b"
    assert [(link.latency, link.cost) for link in network.links] == [(0.01, 1), (0.5, 1), (0.5, 2)]


def test_what_is_saved_is_loaded_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    for scenario in (
        Scenario(network={"kind": "single"}),
        Scenario(
            title="ä ☂",
            seed=2**70,
            network={"links": [["a", "b"]], "root": "a"},
            settings=Settings(advertisements="covering", memory=inf, lease=3.0),
            conditions={"bandwidth": inf, "loss": 0.5},
            workload=Workload(),
            faults=Faults(until=3.0),
            steps=(
                Step(
                    1.5,
                    "publish",
                    client="a-1",
                    event={"when": datetime(2026, 1, 2, tzinfo=UTC), "far": inf, "raw": b"\x00"},
                ),
                Step(2.0, "cut", node="a", to="b"),
            ),
        ),
    ):
        scenario.save(path)
        assert Scenario.load(path) == scenario


def test_a_kept_file_has_a_line_for_each_step_and_leaves_out_what_is_usual(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    steps = (Step(0.0, "join", client="ann", node="b0"), Step(2.0, "crash", node="b0"))
    Scenario(network={"kind": "single"}, steps=steps).save(path)
    assert list(json.loads(path.read_text())) == ["network", "steps"]
    assert ' {"at": 2.0, "do": "crash", "node": "b0"}' in path.read_text().splitlines()[-3]


def test_a_kept_run_may_name_brokers_and_clients_that_were_left_out(tmp_path: Path) -> None:
    drawn = random_scenario(1, settings=Settings(), network={"kind": "line", "nodes": 2})
    drawn = msgspec.structs.replace(drawn, network={"kind": "single"}, steps=drawn.steps[4:])
    drawn.save(tmp_path / "kept.json")
    assert Scenario.load(tmp_path / "kept.json") == drawn


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"duration = \n{LINE}", "line 1, column 12: Invalid value"),
        ("", "`network` is missing"),
        ("network = 3", "network: expected `object`, got `int`"),
        (f"duraton = 3\n{LINE}", "no field 'duraton' (did you mean 'duration'?)"),
        (f"duration = 0\n{LINE}", "duration is a time above 0, not 0"),
        (f"duration = nan\n{LINE}", "duration is a time above 0, not nan"),
        (f"seed = -1\n{LINE}", "seed: expected `int` >= 0"),
        (f"steps = 3\n{LINE}", "steps is a list, not 3"),
        (f"{LINE}[settings]\nsubscriptions = 'coverng'", "no strategy 'coverng'; there are flood"),
        (f"{LINE}[settings]\ntre = true", "settings: no field 'tre' (did you mean 'tree'?)"),
        (f"{LINE}[settings]\ncheck = 'often'", "settings.check: expected `float`, got `str`"),
        (f"{LINE}[settings]\nbeat = 0", "beat is a time above 0"),
        (
            f"{LINE}[workload]\nkind = 'quotes'",
            "workload: no kind 'quotes' (did you mean 'quote'?)",
        ),
        (f"{LINE}[workload]\nevents = -1", "workload.events: expected `float` >= 0"),
        (f"{LINE}[faults]\ncrash = 1", "faults: no field 'crash' (did you mean 'crashes'?)"),
        (f"{LINE}[conditions]\nlos = 1", "conditions: no field 'los' (did you mean 'loss'?)"),
        (f"{LINE}[conditions]\nloss = 2", "loss is a chance from 0 to 1, not 2"),
        (f"{LINE}[conditions]\njitter = -1", "jitter is a time from 0 up, not -1"),
        (f"{LINE}[conditions]\nbandwidth = 0", "bandwidth is a number of packets above 0, not 0"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(TidingsError) as caught:
        load(tmp_path, text)
    assert re.match(rf"{re.escape(str(tmp_path))}/scenario\.toml(:|, line)", str(caught.value))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind = 'lin'", "unknown topology 'lin', did you mean 'line'?"),
        ("kind = 3", "`kind` and `root` are names"),
        ("kind = 'line'\nnode = 3", "topology 'line': unknown parameter 'node', did you mean"),
        ("kind = 'line'\nnodes = 3\nroot = 'b7'", "there is no broker 'b7'"),
        ("kind = 'ring'\nnodes = 3", "it has cycles, in which events would go round for ever"),
        ("links = 3", "links is a list, not 3"),
        ("links = [['a']]", "a link is [node, node]"),
        ("links = [['a', 'b', 'far']]", "a link is [node, node]"),
        ("links = [['a', 'b']]\nnodes = [1]", "network, nodes: [0]: expected `str`, got `int`"),
        ("links = [['a', 'b']]\nnods = ['a']", "no field 'nods' (did you mean 'nodes'?)"),
        ("kind = 'ring'\nnodes = 3\nroot = 'b0'\n[settings]\ntree = true", "a hierarchy needs no"),
    ],
)
def test_a_network_that_is_wrong_is_refused_with_the_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(TidingsError) as caught:
        load(tmp_path, f"[network]\n{text}")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("do = 'leave'", "step 2: `at` is missing"),
        ("at = 'x'\ndo = 'leave'", "step 2: at: expected `float`, got `str`"),
        ("at = 1\ndo = 'crash'\nwhy = 'x'", "step 2: no field 'why'; there are at, do, client"),
        ("at = 1\ndo = 'jump'", "step 2 (jump at 1 s): no action 'jump'; there are join, sub"),
        ("at = 11\ndo = 'leave'\nclient = 'ann'", "the scenario lasts from 0 to 10 s"),
        ("at = nan\ndo = 'leave'\nclient = 'ann'", "the scenario lasts from 0 to 10 s"),
        ("at = 1\ndo = 'crash'", "it needs `node`: `node` crashes"),
        ("at = 1\ndo = 'subscribe'\nclient = 'ann'", "it needs `filter`: `client` wants"),
        ("at = 1\ndo = 'crash'\nnode = 'b0'\nclient = 'ann'", "it has no use for `client`"),
        ("at = 1\ndo = 'crash'\nnode = 'b9'", "step 2 (crash at 1 s): no node 'b9'; there are b0"),
        ("at = 1\ndo = 'cut'\nnode = 'b0'\nto = 'b0'", "there is no link b0 – b0"),
        (
            "at = 1\ndo = 'publish'\nclient = 'anne'\nevent = {a = 1}",
            "no client 'anne' has joined (did you mean 'ann'?)",
        ),
        ("at = 1\ndo = 'publish'\nclient = 'ann'\nevent = {a = nan}", "attribute 'a'"),
        ("at = 1\ndo = 'subscribe'\nclient = 'ann'\nfilter = 'a <'", "line 1, column 4: expected"),
        ("at = 1\ndo = 'unsubscribe'\nclient = 'ann'\nid = '7'", "no step 'subscribe' with id '7'"),
        ("at = 1\ndo = 'loss'\nvalue = 7", "loss is a chance from 0 to 1, not 7"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_with_its_number(
    tmp_path: Path, step: str, reason: str
) -> None:
    with pytest.raises(TidingsError) as caught:
        load(tmp_path, ANN + step)
    assert "step 2" in str(caught.value)
    assert reason in str(caught.value)


def test_a_step_may_name_a_client_of_the_workload(tmp_path: Path) -> None:
    text = f"{ANN}at = 1\ndo = 'vanish'\nclient = 'b1-2'\n[workload]\nclients_per_node = "
    assert load(tmp_path, f"{text}2").steps[1].client == "b1-2"
    with pytest.raises(TidingsError, match="no client 'b1-2' has joined"):
        load(tmp_path, f"{text}1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1"),
        ("[]", "a scenario is an object with fields"),
        ("[" * 100_000, ""),
        ('{"network": {"kind": "single"}, "steps": [{"at": 0, "do": "jump"}]}', "no action 'jump'"),
    ],
)
def test_json_that_is_no_scenario_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(TidingsError) as caught:
        load(tmp_path, text, "kept.json")
    assert reason in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TidingsError, match=r"cannot read .*none\.toml: No such file"):
        Scenario.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TidingsError, match="it is no text in UTF-8"):
        Scenario.load(tmp_path / "binary.toml")


def test_every_action_can_be_written(tmp_path: Path) -> None:
    fields = {
        "client": '"ann"',
        "node": '"b0"',
        "to": '"b1"',
        "id": '"1"',
        "filter": '"a = 1"',
        "event": "{a = 1}",
        "number": "3",
        "value": "0.5",
    }
    text = ANN.removesuffix("[[steps]]\n")
    for action, meaning in ACTIONS.items():
        used = "\n".join(f"{n} = {v}" for n, v in fields.items() if f"`{n}`" in meaning)
        text += f"[[steps]]\nat = 1\ndo = '{action}'\n{used}\n"
    assert len(load(tmp_path, text).steps) == 1 + len(ACTIONS)


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].glob("scenarios/*.toml")), ids=str
)
def test_the_examples_are_right(path: Path) -> None:
    assert Scenario.load(path).title
