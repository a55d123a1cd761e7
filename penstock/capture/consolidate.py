"""Consolidation: per transaction and key, the first old image and the last new one stay; equal images cancel.

The Z-set sum of every transaction stays what it was, and so does what settling makes of it: a new image that lacks
TOAST values gets them from an earlier image of the same row in the transaction, or stands right behind the row's first
old image, where they are looked up. What does not follow the order of keys (removals and additions in turn), and a
transaction that truncates the table, is left as it came. A table without a key loses only equal −1/+1 pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.fields import Ints
from penstock.capture.kernels.repeats import REPEATED, UPDATED, group
from penstock.capture.row_hash import bits, is_flat, row_hashes
from penstock.zset import ABSENT, RAW_FIELDS, WEIGHT, absent_mask, absent_texts, key_ids

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Consolidation:
    """What consolidation saved."""

    rows_in: int = 0
    rows_out: int = 0

    @property
    def ratio(self) -> float:
        """Rows that came per row that went on."""
        return self.rows_in / self.rows_out if self.rows_out else 1.0

    def __add__(self, other: Consolidation) -> Consolidation:
        return Consolidation(self.rows_in + other.rows_in, self.rows_out + other.rows_out)


def consolidate(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Change rows of one table in the order they came (`Schema.arrow_raw()`); the same table if nothing repeats."""
    weights = rows[WEIGHT].to_numpy()
    if rows.num_rows < 2 or weights.min() > 0 or weights.max() < 0:
        return rows
    own = rows.column_names[: rows.num_columns - len(RAW_FIELDS)]
    hashes = row_hashes(rows, key or own)
    if hashes is None:
        return rows
    transactions = rows["_lsn"].to_numpy()
    repeated, first, second, states = group(transactions, hashes, weights)
    suspected = states == REPEATED if repeated else np.zeros(len(states), bool)
    heads = np.flatnonzero(states == UPDATED)
    tails = second[heads]
    suspected[heads[_equal(rows, own, heads, tails)]] = True
    if not suspected.any():
        return rows
    chosen = suspected[first] & ~np.isin(transactions, transactions[weights == 0])
    if not chosen.any():
        return rows
    changes = _Changes(rows, own, transactions, weights)
    where = np.flatnonzero(chosen)
    return changes.last_of_keys(where, key, heads, tails) if key else changes.without_pairs(where)


class _Changes:
    """The rows of a batch, and the places of each row's images among them."""

    def __init__(self, rows: pa.Table, own: list[str], transactions: Ints, weights: Ints) -> None:
        self._rows = rows.combine_chunks()
        self._own = own
        self._transactions = transactions
        self._weights = weights
        self._seqs = rows["_seq"].to_numpy()
        self._places = np.arange(rows.num_rows, dtype=np.int64)
        self._updates = pc.equal(rows["_op"], "U").to_numpy()
        self._paired = self._find_paired()

    def last_of_keys(self, where: Ints, key: Sequence[str], update_heads: Ints, update_tails: Ints) -> pa.Table:
        """`where` are all rows of the keys that may have something to drop; the updates are of other keys too."""
        order, starts = self._grouped(where, key)
        ends = np.append(starts[1:], True)
        earlier = np.full(len(self._places), -1, np.int64)
        earlier[order[1:]] = np.where(starts[1:], -1, order[:-1])
        signs = self._weights[order]
        keep = np.ones(len(self._places), bool)
        keep[order] = (starts & (signs < 0)) | (ends & (signs > 0))
        heads, tails = order[starts], order[ends]
        both = keep[heads] & keep[tails] & (heads != tails)
        heads, tails = heads[both], tails[both]
        equal = _equal(self._rows, self._own, heads, tails)
        keep[heads[equal]] = keep[tails[equal]] = False

        pointers = self._pointers(earlier)
        origin = _followed(pointers)
        alone = self._left_alone(
            earlier, self._slots(origin), np.append(heads, update_heads), np.append(tails, update_tails)
        )
        keep |= alone
        origin = np.where(alone, self._origin_of_pairs, origin)
        return self._written(keep, origin, pointers)

    def without_pairs(self, where: Ints) -> pa.Table:
        """Equal rows cancel; of what is left over, the first removals or the last additions stay."""
        order, starts = self._grouped(where, self._own)
        signs = self._weights[order]
        number = np.cumsum(starts) - 1
        net = np.bincount(number, weights=signs).astype(np.int64)[number]
        removed, added = _running(signs < 0, starts), _running(signs > 0, starts)
        additions = np.bincount(number, weights=signs > 0).astype(np.int64)[number]
        keep = np.ones(len(self._places), bool)
        keep[order] = np.where(signs < 0, removed <= -net, added > additions - net)
        return self._written(keep, self._origin_of_pairs, self._origin_of_pairs)

    def _find_paired(self) -> Mask:
        """New images whose old image is the row before; a part of a transaction may begin with one that is not."""
        paired = self._updates & (self._weights > 0)
        paired[:1] = False
        paired[1:] &= self._updates[:-1] & (self._weights[:-1] < 0)
        paired[1:] &= self._transactions[1:] == self._transactions[:-1]
        paired[1:] &= self._seqs[1:] == self._seqs[:-1] + 1
        return np.asarray(paired)

    @property
    def _origin_of_pairs(self) -> Ints:
        return np.asarray(np.where(self._paired, self._places - 1, self._places))

    def _grouped(self, where: Ints, columns: Sequence[str]) -> tuple[Ints, Mask]:
        """The rows of `where` by transaction and values, in order, and where each group starts."""
        some = self._rows.take(pa.array(where))
        keys = pa.table({"_lsn": some["_lsn"], **{f"+{name}": bits(some[name]) for name in columns}})
        ids = key_ids(keys)
        order = np.argsort(ids, kind="stable")
        starts = np.append(True, ids[order][1:] != ids[order][:-1])
        return where[order], starts

    def _pointers(self, earlier: Ints) -> Ints:
        """From each image of a row to the one before it: a new one's old one, an old one's earlier new one."""
        return np.where((self._weights < 0) & (earlier >= 0), earlier, self._origin_of_pairs)

    def _slots(self, origin: Ints) -> Ints:
        """A last new image belongs right behind its row's first old image, or where the row was inserted."""
        slots = self._seqs[origin] + (self._weights[origin] < 0)
        return np.asarray(np.where(self._weights > 0, slots, self._seqs))

    def _left_alone(self, earlier: Ints, slots: Ints, heads: Ints, tails: Ints) -> Mask:
        """Rows of transactions whose keys do not take turns, or where a new image would come before its key is free.

        Also of one that is cut between the images of an update: the new one, in the next part, needs this old one.
        """
        wrong = (earlier >= 0) & (self._weights == self._weights[earlier])
        wrong[tails] |= slots[tails] <= self._seqs[heads]
        wrong |= self._updates & (self._weights < 0) & ~np.append(self._paired[1:], False)
        return np.asarray(np.isin(self._transactions, self._transactions[wrong]))

    def _written(self, keep: Mask, origin: Ints, pointers: Ints) -> pa.Table:
        slots = self._slots(origin)
        rows = _with(self._rows, "_op", self._ops(keep, origin))
        changed = keep & (self._weights > 0) & (origin != self._origin_of_pairs)
        if changed.any():
            rows = _with(self._filled(rows, np.flatnonzero(changed), pointers), "_seq", pa.array(slots))
        kept = np.flatnonzero(keep)
        if (slots[kept] != self._seqs[kept]).any():
            kept = kept[np.lexsort((slots[kept], self._transactions[kept]))]
        return rows.take(pa.array(kept))

    def _ops(self, keep: Mask, origin: Ints) -> pa.ChunkedArray:
        """An update that lost its other half is an insert or a delete; a row updated after its insert, an insert."""
        added = keep & (self._weights > 0)
        claimed = np.zeros(len(keep), bool)
        claimed[origin[added]] = True
        had_new = np.append(self._paired[1:], False)
        deleted = keep & had_new & ~claimed
        inserted = added & (origin != self._places) & ((self._weights[origin] > 0) | ~keep[origin])
        inserted &= ~((self._weights[origin] > 0) & self._updates[origin])
        updated = added & (origin != self._places) & ~inserted
        ops = self._rows["_op"]
        for mask, letter in ((deleted, "D"), (inserted, "I"), (updated, "U")):
            ops = pc.if_else(pa.array(mask), letter, ops)
        return ops

    def _filled(self, rows: pa.Table, changed: Ints, pointers: Ints) -> pa.Table:
        """Values that a moved new image lacks, from the nearest earlier image of its row that has them."""
        absent = absent_mask(rows, len(self._own))
        for column in np.flatnonzero(absent[changed].any(axis=0)):
            found = _followed(np.where(absent[:, column], pointers, self._places))[changed]
            source = self._places.copy()
            source[changed] = np.where(absent[found, column], changed, found)
            name = self._own[column]
            rows = _with(rows, name, rows[name].take(pa.array(source)))
            absent[changed, column] = absent[found, column]
        return _with(rows, ABSENT, absent_texts(absent))


def _equal(rows: pa.Table, own: Sequence[str], left: Ints, right: Ints) -> Mask:
    """Which pairs of rows are complete and equal in every bit. A column in which the first pair differs goes first."""
    whole = pc.is_null(rows[ABSENT]).to_numpy()
    equal = np.asarray(whole[left] & whole[right])
    alive = np.flatnonzero(equal)
    if not len(alive) or not all(is_flat(rows.schema.field(name).type) for name in own):
        return np.zeros(len(left), bool)
    a, b = int(left[alive[0]]), int(right[alive[0]])
    for name in sorted(own, key=lambda name: rows[name][a].equals(rows[name][b])):
        if not len(alive):
            break
        column = bits(rows[name])
        old, new = column.take(pa.array(left[alive])), column.take(pa.array(right[alive]))
        same = pc.fill_null(pc.equal(old, new), False).to_numpy() | pc.and_(pc.is_null(old), pc.is_null(new)).to_numpy()
        equal[alive] = same
        alive = alive[same]
    return equal


def _followed(pointers: Ints) -> Ints:
    """Each pointer followed to its end."""
    while not np.array_equal(further := pointers[pointers], pointers):
        pointers = further
    return pointers


def _running(mask: Mask, starts: Mask) -> Ints:
    """How many of `mask` there were in the group so far, this row included."""
    total = np.cumsum(mask)
    before = np.where(starts, total - mask, 0)
    return np.asarray(total - np.maximum.accumulate(before))


def _with(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)
