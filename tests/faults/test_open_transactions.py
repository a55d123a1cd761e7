"""A reader that dies inside a transaction, prepared or streamed: it comes once if it commits, and else never."""

from __future__ import annotations

import pytest
from faults.consumer import Consumer, write

SMALL = "options='-c logical_decoding_work_mem=64kB'"


@pytest.fixture(params=["commit", "rollback"])
def ending(request):
    return request.param


@pytest.mark.since(15, "two-phase decoding")
@pytest.mark.parametrize("two_phase", [True, False])
def test_prepared_before_a_crash_and_ended_after_it(db, source_db, two_phase, ending):
    consumer = Consumer(source_db, f"prepared_{db.info.dbname}", two_phase=two_phase)
    try:
        consumer.catch_up()
        db.execute("BEGIN; INSERT INTO events VALUES (1, 1), (1, 2); DELETE FROM accounts WHERE id = 198")
        db.execute(f"PREPARE TRANSACTION 'p_{db.info.dbname}'")
        write(db, 2)
        consumer.catch_up()
        for tx in (3, 4):
            consumer.close()
            write(db, tx)
            consumer.catch_up()
        assert all(row["tx"] != 1 for row in consumer.rows("public.events"))
        consumer.close()
        db.execute(f"{ending} PREPARED 'p_{db.info.dbname}'")
        write(db, 5)
        consumer.catch_up()
        consumer.assert_exact(db)
        consumer.close()
        write(db, 6)
        consumer.catch_up()
        consumer.assert_exact(db)
    finally:
        consumer.close()
        for (name,) in db.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall():
            db.execute(f"ROLLBACK PREPARED '{name}'")


@pytest.mark.since(14, "streamed transactions")
def test_streamed_before_a_crash_and_ended_after_it(db, source_db, ending):
    consumer = Consumer(f"{source_db} {SMALL}", f"streamed_{db.info.dbname}", streaming="on", direct=source_db)
    try:
        consumer.catch_up()
        db.execute("BEGIN; INSERT INTO events SELECT 1, g FROM generate_series(1, 4000) g")
        db.execute("SAVEPOINT s; INSERT INTO events SELECT 2, g FROM generate_series(1, 4000) g; ROLLBACK TO s")
        for _ in range(20):
            consumer.step()
        consumer.close()
        db.execute("INSERT INTO events SELECT 3, g FROM generate_series(1, 4000) g")
        for _ in range(20):
            consumer.step()
        db.execute(ending)
        write(db, 4)
        consumer.catch_up()
        consumer.assert_exact(db)
    finally:
        consumer.close()
