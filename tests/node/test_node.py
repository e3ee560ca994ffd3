"""A node alone: what it answers, what it stores first, and that it decides by its inputs only."""

from __future__ import annotations

from random import Random

import pytest

from tests.node.inputs import anything
from tidings.events import Filter, Notification, TidingsError
from tidings.node import Node, Settings
from tidings.protocol.digest import summary
from tidings.protocol.host import (
    Deliver,
    Effect,
    LinkDown,
    LinkUp,
    Recall,
    Recalled,
    Received,
    Reply,
    Request,
    Send,
    Span,
    Store,
    Sync,
    Wake,
    Woken,
)
from tidings.protocol.messages import Frame
from tidings.protocol.requests import (
    SESSION,
    Accepted,
    Advertise,
    Attach,
    Detach,
    Kept,
    Publish,
    Refused,
    Renew,
    Resend,
    Subscribe,
    Unsubscribe,
)

CHEAP = Filter.parse("price < 10")
LOGGED = Settings()
AT_MOST_ONCE = Settings(at_most_once=True)


def started(settings: Settings | None = None, **more: object) -> Node:
    node = Node("b1", settings or AT_MOST_ONCE, **more)
    node.start(now=0.0)
    return node


def kinds(effects: list[Effect]) -> list[type]:
    return [effect.__class__ for effect in effects if not isinstance(effect, Wake)]


def test_a_subscription_is_acknowledged_only_once_it_is_stored() -> None:
    node = started()
    node.handle(Request("carol", Attach()), now=1.0)
    effects = node.handle(Request("carol", Subscribe("1", CHEAP)), now=1.0)
    assert kinds(effects) == [Store, Sync, Reply]
    assert effects[-1] == Reply("carol", Accepted("1"))


def test_what_was_stored_is_there_again_in_a_larger_incarnation() -> None:
    stored = {}
    node = Node("b1", AT_MOST_ONCE)
    for effect in [
        *node.start(now=0.0),
        *node.handle(Request("carol", Attach({"1": CHEAP})), now=1.0),
    ]:
        if isinstance(effect, Store):
            stored[effect.key] = effect.value
    again = started(stored=stored)
    assert again.incarnation == node.incarnation + 1
    assert again.exchange.wanted(again.sessions["carol"]) == {CHEAP: 1}


def test_nothing_is_delivered_to_a_session_that_is_not_connected() -> None:
    node = started(stored={"incarnation": 1, "session:carol": ({"1": CHEAP}, {})})
    node.handle(Request("bob", Attach()), now=1.0)
    publish = Request("bob", Publish(1, (Notification({"price": 5}),)))
    assert Deliver not in kinds(node.handle(publish, now=2.0))
    node.handle(Request("carol", Attach({"1": CHEAP})), now=3.0)
    publish = Request("bob", Publish(2, (Notification({"price": 5}),)))
    assert Deliver in kinds(node.handle(publish, now=4.0))


def test_what_a_client_has_heard_is_not_delivered_again() -> None:
    node = started()
    node.handle(Request("carol", Attach({"1": CHEAP}, cursor={"bob": 7})), now=1.0)
    node.handle(Request("bob", Attach()), now=1.0)
    cheap = Notification({"price": 5})
    assert Deliver not in kinds(node.handle(Request("bob", Publish(7, (cheap,))), now=2.0))
    assert Deliver in kinds(node.handle(Request("bob", Publish(8, (cheap,))), now=2.0))
    assert Deliver not in kinds(node.handle(Request("bob", Publish(8, (cheap,))), now=2.0))


def test_a_session_that_is_unknown_or_differs_is_asked_for_again() -> None:
    node = started()
    assert node.handle(Request("carol", Subscribe("1", CHEAP)), 1.0) == [Reply("carol", Resend())]
    node.handle(Request("carol", Attach({"1": CHEAP})), now=1.0)
    assert node.handle(Request("carol", Renew(summary({"1": CHEAP}, {}))), now=2.0) == []
    assert node.handle(Request("carol", Renew(summary({}, {}))), 2.0) == [Reply("carol", Resend())]


def test_a_detached_session_is_forgotten_and_unknown_ids_are_no_error() -> None:
    node = started()
    node.handle(Request("carol", Attach({"1": CHEAP})), now=1.0)
    assert kinds(node.handle(Request("carol", Unsubscribe("none")), now=1.0)) == [Reply]
    node.handle(Request("carol", Detach()), now=2.0)
    assert node.sessions == {}
    assert node.handle(Request("carol", Detach()), now=3.0) == []


def test_a_subscription_under_a_used_id_replaces_the_old_one() -> None:
    node = started()
    node.handle(Request("carol", Attach({"1": CHEAP})), now=1.0)
    node.handle(Request("carol", Subscribe("1", Filter.parse("price > 10"))), now=1.0)
    node.handle(Request("bob", Attach()), now=1.0)
    publish = Request("bob", Publish(1, (Notification({"price": 5}),)))
    assert Deliver not in kinds(node.handle(publish, now=2.0))


def test_unadvertised_events_are_refused() -> None:
    node = started(Settings(at_most_once=True, advertisements="simple"))
    node.handle(Request("bob", Attach()), now=1.0)
    node.handle(Request("bob", Advertise("1", CHEAP)), now=1.0)
    effects = node.handle(Request("bob", Publish(1, (Notification({"price": 50}),))), now=2.0)
    assert isinstance(effects[0], Reply)
    assert isinstance(effects[0].answer, Refused)


def test_frames_of_strangers_are_ignored() -> None:
    node = started()
    assert node.handle(Received("nobody", Frame(1, 0, -1, 0)), now=1.0) == []
    assert node.handle(LinkDown("nobody"), now=1.0) == []


def test_a_link_that_comes_up_is_greeted() -> None:
    node = started()
    assert Send in kinds(node.handle(LinkUp("b2"), now=1.0))


@pytest.mark.parametrize("tree", [False, True])
def test_a_node_decides_by_its_inputs_alone(tree: bool) -> None:
    """Two nodes that are told the same do the same, step by step."""
    settings = Settings(
        at_most_once=True, tree=tree, advertisements="merging", check=1.0, lease=3.0
    )
    one = Node("b1", settings, neighbours={"b0": "peer", "b2": "peer"})
    other = Node("b1", settings, neighbours={"b0": "peer", "b2": "peer"})
    assert one.start(0.0) == other.start(0.0)
    random = Random(1)
    for number in range(300):
        now = number / 10
        happened = anything(random, number)
        assert one.handle(happened, now) == other.handle(happened, now)


@pytest.mark.parametrize(
    "wrong",
    [
        {"subscriptions": "guess"},
        {"advertisements": "imperfect:0"},
        {"grace": "patience"},
        {"beat": 0},
        {"silence": 1.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TidingsError):
        Settings(**wrong)


# -- names -------------------------------------------------------------------------------------


def replies(effects: list[Effect]) -> list[tuple[str, object]]:
    return [(e.session, e.answer) for e in effects if isinstance(e, Reply)]


def test_a_name_is_on_disk_before_its_new_owner_is_told() -> None:
    node = started(LOGGED)
    effects = node.handle(Request("1", Attach(name="desk", instance="a")), now=1.0)
    assert kinds(effects) == [Store, Sync, Reply]
    again = node.handle(Request("2", Attach(name="desk", instance="a", attempt=1)), now=2.0)
    assert Store not in kinds(again)


def test_whoever_has_a_name_keeps_it_until_somebody_else_is_let_in_under_it() -> None:
    node = started(LOGGED)
    node.handle(Request("1", Attach(name="desk", instance="old")), now=1.0)
    taken = node.handle(Request("2", Attach(name="desk", instance="new")), now=2.0)
    (loser, refusal), (winner, accepted) = replies(taken)
    assert (loser, getattr(refusal, "id", "")) == ("1", SESSION)
    assert (winner, accepted) == ("2", Accepted("attach", 0, 2))
    zombie = node.handle(Request("3", Attach(name="desk", instance="old", epoch=1)), now=3.0)
    assert [(to, getattr(said, "id", "")) for to, said in replies(zombie)] == [("3", SESSION)]
    news = Publish(1, (Notification({"n": 1}),))
    kept = Accepted("publish", 1, kept=(Kept(1, 1, "b1", 1),))
    assert ("2", kept) in replies(node.handle(Request("2", news), now=4.0))
    assert replies(node.handle(Request("3", news), now=4.0)) == [("3", Resend())]


def test_an_attempt_that_arrives_late_takes_nothing_from_a_later_one() -> None:
    node = started(LOGGED)
    node.handle(Request("2", Attach(name="desk", instance="a", attempt=2)), now=1.0)
    late = node.handle(Request("1", Attach(name="desk", instance="a", attempt=1)), now=2.0)
    assert [(to, getattr(said, "id", "")) for to, said in replies(late)] == [("1", SESSION)]
    assert "2" in node.sessions


def test_what_a_slow_disk_recalls_is_not_taken_for_the_answer_to_a_later_question() -> None:
    """In between the node has changed what it stores, which is yet to be committed."""
    node = started(Settings(check=1.0))
    first, second = Recall(1), Recall(2)
    stored = {"incarnation": 1}
    assert first in node.handle(Woken(), now=1.0)
    effects = node.handle(Request("carol", Attach(name="carol", instance="i")), now=1.5)
    later = stored | {e.key: e.value for e in effects if isinstance(e, Store)}
    assert later.keys() > stored.keys()
    assert second in node.handle(Woken(), now=2.0)
    sessions = {"carol": False}
    node.handle(Recalled(1, stored, {"b1": Span()}, sessions, frozenset()), now=2.5)
    node.handle(Recalled(2, later, {"b1": Span()}, sessions, frozenset()), now=3.0)
