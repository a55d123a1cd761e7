"""Segments that are rows of a Delta table as they lie: linked into its folder and added by one commit, without Spark.

A segment of inserts alone has the rows that the table gets, in Parquet that every reader of Delta reads by column name;
what a change knows beside the row stays unseen. So nothing is read or written but names, footers and the log. The same
bytes then have two names; both sides only ever unlink theirs.

Order of steps: links and their folder, fsynced; then the commit under the number after the base's, which only one
writer can get. Links without a commit are files no version knows, which VACUUM takes.
"""

from __future__ import annotations

import errno
import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from penstock.errors import PublishError
from penstock.lake.delta_log import Stamp
from penstock.relation.schema import Schema
from penstock.relation.segment import sync

# What a commit of files has to respect nothing of.
_FEATURES = frozenset({"appendOnly", "invariants", "deletionVectors", "timestampNtz"})
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")  # Delta refuses them unless columns are mapped
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EACCES)
_CHECKPOINT = 10  # every tenth commit is left to Spark, which then sums up the log and trims it
_INDEXED = 32  # columns with statistics, as Delta has by default
_SHOWN_TEXT = 32


class CannotLink(Exception):
    """The file system has no hard links there."""


def fits(schema: Schema, files: Sequence[Path]) -> bool:
    """Whether the files hold the table's columns in its types, under names that Delta takes."""
    if any(_NOT_IN_NAMES & set(name) for name in schema.names) or len({n.lower() for n in schema.names}) < len(
        schema.names
    ):
        return False
    wanted = schema.arrow()
    for file in files:
        inside = pq.read_metadata(file).schema.to_arrow_schema()
        if any(
            inside.get_field_index(field.name) < 0 or inside.field(field.name).type != field.type for field in wanted
        ):
            return False
    return True


def takes_files(folder: Path, version: int, schema: Schema, files: Sequence[Path]) -> bool:
    """Whether the next commit to a table may be one of files: plain columns, nothing to keep up, no checkpoint due, and
    no compression that readers of a table without deletion vectors (`compat`) may not know."""
    table = DeltaTable(str(folder), version=version)
    for_all = table.metadata().configuration.get("delta.enableDeletionVectors") != "true"
    features = {*(table.protocol().reader_features or ()), *(table.protocol().writer_features or ())}
    return (
        (version + 1) % _CHECKPOINT != 0
        and features <= _FEATURES
        and table.metadata().configuration.get("delta.columnMapping.mode", "none") == "none"
        and table.schema().to_json() == _delta_schema(schema)
        and not (for_all and any(map(_is_lz4, files)))
    )


def _is_lz4(file: Path) -> bool:
    """A segment has one compression for all its columns."""
    footer = pq.read_metadata(file)
    return bool(footer.num_row_groups and footer.row_group(0).column(0).compression.startswith("LZ4"))


def create(folder: Path, schema: Schema, files: Sequence[Path], stamp: Stamp, made_with: Mapping[str, str]) -> None:
    """Version 0 of a table with the rows of `files`."""
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
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
        "schemaString": _delta_schema(schema),
        "partitionColumns": [],
        "configuration": dict(made_with),
        "createdTime": _now(),
    }
    _commit(folder, 0, [{"protocol": protocol}, {"metaData": table}, *_linked(folder, schema, files)], stamp)


def append(folder: Path, version: int, schema: Schema, files: Sequence[Path], stamp: Stamp) -> None:
    """The rows of `files` more, in the version after `version`."""
    _commit(folder, version + 1, _linked(folder, schema, files), stamp)


def _delta_schema(schema: Schema) -> str:
    return DeltaSchema.from_arrow(schema.arrow()).to_json()


def _linked(folder: Path, schema: Schema, files: Sequence[Path]) -> list[dict[str, Any]]:
    added: list[dict[str, Any]] = []
    unique = uuid.uuid4()
    for number, file in enumerate(files):
        name = f"part-{number:05d}-{unique}.parquet"
        try:
            os.link(file, folder / name)
        except OSError as error:
            for one in added:
                (folder / one["add"]["path"]).unlink()
            if error.errno in _CANNOT_LINK:
                raise CannotLink from error
            raise
        footer = pq.read_metadata(file)
        stats = json.dumps(_statistics(footer, schema))
        about = {"partitionValues": {}, "modificationTime": _now(), "dataChange": True}
        added.append({"add": {"path": name, "size": file.stat().st_size, **about, "stats": stats}})
    sync(folder)
    return added


def _commit(folder: Path, version: int, actions: Sequence[Mapping[str, Any]], stamp: Stamp) -> None:
    """Under its number all at once, or not at all where another has it."""
    info = {
        "timestamp": _now(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "isBlindAppend": True,
        "engineInfo": "penstock",
        "userMetadata": stamp.to_json(),
    }
    once = {"txn": {"appId": f"penstock:{stamp.owner}", "version": stamp.position, "lastUpdated": _now()}}
    log = folder / "_delta_log"
    draft = log / f".{uuid.uuid4()}.tmp"
    try:
        draft.write_text("".join(json.dumps(action) + "\n" for action in ({"commitInfo": info}, once, *actions)))
        sync(draft)
        os.link(draft, log / f"{version:020d}.json")
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
    sync(log)


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
