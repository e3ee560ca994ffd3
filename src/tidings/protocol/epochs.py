"""Epochs: the names of a broker's streams, one after the other.

A broker whose log cannot be proved to continue closes its stream and begins another one, so
that no tick is ever used twice. The epoch is part of the name: `paris`, then `paris~2`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

SEPARATOR: Final = "~"
"""Stands between a broker and an epoch; no broker's name has it."""


def stream_name(broker: str, epoch: int) -> str:
    """The name of a broker's stream in an epoch; the first one is called as the broker is.

    >>> stream_name("paris", 1), stream_name("paris", 2)
    ('paris', 'paris~2')
    """
    assert epoch >= 1, f"epochs are counted from 1, not {epoch}"
    return broker if epoch == 1 else f"{broker}{SEPARATOR}{epoch}"


def broker_of(stream: str) -> str:
    """The broker that has the log of a stream.

    >>> broker_of("paris"), broker_of("paris~12")
    ('paris', 'paris')
    """
    return _parts(stream)[0]


def epoch_of(stream: str) -> int:
    """Which of its broker's streams it is, counted from 1.

    Only what `stream_name` makes is split; any other name is a broker's own, of epoch 1.

    >>> epoch_of("paris"), epoch_of("paris~12"), epoch_of("paris~1"), epoch_of("paris~x")
    (1, 12, 1, 1)
    >>> broker_of("paris~1")
    'paris~1'
    """
    return _parts(stream)[1]


def comes_after(stream: str, others: Iterable[str]) -> bool:
    """Whether one of the others is an earlier stream of the same broker.

    A reader of that one wants all of this one, from its first tick on.

    >>> comes_after("paris~2", ["rome", "paris"]), comes_after("paris", ["rome", "paris~2"])
    (True, False)
    """
    broker, epoch = _parts(stream)
    return epoch > 1 and any(b == broker and e < epoch for b, e in map(_parts, others))


def is_closed(stream: str, others: Iterable[str]) -> bool:
    """Whether one of the others is a later stream of the same broker: then this one has ended.

    >>> is_closed("paris", ["rome", "paris~2"]), is_closed("paris~2", ["rome", "paris"])
    (True, False)
    """
    broker, epoch = _parts(stream)
    return any(b == broker and e > epoch for b, e in map(_parts, others))


@lru_cache(maxsize=1_024)  # asked for each subscription, of the few streams that there are
def _parts(stream: str) -> tuple[str, int]:
    broker, _, digits = stream.rpartition(SEPARATOR)
    is_epoch = digits.isascii() and digits.isdecimal() and digits[0] != "0" and digits != "1"
    return (broker, int(digits)) if broker and is_epoch else (stream, 1)
