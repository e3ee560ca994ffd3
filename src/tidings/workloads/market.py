"""A small market for demonstrations: prices that wander, as people know them from a ticker."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

LISTED: Final = (
    ("DIS", "NYSE", ["media", "us"], 112.0),
    ("NFLX", "NASDAQ", ["media", "us"], 640.0),
    ("AAPL", "NASDAQ", ["tech", "us"], 228.0),
    ("NVDA", "NASDAQ", ["chips", "us"], 131.0),
    ("KO", "NYSE", ["food", "us"], 69.0),
    ("SAP", "XETRA", ["software", "eu"], 241.0),
    ("BMW", "XETRA", ["autos", "eu"], 83.0),
    ("ASML", "AMS", ["chips", "eu"], 703.0),
    ("MC", "PAR", ["luxury", "eu"], 612.0),
    ("SHEL", "LSE", ["energy", "eu"], 31.0),
    ("HSBA", "LSE", ["banks", "eu"], 8.4),
    ("ENI", "MIL", ["energy", "eu"], 14.6),
)
"""Symbol, exchange, tags, and the price of the day before."""
EXCHANGES: Final = tuple(dict.fromkeys(exchange for _, exchange, _, _ in LISTED))


def ticker(exchanges: tuple[str, ...] = EXCHANGES, *, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Trades on some exchanges, without end. `change` is in percent since the day before.

    >>> trade = next(ticker(("XETRA",), seed=1))
    >>> sorted(trade), trade["exchange"]
    (['change', 'exchange', 'price', 'symbol', 'tags', 'volume'], 'XETRA')
    """
    random = Random(seed)
    listed = [each for each in LISTED if each[1] in exchanges]
    prices = {symbol: before for symbol, _, _, before in listed}
    while True:
        symbol, exchange, tags, before = random.choice(listed)
        drift = (before - prices[symbol]) / before * 0.02  # it does not wander off for ever
        prices[symbol] *= 1 + drift + random.gauss(0.0, 0.004)
        yield {
            "symbol": symbol,
            "exchange": exchange,
            "price": round(prices[symbol], 2),
            "change": round((prices[symbol] / before - 1) * 100, 2),
            "volume": int(random.paretovariate(1.2) * 100),
            "tags": tags,
        }
