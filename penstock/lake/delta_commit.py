"""A Delta commit that is written here, without Spark: files that come, files that go, and the stamp.

It gets exactly the number after the version it builds on, which only one writer can have. Every tenth is followed by a
checkpoint of the log, after which the oldest entries go, as with Spark.
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError

from penstock.errors import PublishError
from penstock.lake.delta_log import Stamp
from penstock.relation.schema import Schema
from penstock.relation.segment import sync

log = logging.getLogger("penstock.lake")

# What a commit of files has to respect nothing of.
_FEATURES = frozenset({"appendOnly", "invariants", "deletionVectors", "timestampNtz"})
_CHECKPOINT = 10
_INDEXED = 32  # columns with statistics, as Delta has by default
_SHOWN_TEXT = 32

Action = Mapping[str, Any]


def is_plain(table: DeltaTable, schema: Schema) -> bool:
    """Whether a commit of files may follow: the table has these columns under their own names, and nothing else that
    would have to be kept up."""
    features = {*(table.protocol().reader_features or ()), *(table.protocol().writer_features or ())}
    return (
        features <= _FEATURES
        and not table.metadata().partition_columns
        and table.metadata().configuration.get("delta.columnMapping.mode", "none") == "none"
        and table.schema().to_json() == delta_schema(schema)
    )


def delta_schema(schema: Schema) -> str:
    return DeltaSchema.from_arrow(schema.arrow()).to_json()


def new_table(schema: Schema, made_with: Mapping[str, str]) -> list[Action]:
    """The first actions of a table with deletion vectors."""
    without_zone = ["timestampNtz"] if any("timestamp_ntz" in one.spark for one in schema.columns) else []
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors", *without_zone],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants", *without_zone],
    }
    table = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema(schema),
        "partitionColumns": [],
        "configuration": dict(made_with),
        "createdTime": _now(),
    }
    return [{"protocol": protocol}, {"metaData": table}]


def added(file: Path, schema: Schema) -> Action:
    """A file in the table's folder is one of its own."""
    stats = json.dumps(_statistics(pq.read_metadata(file), schema))
    about = {"partitionValues": {}, "modificationTime": _now(), "dataChange": True}
    return {"add": {"path": file.name, "size": file.stat().st_size, **about, "stats": stats}}


def removed(path: str, size: int) -> Action:
    """A file without a deletion vector is no longer one of the table's."""
    about = {"deletionTimestamp": _now(), "dataChange": True, "extendedFileMetadata": True, "partitionValues": {}}
    return {"remove": {"path": path, "size": size, **about}}


def commit(
    folder: Path, version: int, actions: Sequence[Action], stamp: Stamp, mode: Literal["Append", "Overwrite"] = "Append"
) -> None:
    """Under its number all at once, or not at all where another has it: then the files that were to come go again."""
    info = {
        "timestamp": _now(),
        "operation": "WRITE",
        "operationParameters": {"mode": mode, "partitionBy": "[]"},
        "isBlindAppend": mode == "Append",
        "engineInfo": "penstock",
        "userMetadata": stamp.to_json(),
    }
    once = {"txn": {"appId": f"penstock:{stamp.owner}", "version": stamp.position, "lastUpdated": _now()}}
    entries = folder / "_delta_log"
    draft = entries / f".{uuid.uuid4()}.tmp"
    try:
        draft.write_text("".join(json.dumps(action) + "\n" for action in ({"commitInfo": info}, once, *actions)))
        sync(draft)
        os.link(draft, entries / f"{version:020d}.json")
    except FileExistsError as error:
        for action in actions:
            if "add" in action:
                (folder / action["add"]["path"]).unlink()
        raise PublishError(
            f"version {version} of the Delta table {folder} was made meanwhile",
            hint="Another process may have published it at the same time. Run the publish again.",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    sync(entries)
    if version and version % _CHECKPOINT == 0:
        _sum_up(folder, version)


def _sum_up(folder: Path, version: int) -> None:
    """The commit is made, whatever comes of this; readers then have more entries to read."""
    try:
        table = DeltaTable(str(folder), version=version)
        table.create_checkpoint()
        sync(folder / "_delta_log" / f"{version:020d}.checkpoint.parquet")
        table.cleanup_metadata()
    except DeltaError as error:
        log.warning("no checkpoint for version %d of the Delta table %s: %s", version, folder, error)


def _statistics(footer: pq.FileMetaData, schema: Schema) -> dict[str, Any]:
    """What readers skip the file by: of numbers, days and times, and of short texts."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    places = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    for column in schema.columns[:_INDEXED]:
        if column.name not in places or pa.types.is_nested(column.arrow):
            continue
        parts = [
            footer.row_group(group).column(places[column.name]).statistics for group in range(footer.num_row_groups)
        ]
        if not parts or any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[column.name] = sum(part.null_count for part in parts)
        ends = _ends([part for part in parts if part.num_values])
        if ends is not None:
            low[column.name], high[column.name] = ends
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls, "tightBounds": True}


def _ends(parts: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """The least and the greatest value as Delta writes them; None where that is not certain."""
    if not parts or not all(part.has_min_max for part in parts):
        return None
    try:
        low, high = min(part.min for part in parts), _up_to(max(part.max for part in parts))
    except (ValueError, OverflowError, TypeError):  # a time that Python has none for
        return None
    return None if (a := _shown(low)) is None or (b := _shown(high)) is None else (a, b)


def _up_to(value: Any) -> Any:
    """Times are written in milliseconds: the greatest of them is rounded up, or readers would skip what lies between.

    >>> _shown(_up_to(datetime(2026, 1, 31, 1, 2, 3, 456789)))
    '2026-01-31T01:02:03.457'
    """
    return value + timedelta(milliseconds=1) if isinstance(value, datetime) and value.microsecond % 1000 else value


def _shown(value: Any) -> Any:
    """
    >>> _shown(5), _shown(date(2026, 1, 31)), _shown(datetime(2026, 1, 31, 1, 2, 3, 456789)), _shown(1.5)
    (5, '2026-01-31', '2026-01-31T01:02:03.456', None)
    """
    match value:
        case bool():
            return None
        case int():
            return value
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return text if value.tzinfo is None else f"{text}Z"
        case date():
            return value.isoformat()
        case str() if len(value) <= _SHOWN_TEXT:
            return value
        case _:
            return None


def _now() -> int:
    return time.time_ns() // 1_000_000
