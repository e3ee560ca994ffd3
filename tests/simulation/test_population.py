"""Clients and faults by the number become steps that chance, but only the seed's, has chosen."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tidings.events import Filter, Notification
from tidings.node import Settings
from tidings.simulation.play import Play
from tidings.simulation.population import written_out
from tidings.simulation.scenario import Faults, Scenario, Step, Workload
from tidings.workloads import WORKLOADS

TREE = {"kind": "random_tree", "nodes": 8, "seed": 1}


def drawn(
    workload: Workload | None = None, faults: Faults | None = None, **fields: object
) -> tuple[Step, ...]:
    scenario = Scenario(network=TREE, workload=workload, faults=faults, **fields)
    return written_out(scenario).steps


def of(steps: tuple[Step, ...], *actions: str) -> list[Step]:
    return [step for step in steps if step.do in actions]


def test_a_scenario_of_steps_alone_is_left_as_it_is() -> None:
    scenario = Scenario(network=TREE, steps=(Step(3.0, "crash", node="b1"),))
    assert written_out(scenario) is scenario


def test_equal_seeds_give_equal_steps_and_others_give_others() -> None:
    workload, faults = Workload(churn=2.0), Faults(crashes=30.0, cuts=30.0, corruptions=30.0)
    assert drawn(workload, faults, seed=5) == drawn(workload, faults, seed=5)
    assert drawn(workload, faults, seed=5) != drawn(workload, faults, seed=6)


def test_what_is_written_out_has_nothing_left_to_draw() -> None:
    scenario = written_out(Scenario(network=TREE, workload=Workload(), faults=Faults(cuts=9.0)))
    assert (scenario.workload, scenario.faults) == (None, None)
    assert written_out(scenario) is scenario


@pytest.mark.parametrize("kind", WORKLOADS)
def test_as_much_happens_as_the_rates_say(kind: str) -> None:
    steps = drawn(
        Workload(kind=kind, clients_per_node=2, subscriptions=3, events=7.0, churn=1.5, begin=2.0),
        duration=12.0,
    )
    count = Counter(step.do for step in steps)
    assert count == {"join": 16, "subscribe": 16 * 3 + 15, "unsubscribe": 15, "publish": 70}


def test_steps_are_in_order_and_within_the_scenario() -> None:
    steps = drawn(Workload(churn=3.0), Faults(crashes=60.0, cuts=60.0, outage=5.0), duration=8.0)
    times = [step.at for step in steps]
    assert times == sorted(times)
    assert 0.0 <= times[0] <= times[-1] <= 8.0


def test_clients_join_first_and_have_subscribed_before_anything_is_published() -> None:
    steps = drawn(Workload(begin=3.0), duration=6.0)
    assert {step.do for step in steps[:8]} == {"join"}
    assert max(s.at for s in of(steps, "subscribe")) <= 3.0 <= of(steps, "publish")[0].at


def test_a_workload_that_begins_after_the_end_only_subscribes() -> None:
    steps = drawn(Workload(begin=50.0, churn=1.0), duration=6.0)
    assert {step.do for step in steps} == {"join", "subscribe"}
    assert max(step.at for step in steps) <= 6.0


def test_churn_gives_up_only_what_is_held() -> None:
    held: set[tuple[str, str]] = set()
    for step in drawn(Workload(subscriptions=2, churn=20.0)):
        if step.do == "subscribe":
            assert (step.client, step.id) not in held
            held.add((step.client, step.id))
        elif step.do == "unsubscribe":
            held.remove((step.client, step.id))
    assert len(held) == 16


def test_nobody_at_all_does_nothing() -> None:
    assert drawn(Workload(clients_per_node=0, churn=5.0)) == ()
    steps = drawn(Workload(subscriptions=0, churn=5.0))
    assert {step.do for step in steps} == {"join", "publish"}


def test_with_advertisements_everybody_has_advertised_what_it_publishes() -> None:
    settings = Settings(advertisements="covering")
    steps = drawn(Workload(events=30.0), settings=settings)
    offered = {s.client: Filter.parse(s.filter) for s in of(steps, "advertise")}
    published = of(steps, "publish")
    assert len(published) == 270
    assert all(offered[s.client].matches(Notification(s.event)) for s in published)
    assert not of(drawn(Workload(advertise=False), settings=settings), "advertise")
    assert not of(drawn(Workload()), "advertise")


def test_no_event_of_a_workload_is_refused_where_advertisements_are_enforced() -> None:
    scenario = Scenario(
        network=TREE, settings=Settings(advertisements="merging"), workload=Workload()
    )
    play = Play.begin(scenario)
    play.run()
    clients = play.simulation.clients.values()
    assert sum(client.published for client in clients) == 90
    assert not any(client.refused for client in clients)


def test_what_is_broken_is_not_broken_again_before_it_is_whole() -> None:
    steps = drawn(None, Faults(crashes=120.0, cuts=120.0, outage=3.0), duration=30.0)
    broken: set[tuple[str, str]] = set()
    for step in steps:
        place = (step.node, step.to)
        if step.do in ("crash", "cut"):
            assert place not in broken
            broken.add(place)
        else:
            broken.remove(place)
    assert len(of(steps, "crash")) > 20


def test_faults_set_in_between_begin_and_until() -> None:
    steps = drawn(
        None, Faults(crashes=60.0, cuts=60.0, corruptions=60.0, begin=2.0, until=5.0), duration=30.0
    )
    times = [step.at for step in of(steps, "crash", "cut", "corrupt")]
    assert len(times) == 9
    assert min(times) >= 2.0
    assert max(times) <= 5.0
    assert len(of(steps, "restart", "mend")) == 6


def test_an_outage_lasts_as_long_as_was_said_on_average() -> None:
    steps = drawn(None, Faults(crashes=60.0, outage=4.0, until=90.0), duration=100.0)
    down = {}
    lasted = []
    for step in steps:
        if step.do == "crash":
            down[step.node] = step.at
        else:
            lasted.append(step.at - down[step.node])
    assert min(lasted) >= 1.99
    assert max(lasted) <= 6.01
    assert 3.5 < sum(lasted) / len(lasted) < 4.5


def test_more_faults_change_nothing_about_the_clients() -> None:
    quiet, wild = drawn(Workload()), drawn(Workload(), Faults(crashes=60.0))
    assert [s for s in wild if s.do not in ("crash", "restart")] == list(quiet)


def test_steps_by_hand_come_on_top_and_last_of_their_moment() -> None:
    step = Step(0.0, "crash", node="b3")
    steps = drawn(Workload(), steps=(step,))
    at_once = [s for s in steps if s.at == 0.0]
    assert len(at_once) == 9
    assert at_once[-1] is step


@pytest.mark.slow
def test_playing_a_workload_is_playing_its_steps() -> None:
    scenario = Scenario(
        network=TREE,
        workload=Workload(kind="dense-eq", churn=2.0),
        faults=Faults(crashes=12.0),
        duration=5.0,
    )

    def heard(scenario: Scenario) -> list[tuple[str, int]]:
        play = Play.begin(scenario)
        play.run()
        return [(c.name, c.count) for c in play.simulation.clients.values()]

    assert heard(scenario) == heard(written_out(scenario))
    assert sum(count for _, count in heard(scenario)) > 10
    other = msgspec.structs.replace(scenario, seed=1)
    assert heard(other) != heard(scenario)
