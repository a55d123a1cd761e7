"""A small Delta table written anew: one file with all its rows and one commit, without Spark.

To Spark it is a dozen jobs, each dearer than the rows, and refreshes wait for cores meanwhile.

Order of steps: the file and its folder, fsynced; then the commit that takes it in and all others out. A file without a
commit is one no version knows, which VACUUM takes.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from penstock.fitted import fitted
from penstock.lake import delta_commit
from penstock.lake.delta_log import Stamp
from penstock.relation.schema import Schema
from penstock.relation.segment import sync
from penstock.relation.storage import writing


def rewrite(folder: Path, version: int, schema: Schema, rows: pa.Table, stamp: Stamp) -> bool:
    """The version after `version` has these rows and no others; False where that is left to Spark."""
    table = DeltaTable(str(folder), version=version)
    if not _may_be_replaced(table, schema):
        return False
    files = pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
    if any(quote(one["path"]) != one["path"] or one["path"].startswith("/") for one in files):
        return False  # the log may have it in another spelling
    actions = [delta_commit.removed(one["path"], one["size_bytes"]) for one in files]
    if rows.num_rows:
        file = folder / f"part-00000-{uuid.uuid4()}.snappy.parquet"  # which readers of all ages know
        with writing(file):
            pq.write_table(fitted(rows, schema.arrow()), file, compression="snappy")
            sync(file)
        actions.append(delta_commit.added(file, schema))
    delta_commit.commit(folder, version + 1, actions, stamp, "Overwrite")
    return True


def _may_be_replaced(table: DeltaTable, schema: Schema) -> bool:
    """To remove a file with a deletion vector, the log must name the vector too."""
    return (
        delta_commit.is_plain(table, schema)
        and table.metadata().configuration.get("delta.appendOnly") != "true"
        and not pa.table(table.deletion_vectors()).num_rows
    )
