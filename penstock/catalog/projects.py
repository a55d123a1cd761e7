"""Which stream tables came from files: by name, so that it outlives a rebuild."""

from __future__ import annotations

from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import StreamTable


def owners(catalog: Catalog) -> dict[str, str]:
    """The project of each stream table that came from one."""
    return {
        row["stream_table"]: row["project"] for row in catalog.all("SELECT stream_table, project FROM project_files")
    }


def own(catalog: Catalog, name: str, project: str, path: str) -> None:
    catalog.connection.execute(
        "INSERT INTO project_files (stream_table, project, path) VALUES (%s, %s, %s) "
        "ON CONFLICT (stream_table) DO UPDATE SET project = excluded.project, path = excluded.path, applied_at = now() "
        "WHERE (project_files.project, project_files.path) IS DISTINCT FROM (excluded.project, excluded.path)",
        (name, project, path),
    )


def forget(catalog: Catalog, name: str) -> None:
    catalog.connection.execute("DELETE FROM project_files WHERE stream_table = %s", (name,))


def last_full(catalog: Catalog, table: StreamTable) -> float | None:
    """How long computing all of a stream table took the last time."""
    row = catalog.one(
        "SELECT seconds FROM refresh_history WHERE relation_id = %s AND action IN ('FULL', 'REINITIALIZE') "
        "AND error IS NULL ORDER BY id DESC LIMIT 1",
        table.relation_id,
    )
    return None if row is None else float(row["seconds"])
