"""TPC-H in a PostgreSQL with its keys, and a home that follows it: each query kept by differences, and by AUTO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import penstock
from penstock.bench.tpch.queries import QUERIES
from penstock.bench.tpch.tables import FOREIGN_KEYS, TABLES, generate
from penstock.bench.views.changes import Connection
from penstock.catalog import relations
from penstock.lake.reader import SMALL
from penstock.refresh.compute import size


def load(source: Connection, folder: Path, scale: float) -> None:
    """All rows, then the foreign keys, as a database in use would have them."""
    for table, file in zip(TABLES, generate(folder, scale).values(), strict=True):
        source.execute(table.ddl)
        with (
            source.cursor().copy(f"COPY {table.name} FROM STDIN (FORMAT csv, HEADER)") as copy,
            file.open("rb") as rows,
        ):
            while chunk := rows.read(1 << 20):
                copy.write(chunk)
        source.execute(f"ANALYZE {table.name}")
        file.unlink()
    for child, columns, parent in FOREIGN_KEYS:
        source.execute(f"ALTER TABLE {child} ADD FOREIGN KEY ({columns}) REFERENCES {parent}")


def follow(ps: penstock.Session, dsn: str, queries: Sequence[str] = tuple(QUERIES)) -> None:
    """Tables copied and published, views computed; what is large of them published too, as a run would by now."""
    ps.add_source("tpch", dsn, tables=["public.*"])
    for table in TABLES:
        ps.publish(table.name)
    for name in queries:
        for made, mode in ((name, "DIFFERENTIAL"), (auto(name), "AUTO")):
            ps.create_stream_table(made, QUERIES[name], mode=mode)
            ps.refresh(made)
            if _most_rows(ps, made) > SMALL:
                ps.publish(made)


def _most_rows(ps: penstock.Session, name: str) -> int:
    """Of the view, or of something that it remembers."""
    view = relations.find(ps.catalog, name)
    return max(size(ps.engine.reader, one) for one in (view, *relations.states_of(ps.catalog, view)))


def auto(query: str) -> str:
    return f"{query}_auto"
