"""Quantiles: from a sample of rows to what is told of the distribution of their values."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidings.events.encoding import decode_json
from tidings.lakes.layout import REST
from tidings.routing.statistics import GREATEST, Attribute, Distribution, Statistics

STEPS: Final = 64
"""Steps from the least value to the greatest, each with equally many events."""
STEPS_GIVEN: Final = 32
"""Steps, with equally many events each, of what is known given a value."""
LARGEST: Final = 1 << 18
"""Statistics are made no longer than this, in characters, so that a broker takes them."""
FEWEST: Final = 50
"""Rows of the sample of which something given a value must be known, at least."""
ORDERED: Final = {"integer": "number", "double": "number", "time": "time"}
"""The kinds of columns that have quantiles, and the domains that these are of."""

Floats = npt.NDArray[np.float64]


def ordered_values(
    sample: pa.Table, kinds: dict[str, str], domain: str, huge: dict[int, float]
) -> Floats:
    """The numbers, or times as seconds, of one attribute in the sample; NaN where there is none.

    `huge` are the numbers that fit no column, by row.
    """
    found: Floats = np.full(sample.num_rows, np.nan)
    for kind, column in kinds.items():
        if ORDERED.get(kind) != domain:
            continue
        held = sample[column]
        if kind == "time":
            held = pc.divide(held.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
        some = held.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        found = np.where(np.isnan(some), found, some)
    if domain == "number":
        found[list(huge)] = list(huge.values())
    return np.clip(found, -GREATEST, GREATEST)


def numbers_in_rest(sample: pa.Table) -> dict[str, dict[int, float]]:
    """The numbers that fit no column, of each attribute, by row of the sample."""
    found: dict[str, dict[int, float]] = {}
    for row, text in enumerate(sample[REST].to_pylist() if REST in sample.column_names else ()):
        for name, value in decode_json(text).items() if text else ():
            if is_number(value):
                found.setdefault(name, {})[row] = nearest(value)
    return found


def nearest(number: float) -> float:
    """A number, or the greatest one that statistics know of.

    >>> nearest(2**70) == 2.0**70, nearest(-(10**400)) == -GREATEST
    (True, True)
    """
    return float(min(max(number, -GREATEST), GREATEST))


def is_number(plain: object) -> bool:
    """Whether this of JSON is a number.

    >>> is_number(2**70), is_number(True)
    (True, False)
    """
    return isinstance(plain, int | float) and not isinstance(plain, bool)


def distribution(share: float, values: Floats | None, steps: int) -> Distribution | None:
    """The quantiles of values that this share of all events have; None if there are none."""
    if values is None:
        return None
    known = values[~np.isnan(values)]
    if not len(known) or not share:
        return None
    found = np.quantile(known, np.linspace(0.0, 1.0, steps + 1), method="nearest")
    return Distribution(rounded(share), tuple(found.tolist()))


def known_given(
    rows: npt.NDArray[np.int64],
    share: float,
    attributes: dict[str, Attribute],
    values: dict[tuple[str, str], Floats],
) -> dict[str, Attribute]:
    """The attributes that are distributed otherwise in these rows of the sample, whose share of
    all events is given, than in all rows."""
    found: dict[str, dict[str, Distribution]] = {}
    differing: set[str] = set()
    for (name, domain), all_values in values.items():
        at_large = attributes[name].ordered(domain) if name in attributes else None
        if at_large is None:
            continue
        some = all_values[rows]
        some = some[~np.isnan(some)]
        # Of too few rows nothing is said, and it is supposed to be as it is at large.
        part = Distribution(rounded(share * at_large.share), at_large.quantiles)
        if len(some) >= FEWEST:
            own = distribution(rounded(share * len(some) / len(rows)), some, STEPS_GIVEN)
            if own is not None and _differs(own, at_large, len(some)):
                part = own
                differing.add(name)
        found.setdefault(name, {})[domain] = part
    # Whether those of the rows without a number or a time have something else was not looked at:
    # `present` says that all have.
    return {
        name: Attribute(present=share, number=parts.get("number"), time=parts.get("time"))
        for name, parts in found.items()
        if name in differing
    }


def _differs(part: Distribution, at_large: Distribution, rows: int) -> bool:
    """Whether they are further apart than chance explains (by Kolmogorov and Smirnov)."""
    places = [(q, side) for q in part.quantiles for side in (0, 1)]
    apart = max(abs(part.below(place) - at_large.below(place)) for place in places)
    return bool(apart > 2.0 / np.sqrt(rows) + 1.0 / STEPS_GIVEN)


def shortened(statistics: Statistics) -> Statistics:
    """Without what is given a rare value, and at last without anything given, if it is too long."""
    given = {name: dict(values) for name, values in statistics.given.items()}
    size = len(statistics.text())
    while size > LARGEST and any(given.values()):
        for values in given.values():  # the rarest come last
            for value in list(values)[len(values) // 2 :]:
                del values[value]
        statistics = Statistics(statistics.events, statistics.attributes, given)
        size = len(statistics.text())
    if size > LARGEST:
        most = sorted(statistics.attributes.items(), key=lambda item: -item[1].present)
        kept = dict(most[: len(most) // 2])
        return shortened(Statistics(statistics.events, kept, {}))
    return statistics


def rounded(share: float) -> float:
    """A share, with the digits that matter."""
    return float(f"{min(1.0, max(0.0, share)):.6g}")
