"""How changes are folded into a Delta table: by append, MERGE or writing it anew, whichever is expected to cost least.

The constants are seconds measured on two cores (docs/adr/001, docs/benchmarks.md); only their ratios matter. Writing
anew counts twice what it takes, because its old files stay until VACUUM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fold = Literal["created", "appended", "merged", "overwritten", "altered", "unchanged"]


@dataclass(frozen=True)
class Cost:
    """Expected seconds: a fixed part, a part per row of the table, and a part per changed row."""

    fixed: float
    per_row: float
    per_change: float

    def of(self, rows: int, changes: int) -> float:
        return self.fixed + self.per_row * rows + self.per_change * changes


APPEND = Cost(0.5, 0.0, 2e-6)
MERGE = Cost(3.3, 0.5e-6, 30e-6)
OVERWRITE = Cost(1.9, 10e-6, 0.0)
# A table of so few rows is mostly written anew without Spark (`rewriting`), in so small a part of the time.
FEW_ROWS, _WITHOUT_SPARK = 50_000, 0.05


@dataclass(frozen=True)
class Choice:
    """What will be done, and why."""

    how: Fold
    reason: str


def choose(rows: int | None, new: int, gone: int) -> Choice:
    """`rows` are in the Delta table (None: there is none), `new` come in and `gone` go out, an update being both.

    >>> choose(5_000_000, 40_000, 30_000)
    Choice(how='merged', reason='70,000 changed rows: 7.9 s expected, writing 5,010,000 rows anew 52.0 s')
    >>> choose(5_000_000, 40_000, 0).how, choose(1_000, 1, 1).how, choose(5_000_000, 4_000_000, 4_000_000).how
    ('appended', 'overwritten', 'overwritten')
    """
    if rows is None:
        return Choice("created", "there is no Delta table yet")
    if not new and not gone:
        return Choice("unchanged", "no row changed")
    if not gone:
        return Choice("appended", f"{new:,} new rows and no other change")
    after = rows + new - gone
    merge, overwrite = MERGE.of(rows, new + gone), OVERWRITE.of(after, new + gone)
    if max(rows, after) <= FEW_ROWS:
        overwrite *= _WITHOUT_SPARK
    if merge < overwrite:
        beside = f"{merge:.1f} s expected, writing {after:,} rows anew {overwrite:.1f} s"
        return Choice("merged", f"{new + gone:,} changed rows: {beside}")
    return Choice("overwritten", f"{after:,} rows anew: {overwrite:.1f} s expected, a MERGE {merge:.1f} s")
