"""Of each key, the row that a relation's changes since a position leave: what settling looks up again and again.

Changes are taken in the order of their segments. A row that goes must be the one that is there, value by value, and one
that comes must find none; where that is not so, nothing is told, and the caller adds the changes up, in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.lake.net_changes import Pieces
from penstock.zset import WEIGHT

_RANGES = 64
_GONE = -1


@dataclass
class _Known:
    """`places` has the number of each key's row, or that it is gone; None once the changes did not fit together."""

    pieces: Pieces
    places: dict[Hashable, int] | None = field(default_factory=dict)

    def take(self, rows: pa.Table, key: Sequence[str], end: int) -> None:
        first = self.pieces.rows
        self.pieces = self.pieces.grown(rows, end)
        if self.places is None:
            return
        went, were = list[int](), list[int]()
        weights = rows[WEIGHT].to_pylist()
        for number, (value, weight) in enumerate(zip(_values(rows, key), weights, strict=True), first):
            there = self.places.get(value)
            if weight not in (1, -1) or (there is not None and (there == _GONE) != (weight > 0)):
                self.places = None
                return
            if weight < 0 and there is not None:
                went.append(number)
                were.append(there)
            self.places[value] = number if weight > 0 else _GONE
        if went:
            images = self.pieces.upto(self.pieces.rows).drop_columns([WEIGHT])
            if not images.take(pa.array(went)).equals(images.take(pa.array(were))):
                self.places = None


class LatestRows:
    """Of ranges of at most `most` rows, by relation and its shape, and the position that they are after."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[tuple[int, int], int], _Known] = OrderedDict()

    def end(self, relation: tuple[int, int], after: int) -> int | None:
        """Up to where the changes after a position are known; None where nothing is told."""
        known = self._known.get((relation, after))
        return None if known is None or known.places is None else known.pieces.end

    def find(
        self,
        relation: tuple[int, int],
        after: int,
        until: int,
        keys: pa.Table,
        count: Callable[[int, int], int],
        read: Callable[[int, int], pa.Table],
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows of `keys` that changes in (after, until] leave, and those of the keys that none of them names.

        None if nothing is told: the changes are too many, by `count`, or do not fit together, more is known already, or
        the key is of another type than numbers and texts.
        """
        if not all(map(_is_hashable, keys.schema.types)):
            return None
        known = self._known.pop((relation, after), None)
        if known is None:
            known = _Known(Pieces.of(read(after, after), after))
        if known.pieces.end < until and known.places is not None:
            new = count(known.pieces.end, until)
            if known.pieces.rows + new > self._most:
                return None
            known.take(read(known.pieces.end, until) if new else _none(known.pieces.old), keys.column_names, until)
        self._known[relation, after] = known
        while len(self._known) > _RANGES:
            self._known.popitem(last=False)
        if known.places is None or known.pieces.end > until:
            return None
        places = [known.places.get(value) for value in _values(keys, keys.column_names)]
        there = [place for place in places if place is not None and place != _GONE]
        rows = known.pieces.upto(known.pieces.rows).drop_columns([WEIGHT]).take(pa.array(there, pa.int64()))
        return rows, keys.filter(pa.array([place is None for place in places], pa.bool_()))


def _is_hashable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _values(rows: pa.Table, key: Sequence[str]) -> list[Hashable]:
    columns = [rows[name].to_pylist() for name in key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _none(rows: pa.Table) -> pa.Table:
    return rows.slice(0, 0)
