"""Rows that are wrong in a home: changes put into a relation's changelog behind penstock's back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import penstock
from penstock.catalog import relations
from penstock.relation.segment import SegmentWriter


def put(ps: penstock.Session, name: str, changes: Sequence[tuple[dict[str, Any], int]]) -> None:
    """Add weighted rows where the relation is now; nothing that was refreshed before sees them."""
    relation, position, _ = ps.engine.position(name)
    stamp = {"_op": "U", "_lsn": position, "_ts": None, "_xid": None, "_seq": 1}
    rows = [{**row, "_weight": weight, **stamp} for row, weight in changes]
    with ps.catalog.lease("wrong rows") as lease:
        attempt = ps.catalog.begin(lease, "wrong rows")
        table = pa.Table.from_pylist(rows, relation.schema.arrow_changes())
        written = SegmentWriter(ps.home, relation.folder, attempt).write(table, position, position)
        with ps.catalog.commit(lease, attempt, "wrong rows") as commit:
            relations.record_segments(commit, relation.id, [written])
