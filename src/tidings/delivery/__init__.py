"""Delivery: streams that lose nothing, and the positions of those who read them.

Here live the log of a node's own stream, the ways by which other streams come, and the readers
that follow them; all of it pure. How they talk to neighbours and clients is the node's affair.
"""

from tidings.delivery.log import Log
from tidings.delivery.readers import Flow, Reader
from tidings.delivery.ways import Ways

__all__ = ["Flow", "Log", "Reader", "Ways"]
