"""REPLICA IDENTITY is changed while the table is captured: what the WAL carries changes, what is settled does not."""

from __future__ import annotations

from typing import Any

import psycopg
from servers import NO_TRUNCATE

import penstock

IDENTITIES = ("FULL", "DEFAULT", "USING INDEX other", "FULL", "USING INDEX other", "DEFAULT")


def test_old_images_are_right_through_every_identity(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, code int NOT NULL, v int, big text)")
        db.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL; CREATE UNIQUE INDEX other ON t (code)")
        db.execute("INSERT INTO t SELECT i, -i, 0, repeat('x', 3000 + i) FROM generate_series(1, 20) i")
        ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)

        def change(step: int) -> None:
            db.execute("UPDATE t SET v = v + 1 WHERE id %% 3 = %s", (step % 3,))
            db.execute("UPDATE t SET id = id + 100, code = code - 100 WHERE id = %s", (step + 1,))
            db.execute("DELETE FROM t WHERE id = %s", (step + 10,))
            db.execute("INSERT INTO t VALUES (%s, %s, 9, NULL)", (1000 + step, 1000 + step))

        for step, identity in enumerate(IDENTITIES):
            alter: Any = f"ALTER TABLE t REPLICA IDENTITY {identity}"
            if step % 2:  # in the middle of a transaction, and between two that are captured together
                with db.transaction():
                    change(2 * step)
                    db.execute(alter)
                    change(2 * step + 1)
            else:
                change(2 * step)
                db.execute(alter)
                change(2 * step + 1)
            outcome = ps.verify()
            assert outcome.ok, f"after {identity}: {outcome}"
