"""Kernels: the inner loops of a segment, compiled by numba.

A segment's arrays are laid end to end in three arenas (64-bit, 32-bit, bit sets), since every
array that crosses from Python into a kernel costs more time than the work of a small match.
`HEAD_*` are the places in the 64-bit arena that say where everything else lies.

A loop that takes arrays to a function and back counts references at each step; so the innermost
loops are functions themselves.

Importing this module imports numba and loads or compiles all kernels; `warm.py` does it in the
background. They release the GIL and are cached on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numba import njit, types

ABSENT: Final = -(2**63)
"""The key of an attribute that is not there: below every key that a constraint admits."""
LOWEST: Final = -(2**63) + 1
HIGHEST: Final = 2**63 - 1

(
    HEAD_LINES,  # how many lines the segment knows
    HEAD_ROWS_MULTIPLE,  # 1 if a filter can be reached twice in one match
    HEAD_POST_KEYS,  # i64: keys of postings, sorted within each line
    HEAD_VERIFY_LOW,  # i64: where the interval of a condition begins
    HEAD_VERIFY_HIGH,  # i64: where it ends
    HEAD_CUTS,  # i64: cuts of conditions that are no single interval
    HEAD_TOGGLE_KEYS,  # i64: cuts of bit-set lines, sorted within each line
    HEAD_POST_START,  # i32: a line's range of post keys
    HEAD_POST_OFF,  # i32: a posting's range of entries
    HEAD_ENTRIES,  # i32: conjunctions
    HEAD_PRESENT_OFF,  # i32: a line's range of entries by mere presence
    HEAD_PRESENT,  # i32: conjunctions
    HEAD_VERIFY_OFF,  # i32: a conjunction's range of conditions
    HEAD_VERIFY_LINE,  # i32: the line of a condition; ~line if it is no single interval
    HEAD_CONJ_ROW,  # i32: the row of a conjunction; ~row if something is left to check
    HEAD_SLOTS,  # number of bit-set slots
    HEAD_WORDS,  # words of one bit set
    HEAD_SLOT_CONJ,  # the conjunction of the first slot; the others follow
    HEAD_FAMILIES,  # number of attributes with bit sets
    HEAD_LINE_BITS,  # i32: a line's number among bit-set lines, or -1
    HEAD_BIT_LINES,  # i64: BIT_LINE_SIZE numbers for each bit-set line, see `_line_bits`
    HEAD_TOGGLE_SLOTS,  # i32: the slot that a cut toggles
    HEAD_SIZE,
) = range(23)

BIT_LINE_SIZE: Final = 6

_I64 = types.Array(types.int64, 1, "C")
_I32 = types.Array(types.int32, 1, "C")
_U64 = types.Array(types.uint64, 1, "C")
_U8 = types.Array(types.uint8, 1, "C")
Array: TypeAlias = Any  # what a kernel does with an array, numba checks and mypy can't
Word: TypeAlias = Any  # 64 bits
Kernel = TypeVar("Kernel", bound=Callable[..., object])


def _kernel(signature: Any) -> Callable[[Kernel], Kernel]:
    compiled: Any = njit(signature, nogil=True, cache=True, error_model="numpy")
    return compiled  # type: ignore[no-any-return]


_DEBRUIJN: Final = 0x03F79D71B4CB0A89
_LOWEST_BIT = np.zeros(64, np.int64)
for _i in range(64):
    _LOWEST_BIT[((_DEBRUIJN << _i) & (2**64 - 1)) >> 58] = _i


@_kernel(types.int64(_I64, types.int64, types.int64, types.int64))
def _upper(keys: Array, low: int, high: int, key: int) -> int:
    """The first place in keys[low:high] whose key is greater."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@_kernel(types.int64(_I64, _I32, _I64, types.int64, types.int64, _I32, types.int64))
def _checked(i64: Array, i32: Array, keys: Array, begin: int, end: int, out: Array, n: int) -> int:
    """Of the conjunctions i32[begin:end], append those to `out` whose conditions all hold."""
    offsets, lines = i64[HEAD_VERIFY_OFF], i64[HEAD_VERIFY_LINE]
    lows, highs = i64[HEAD_VERIFY_LOW], i64[HEAD_VERIFY_HIGH]
    cuts = i64[HEAD_CUTS]
    for entry in range(begin, end):
        conj = i32[entry]
        holds = True
        for c in range(i32[offsets + conj], i32[offsets + conj + 1]):
            line, low, high = i32[lines + c], i64[lows + c], i64[highs + c]
            if line >= 0:
                key = keys[line]
                if key < low or key >= high:
                    holds = False
                    break
            else:
                key = keys[~line]
                passed = _upper(i64, cuts + low, cuts + low + (high >> 1), key) - cuts - low
                if key == ABSENT or (passed ^ high) & 1 == 0:
                    holds = False
                    break
        if holds:
            out[n] = conj
            n += 1
    return n


@_kernel(types.int64(_I64, _I32, _I64, _U8, types.int64, _I32, types.int64, types.int64))
def _rows(
    i64: Array, i32: Array, died: Array, seen: Array, version: int, out: Array, first: int, end: int
) -> int:
    """Turn the conjunctions out[first:end] into rows, each once and none that has died.

    Where something is left to check, ~conjunction stays instead. A negative version means that
    no row has died yet.
    """
    row_of = i64[HEAD_CONJ_ROW]
    multiple = i64[HEAD_ROWS_MULTIPLE]
    n = first
    for o in range(first, end):
        row = i32[row_of + out[o]]
        left_over = row < 0
        if left_over:
            row = ~row
        if version >= 0 and died[row] <= version:
            continue
        if left_over:
            out[n] = ~out[o]
        elif multiple:
            if seen[row]:
                continue
            seen[row] = 1
            out[n] = row
        else:
            out[n] = row
        n += 1
    if multiple:
        for o in range(first, n):
            if out[o] >= 0:
                seen[out[o]] = 0
    return n


@_kernel(types.int64(_U64, types.int64, types.int64, types.int64, _I32, types.int64))
def _members(bits: Array, words: int, size: int, base: int, out: Array, n: int) -> int:
    """Append base + i to `out` for every bit i < size that is set."""
    for w in range(words):
        word = bits[w]
        while word:
            lowest = word & (~word + np.uint64(1))
            bit = (w << 6) + _LOWEST_BIT[(lowest * np.uint64(_DEBRUIJN)) >> np.uint64(58)]
            word ^= lowest
            if bit < size:
                out[n] = base + bit
                n += 1
    return n


@_kernel(types.uint64(_I64, _I32, _U64, types.int64, types.int64, _U64))
def _line_bits(i64: Array, i32: Array, bits: Array, key: int, bit_line: int, work: Array) -> Word:
    """Intersect work[:words] with the bit set of a line at the event's key; 0 if nothing is left.

    The set at a key is what holds at the low end with every cut up to the key toggled. Some of
    these sets are kept ready; to the nearest one belong the few cuts between, which are
    gathered in work[words:] (all zero before and after).
    """
    place = i64[HEAD_BIT_LINES] + BIT_LINE_SIZE * bit_line
    begin, end = i64[place + 1], i64[place + 2]
    step, ready = i64[place + 3], i64[place + 4]  # and the number of its family
    words = i64[HEAD_WORDS]
    toggles = i64[HEAD_TOGGLE_KEYS] + begin
    here = _upper(i64, toggles, toggles + end - begin, key) - toggles
    block = min((here + (step >> 1)) // step, (end - begin) // step)
    slots = i64[HEAD_TOGGLE_SLOTS] + begin
    low, high = slots + min(here, block * step), slots + max(here, block * step)
    result, flips = work[:words], work[words:]
    for t in range(low, high):
        slot = i32[t]
        flips[slot >> 6] ^= np.uint64(1) << np.uint64(slot & 63)
    ready_set = bits[ready + block * words : ready + (block + 1) * words]
    left = np.uint64(0)
    for w in range(words):
        result[w] &= ready_set[w] ^ flips[w]
        left |= result[w]
    for t in range(low, high):
        flips[i32[t] >> 6] = 0
    return left


@_kernel(types.uint64(_I64, _I32, _U64, _I64, _I64, _U64))
def _bit_sets(i64: Array, i32: Array, bits: Array, keys: Array, active: Array, work: Array) -> Word:
    """Intersect the bit sets of all attributes into work[:words]; 0 if nothing is left.

    active[family] is the bit-set line of an attribute's value, or -1 if it has none.
    """
    words = i64[HEAD_WORDS]
    result = work[:words]
    for w in range(words):
        result[w] = ~np.uint64(0)
    left: Word = ~np.uint64(0)
    for family in range(i64[HEAD_FAMILIES]):
        bit_line = active[family]
        if bit_line < 0:
            free = bits[family * words : (family + 1) * words]
            left = np.uint64(0)
            for w in range(words):
                result[w] &= free[w]
                left |= result[w]
        else:
            line = i64[i64[HEAD_BIT_LINES] + BIT_LINE_SIZE * bit_line]
            left = _line_bits(i64, i32, bits, keys[line], bit_line, work)
        if left == 0:
            break
    return left


@_kernel(types.int64(
        _I64, _I32, _U64, _I64, _U8, types.int64, _I64, types.int64, types.int64, _I64, _U64, _I32,
        types.int64,
    ))  # fmt: skip
def _match(
    i64: Array,
    i32: Array,
    bits: Array,
    died: Array,
    seen: Array,
    version: int,
    event: Array,
    begin: int,
    end: int,
    keys: Array,
    work: Array,
    out: Array,
    n: int,
) -> int:
    """Append the rows that match one event to out[n:]; the new n.

    event[begin:end] holds pairs of line and key; keys must be ABSENT everywhere, and is again
    when this returns. keys also holds, behind the lines, a place for each family.
    """
    lines = i64[HEAD_LINES]
    active = keys[lines:]
    first = n
    for e in range(begin, end, 2):
        line = event[e]
        keys[line] = event[e + 1]
        bit_line = i32[i64[HEAD_LINE_BITS] + line]
        if bit_line >= 0:
            active[i64[i64[HEAD_BIT_LINES] + BIT_LINE_SIZE * bit_line + 5]] = bit_line
    for e in range(begin, end, 2):
        line, key = event[e], event[e + 1]
        start = i64[HEAD_POST_START] + line
        low, high = i64[HEAD_POST_KEYS] + i32[start], i64[HEAD_POST_KEYS] + i32[start + 1]
        if low < high:
            place = _upper(i64, low, high, key) - 1
            if place >= low and i64[place] == key:
                off = i64[HEAD_POST_OFF] + place - i64[HEAD_POST_KEYS]
                entries = i64[HEAD_ENTRIES]
                n = _checked(i64, i32, keys, entries + i32[off], entries + i32[off + 1], out, n)
        off = i64[HEAD_PRESENT_OFF] + line
        if i32[off] < i32[off + 1]:
            entries = i64[HEAD_PRESENT]
            n = _checked(i64, i32, keys, entries + i32[off], entries + i32[off + 1], out, n)
    if i64[HEAD_SLOTS] and _bit_sets(i64, i32, bits, keys, active, work):
        n = _members(work, i64[HEAD_WORDS], i64[HEAD_SLOTS], i64[HEAD_SLOT_CONJ], out, n)
    for e in range(begin, end, 2):
        keys[event[e]] = ABSENT
    for family in range(i64[HEAD_FAMILIES]):
        active[family] = -1
    return _rows(i64, i32, died, seen, version, out, first, n)


@_kernel(types.int64(types.int64))
def _number_key(bits: Word) -> Word:
    """A key in the order of the numbers from a float's bits; neighbours have neighbouring keys."""
    return bits if bits >= 0 else -(bits & np.int64(0x7FFFFFFFFFFFFFFF))


@_kernel(types.void(_I64))
def number_keys(bits: Array) -> None:
    """Turn the bits of floats into keys, in place."""
    for i in range(len(bits)):
        bits[i] = _number_key(bits[i])


@_kernel(types.int64(_I64, _I32, _U64, _I64, _U8, types.int64, _I64, types.int64, _I64, _U64, _I32))
def match_one(
    i64: Array,
    i32: Array,
    bits: Array,
    died: Array,
    seen: Array,
    version: int,
    event: Array,
    end: int,
    keys: Array,
    work: Array,
    out: Array,
) -> int:
    """Match one event; how many rows are in `out`.

    event[:end] holds pairs: 2 × line and a key, or 2 × line + 1 and the bits of a float.
    """
    for e in range(0, end, 2):
        if event[e] & 1:
            event[e + 1] = _number_key(event[e + 1])
        event[e] >>= 1
    return _match(i64, i32, bits, died, seen, version, event, 0, end, keys, work, out, 0)


@_kernel(
    types.int64(
        *(_I64, _I32, _U64, _I64, _U8, types.int64),
        *(types.Array(types.int64, 2, "C"), _I64, _I64, _I64, types.int64, types.int64),
        *(_I64, _I64, _U64, _I32, _I32, _I64),
    )
)
def match_rows(
    i64: Array,
    i32: Array,
    bits: Array,
    died: Array,
    seen: Array,
    version: int,
    table: Array,
    lines: Array,
    more: Array,
    more_off: Array,
    first: int,
    most: int,
    event: Array,
    keys: Array,
    work: Array,
    out: Array,
    rows: Array,
    count: Array,
) -> int:
    """Match the events table[first:], which has a column of keys for each of `lines`.

    more[more_off[row]:more_off[row + 1]] are further pairs of line and key, if there are any.
    Writes pairs to `rows` and `out` for as long as there is room for the `most` that one event
    can have; count[0] is then how many there are, and the result the first event not done.
    """
    n = 0
    row = first
    while row < len(table) and n + most <= len(out):
        end = 0
        for c in range(len(lines)):
            if table[row, c] != ABSENT:
                event[end] = lines[c]
                event[end + 1] = table[row, c]
                end += 2
        if len(more):
            for m in range(more_off[row], more_off[row + 1]):
                event[end] = more[m]
                end += 1
        before = n
        n = _match(i64, i32, bits, died, seen, version, event, 0, end, keys, work, out, n)
        for o in range(before, n):
            rows[o] = row
        row += 1
    count[0] = n
    return row


@_kernel(types.void(_I64, _I32, _U64, types.int64, types.int64, types.int64))
def fill_ready(i64: Array, i32: Array, bits: Array, bit_line: int, base: int, words: int) -> None:
    """Compute the bit sets of a line that are kept ready, from the one at the low end at `base`."""
    place = i64[HEAD_BIT_LINES] + BIT_LINE_SIZE * bit_line
    begin, end, step, ready = i64[place + 1], i64[place + 2], i64[place + 3], i64[place + 4]
    for w in range(words):
        bits[ready + w] = bits[base + w]
    slots = i64[HEAD_TOGGLE_SLOTS] + begin
    for block in range(1, (end - begin) // step + 1):
        here = ready + block * words
        for w in range(words):
            bits[here + w] = bits[here - words + w]
        for t in range(slots + (block - 1) * step, slots + block * step):
            slot = i32[t]
            bits[here + (slot >> 6)] ^= np.uint64(1) << np.uint64(slot & 63)
