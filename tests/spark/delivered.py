"""What `deliver` should have delivered, said plainly: by a broker's log and Spark's checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from tests.client.brokers import BrokerProcess
from tests.spark.brokers import Here, log_of
from tidings.events import Filter
from tidings.protocol.messages import Event


def offsets(checkpoint: Path) -> list[dict[str, Any]]:
    """The offsets of all batches that were begun, in order."""
    files = (path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())
    return [
        json.loads(path.read_text().splitlines()[2])
        for path in sorted(files, key=lambda path: int(path.name))
    ]


parsed = cache(Filter.parse)


def wanted(log: list[Event], begun: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Who should have heard of which event: each judged by what was registered by then."""
    found: Counter[tuple[str, str]] = Counter()
    for batch in begun:
        upto = batch["subscriptions"]["cursor"].get("paris", 0)
        in_force: dict[str, Filter] = {}
        for event in log[:upto]:
            said = event.notification
            if "cancelled" in said:
                del in_force[said["tidings.bulk"]]
            elif "tidings.bulk" in said and said["tidings.bulk"] != "bad":
                in_force[said["tidings.bulk"]] = parsed(said["filter"])
        for event in log[batch["begin"]["paris"] : batch["cursor"]["paris"]]:
            said = event.notification
            if "tidings.bulk" not in said and "tidings.for" not in said:
                for name, filter_ in in_force.items():
                    found[f"paris:{event.tick}", name] += filter_.matches(said)
    return +found


def published(broker: BrokerProcess | Here) -> Counter[tuple[str, str]]:
    """Who was told of which event, by what is in the broker's log."""
    found: Counter[tuple[str, str]] = Counter()
    for event in log_of(broker):
        if "tidings.for" in event.notification:
            names = event.notification["tidings.for"]
            assert len(names) <= 1_000
            found.update((event.notification["tidings.id"], name) for name in names)
    return found
