"""Rows of a table before and after a refresh that its changes tell: keys say so, and no file is read for them.

By its own key: a row that changed is in ΔR as it was and as it is, and no other row has its key. So of a key in ΔR,
the row before is the one in −ΔR and the row after the one in ΔR; where there is none, there is no row.

By a foreign key: a cut holds whole transactions, so it holds at both ends of a refresh. A parent that was inserted had
no children before, so those it has now are in ΔR; one that was deleted has none now, so those it had are in −ΔR. Only
the children of parents that are there at both ends must be looked up. Parents are told apart by their net change:
their key is unique, so its weights add up to +1, −1 or 0.

Where the changes themselves contradict a key (two rows of one, a child that left a parent which came, or came to one
that left), it did not hold, whatever was seen of it, and nothing is told by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.base_files import among_any
from penstock.views import Match, Reach, Read
from penstock.zset import WEIGHT


@dataclass(frozen=True)
class OwnKey:
    """The key of a relation, which no two of its rows share at either end of the refresh."""

    relation: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ParentKey:
    """A foreign key that holds at both ends of the refresh, between relations by name."""

    relation: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


Key = OwnKey | ParentKey
Known = Mapping[Read, pa.Table]


@dataclass(frozen=True)
class Told:
    """What need not be looked up: all rows of the read that have one of the `values` are in `rows`."""

    rows: pa.Table
    values: Sequence[pa.Table]
    left: Mapping[Match, pa.Table]  # of each match, the values still to be looked up

    def beside(self, wanted: Sequence[pa.Table]) -> pa.Table:
        """The rows that are not found with the `wanted` values, which are looked up."""
        mask = among_any(self.rows, self.values) & ~among_any(self.rows, wanted)
        return self.rows.filter(pa.array(mask))


@dataclass(frozen=True)
class _Moved:
    """Of these values of some columns all rows are known: those that `came` has are in ΔR, those of `went` in −ΔR."""

    columns: tuple[str, ...]
    came: pa.Table
    went: pa.Table


def told(reached: Reach, keys: Sequence[Key], known: Known, unchanged: pa.Table) -> Told | None:
    """What keys tell of a read; None if nothing. `unchanged` stands for ΔR where R did not change."""
    form = reached.read.kind
    if form not in ("before", "after"):
        return None
    changed = known.get(Read("delta", reached.read.relation), unchanged)
    came, went = _came(changed), _went(changed)
    own = [key for key in keys if key.relation == reached.read.relation]
    moved = [one for key in own for one in _moved(key, came, went, known)]
    values, left = list[pa.Table](), dict[Match, pa.Table]()
    for match in reached.matches:
        asked = known[match.by].select(list(match.by_columns)).rename_columns(list(match.columns))
        for one in moved:
            if set(one.columns) == set(match.columns):
                before = left.get(match, asked)
                left[match] = before.filter(pa.array(~among_any(before, [one.came, one.went])))
                values.append(one.came if form == "after" else one.went)
    return Told(came if form == "after" else went, values, left) if left else None


def _moved(key: Key, came: pa.Table, went: pa.Table, known: Known) -> Iterator[_Moved]:
    """What a key tells, if the changes do not contradict it."""
    if isinstance(key, OwnKey):
        if set(key.columns) <= set(came.column_names):
            found = _Moved(key.columns, came.select(key.columns), went.select(key.columns))
            if _are_distinct(found.came) and _are_distinct(found.went):
                yield found
        return
    parents = known.get(Read("delta", key.parent))
    if parents is None or not set(key.parent_columns) <= set(parents.column_names):
        return
    if not set(key.columns) <= set(came.column_names):
        return
    found = _parents(parents, key)
    if not among_any(went, [found.came]).any() and not among_any(came, [found.went]).any():
        yield found


def _parents(changed: pa.Table, key: ParentKey) -> _Moved:
    """The keys of parents that came and went, under the children's names; one with a NULL is nobody's parent."""
    names = list(key.parent_columns)
    net = changed.select([*names, WEIGHT]).group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    total = net[f"{WEIGHT}_sum"].to_numpy()
    whole = np.ones(net.num_rows, dtype=bool)
    for name in names:
        whole &= pc.is_valid(net[name]).to_numpy(zero_copy_only=False)
    values = net.select(names).rename_columns(list(key.columns))
    return _Moved(
        key.columns, values.filter(pa.array(whole & (total > 0))), values.filter(pa.array(whole & (total < 0)))
    )


def _are_distinct(values: pa.Table) -> bool:
    if any(column.null_count for column in values.columns):
        return False
    return bool(values.group_by(values.column_names, use_threads=False).aggregate([]).num_rows == values.num_rows)


def _came(changed: pa.Table) -> pa.Table:
    return changed.filter(pc.greater(changed[WEIGHT], 0))


def _went(changed: pa.Table) -> pa.Table:
    """As rows that were there: with the weight that they had."""
    gone = changed.filter(pc.less(changed[WEIGHT], 0))
    return gone.set_column(gone.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(gone[WEIGHT]))
