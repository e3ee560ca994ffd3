"""Delivery: how what is published gets to those who want it. A node has one of two ways.

`FromLog`, which brokers run, loses nothing: here are the logs of a node's own streams, the ways by
which other streams come, and the readers that follow them. `AtMostOnce` is for the papers'
experiments. All of it is pure, and knows its node by the protocol of `protocol.parts` only.
"""

from tidings.delivery.at_most_once import AtMostOnce
from tidings.delivery.from_log import FromLog
from tidings.delivery.quotas import Quota

__all__ = ["AtMostOnce", "FromLog", "Quota"]
