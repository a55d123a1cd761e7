"""Generated columns that the server does not send: refused, or left out without a wrong value anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from servers import server_version

import penstock
from penstock.errors import NotYet, SchemaChanged, UnsafeTable

pytestmark = pytest.mark.since(12, "generated columns")
UNSENT = "STORED" if server_version() < 18 else "VIRTUAL"
stored_unsent = pytest.mark.skipif(server_version() >= 18, reason="the server sends stored ones")
TABLE = f"CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) {UNSENT}, v text)"


def test_they_are_refused_unless_they_are_left_out(db: Any, make_source: Any) -> None:
    db.execute(TABLE)
    source = make_source("t")
    with pytest.raises(NotYet, match=r"public\.t\.g, a generated column") as refused:
        source.open()
    assert "leave_out" in (refused.value.hint or "")


def test_copy_and_stream_have_the_other_columns(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    db.execute("INSERT INTO t (id, v) SELECT i, 'v' || i FROM generate_series(1, 20) i")
    source = make_source("t", generated_columns="leave_out", toast_handling="fetch")
    source.open()
    received = drain(source)
    db.execute("UPDATE t SET v = repeat('long', 2000) WHERE id < 5; UPDATE t SET id = id + 100 WHERE id IN (2, 7)")
    db.execute("DELETE FROM t WHERE id = 9; INSERT INTO t (id, v) VALUES (50, 'new')")
    drain(source, received)
    table = {(i,): {"id": i, "v": v} for i, v in db.execute("SELECT id, v FROM t")}
    assert received.state("public.t", "id") == table
    assert list(source.tables["public.t"].names) == ["id", "v"]


@pytest.mark.since(15, "column lists")
def test_a_column_list_leaves_them_out_too(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    db.execute("INSERT INTO t (id, v) VALUES (1, 'one')")
    source = make_source("t", publication_column_list={"t": ["id", "v"]})
    source.open()
    received = drain(source)
    db.execute("UPDATE t SET v = 'two'")
    drain(source, received)
    assert received.state("public.t", "id") == {(1,): {"id": 1, "v": "two"}}


def test_columns_beside_them_change_without_loss(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE.replace("text", "varchar(10)"))
    db.execute("INSERT INTO t (id, v) VALUES (1, 'one')")
    source = make_source("t", generated_columns="leave_out")
    source.open()
    received = drain(source)
    for ddl in ("ADD c int DEFAULT 7", "RENAME v TO w", "DROP g", "ALTER w TYPE text"):
        db.execute(f"ALTER TABLE t {ddl}")
        db.execute("UPDATE t SET c = c + 1")
        drain(source, received)
    kinds = [change.kind for version in source.schema_versions for change in version.changes]
    assert kinds == ["column_added", "column_renamed", "type_changed"]
    last = received.rows("public.t")[-1]
    assert (last["id"], last["c"], last["w"]) == (1, 11, "one")


@stored_unsent
@pytest.mark.since(13, "a column that is no longer generated")
@pytest.mark.parametrize("made", ["before", "while it runs"])
@pytest.mark.parametrize("reopened", [False, True])
def test_what_becomes_a_plain_column_has_values_nobody_has_seen(
    db: Any, make_source: Any, drain: Any, made: str, reopened: bool
) -> None:
    """Taken for an added column it would be NULL in older rows, where the source has values."""
    db.execute(TABLE if made == "before" else "CREATE TABLE t (id int PRIMARY KEY, v text)")
    db.execute("INSERT INTO t (id, v) VALUES (1, 'one')")
    source = make_source("t", generated_columns="leave_out")
    source.open()
    received = drain(source)
    if made != "before":
        db.execute("ALTER TABLE t ADD g int GENERATED ALWAYS AS (id * 2) STORED")
        db.execute("INSERT INTO t (id, v) VALUES (2, 'two')")
        drain(source, received)
    if reopened:
        state = source.checkpoint()
        source.acknowledge(state)
        known = dict(source.tables)
        source.close()
        source = make_source("t", schemas=known, generated_columns="leave_out")
        source.restore(state)
        source.open()
        drain(source, received)
    db.execute("ALTER TABLE t ALTER g DROP EXPRESSION")
    db.execute("UPDATE t SET v = 'changed' WHERE id = 1")
    with pytest.raises(SchemaChanged, match="column g was added, unknown with what in older rows"):
        drain(source, received)


@stored_unsent
def test_a_key_of_them_is_refused(db: Any, make_source: Any) -> None:
    db.execute("CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a % 10) STORED, PRIMARY KEY (a, g))")
    with pytest.raises(UnsafeTable, match="g in its key") as refused:
        make_source("t", generated_columns="leave_out").open()
    assert "REPLICA IDENTITY FULL" in (refused.value.hint or "")


@pytest.mark.since(18, "virtual generated columns")
def test_a_virtual_column_with_identity_full_would_break_the_application(db: Any, make_source: Any) -> None:
    db.execute(TABLE)
    db.execute("ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t (id) VALUES (1)")
    with pytest.raises(UnsafeTable, match="virtual generated column"):
        make_source("t", generated_columns="leave_out").open()
    db.execute("CREATE PUBLICATION p FOR TABLE t")
    with pytest.raises(psycopg.errors.InvalidColumnReference):  # that is what the refusal spares
        db.execute("UPDATE t SET v = 'x'")


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str) -> Iterator[penstock.Session]:
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as session:
        yield session


def test_a_home_mirrors_the_other_columns(ps: penstock.Session, db: Any, source_db: str) -> None:
    plain = 13 <= server_version() < 18
    db.execute(TABLE)
    db.execute("CREATE TABLE other (id int PRIMARY KEY)")
    db.execute("INSERT INTO t (id, v) SELECT i, 'v' || i FROM generate_series(1, 30) i")
    ps.add_source("shop", source_db, tables=["public.*"], generated_columns="leave_out")
    for step in (
        "UPDATE t SET v = 'changed' WHERE id % 3 = 0",
        f"ALTER TABLE t ADD h int GENERATED ALWAYS AS (id + 1) {UNSENT}",
        "DELETE FROM t WHERE id % 5 = 0",
        "ALTER TABLE t ADD c int; UPDATE t SET c = h WHERE id > 20",
        "ALTER TABLE t DROP h; UPDATE t SET id = id + 100 WHERE id = 1",
        *(["ALTER TABLE t ALTER g DROP EXPRESSION; UPDATE t SET g = 5, id = id + 100 WHERE id = 2"] if plain else []),
    ):
        for statement in step.split("; "):
            db.execute(statement)
        ps.catch_up()
        names, rows = held(ps)
        source = db.execute(f"SELECT {', '.join(names)} FROM t").fetchall()
        assert rows == Counter(source)
    assert set(names) == {"id", "v", "c"} | ({"g"} if plain else set())
    outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)


def held(ps: penstock.Session) -> tuple[list[str], Counter[Any]]:
    relation, position, _ = ps.engine.position("t", None)
    rows = ps.engine.reader.rows_arrow(relation, position)
    return rows.column_names, Counter(tuple(row.values()) for row in rows.to_pylist())
