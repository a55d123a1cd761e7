"""Segments of relations, listed again and again: only those that are new are read from the catalog.

A segment never changes, and once it is settled it stays until it is removed. So with those that are new, what was
listed before is all that there can be; the numbers of those that are there say what of it was removed. If a number is
unknown (the transaction that took it ended after one that took a later number), the list is read anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from psycopg.rows import DictRow

from penstock.catalog.relations import SEGMENT, Listed
from penstock.catalog.store import Catalog, Question
from penstock.relation.segment import Segment

Answer = tuple[dict[int, Listed], list[int]]
"""The lists that are complete, and the relations whose lists are not."""

_ALL = -1  # before the number of any segment


@dataclass(frozen=True)
class _Known:
    """The settled segments after a position, by their last positions and numbers."""

    after: int
    segments: Mapping[tuple[int, int], Segment]

    @property
    def last(self) -> int:
        return max((number for _, number in self.segments), default=_ALL)

    def since(self, after: int) -> _Known:
        """Those after a later position, if that leaves out so many that it is worth it."""
        left = {place: one for place, one in self.segments.items() if one.high > after}
        return _Known(after, left) if len(left) < len(self.segments) // 2 else self


class Listing:
    """What was listed last of each relation: replaced as a whole, so that threads may share it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def segments(self, catalog: Catalog, after: Mapping[int, int]) -> dict[int, Listed]:
        """Of each relation the settled segments after its position, oldest first."""
        return self.whole(catalog, after, catalog.answer(self.of(after)))

    def of(self, after: Mapping[int, int]) -> Question[Answer]:
        """The same as a question, whose answer may not be `whole`."""
        return self._question({id_: self._usable(id_, position) for id_, position in after.items()})

    def whole(self, catalog: Catalog, after: Mapping[int, int], answer: Answer) -> dict[int, Listed]:
        found, incomplete = answer
        if incomplete:
            again, _ = catalog.answer(self._question({id_: _Known(after[id_], {}) for id_ in incomplete}))
            return found | again
        return found

    def _usable(self, relation_id: int, after: int) -> _Known:
        known = self._known.get(relation_id)
        return _Known(after, {}) if known is None or known.after > after else known.since(after)

    def _question(self, known: Mapping[int, _Known]) -> Question[Answer]:
        return Question(
            f"SELECT r.id, r.name, r.retained, s.id AS number, {SEGMENT}, "
            "CASE WHEN row_number() OVER (PARTITION BY r.id) = 1 THEN t.there END AS there "
            "FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) w (id, after, last) JOIN relations r ON r.id = w.id "
            "JOIN LATERAL (SELECT coalesce(array_agg(id), '{}') AS there FROM segments "
            "  WHERE relation_id = w.id AND form = 'settled' AND high > w.after) t ON true "
            "LEFT JOIN segments s "
            "ON s.relation_id = w.id AND s.form = 'settled' AND s.high > w.after AND s.id > w.last",
            partial(self._read, known),
            (list(known), [int(one.after) for one in known.values()], [one.last for one in known.values()]),
        )

    def _read(self, known: Mapping[int, _Known], rows: list[DictRow]) -> Answer:
        new: dict[int, dict[tuple[int, int], Segment]] = {}
        about: dict[int, tuple[str, int, frozenset[int]]] = {}
        for row in rows:
            id_, number, there = row.pop("id"), row.pop("number"), row.pop("there")
            name, retained = row.pop("name"), row.pop("retained")
            if there is not None:
                about[id_] = name, retained, frozenset(there)
            own = new.setdefault(id_, {})
            if number is not None:
                own[row["high"], number] = Segment.from_row(row)
        found, incomplete = {}, []
        for id_, (name, retained, numbers) in about.items():
            listed = {**known[id_].segments, **new[id_]}
            left = {place: one for place, one in listed.items() if place[1] in numbers}
            if len(left) < len(numbers):
                incomplete.append(id_)
                continue
            whole = _Known(known[id_].after, dict(sorted(left.items())) if new[id_] else left)
            self._known[id_] = whole
            found[id_] = Listed(name, whole.after, retained, tuple(whole.segments.values()))
        return found, incomplete
