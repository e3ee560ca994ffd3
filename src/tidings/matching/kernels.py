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
    HEAD_FAMILY_LINES,  # i32: an attribute's range of bit-set lines
    HEAD_BIT_LINES,  # i64: BIT_LINE_SIZE numbers for each bit-set line, see `_line_bits`
    HEAD_TOGGLE_SLOTS,  # i32: the slot that a cut toggles
    HEAD_SIZE,
) = range(22)

BIT_LINE_SIZE: Final = 5

_I64 = types.Array(types.int64, 1, "C")
_I32 = types.Array(types.int32, 1, "C")
_U64 = types.Array(types.uint64, 1, "C")
_U8 = types.Array(types.uint8, 1, "C")
_TABLE = types.Array(types.int64, 2, "C")
Array: TypeAlias = Any  # what a kernel does with an array, numba checks and mypy can't
Word: TypeAlias = Any  # 64 bits
Kernel = TypeVar("Kernel", bound=Callable[..., object])


def kernel(signature: Any) -> Callable[[Kernel], Kernel]:
    """Have numba compile a function for these types, now; cached where there is a place for it."""

    def compiled(function: Kernel) -> Any:  # numba has no types
        try:
            return njit(signature, nogil=True, cache=True, error_model="numpy")(function)
        except RuntimeError as problem:
            if "cannot cache" not in str(problem):  # as on a read-only file system
                raise
            return njit(signature, nogil=True, error_model="numpy")(function)

    return compiled


_DEBRUIJN: Final = 0x03F79D71B4CB0A89
_LOWEST_BIT = np.zeros(64, np.int64)
for _i in range(64):
    _LOWEST_BIT[((_DEBRUIJN << _i) & (2**64 - 1)) >> 58] = _i


@kernel(types.int64(_I64, types.int64, types.int64, types.int64))
def _upper(keys: Array, low: int, high: int, key: int) -> int:
    """The first place in keys[low:high] whose key is greater."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(types.int64(_I64, _I32, _I64, types.int64, types.int64, _I32, types.int64))
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


@kernel(types.int64(_I64, _I32, _I64, _U8, types.int64, _I32, types.int64, types.int64))
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


@kernel(types.int64(_U64, types.int64, types.int64, types.int64, _I32, types.int64))
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


@kernel(types.uint64(_I64, _I32, _U64, types.int64, types.int64, _U64))
def _line_bits(i64: Array, i32: Array, bits: Array, key: int, bit_line: int, work: Array) -> Word:
    """Intersect work[:words] with the bit set of a line at the event's key; 0 if nothing is left.

    The set at a key is what holds at the low end with every cut up to the key toggled. Some of
    these sets are kept ready; to the nearest one belong the few cuts between, which are
    gathered in work[words:] (all zero before and after).
    """
    place = i64[HEAD_BIT_LINES] + BIT_LINE_SIZE * bit_line
    begin, end = i64[place + 1], i64[place + 2]
    step, ready = i64[place + 3], i64[place + 4]
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


@kernel(types.int64(_I64, _I32, _U64, _I64, _U64, _I32, types.int64))
def _by_bits(
    i64: Array, i32: Array, bits: Array, keys: Array, work: Array, out: Array, n: int
) -> int:
    """Intersect the bit sets of all attributes and append what is left to `out`."""
    words = i64[HEAD_WORDS]
    result = work[:words]
    for w in range(words):
        result[w] = ~np.uint64(0)
    for family in range(i64[HEAD_FAMILIES]):
        # An attribute has one value, so a key on at most one of its lines.
        bit_line = i32[i64[HEAD_FAMILY_LINES] + family]
        last = i32[i64[HEAD_FAMILY_LINES] + family + 1]
        key = ABSENT
        while bit_line < last:
            key = keys[i64[i64[HEAD_BIT_LINES] + BIT_LINE_SIZE * bit_line]]
            if key != ABSENT:
                break
            bit_line += 1
        left: Word = np.uint64(0)
        if key != ABSENT:
            left = _line_bits(i64, i32, bits, key, bit_line, work)
        else:
            free = bits[family * words : (family + 1) * words]
            for w in range(words):
                result[w] &= free[w]
                left |= result[w]
        if left == 0:
            return n
    return _members(work, words, i64[HEAD_SLOTS], i64[HEAD_SLOT_CONJ], out, n)


@kernel(types.int64(types.int64))
def _number_key(bits: Word) -> Word:
    """A key in the order of the numbers from a float's bits; neighbours have neighbouring keys."""
    return bits if bits >= 0 else -(bits & np.int64(0x7FFFFFFFFFFFFFFF))


@kernel(types.int64(_I64, types.int64, types.int64, types.int64))
def _place(i64: Array, low: int, high: int, key: int) -> int:
    """Which of the sorted keys i64[low:high] it is, or -1."""
    place = _upper(i64, low, high, key) - 1
    return place if place >= low and i64[place] == key else -1


_MATCH: Final = (_I64, _I32, _U64, _I64, _U8, types.int64, _I64)


@kernel(types.int64(*_MATCH, types.int64, types.int64, _I64, _U64, _I32))
def match_one(
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
) -> int:
    """Match the event that lies in event[begin:end]; how many rows are in `out`.

    It lies there in pairs: 2 × line and a key, or 2 × line + 1 and the bits of a float. A line of
    set elements may come several times. keys must be ABSENT everywhere, and is again when this
    returns.
    """
    n = 0
    for e in range(begin, end, 2):
        if event[e] & 1:
            event[e + 1] = _number_key(event[e + 1])
        event[e] >>= 1
        keys[event[e]] = event[e + 1]
    for e in range(begin, end, 2):
        line, key = event[e], event[e + 1]
        start, first = i64[HEAD_POST_START] + line, i64[HEAD_POST_KEYS]
        if i32[start] < i32[start + 1]:
            place = _place(i64, first + i32[start], first + i32[start + 1], key)
            if place >= 0:
                off, entries = i64[HEAD_POST_OFF] + place - first, i64[HEAD_ENTRIES]
                n = _checked(i64, i32, keys, entries + i32[off], entries + i32[off + 1], out, n)
        off = i64[HEAD_PRESENT_OFF] + line
        if i32[off] < i32[off + 1]:
            entries = i64[HEAD_PRESENT]
            n = _checked(i64, i32, keys, entries + i32[off], entries + i32[off + 1], out, n)
    if i64[HEAD_SLOTS]:
        n = _by_bits(i64, i32, bits, keys, work, out, n)
    for e in range(begin, end, 2):
        keys[event[e]] = ABSENT
    return _rows(i64, i32, died, seen, version, out, 0, n)


@kernel(types.int64(*_MATCH, _I64, types.int64, _I64, _U64, _I32, _I32, _I64))
def match_some(
    i64: Array,
    i32: Array,
    bits: Array,
    died: Array,
    seen: Array,
    version: int,
    event: Array,
    ends: Array,
    first: int,
    keys: Array,
    work: Array,
    out: Array,
    found: Array,
    stops: Array,
) -> int:
    """Match several events from the `first` on; the number of the first that was not.

    The pairs of event e end at ends[e], and its rows in `found` at stops[e]. When `found` may not
    have room for one more, this returns early.
    """
    at = stops[first - 1] if first else 0
    for e in range(first, len(ends)):
        if at + len(out) > len(found):
            return e
        begin = ends[e - 1] if e else 0
        n = match_one(i64, i32, bits, died, seen, version, event, begin, ends[e], keys, work, out)
        for k in range(n):
            found[at + k] = out[k]
        at += n
        stops[e] = at
    return len(ends)


@kernel(types.void(_I64, _TABLE, _I64, _U8, types.int64))
def _fill(keys: Array, table: Array, lines: Array, floats: Array, row: int) -> None:
    """Write the keys of one event of a table; see `match_rows`."""
    for c in range(len(lines)):
        cell = table[c, row]
        if floats[c]:
            # NaN stands for a value that is not there
            absent = (cell & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000
            cell = ABSENT if absent else _number_key(cell)
        keys[lines[c]] = cell


@kernel(
    types.int64(
        *(_I64, _I32, _U64, _I64, _U8, types.int64),
        *(_TABLE, _I64, _U8, types.Array(types.int32, 2, "C"), _I64, _I64, _I64),
        *(types.int64, types.int64, types.int64, _I64, _U64, _I32, _I32, _I64),
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
    floats: Array,
    places: Array,
    probes: Array,
    more: Array,
    more_off: Array,
    first: int,
    last: int,
    most: int,
    keys: Array,
    work: Array,
    out: Array,
    rows: Array,
    count: Array,
) -> int:
    """Match the events first to last of a table: a row for each of `lines`, a cell for each event.

    A cell is a key, or the bits of a float where `floats` says so. `places` has a row for each line
    with postings: the posting that the event's value has, or -1. `probes` are rows of the table
    whose lines have entries by presence. more[more_off[e]:more_off[e + 1]] are the postings of
    the elements of sets, if there are any.

    Writes pairs to `rows` and `out` for as long as there is room for the `most` that one event
    can have; count[0] is then how many there are, and the result the first event not done.
    """
    n = 0
    event = first
    slots, entries, post_off = i64[HEAD_SLOTS], i64[HEAD_ENTRIES], i64[HEAD_POST_OFF]
    while event < last and n + most <= len(out):
        before = n
        filled = False
        for p in range(len(places)):
            place = places[p, event]
            if place >= 0:
                if not filled:
                    _fill(keys, table, lines, floats, event)
                    filled = True
                begin, end = i32[post_off + place], i32[post_off + place + 1]
                n = _checked(i64, i32, keys, entries + begin, entries + end, out, n)
        if not filled and (slots or len(probes) or len(more)):
            _fill(keys, table, lines, floats, event)
        for p in range(len(probes)):
            line = lines[probes[p]]
            if keys[line] != ABSENT:
                off, present = i64[HEAD_PRESENT_OFF] + line, i64[HEAD_PRESENT]
                n = _checked(i64, i32, keys, present + i32[off], present + i32[off + 1], out, n)
        if len(more):
            for m in range(more_off[event], more_off[event + 1]):
                begin, end = i32[post_off + more[m]], i32[post_off + more[m] + 1]
                n = _checked(i64, i32, keys, entries + begin, entries + end, out, n)
        if slots:
            n = _by_bits(i64, i32, bits, keys, work, out, n)
        if n > before:
            n = _rows(i64, i32, died, seen, version, out, before, n)
            for o in range(before, n):
                rows[o] = event
        event += 1
    count[0] = n
    return event


@kernel(types.void(_I64, _I32, _U64, types.int64, types.int64, types.int64))
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
