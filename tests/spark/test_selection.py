"""A table captured in part is verified in part, and so are the views over it."""

from __future__ import annotations

from typing import Any

import psycopg

import penstock


def test_verify_sees_the_same_rows_and_columns_as_capture(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE o (id int PRIMARY KEY, status text); ALTER TABLE o REPLICA IDENTITY FULL")
        db.execute("CREATE TABLE l (id int PRIMARY KEY, o int, n int, secret text)")
        db.execute(
            "INSERT INTO o SELECT g, CASE WHEN g % 2 = 0 THEN 'open' ELSE 'done' END FROM generate_series(1, 9) g"
        )
        db.execute("INSERT INTO l SELECT g, g, g, 'x' FROM generate_series(1, 9) g")
        options: dict[str, Any] = {
            "publication_row_filter": {"o": "status = 'open'"},
            "publication_column_list": {"l": ["id", "o", "n"]},
        }
        ps.add_source("shop", source_db, tables=["o", "l"], **options)
        ps.create_stream_table("v", "SELECT l.*, o.status FROM l JOIN o ON o.id = l.o")
        db.execute("UPDATE o SET status = 'open' WHERE id = 3; UPDATE o SET status = 'done' WHERE id = 4")
        db.execute("DELETE FROM o WHERE id = 6; UPDATE l SET n = 100, secret = 'y'")
        outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)
    assert {name: rows for name, rows in outcome.rows.items() if name != "shop.public.l"} == {
        "shop.public.o": 3,
        "v": 3,
    }
    ps.add_source("shop", source_db, tables=["o", "l"], **options)
