"""The oracle's own promise: its universe has a value in every region that constants cut out."""

import pytest

from tests.oracles import filters as oracle


def _of(name: str, domain: str) -> list[object]:
    return [v for v in oracle.VALUES[name] if oracle.domain(v) == domain]


@pytest.mark.parametrize(
    ("name", "domain"),
    [(n, d) for n, pool in oracle.CONSTANTS.items() for d in pool if d != "string"],
)
def test_the_universe_has_every_constant_and_a_value_in_every_gap(name, domain):
    constants = oracle.CONSTANTS[name][domain]
    values = _of(name, domain)
    assert set(constants) <= set(values)
    for low, high in oracle.regions(constants):
        inside = [v for v in values if (low is None or low < v) and (high is None or v < high)]
        neighbours = domain == "boolean" or (
            domain == "time" and low and high and high - low == oracle.TICK
        )
        assert inside or neighbours or (domain, low, high) == ("bytes", None, b"")


@pytest.mark.parametrize("name", ["x", "y"])
def test_the_universe_has_a_string_in_every_gap(name):
    cuts = oracle.cut_strings() if name == "x" else oracle.CONSTANTS["y"]["string"]
    values = _of(name, "string")
    assert set(oracle.CONSTANTS[name]["string"]) <= set(values)
    for low, high in oracle.regions(cuts):
        if high == "":
            continue  # nothing comes before the empty string
        # A cut may lie before or just after `low`, so `low` itself does not count.
        assert [v for v in values if (low is None or low < v) and (high is None or v < high)]


@pytest.mark.parametrize("name", oracle.VALUES)
def test_the_universe_has_a_value_of_every_domain_and_one_of_another(name):
    found = {oracle.domain(v) for v in oracle.VALUES[name]}
    assert found >= {*oracle.NAMED_DOMAINS[name], "absent", "carried"}


def test_the_universe_has_every_set_of_the_elements_with_and_without_a_stranger():
    sets = {oracle.members(v) for v in _of("x", "set")}
    assert len(sets) == 2 ** (len(oracle.ELEMENTS) + 1)


def test_the_naive_like_matcher_knows_its_wildcards():
    assert oracle.like_matches("a%_c", "abbc")
    assert not oracle.like_matches("a_c", "ac")
    assert oracle.like_matches(r"\%\_\\", "%_\\")
    assert not oracle.like_matches(r"\%", "a")
