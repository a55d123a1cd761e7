"""A Delta table that follows its relation's shape: columns are added, renamed and dropped in the table's log alone.

Files stay as they are; the table then maps columns by identity, which readers of Delta have to support. Where that is
not enough (older rows have a default, a form changed, a name went to another column), or where the table was made for
readers that support less, the table is written anew instead. Each step is a commit of its own and may be repeated, so
after a crash the next publish goes on with what is left; until then the catalog names the version before the steps.
"""

from __future__ import annotations

from collections.abc import Collection

from deltalake import DeltaTable

from penstock.catalog.relations import Base, Relation
from penstock.failpoint import hit
from penstock.lake.delta_log import Stamp
from penstock.lake.reader import Reader
from penstock.lake.session import adopt, quoted
from penstock.relation.translation import Translation
from penstock.zset import CHANGE_COLUMNS

_WITHOUT_ZONE = "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"
_MAPPING = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def follow(reader: Reader, relation: Relation, base: Base, stamp: Stamp) -> bool:
    """Bring the table's columns to the relation's shape; False if it has to be written anew for that."""
    folder = reader.home.base(relation.folder)
    table = DeltaTable(str(folder))
    settings = table.metadata().configuration
    way = reader.from_version(relation, base.version)
    session = adopt(reader.spark())
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", stamp.to_json())
    if _needs_times_without_zone(relation, table):
        session.sql(f"ALTER TABLE delta.{quoted(str(folder))} {_WITHOUT_ZONE}")
    steps = alterations(way, {field.name for field in table.schema().fields})
    if steps is None:
        return False
    if any(not step.startswith("ADD") for step in steps) and settings.get("delta.columnMapping.mode") != "name":
        if settings.get("delta.enableDeletionVectors") != "true":
            return False
        steps = [_MAPPING, *steps]
    for step in steps:
        session.sql(f"ALTER TABLE delta.{quoted(str(folder))} {step}")
        hit("publish.altered")
    # What an earlier publish began may have been on the way to another shape than this one.
    return [field.name for field in DeltaTable(str(folder)).schema().fields] == list(relation.schema.names)


def _needs_times_without_zone(relation: Relation, table: DeltaTable) -> bool:
    """A table that is made with such a column has the feature; one that gets its first is refused without it."""
    wanted = any("timestamp_ntz" in column.spark for column in relation.schema.columns)
    return wanted and "timestampNtz" not in (table.protocol().writer_features or ())


def alterations(way: Translation, present: Collection[str]) -> list[str] | None:
    """What is to be done to a table with the columns `present`, which may be half-way; None if that is not enough.

    Each step can be told from the names whether it was done, because no name goes from one column to another.
    """
    kept = {one.source.name: name for name, one in way.origins.items() if one.source is not None}
    added = [one.column for one in way.origins.values() if one.source is None]
    dropped = [name for name in way.old.names if name not in kept]
    renamed = {old: new for old, new in kept.items() if old != new}
    if {*renamed.values(), *(column.name for column in added)} & set(way.old.names):
        return None
    if any(column.missing is not None or column.name in CHANGE_COLUMNS for column in added):
        return None  # files that were segments have columns of the latter names already
    if any(one.source is not None and one.source.spark != one.column.spark for one in way.origins.values()):
        return None
    if [column for column in way.new.columns if column in added] != list(way.new.columns[len(kept) :]):
        return None  # a column came back into the middle: the order of a Delta table's columns shows too
    steps = [f"DROP COLUMN {quoted(name)}" for name in dropped if name in present]
    steps += [f"RENAME COLUMN {quoted(old)} TO {quoted(new)}" for old, new in renamed.items() if old in present]
    new = [f"{quoted(column.name)} {column.spark}" for column in added if column.name not in present]
    return steps + ([f"ADD COLUMNS ({', '.join(new)})"] if new else [])
