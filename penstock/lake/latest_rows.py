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


@dataclass(frozen=True)
class Stretch:
    """Of the changes of a range: how many rows, the last position that has any, and whether their segments follow each
    other, so that no two of them have rows of one position."""

    rows: int
    last: int
    in_order: bool


@dataclass(frozen=True)
class Reading:
    """How the rows of a relation are read: those of its base, `few`, or none if they are many; then its changes."""

    few: int
    base: Callable[[], pa.Table]
    look: Callable[[int, int], Stretch]
    changes: Callable[[int, int], pa.Table]


@dataclass
class _Known:
    """All changes from `first` on; `places` has the number of each key's row, or that it is gone."""

    first: int
    pieces: Pieces
    places: dict[Hashable, int] = field(default_factory=dict)

    def take(self, rows: pa.Table, key: Sequence[str], end: int) -> bool:
        """False where they do not fit."""
        first = self.pieces.rows
        self.pieces = self.pieces.grown(rows, end)
        went, were = list[int](), list[int]()
        weights = rows[WEIGHT].to_pylist()
        for number, (value, weight) in enumerate(zip(_values(rows, key), weights, strict=True), first):
            there = self.places.get(value)
            if weight not in (1, -1) or (there is not None and (there == _GONE) != (weight > 0)):
                return False
            if weight < 0 and there is not None:
                went.append(number)
                were.append(there)
            self.places[value] = number if weight > 0 else _GONE
        images = self.pieces.upto(self.pieces.rows).drop_columns([WEIGHT])
        return not went or bool(images.take(pa.array(went)).equals(images.take(pa.array(were))))


class LatestRows:
    """Of relations with at most `most` rows and changes since; one is known by its number, its shape and its copy."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[int, ...], _Known] = OrderedDict()
        self._unfit: dict[tuple[int, ...], int] = {}  # the base from which on nothing can be told

    def end(self, relation: tuple[int, ...]) -> int | None:
        """Up to where its changes are known; None where nothing is told."""
        known = self._known.get(relation)
        return None if known is None else known.pieces.end

    def forget(self, relation: tuple[int, ...]) -> None:
        self._known.pop(relation, None)

    def find(
        self, relation: tuple[int, ...], base: int, until: int, keys: pa.Table, reading: Reading
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows of `keys` that are known at a position, and those of the keys that nothing is known of: they are as
        in the relation's base at `base`.

        None if nothing is told: the rows are too many, or do not fit together, more is known already, or not from that
        base on, or the key is of another type than numbers and texts. With a newer base it is tried again.
        """
        if base <= self._unfit.get(relation, -2) or not all(map(_is_hashable, keys.schema.types)):
            return None
        known = self._known.pop(relation, None)
        if known is None or known.pieces.rows > self._most:
            known = self._begun(base, until, keys.column_names, reading)
        elif known.first > base or known.pieces.end > until:
            self._known[relation] = known
            return None
        if known is None or not self._follow(known, until, keys.column_names, reading):
            self._unfit[relation] = base
            return None
        self._known[relation] = known
        while len(self._known) > _RELATIONS:
            self._known.popitem(last=False)
        places = [known.places.get(value) for value in _values(keys, keys.column_names)]
        there = [place for place in places if place is not None and place != _GONE]
        rows = known.pieces.upto(known.pieces.rows).drop_columns([WEIGHT]).take(pa.array(there, pa.int64()))
        return rows, keys.filter(pa.array([place is None for place in places], pa.bool_()))

    def _begun(self, base: int, until: int, key: Sequence[str], reading: Reading) -> _Known | None:
        if reading.few + reading.look(base, until).rows > self._most:
            return None
        known = _Known(base, Pieces.of(reading.changes(base, base), base))
        return known if known.take(reading.base(), key, base) else None

    def _follow(self, known: _Known, until: int, key: Sequence[str], reading: Reading) -> bool:
        """Take what is new. It counts as known up to its last row only: at positions between that and `until`, which
        nothing has yet, something may still be put."""
        new = reading.look(known.pieces.end, until) if known.pieces.end < until else None
        if new is None or not new.rows:
            return True
        if not new.in_order or new.rows > self._most:
            return False
        return known.take(reading.changes(known.pieces.end, until), key, new.last)


def _is_hashable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _values(rows: pa.Table, key: Sequence[str]) -> list[Hashable]:
    columns = [rows[name].to_pylist() for name in key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
