"""The closed forms give the figures that were worked out from the thesis."""

from __future__ import annotations

import pytest

from tidings.experiments.rebeca.closed_forms import (
    Locality,
    Market,
    covering_entries,
    identity_entries,
    identity_overhead,
    mean_distance,
    simple_entries,
    simple_overhead,
    united_entries,
)
from tidings.experiments.rebeca.tree import ROOT, BrokerTree

TREE = BrokerTree()


def market(subscriptions: float) -> Market:
    return Market.of(subscriptions, len(TREE.locals))


def test_simple_routing_holds_each_subscription_once_for_each_link_it_crosses() -> None:
    for x in (670, 13_400):
        assert simple_entries(TREE, market(x)) == pytest.approx(106 * x)
        assert simple_entries(TREE, market(x), ROOT) == pytest.approx(250 / 67 * x)
    assert simple_overhead(TREE) == 106
    assert simple_overhead(TREE, ROOT) == pytest.approx(250 / 67)


def test_a_source_at_a_leaf_is_further_away() -> None:
    leaf = TREE.locals[-1]
    assert round(mean_distance(TREE, leaf), 2) == 6.78
    assert simple_entries(TREE, market(670), leaf) == pytest.approx(670 * mean_distance(TREE, leaf))


@pytest.mark.parametrize(
    ("subscriptions", "identity", "with_ads", "covering", "covering_with_ads"),
    [
        (670, 53_017, 2_414, 61_407, 2_456),
        (3_350, 112_327, 10_541, 197_973, 11_437),
        (13_400, 136_898, 30_898, 370_397, 38_087),
        (33_500, 161_315, 55_315, 506_225, 76_812),
        (67_000, 183_850, 77_850, 625_720, 122_842),
        (134_000, 202_539, 96_539, 760_019, 183_672),
    ],
)
def test_table_sizes(
    subscriptions: int, identity: int, with_ads: int, covering: int, covering_with_ads: int
) -> None:
    here = market(subscriptions)
    assert round(identity_entries(TREE, here)) == identity
    assert round(identity_entries(TREE, here, ROOT)) == with_ads
    assert round(covering_entries(TREE, here)) == covering
    assert round(covering_entries(TREE, here, ROOT)) == covering_with_ads


def test_identity_tables_saturate_at_every_stock_on_every_link() -> None:
    plenty = Market(clients=1e6)
    assert identity_entries(TREE, plenty) == pytest.approx(212_000)
    assert identity_entries(TREE, plenty, ROOT) == pytest.approx(106_000)
    assert identity_entries(TREE, plenty, TREE.locals[-1]) == pytest.approx(106_000)


@pytest.mark.parametrize(
    ("active", "overhead", "with_ads"),
    [
        (335, "77.9", "3.60"),
        (670, "57.1", "3.46"),
        (1_675, "23.4", "3.11"),
        (3_350, "6.73", "2.68"),
        (6_700, "2.32", "2.15"),
        (16_750, "1.44", "1.44"),
        (67_000, "0.48", "0.48"),
    ],
)
def test_identity_overhead(active: int, overhead: str, with_ads: str) -> None:
    here = market(2 * active)
    decimals = len(overhead.partition(".")[2])
    assert f"{identity_overhead(TREE, here):.{decimals}f}" == overhead
    assert f"{identity_overhead(TREE, here, ROOT):.2f}" == with_ads


@pytest.mark.parametrize("share", [1 / 3, 0.4, 0.5, 0.8, 1.0])
def test_locality_bounds_tables_and_payload(share: float) -> None:
    local = Locality(TREE, share)
    plenty = local.market(1e7)
    brokers = len(TREE.topology)
    widest = round(share * 1000)  # a third of a thousand stocks is no whole number
    assert local.entries(plenty, ROOT) == pytest.approx(widest * (brokers - 2))
    assert local.entries(plenty) <= (1 + share) * 1000 * (brokers - 2) + 1000
    used = (brokers - 2) * widest / 1000
    assert local.saved(plenty) == pytest.approx(brokers - 1 - used)


def test_without_locality_the_general_forms_hold_but_for_the_roots_own_broker() -> None:
    local = Locality(TREE, share=1.0)
    here = local.market(66 * 10 * 4)
    behind = [min(n, 66) for n in TREE.behind(ROOT) if n < 67]
    assert local.entries(here, ROOT, active=1.0) == pytest.approx(
        1000 * sum(1 - 0.99 ** (4 * n) for n in behind) - 1000 * (1 - 0.99**4)
    )


@pytest.mark.parametrize(
    ("share", "active", "simple", "simple_ads", "identity_ads"),
    [
        (1.0, 330, "1.01", "0.036", "0.035"),
        (1.0, 66_000, "3.67", "0.131", "0.017"),
        (1 / 3, 330, None, None, "0.032"),
        (1 / 3, 66_000, None, None, "0.001"),
    ],
)
def test_break_even(
    share: float, active: int, simple: str | None, simple_ads: str | None, identity_ads: str
) -> None:
    local = Locality(TREE, share)
    here = local.market(2 * active)
    saved = local.saved(here)
    if simple is not None:
        assert f"{simple_overhead(TREE) / saved:.2f}" == simple
        assert f"{mean_distance(TREE, among=local.locals) / saved:.3f}" == simple_ads
    assert f"{local.overhead(here, ROOT) / saved:.3f}" == identity_ads


def test_intervals_that_reach_each_other_unite() -> None:
    assert united_entries(TREE, market(670), gap=1.0) == pytest.approx(
        identity_entries(TREE, market(670))
    )
    never_alone = united_entries(TREE, market(670), gap=0.25)
    assert identity_entries(TREE, market(670)) < never_alone < simple_entries(TREE, market(670))
