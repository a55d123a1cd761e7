"""`block_source_ddl`: DDL that would break a stream table is refused on the source, any other is not."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import penstock


def test_ddl_on_used_columns_is_refused_and_no_other(tmp_path: Path, catalog_db: str, source_db: str) -> None:
    settings = {"block_source_ddl": True}
    with (
        psycopg.connect(source_db, autocommit=True) as db,
        penstock.connect(tmp_path / "home", catalog_db, config=settings) as ps,
    ):
        db.execute("CREATE TABLE a (id int PRIMARY KEY, x int, y int); CREATE TABLE b (id int PRIMARY KEY)")
        ps.add_source("shop", source_db, tables=["public.*"])
        ps.create_stream_table("v", "SELECT id, x FROM a WHERE x > 0")
        for statement in (
            "ALTER TABLE a DROP x",
            "ALTER TABLE a ALTER x TYPE bigint",
            "ALTER TABLE a RENAME x TO z",
            "DROP TABLE a",
        ):
            with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="used by stream table v"):
                db.execute(statement.encode())
        for statement in (
            "ALTER TABLE a ADD c int",
            "ALTER TABLE a DROP y",
            "ALTER TABLE a RENAME c TO d",
            "DROP TABLE b",
        ):
            db.execute(statement.encode())
        ps.alter_stream_table("v", query="SELECT id, 1 AS x FROM a")
        db.execute("ALTER TABLE a RENAME x TO z")
        ps.drop_stream_table("v")
        db.execute("DROP TABLE a")
