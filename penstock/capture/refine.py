"""What happens to a batch between the backlog and the caller: consolidation, then the TOAST values it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.capture.batch import Batch
from penstock.capture.config import Consolidate, SourceConfig
from penstock.capture.connection import Connection
from penstock.capture.consolidate import Consolidation, consolidate
from penstock.capture.discover import SourceTable
from penstock.capture.toast import Fetch, Sentinel, Settled, Toast, ToastCounts
from penstock.capture.toast_cache import Remembered
from penstock.zset import CHANGE_FIELDS


def toast_for(config: SourceConfig, connection: Callable[[], Connection]) -> Toast:
    """The asked way to handle missing values; `require-full` needs none, its tables have no such values."""
    match config.toast_handling:
        case "fetch":
            return Fetch(connection)
        case "cache-unchanged":
            return Remembered(config.toast_cache_bytes)
        case "sentinel":
            return Sentinel()
        case "settle" | "require-full":
            return Settled()


class Refiner:
    """Keeps what reaches from one batch into the next."""

    def __init__(self, mode: Consolidate, toast: Toast) -> None:
        self._mode = mode
        self._toast = toast
        self._in_parts = False
        self.consolidation = Consolidation()

    @property
    def toast_counts(self) -> ToastCounts:
        return self._toast.counts

    def refine(self, batch: Batch) -> Batch:
        """The same changes, fewer or fuller rows."""
        tables = batch.tables if batch.snapshot else self._consolidated(batch)
        tables = {name: self._toast.fill(batch.shapes[name], rows) for name, rows in tables.items() if rows.num_rows}
        refined = replace(batch, tables=tables)
        if not batch.snapshot:  # only now: what could not be filled is refined once more
            self._in_parts = not batch.complete
            if self._mode != "off":
                self.consolidation += Consolidation(batch.rows, refined.rows)
        return refined

    def _consolidated(self, batch: Batch) -> Mapping[str, pa.Table]:
        whole = batch.complete and not self._in_parts
        if self._mode == "off":
            return batch.tables
        tables = as_one(batch.tables) if self._mode == "flush" and whole else batch.tables
        return {name: _of_table(batch.shapes[name], rows) for name, rows in tables.items()}


def _of_table(table: SourceTable, rows: pa.Table) -> pa.Table:
    """Rows are followed by the bits of their keys. Where others are equal to the server, a row that moved forward could
    come before its key is free."""
    return consolidate(rows, table.schema.key) if table.has_exact_key else rows


def as_one(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The transactions of a batch as one: its rows keep their order and carry the last commit's stamp."""
    if not tables:
        return {}
    names = list(tables)
    places = [np.stack([tables[name]["_lsn"].to_numpy(), tables[name]["_seq"].to_numpy()]) for name in names]
    lsns, seqs = np.concatenate(places, axis=1)
    ranks = np.empty(len(lsns), np.int64)
    order = np.lexsort((seqs, lsns))
    ranks[order] = np.arange(len(lsns))
    bounds = np.cumsum([0, *(tables[name].num_rows for name in names)])
    owner = int(np.searchsorted(bounds, order[-1], side="right")) - 1
    last = tables[names[owner]].slice(int(order[-1] - bounds[owner]), 1)
    return {name: _stamped(tables[name], last, ranks[bounds[at] : bounds[at + 1]]) for at, name in enumerate(names)}


def _stamped(rows: pa.Table, last: pa.Table, ranks: np.ndarray) -> pa.Table:
    for field in CHANGE_FIELDS:
        place = rows.schema.get_field_index(field.name)
        if field.name in ("_lsn", "_ts", "_xid"):
            rows = rows.set_column(place, field, pa.repeat(last[field.name][0], rows.num_rows))
        elif field.name == "_seq":
            rows = rows.set_column(place, field, pa.array(ranks))
    return rows
