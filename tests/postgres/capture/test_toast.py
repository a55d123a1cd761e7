"""Large values that an update left alone: every way of handling them, in every replica identity."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.capture.toast import SENTINEL
from penstock.errors import UnsafeTable

IDENTITIES = ["DEFAULT", "USING INDEX t_other", "FULL"]
BIG = "(SELECT string_agg(md5((%s * 1000 + n)::text), '') FROM generate_series(1, 400) n)"  # 12,800 bytes


@pytest.fixture(params=IDENTITIES)
def identity(request: pytest.FixtureRequest, db: Any) -> str:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, other int NOT NULL, x int, big text, bin bytea); "
        "CREATE UNIQUE INDEX t_other ON t (other); "
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL; ALTER TABLE t ALTER bin SET STORAGE EXTERNAL"
    )
    db.execute(f"ALTER TABLE t REPLICA IDENTITY {request.param}")
    for place in (1, 2, 3):
        fill(db, place)
    return str(request.param)


def fill(db: Any, place: int) -> None:
    big = BIG % place
    db.execute(f"INSERT INTO t VALUES ({place}, {place}, 0, {big}, convert_to({big}, 'UTF8'))")


def changed(db: Any, make_source: Any, drain: Any, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The new images after the copy; the table has the same values as they should have."""
    source = make_source("t", **options)
    source.open()
    received = drain(source)
    received.batches.clear()
    db.execute("UPDATE t SET x = 1 WHERE id = 1")
    db.execute("UPDATE t SET id = 12, other = 12 WHERE id = 2")
    fill(db, 4)
    db.execute("UPDATE t SET x = 2 WHERE id IN (4, 12)")
    drain(source, received)
    return source, [row for row in received.rows("public.t") if row["_weight"] > 0]


def own(db: Any, row: dict[str, Any]) -> tuple[str, bytes]:
    found = db.execute("SELECT big, bin FROM t WHERE id = %s", [row["id"]]).fetchone()
    return found[0], bytes(found[1])


def test_settling_is_told_what_is_absent(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    _, rows = changed(db, make_source, drain)
    for row in rows:
        if identity == "FULL" or row["_op"] == "I":
            assert (row["big"], row["bin"]) == own(db, row)
            assert row["_absent"] is None
        else:
            assert (row["big"], row["bin"], row["_absent"]) == (None, None, "3,4")


def test_fetch_reads_the_values_again(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    source, rows = changed(db, make_source, drain, toast_handling="fetch")
    assert len(rows) == 5
    for row in rows:
        assert (row["big"], row["bin"]) == own(db, row)
        assert row["_absent"] is None
    assert source.metrics().toast_values_filled == (0 if identity == "FULL" else 8)


def test_a_row_that_is_gone_stays_marked(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    source = make_source("t", snapshot_mode="never", toast_handling="fetch")
    source.open()
    db.execute("UPDATE t SET x = 1 WHERE id = 1")
    db.execute("DELETE FROM t WHERE id = 1")
    rows = [row for row in drain(source).rows("public.t") if row["_weight"] > 0]
    if identity != "FULL":
        assert [(row["big"], row["_absent"]) for row in rows] == [(None, "3,4")]
        assert source.metrics().toast_values_missed == 2


def test_the_cache_knows_what_was_copied_or_seen(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    source, rows = changed(db, make_source, drain, toast_handling="cache-unchanged")
    assert len(rows) == 5
    for row in rows:
        assert (row["big"], row["bin"], row["_absent"]) == (*own(db, row), None)
    if identity != "FULL":
        assert source.metrics().toast_values_filled == 8


def test_the_cache_misses_rather_than_guess(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    if identity == "FULL":
        return
    source = make_source("t", snapshot_mode="never", toast_handling="cache-unchanged", toast_cache_bytes=30_000)
    source.open()
    db.execute("UPDATE t SET x = 1 WHERE id = 1")  # written before this run
    fill(db, 5)
    fill(db, 6)  # 5 has to go
    db.execute("UPDATE t SET x = 1 WHERE id = 5")
    db.execute("UPDATE t SET x = 1 WHERE id = 6")
    db.execute("UPDATE t SET big = 'short', bin = NULL WHERE id = 6")
    db.execute("UPDATE t SET x = 2 WHERE id = 6")
    db.execute("DELETE FROM t WHERE id = 6")
    fill(db, 6)
    db.execute("TRUNCATE t")
    rows = [row for row in drain(source).rows("public.t") if row["_weight"] > 0 and row["_op"] == "U"]
    assert [(row["id"], row["_absent"]) for row in rows] == [(1, "3,4"), (5, "3,4"), (6, None), (6, None), (6, None)]
    assert [row["big"] for row in rows[3:]] == ["short", "short"]
    assert len(rows[2]["big"]) == 12_800


def test_a_sentinel_stands_in_text_columns(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    _, rows = changed(db, make_source, drain, toast_handling="sentinel")
    for row in rows:
        if row["_absent"] is not None:
            assert (row["big"], row["bin"], row["_absent"]) == (SENTINEL, None, "3,4")
    assert sum(row["_absent"] is not None for row in rows) == (0 if identity == "FULL" else 4)


def test_require_full_refuses_other_identities(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    db.execute("CREATE TABLE small (id int PRIMARY KEY, n bigint)")
    source = make_source("t", "small", toast_handling="require-full")
    if identity == "FULL":
        source.open()
        return
    with pytest.raises(UnsafeTable, match=r"public\.t\.big") as refused:
        source.open()
    assert "ALTER TABLE public.t REPLICA IDENTITY FULL" in (refused.value.hint or "")
