"""Segments that are rows of a Delta table as they lie: linked into its folder and added by one commit, without Spark.

A segment of inserts alone has the rows that the table gets, in Parquet that every reader of Delta reads by column name;
what a change knows beside the row stays unseen. So nothing is read or written but names, footers and the log. The same
bytes then have two names; both sides only ever unlink theirs.

Order of steps: links and their folder, fsynced; then the commit. Links without a commit are files no version knows,
which VACUUM takes.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from penstock.lake import delta_commit
from penstock.lake.delta_log import Stamp
from penstock.parquet.footer import CREATOR
from penstock.relation.schema import Schema
from penstock.relation.segment import sync

_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")  # Delta refuses them unless columns are mapped
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EACCES)


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
    """Whether the next commit to a table may be one of files; not with an encoding or a compression that readers of a
    table without deletion vectors (`compat`) may not know."""
    table = DeltaTable(str(folder), version=version)
    for_all = table.metadata().configuration.get("delta.enableDeletionVectors") != "true"
    return delta_commit.is_plain(table, schema) and not (for_all and any(map(_is_quick, files)))


def _is_quick(file: Path) -> bool:
    """Whether it is one of many rows that were encoded fast: by our own writer, or by Arrow's with LZ4 for all columns,
    as older ones and those with nested columns are."""
    footer = pq.read_metadata(file)
    by_arrow = footer.num_row_groups and footer.row_group(0).column(0).compression.startswith("LZ4")
    return bool(footer.created_by.startswith(CREATOR) or by_arrow)


def create(folder: Path, schema: Schema, files: Sequence[Path], stamp: Stamp, made_with: Mapping[str, str]) -> None:
    """Version 0 of a table with the rows of `files`."""
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    beginning = delta_commit.new_table(schema, made_with)
    delta_commit.commit(folder, 0, [*beginning, *_linked(folder, schema, files)], stamp)


def append(folder: Path, version: int, schema: Schema, files: Sequence[Path], stamp: Stamp) -> None:
    """The rows of `files` more, in the version after `version`."""
    delta_commit.commit(folder, version + 1, _linked(folder, schema, files), stamp)


def _linked(folder: Path, schema: Schema, files: Sequence[Path]) -> list[delta_commit.Action]:
    links: list[Path] = []
    unique = uuid.uuid4()
    for number, file in enumerate(files):
        link = folder / f"part-{number:05d}-{unique}.parquet"
        try:
            os.link(file, link)
        except OSError as error:
            for one in links:
                one.unlink()
            if error.errno in _CANNOT_LINK:
                raise CannotLink from error
            raise
        links.append(link)
    sync(folder)
    return [delta_commit.added(link, schema) for link in links]
