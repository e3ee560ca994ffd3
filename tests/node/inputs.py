"""Inputs of a node, drawn at random."""

from __future__ import annotations

from random import Random

from tests.simulation.random_runs import random_event, random_filter
from tidings.events import Filter, Notification
from tidings.protocol.host import Input, Received, Request, Woken
from tidings.protocol.messages import Frame
from tidings.protocol.requests import Advertise, Attach, Publish, Subscribe


def anything(random: Random, number: int) -> Input:
    """Something that may happen to a node with two neighbours, and the number of it."""
    client = random.choice(("carol", "bob"))
    match random.randrange(6):
        case 0:
            return Request(client, Attach({"1": Filter.parse(random_filter(random))}))
        case 1:
            return Request(client, Subscribe(str(number), Filter.parse(random_filter(random))))
        case 2:
            return Request(client, Advertise(str(number), Filter.parse(random_filter(random))))
        case 3:
            return Request(client, Publish(number, (Notification(random_event(random)),)))
        case 4:
            return Received(random.choice(("b0", "b2")), Frame(1 << 20, 0, -1, 0))
        case _:
            return Woken()
