"""What a verification found: pure values, and how they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.cut import Frontier

Row = tuple[Any, ...]
_SHOWN = 10


@dataclass(frozen=True)
class Difference:
    """Rows of a relation that are only on one side; `missing` are in the source, `extra` in the lake.

    `complete` is False where so many differ that the search stopped: there are at least `count` then.
    """

    relation: str
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]
    count: int
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    complete: bool = True

    @property
    def keys(self) -> tuple[Row, ...]:
        """The keys of the rows that differ; of a relation without a key, the rows."""
        return tuple(dict.fromkeys(self._key(row) for row in (*self.missing, *self.extra)))

    def _key(self, row: Row) -> Row:
        return tuple(row[self.columns.index(name)] for name in self.key) if self.key else row

    def __str__(self) -> str:
        least = "" if self.complete else "at least "
        lines = [f"{self.relation}: {least}{self.count:,} rows differ"]
        return "\n".join([*lines, *(self._pairs() if self.key else self._rows())])

    def _rows(self) -> list[str]:
        shown = [f"  in the source only: {row}" for row in self.missing[:_SHOWN]]
        return shown + [f"  in the lake only:   {row}" for row in self.extra[:_SHOWN]]

    def _pairs(self) -> list[str]:
        there = {self._key(row): row for row in self.missing}
        here = {self._key(row): row for row in self.extra}
        lines = []
        for key in self.keys[:_SHOWN]:
            named = ", ".join(f"{name}={value!r}" for name, value in zip(self.key, key, strict=True))
            if key not in here:
                lines.append(f"  {named}: in the source only: {there[key]}")
            elif key not in there:
                lines.append(f"  {named}: in the lake only: {here[key]}")
            else:
                lines.append(f"  {named}: {self._columns_that_differ(there[key], here[key])}")
        return lines

    def _columns_that_differ(self, there: Row, here: Row) -> str:
        pairs = zip(self.columns, there, here, strict=True)
        told = [f"{name} is {a!r} in the source, {b!r} in the lake" for name, a, b in pairs if a != b]
        return "; ".join(told) or f"source {there}, lake {here}"


@dataclass(frozen=True)
class Verification:
    """The outcome at one frontier: `rows` compared for each relation, what differs, and what was done about it."""

    frontier: Frontier
    rows: Mapping[str, int]
    differences: tuple[Difference, ...]
    seconds: float
    repaired: Mapping[str, str] = field(default_factory=dict)  # how, by relation
    skipped: Mapping[str, str] = field(default_factory=dict)  # what cannot be verified by equality, and why

    @property
    def ok(self) -> bool:
        """Everything is equal now: nothing differed, or all that did was put right."""
        return all(one.relation in self.repaired for one in self.differences)

    def __str__(self) -> str:
        cuts = ", ".join(f"{cut}" for cut in self.frontier.values())
        skipped = [f"{name} was not compared: {why}." for name, why in self.skipped.items()]
        if not self.differences:
            equal = f"All {len(self.rows)} relations equal the source at LSN {cuts}."
            return "\n".join([equal, *skipped] if self.rows or not skipped else skipped)
        lines = [f"{len(self.differences)} of {len(self.rows)} relations differ from the source at LSN {cuts}:"]
        lines += map(str, self.differences)
        return "\n".join([*lines, *(f"{name}: {how}" for name, how in self.repaired.items()), *skipped])


def difference(
    relation: str,
    missing: Sequence[Row],
    extra: Sequence[Row],
    columns: Sequence[str],
    key: Sequence[str],
    *,
    complete: bool = True,
) -> Difference:
    """Rows only in the source and rows only in the lake; an updated row is one of each and counts once."""
    found = Difference(relation, tuple(missing), tuple(extra), 0, tuple(columns), tuple(key), complete)
    count = len(found.keys) if key else max(len(missing), len(extra))
    return Difference(relation, found.missing, found.extra, count, found.columns, found.key, complete)
