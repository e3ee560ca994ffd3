"""The kernels against plain Python twins."""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.matching.engines import folded, tuned
from tidings.events import Filter, Notification
from tidings.matching import kernels
from tidings.matching.lines import BIG, BIG_KEY, number_key, number_keys

floats = st.floats(
    allow_nan=False, min_value=-BIG, max_value=BIG, exclude_min=True, exclude_max=True
)
keys = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(keys), keys, st.data())
def test_upper_is_the_bisection_of_the_standard_library(
    values: list[int], key: int, data: st.DataObject
) -> None:
    values.sort()
    low = data.draw(st.integers(0, len(values)))
    high = data.draw(st.integers(low, len(values)))
    found = kernels._upper(np.array(values, np.int64), low, high, key)
    assert found == bisect_right(values, key, low, high)


@given(st.sets(st.integers(0, 199)), st.integers(0, 200), st.integers(0, 50))
@example(set(range(200)), 200, 0)
@example({63, 64, 127, 128}, 128, 7)
def test_members_are_the_bits_that_are_set(bits: set[int], size: int, base: int) -> None:
    words = np.zeros(4, np.uint64)
    for bit in bits:
        words[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
    out = np.full(205, -1, np.int32)
    count = kernels._members(words, 4, size, base, out, 3)
    assert out[3:count].tolist() == [base + bit for bit in sorted(bits) if bit < size]
    assert out[:3].tolist() == [-1] * 3


@given(st.lists(floats))
@example([-0.0, 0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.0 - 2**53, 2.0**53 - 1])
def test_number_keys_are_in_the_order_of_the_numbers(values: list[float]) -> None:
    values.sort()
    keys = number_keys(np.array(values, np.float64)).tolist()
    assert keys == [number_key(v) for v in values]
    assert keys == [
        kernels._number_key(struct.unpack("<q", struct.pack("<d", v))[0]) for v in values
    ]
    for (low, low_key), (high, high_key) in pairwise(zip(values, keys, strict=True)):
        assert (low < high) == (low_key < high_key)
        assert (low == high) == (low_key == high_key)
    assert all(-BIG_KEY < key < BIG_KEY for key in keys)


@given(floats)
@example(0.0)
@example(-0.0)
@example(-5e-324)
def test_neighbouring_numbers_have_neighbouring_keys(value: float) -> None:
    assert number_key(math.nextafter(value, math.inf)) == number_key(value) + 1


def test_whole_numbers_have_the_keys_of_their_floats() -> None:
    for value in (0, 1, -1, 2**52 + 1, 2**53 - 1, 1 - 2**53):
        assert number_key(value) == number_key(float(value))


@pytest.mark.parametrize("per_ready", [1, 2, 3, 64, 256])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 300])
def test_bit_sets_are_right_at_and_around_every_cut(
    per_ready: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.matching.layout._TOGGLES_PER_READY", per_ready)
    ranges = [(n % 37, n % 37 + n % 11) for n in range(count)]
    with tuned("bits"):
        monkeypatch.setattr("tidings.matching.layout._TOGGLES_PER_READY", per_ready)
        index = folded(
            (n, Filter.parse(f"x >= {low} AND x < {high + 0.5}"))
            for n, (low, high) in enumerate(ranges)
        )
    assert index.explain()["segments"][0]["found by bit sets"] == count
    for twice in range(-2, 110):
        value = twice / 2
        expected = [n for n, (low, high) in enumerate(ranges) if low <= value < high + 0.5]
        assert sorted(index.match(Notification({"x": value}))) == expected
