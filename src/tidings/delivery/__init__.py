"""Delivery: streams that lose nothing, and the positions of those who read them.

Here live the logs of a node's own streams, the ways by which other streams come and how far they
are, and the readers that follow them; all of it pure. How they talk to neighbours and clients is
the node's affair.
"""

from tidings.delivery.known import Known
from tidings.delivery.log import Log
from tidings.delivery.publishers import Publishers
from tidings.delivery.readers import Flow, Reader
from tidings.delivery.ways import Ways

__all__ = ["Flow", "Known", "Log", "Publishers", "Reader", "Ways"]
