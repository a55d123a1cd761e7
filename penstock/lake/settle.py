"""Settling: changes as captured become changes with both images, so that a Z-set sum of them is the table.

With REPLICA IDENTITY DEFAULT the WAL carries keys and new images. Inside the range, the old image of a change is the
new image that came before it for the same key; the first one of a key is looked up in the state before the range. A
TOAST value that did not change is that of the same update's old image. TRUNCATE becomes one deletion per row that was
there. A row that should be known and is not stops the table: it is never guessed. Only of a table that was never copied
(`partial`) rows may be unknown: their removal is nothing, and their first new image is where they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowUnknown
from penstock.fitted import fitted
from penstock.lsn import Lsn
from penstock.relation.schema import Schema
from penstock.zset import ABSENT, CHANGE_COLUMNS, WEIGHT, absent_mask, consolidate, is_settled, key_ids

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Lookup = Callable[[pa.Table], pa.Table]


def settle(
    raw: pa.Table, schema: Schema, lookup: Lookup, everything: Callable[[], pa.Table], *, partial: bool = False
) -> pa.Table:
    """`lookup(keys)` gives the rows of those keys, `everything()` all rows, both as of just before the range."""
    rows = raw.sort_by([("_lsn", "ascending"), ("_seq", "ascending")]).combine_chunks()
    if is_settled(rows) and not partial:
        return rows.drop_columns([ABSENT])
    truncated = rows["_op"].to_numpy() == "T"
    epoch = np.cumsum(truncated)
    if not schema.key:
        return _expand_truncates(rows.drop_columns([ABSENT]), schema, truncated, epoch, everything)
    complete, unknown = _complete(rows, schema, truncated, epoch, lookup, partial)
    if unknown.any():
        complete, truncated, epoch = complete.filter(pa.array(~unknown)), truncated[~unknown], epoch[~unknown]
    return _expand_truncates(complete, schema, truncated, epoch, everything)


def _complete(
    rows: pa.Table, schema: Schema, truncated: Mask, epoch: Indices, lookup: Lookup, partial: bool
) -> tuple[pa.Table, Mask]:
    """The rows with their values, and which of them remove a row that was never known."""
    weight = rows[WEIGHT].to_numpy()
    absent = absent_mask(rows, len(schema.columns))
    previous = _previous_of_key(key_ids(rows.select(list(schema.key))), epoch, truncated)
    removal = weight < 0
    _check_order(rows, schema, removal, previous, truncated)

    first = removal & (previous < 0) & (absent.any(axis=1) | partial)
    if (first & (epoch > 0)).any():
        raise _unknown_row(rows, schema, int(np.flatnonzero(first & (epoch > 0))[0]))
    wanted = np.flatnonzero(first)
    known, found, hit = _look_up(rows, schema, wanted, lookup)
    if not hit.all() and not partial:
        raise _unknown_row(rows, schema, int(wanted[np.flatnonzero(~hit)[0]]))
    unknown = np.zeros(rows.num_rows, dtype=bool)
    unknown[wanted[~hit]] = True

    count = rows.num_rows
    own = np.arange(count, dtype=np.int64)
    before = np.where(removal, previous, own - 1)  # an update's new image comes right after its old one
    before[wanted] = np.where(hit, count + found, wanted)
    filled = {name: rows[name] for name in rows.column_names if name != ABSENT}
    for columns, missing in _absent_alike(rows, absent):
        source = _follow(np.where(missing, before, own), known.num_rows)
        lost = ~unknown & np.isin(source, np.flatnonzero(unknown & missing))
        if lost.any():
            raise _unknown_row(rows, schema, int(np.flatnonzero(lost)[0]))
        both = pa.concat_tables([rows.select(columns), fitted(known.select(columns), rows.select(columns).schema)])
        filled |= dict(zip(columns, both.take(pa.array(source)).columns, strict=True))
    return pa.table(filled), unknown


def _absent_alike(rows: pa.Table, absent: Mask) -> Iterator[tuple[list[str], Mask]]:
    """The columns that lack values in the same rows, and in which: mostly all but the key, in the old images."""
    alike: dict[bytes, list[int]] = {}
    for position in np.flatnonzero(absent.any(axis=0)):
        alike.setdefault(absent[:, position].tobytes(), []).append(int(position))
    for positions in alike.values():
        yield [rows.column_names[position] for position in positions], absent[:, positions[0]]


def _previous_of_key(ids: Indices, epoch: Indices, truncated: Mask) -> Indices:
    """For each row the row before it with the same key since the last TRUNCATE, or -1."""
    order = np.lexsort((np.arange(len(ids)), ids, epoch))
    order = order[~truncated[order]]
    same = (ids[order][1:] == ids[order][:-1]) & (epoch[order][1:] == epoch[order][:-1])
    previous = np.full(len(ids), -1, dtype=np.int64)
    previous[order[1:]] = np.where(same, order[:-1], -1)
    return previous


def _check_order(rows: pa.Table, schema: Schema, removal: Mask, previous: Indices, truncated: Mask) -> None:
    """Per key, removals and additions take turns."""
    linked = previous >= 0
    wrong = linked & ~truncated & (removal == removal[previous])
    if wrong.any():
        raise _unknown_row(rows, schema, int(np.flatnonzero(wrong)[0]))


def _look_up(rows: pa.Table, schema: Schema, wanted: Indices, lookup: Lookup) -> tuple[pa.Table, Indices, Mask]:
    """The rows of the wanted keys, and for each wanted row the place of its image among them, if it has one."""
    names = list(schema.names)
    if not len(wanted):
        return rows.schema.empty_table().select(names), np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    keys = rows.select(list(schema.key)).take(pa.array(wanted))
    found = fitted(lookup(keys).select(names), schema.arrow())
    ids = key_ids(pa.concat_tables([found.select(list(schema.key)), keys]))
    have, need = ids[: found.num_rows], ids[found.num_rows :]
    order = np.argsort(have, kind="stable")
    place = np.searchsorted(have[order], need)
    place_ok = place < len(have)
    hit = np.zeros(len(need), dtype=bool)
    hit[place_ok] = have[order][place[place_ok]] == need[place_ok]
    places = np.zeros(len(need), dtype=np.int64)
    places[hit] = order[place[hit]]
    return found, places, hit


def _follow(pointers: Indices, known: int) -> Indices:
    """Follow each pointer to the row that has the value itself; looked-up rows have theirs."""
    target = np.concatenate([pointers, len(pointers) + np.arange(known, dtype=np.int64)])
    while True:
        further = target[target]
        if np.array_equal(further, target):
            return target[: len(pointers)]
        target = further


def _expand_truncates(
    rows: pa.Table, schema: Schema, truncated: Mask, epoch: Indices, everything: Callable[[], pa.Table]
) -> pa.Table:
    """Replace each TRUNCATE by the removal of every row that was there just before it."""
    if not truncated.any():
        return rows
    names = list(schema.names)
    parts = [rows.filter(pa.array(~truncated))]
    for place in np.flatnonzero(truncated):
        since = rows.filter(pa.array((epoch == epoch[place] - 1) & ~truncated)).select([*names, WEIGHT])
        there = [since]
        if epoch[place] == 1:
            start = everything().select(names).cast(schema.arrow())
            there.append(start.append_column(since.schema.field(WEIGHT), pa.array(np.ones(start.num_rows, np.int64))))
        gone = consolidate(pa.concat_tables(there), names)
        if pc.any(pc.less(gone[WEIGHT], 0)).as_py():
            raise _unknown_row(rows, schema, int(place))
        parts.append(removals(gone, rows.slice(int(place), 1)))
    return pa.concat_tables(parts).sort_by([("_lsn", "ascending"), ("_seq", "ascending")])


def removals(gone: pa.Table, cause: pa.Table) -> pa.Table:
    """Weighted rows taken away by a change of one row, `cause`."""
    columns = []
    for name in cause.column_names:
        if name == WEIGHT:
            columns.append(pc.negate(gone[WEIGHT]))
        elif name in CHANGE_COLUMNS:
            columns.append(pa.repeat(cause[name][0], gone.num_rows))
        else:
            columns.append(gone[name])
    return pa.table(columns, schema=cause.schema)


def _unknown_row(rows: pa.Table, schema: Schema, place: int) -> RowUnknown:
    row = rows.slice(place, 1).to_pylist()[0]
    key = {name: row[name] for name in schema.key}
    return RowUnknown(
        f"a change at LSN {Lsn(row['_lsn'])} ({row['_op']}) refers to a row that is not known here: {key}",
        hint="The mirror and the source have parted. Run `penstock verify`, then re-sync the table.",
    )
