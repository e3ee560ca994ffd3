"""Market quotes: what happens on an exchange, and what people ask to hear of it.

An event has eight attributes, drawn independently of each other:

=========  ==========================================  ==========================
symbol     three letters, of 10 000 (REBECA's: 1 000)  uniform, or Zipf by `skew`
exchange   a name, of 10                               uniform
sector     a name, of 20                               uniform
price      0.00 … 100.00 in steps of 0.01              uniform
change     -10.00 … 10.00 in steps of 0.01             uniform
spread     0.0 … 50.0 in steps of 0.1                  uniform
dividend   0.00 … 8.00 in steps of 0.01                uniform
volume     0 … 1 000 000, whole numbers                uniform
=========  ==========================================  ==========================

Because everything is uniform, a condition's selectivity is its width, and that of a filter the
product over its conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidings.workloads.conditions import Among, Condition, Conditions, Equal, Prefix, Range
from tidings.workloads.workload import Uniforms, Workload, choices, ranks, zipf

# -- the market --------------------------------------------------------------------------------

# fmt: off
EXCHANGES: Final = ["ASX", "BME", "FRA", "HKG", "LSE", "NASDAQ", "NYSE", "SIX", "TSE", "TSX"]
SECTORS: Final = [
    "airlines", "autos", "banks", "biotech", "chemicals", "energy", "food", "insurance", "media",
    "metals", "mining", "paper", "pharma", "railways", "retail", "shipping", "software", "steel",
    "telecoms", "utilities",
]
# fmt: on


@dataclass(frozen=True)
class Quantity:
    """A numeric attribute: its values are first / scale, (first + 1) / scale, … last / scale."""

    name: str
    first: int
    last: int
    scale: int

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.last - self.first + 1

    def values(self, steps: NDArray[np.int64]) -> list[Any]:
        """The values that many steps above the first."""
        numbers = steps + self.first
        values: list[Any] = (numbers if self.scale == 1 else numbers / self.scale).tolist()
        return values


PRICE: Final = Quantity("price", 0, 10_000, 100)
QUANTITIES: Final = (
    PRICE,
    Quantity("change", -1_000, 1_000, 100),
    Quantity("spread", 0, 500, 10),
    Quantity("dividend", 0, 800, 100),
    Quantity("volume", 0, 1_000_000, 1),
)

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MANY_SYMBOLS: Final = 10_000
REBECA_SYMBOLS: Final = 1_000


def symbol(number: int) -> str:
    """The name of a stock; consecutive numbers have distant names, so prefixes are uniform.

    >>> symbol(0), symbol(1), symbol(2)
    ('AAA', 'COZ', 'FDY')
    """
    spread = number * 1_741 % 26**3  # one to one, since 1741 and 26 have no common divisor
    return LETTERS[spread // 676] + LETTERS[spread // 26 % 26] + LETTERS[spread % 26]


def _events(uniforms: Uniforms, *, symbols: list[str], skew: float) -> dict[str, list[Any]]:
    """Columns: symbol, exchange, sector, then one for each quantity."""
    chosen = zipf(uniforms[:, 0], len(symbols), skew).tolist()
    columns: dict[str, list[Any]] = {
        "symbol": [symbols[number] for number in chosen],
        "exchange": [EXCHANGES[c] for c in choices(uniforms[:, 1], len(EXCHANGES)).tolist()],
        "sector": [SECTORS[c] for c in choices(uniforms[:, 2], len(SECTORS)).tolist()],
    }
    for at, quantity in enumerate(QUANTITIES, start=3):
        columns[quantity.name] = quantity.values(choices(uniforms[:, at], quantity.count))
    return columns


# -- ranges ------------------------------------------------------------------------------------

_PER_QUANTITY: Final = 4
_RANGE_COLUMNS: Final = 1 + _PER_QUANTITY * len(QUANTITIES)


def _ranges(uniforms: Uniforms, *, fewest: int, widths: list[float]) -> list[list[Condition]]:
    """For each row, ranges over different quantities: `fewest` of them, or one more for each
    further width. A range covers that share of its quantity's values, give or take a quarter;
    one in four is open to one side.

    Columns: how many; then for each quantity its order, width, place, and open side.
    """
    more = choices(uniforms[:, 0], len(widths))
    order, width, place, side = (
        uniforms[:, 1 + at :: _PER_QUANTITY] for at in range(_PER_QUANTITY)
    )
    shares = np.array(widths)[more][:, None] * (0.75 + 0.5 * width)
    taken = ranks(order) < (fewest + more)[:, None]
    rows: list[list[Condition]] = [[] for _ in uniforms]
    for at, quantity in enumerate(QUANTITIES):
        (here,) = taken[:, at].nonzero()
        covered = np.maximum(1, (shares[here, at] * quantity.count).astype(np.int64))
        spare = quantity.count - covered
        up, down = side[here, at] < 0.125, side[here, at] >= 0.875
        low = np.where(up, spare, np.where(down, 0, choices(place[here, at], spare + 1)))
        lows, highs = quantity.values(low), quantity.values(low + covered - 1)
        found = zip(here.tolist(), lows, highs, up.tolist(), down.tolist(), strict=True)
        for row, first, last, is_up, is_down in found:
            bounds = (None if is_down else first, None if is_up else last)
            rows[row].append(Range(quantity.name, *bounds))
    return rows


# -- the workloads -----------------------------------------------------------------------------


def _workload(
    name: str,
    selectivity: float,
    draw: Callable[[Uniforms], Iterator[Conditions]],
    columns: int,
    *,
    seed: int,
    symbols: list[str],
    skew: float = 0.0,
) -> Workload:
    events = partial(_events, symbols=symbols, skew=skew)
    return Workload(name, selectivity, seed, draw, columns, events, 3 + len(QUANTITIES))


def _symbols(count: int) -> list[str]:
    return [symbol(number) for number in range(count)]


def dense_eq(seed: int = 0) -> Workload:
    """Conjunctions of `=`, `IN` and prefix over the three names; an event matches 2 % of them.

    Five shapes, all as likely; a list holds four names more or less, or about half of them all.

    >>> next(dense_eq().texts(1))
    "sector = 'biotech' AND exchange IN ('FRA', 'HKG', 'NYSE')"
    """
    return _workload("dense-eq", 0.0197, _dense_eq, 34, seed=seed, symbols=_symbols(MANY_SYMBOLS))


def _dense_eq(uniforms: Uniforms) -> Iterator[Conditions]:
    """Columns: shape, length of list, letter, single name, order of exchanges, of sectors."""
    shapes = choices(uniforms[:, 0], 5).tolist()
    lengths = uniforms[:, 1].tolist()
    letters = choices(uniforms[:, 2], 26).tolist()
    singles = uniforms[:, 3].tolist()
    exchanges = ranks(uniforms[:, 4:14]).tolist()
    sectors = ranks(uniforms[:, 14:34]).tolist()

    def some(names: list[str], order: list[int], fewest: int, most: int, u: float) -> Among:
        count = fewest + int(u * (most - fewest + 1))
        name = "exchange" if names is EXCHANGES else "sector"
        return Among(name, tuple([n for n, r in zip(names, order, strict=True) if r < count]))

    for shape, u, letter, single, exchange, sector in zip(
        shapes, lengths, letters, singles, exchanges, sectors, strict=True
    ):
        prefix = Prefix("symbol", LETTERS[letter])
        if shape == 0:  # 1/10 × 4/20
            one = Equal("exchange", EXCHANGES[int(single * len(EXCHANGES))])
            yield (one, some(SECTORS, sector, 2, 6, u))
        elif shape == 1:  # 1/20 × 4/10
            one = Equal("sector", SECTORS[int(single * len(SECTORS))])
            yield (one, some(EXCHANGES, exchange, 3, 5, u))
        elif shape == 2:  # 1/26 × 5/10
            yield (prefix, some(EXCHANGES, exchange, 4, 6, u))
        elif shape == 3:  # 1/26 × 10/20
            yield (prefix, some(SECTORS, sector, 8, 12, u))
        else:  # 2/10 × 2/20
            yield (
                some(EXCHANGES, exchange, 2, 2, u),
                some(SECTORS, sector, 1, 3, u),
            )


def dense_range(seed: int = 0) -> Workload:
    """Two to five numeric ranges; an event matches 2 % of the filters.

    >>> next(dense_range().texts(1))
    'change >= 4.21 AND dividend BETWEEN 3.89 AND 6.55 AND volume BETWEEN 495739 AND 791037'
    """
    widths = [0.1414, 0.2714, 0.3761, 0.4573]  # the roots of 0.02
    return _workload(
        "dense-range",
        0.02,
        lambda uniforms: map(tuple, _ranges(uniforms, fewest=2, widths=widths)),
        _RANGE_COLUMNS,
        seed=seed,
        symbols=_symbols(MANY_SYMBOLS),
    )


def sparse(seed: int = 0, *, skew: float = 0.0) -> Workload:
    """One symbol and one to three ranges; an event matches 0.004 % of the filters: 40 of a million.

    With `skew`, filters and events both prefer the same stocks: the k-th of them with weight
    1 / k ** skew, as in Zipf's law. A popular event then finds many more filters.

    >>> next(sparse().texts(1))
    "symbol = 'SXA' AND dividend >= 4.32"
    """
    symbols = _symbols(MANY_SYMBOLS)
    widths = [0.4, 0.6325, 0.7368]  # the roots of 0.4

    def draw(uniforms: Uniforms) -> Iterator[Conditions]:
        chosen = zipf(uniforms[:, 0], len(symbols), skew).tolist()
        ranges = _ranges(uniforms[:, 1:], fewest=1, widths=widths)
        for number, found in zip(chosen, ranges, strict=True):
            yield (Equal("symbol", symbols[number]), *found)

    weights = [float(k) ** -skew for k in range(1, len(symbols) + 1)]
    same_symbol = sum(w * w for w in weights) / sum(weights) ** 2
    return _workload(
        "sparse" if skew == 0 else f"sparse-skew-{skew:g}",
        0.4 * same_symbol,
        draw,
        1 + _RANGE_COLUMNS,
        seed=seed,
        symbols=symbols,
        skew=skew,
    )


def quote(seed: int = 0) -> Workload:
    """REBECA's quotes: one of 1 000 symbols, nothing else; an event matches 0.1 %.

    >>> next(quote().texts(1))
    "symbol = 'KUE'"
    """
    symbols = _symbols(REBECA_SYMBOLS)

    def draw(uniforms: Uniforms) -> Iterator[Conditions]:
        for number in choices(uniforms[:, 0], len(symbols)).tolist():
            yield (Equal("symbol", symbols[number]),)

    return _workload("quote", 0.001, draw, 1, seed=seed, symbols=symbols)


def interval(seed: int = 0) -> Workload:
    """REBECA's quote intervals: `symbol = s AND price BETWEEN 50 - t AND 50 + u`, where t and u
    are uniform from 0 to 50; an event matches 0.05 %. Of two such filters of one symbol, one
    covers the other half of the time, and they always merge.

    >>> next(interval().texts(1))
    "symbol = 'QHX' AND price BETWEEN 29.85 AND 95.93"
    """
    symbols = _symbols(REBECA_SYMBOLS)

    def draw(uniforms: Uniforms) -> Iterator[Conditions]:
        chosen = choices(uniforms[:, 0], len(symbols)).tolist()
        lows = PRICE.values(5_000 - choices(uniforms[:, 1], 5_001))
        highs = PRICE.values(5_000 + choices(uniforms[:, 2], 5_001))
        for number, low, high in zip(chosen, lows, highs, strict=True):
            yield (Equal("symbol", symbols[number]), Range("price", low, high))

    return _workload("interval", 0.0005, draw, 3, seed=seed, symbols=symbols)


WORKLOADS: Final[dict[str, Callable[..., Workload]]] = {
    "dense-eq": dense_eq,
    "dense-range": dense_range,
    "sparse": sparse,
    "quote": quote,
    "interval": interval,
}
