"""Of each key of a relation, its row as its changes have left it: what settling looks up again and again.

It begins with the rows of a base, where these are few, and then follows the changes, whatever newer bases there are.
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

_RELATIONS = 64
_GONE = -1


@dataclass
class _Known:
    """All changes from `first` on; `places` has the number of each key's row, or that it is gone, and is None once the
    changes did not fit together."""

    first: int
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


@dataclass(frozen=True)
class Reading:
    """How the rows of a relation are read: those of its base, or none if they are not few; and its changes."""

    base: Callable[[], pa.Table]
    count: Callable[[int, int], int]
    changes: Callable[[int, int], pa.Table]


class LatestRows:
    """Of relations with at most `most` rows and changes since; one is known by its number, its shape and its copy."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[int, ...], _Known] = OrderedDict()

    def end(self, relation: tuple[int, ...]) -> int | None:
        """Up to where its changes are known; None where nothing is told."""
        known = self._known.get(relation)
        return None if known is None or known.places is None else known.pieces.end

    def forget(self, relation: tuple[int, ...]) -> None:
        self._known.pop(relation, None)

    def find(
        self, relation: tuple[int, ...], base: int, until: int, keys: pa.Table, reading: Reading
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows of `keys` that are known at a position, and those of the keys that nothing is known of: they are as
        in the relation's base at `base`.

        None if nothing is told: the rows are too many, or do not fit together, more is known already, or not from that
        base on, or the key is of another type than numbers and texts.
        """
        if not all(map(_is_hashable, keys.schema.types)):
            return None
        known = self._known.pop(relation, None)
        if known is None or known.pieces.rows > self._most:
            known = _Known(base, Pieces.of(reading.changes(base, base), base))
            known.take(reading.base(), keys.column_names, base)
        if known.first <= base and known.pieces.end < until and known.places is not None:
            new = reading.count(known.pieces.end, until)
            if new > self._most:
                return None
            rows = reading.changes(known.pieces.end, until) if new else known.pieces.old.slice(0, 0)
            known.take(rows, keys.column_names, until)
        self._known[relation] = known
        while len(self._known) > _RELATIONS:
            self._known.popitem(last=False)
        if known.places is None or not known.first <= base <= until == known.pieces.end:
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
