"""Which rows of a batch share a transaction and a key: hashes of Arrow buffers, and one pass through a hash table.

A hash only raises a suspicion. Equal keys always share a group here; rows of one group may still have different keys.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.compiled import kernel

# What is known of a group, at the index of its first row.
ALONE, UPDATED, REPEATED = 1, 2, 3

_WORDS = nb.types.Array(nb.uint64, 1, "A", readonly=True)
_BYTES = nb.types.Array(nb.uint8, 1, "C", readonly=True)
_BOUNDS = nb.types.Array(nb.int64, 1, "C", readonly=True)
_INTS = nb.types.Array(nb.int64, 1, "C", readonly=True)
_HASHES = nb.types.Array(nb.uint64, 1, "C")
_GROUPS = nb.types.Tuple((nb.int64, nb.int64[::1], nb.int64[::1], nb.uint8[::1]))  # type: ignore[no-untyped-call]
_FACTOR = 0x9E3779B97F4A7C15
_NULL = 0xD6E8FEB86659FD93


@kernel("uint64(uint64, uint64)", inline=True)
def _mix(hashed, word):  # type: ignore[no-untyped-def]
    hashed = (hashed ^ word) * nb.uint64(_FACTOR)
    return hashed ^ (hashed >> nb.uint64(29))


@kernel(nb.void(_WORDS, _BYTES, nb.int64, _HASHES))
def mix_words(words, valid, offset, hashes):  # type: ignore[no-untyped-def]
    """Mix a word per row into its hash. `valid` is Arrow's bitmap, or empty, and starts at row `-offset`."""
    for row in range(words.size):
        if valid.size and not (valid[(row + offset) >> 3] >> ((row + offset) & 7)) & 1:
            hashes[row] = _mix(hashes[row], nb.uint64(_NULL))
        else:
            hashes[row] = _mix(hashes[row], words[row])


@kernel(nb.void(_BYTES, _BOUNDS, _BYTES, nb.int64, _HASHES))
def mix_bytes(data, bounds, valid, offset, hashes):  # type: ignore[no-untyped-def]
    """Mix the bytes from `bounds[row]` up to `bounds[row + 1]` into each row's hash, eight at a time."""
    for row in range(hashes.size):
        if valid.size and not (valid[(row + offset) >> 3] >> ((row + offset) & 7)) & 1:
            hashes[row] = _mix(hashes[row], nb.uint64(_NULL))
            continue
        start, end = bounds[row], bounds[row + 1]
        hashed = _mix(hashes[row], nb.uint64(end - start))
        at = start
        while at < end:
            word = nb.uint64(0)
            for byte in range(min(8, end - at)):
                word |= nb.uint64(data[at + byte]) << nb.uint64(8 * byte)
            hashed = _mix(hashed, word)
            at += 8
        hashes[row] = hashed


@kernel(_GROUPS(_INTS, _HASHES, _INTS), allocates=True)
def group(transactions, hashes, weights):  # type: ignore[no-untyped-def]
    """(repeated groups, first row of each row's group, row after the first in its group, state of each group).

    A group is UPDATED when it is one −1 row and then one +1 row, which is how a single update comes.
    """
    count = hashes.size
    size = 16
    while size < 2 * count:
        size *= 2
    slots = np.full(size, -1, np.int64)
    first, second = np.empty(count, np.int64), np.full(count, -1, np.int64)
    states = np.zeros(count, np.uint8)
    repeated = 0
    for row in range(count):
        slot = nb.int64(_mix(hashes[row], nb.uint64(transactions[row])) >> nb.uint64(20)) & (size - 1)
        while slots[slot] >= 0 and (
            hashes[slots[slot]] != hashes[row] or transactions[slots[slot]] != transactions[row]
        ):
            slot = (slot + 1) & (size - 1)
        head = slots[slot]
        if head < 0:
            slots[slot] = first[row] = row
            states[row] = ALONE
            continue
        first[row] = head
        if states[head] == ALONE and weights[head] < 0 and weights[row] > 0:
            states[head], second[head] = UPDATED, row
        else:
            repeated += states[head] != REPEATED
            states[head] = REPEATED
    return repeated, first, second, states
