"""Children of a parent that came or went are among the changes: a foreign key says so, and no table is read for them.

A cut holds whole transactions, so a foreign key holds at both ends of a refresh. A parent that was inserted had no
children before, so those it has now are in ΔL; one that was deleted has none now, so those it had are in −ΔL. Only the
children of parents that are there at both ends must be looked up. Parents are told apart by their net change: their
key is unique, so its weights add up to +1, −1 or 0.

Where the changes themselves contradict this (a child that left a parent which came, or came to one that left), the
foreign key did not hold, whatever was seen of it, and everything is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.base_files import among_any
from penstock.views import Match, Reach, Read
from penstock.zset import WEIGHT


@dataclass(frozen=True)
class ParentKey:
    """A foreign key that holds at both ends of the refresh, between relations by name."""

    child: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]

    def ties(self, child: str, match: Match) -> bool:
        pairs = set(zip(match.columns, match.by_columns, strict=True))
        own = set(zip(self.columns, self.parent_columns, strict=True))
        return (self.child, self.parent) == (child, match.by.relation) and match.by.kind == "delta" and pairs == own


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


def told(reached: Reach, keys: Sequence[ParentKey], known: Mapping[Read, pa.Table], unchanged: pa.Table) -> Told | None:
    """What foreign keys tell of a read; None if nothing. `unchanged` stands for ΔL where L did not change."""
    child, form = reached.read.relation, reached.read.kind
    matches = [match for match in reached.matches if any(key.ties(child, match) for key in keys)]
    if form not in ("before", "after") or not matches:
        return None
    changed = known.get(Read("delta", child), unchanged)
    parents = {match: _Parents(known[match.by], match) for match in matches}
    came, went = ([getattr(one, which) for one in parents.values()] for which in ("came", "went"))
    if _least_weight(changed, came) < 0 or _least_weight(_negated(changed), went) < 0:
        return None
    rows, values = (changed, came) if form == "after" else (_negated(changed), went)
    return Told(rows, values, {match: one.stayed for match, one in parents.items()})


class _Parents:
    """The keys of changed parents, under the children's names for them; one with a NULL is nobody's parent."""

    def __init__(self, changed: pa.Table, match: Match) -> None:
        keys = list(match.by_columns)
        net = changed.select([*keys, WEIGHT]).group_by(keys, use_threads=False).aggregate([(WEIGHT, "sum")])
        total = net[f"{WEIGHT}_sum"].to_numpy()
        whole = np.ones(net.num_rows, dtype=bool)
        for name in keys:
            whole &= pc.is_valid(net[name]).to_numpy(zero_copy_only=False)
        values = net.select(keys).rename_columns(list(match.columns))
        self.came = values.filter(pa.array(whole & (total > 0)))
        self.went = values.filter(pa.array(whole & (total < 0)))
        self.stayed = values.filter(pa.array(~whole | (total == 0)))


def _negated(rows: pa.Table) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(rows[WEIGHT]))


def _least_weight(rows: pa.Table, values: Sequence[pa.Table]) -> int:
    """Of the rows with one of the values; 0 if there are none."""
    own = rows.filter(pa.array(among_any(rows, values)))
    return pc.min(own[WEIGHT]).as_py() if own.num_rows else 0
