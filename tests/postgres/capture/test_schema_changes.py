"""With on_schema_change = stop, a table whose shape changed stops the source, behind all that had the old shape."""

from __future__ import annotations

import pytest

from penstock.errors import NotFound, SchemaChanged, SourceError

CHANGES = [
    ("ALTER TABLE t ADD c int DEFAULT 7", "c was added"),
    ("ALTER TABLE t DROP b", "b was dropped"),
    ("ALTER TABLE t RENAME b TO bb", "b was renamed or replaced by bb"),
    ("ALTER TABLE t ALTER b TYPE bigint", "type of b changed"),
    ("ALTER TABLE t ALTER n TYPE numeric(12,2)", "type of n changed"),
    ("ALTER TABLE t REPLICA IDENTITY FULL", "replica identity is 'f', was 'd'"),
    ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b)", r"key is \(b\), was \(id\)"),
    ("ALTER TABLE t ALTER b DROP NOT NULL", "column b may now be NULL"),
    ("ALTER TABLE t RENAME TO t2", r"now called public\.t2"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_change_of_shape_in_the_stream(db, make_source, drain, change, said):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, n numeric(10,2))")
    source = make_source("t", snapshot_mode="never", on_schema_change="stop")
    source.open()
    db.execute("INSERT INTO t VALUES (1, 1, 1)")
    db.execute("INSERT INTO t VALUES (2, 2, 2)")
    db.execute(change)
    name = "t2" if "t2" in change else "t"
    value = "" if "DROP b" in change else ", NULL" if "DROP NOT NULL" in change else ", 3"
    db.execute(f"INSERT INTO {name} SELECT 3{value}")
    ids, said_error = [], None
    while said_error is None:
        try:
            batch = source.poll(timeout=30)
            ids += batch.to_arrow()["public.t"]["id"].to_pylist()
        except SchemaChanged as error:
            said_error = error
    assert ids == [1, 2]
    with pytest.raises(SchemaChanged, match=said):
        raise said_error
    assert "public.t" in said_error.message
    assert said_error.hint
    assert "resync" in said_error.hint


@pytest.mark.parametrize(("change", "said"), CHANGES[:8])
def test_a_change_of_shape_between_runs(db, make_source, drain, change, said):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, n numeric(10,2))")
    source = make_source("t")
    source.open()
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    db.execute(change)
    again = make_source("t", schemas=schemas, on_schema_change="stop")
    again.restore(state)
    with pytest.raises(SchemaChanged, match=said):
        again.open()


def test_a_table_that_was_made_again_is_not_continued(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t")
    source.open()
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    db.execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY)")
    again = make_source("t", schemas=schemas, on_schema_change="stop")
    again.restore(state)
    with pytest.raises(SourceError, match=r"does not have public\.t") as refused:
        again.open()
    assert "copied again" in refused.value.hint


def test_a_captured_table_must_still_be_asked_for(db, make_source, drain):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    source = make_source("a", "b")
    source.open()
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    again = make_source("a", schemas=schemas, on_schema_change="stop")
    again.restore(state)
    with pytest.raises(NotFound, match=r"public\.b"):
        again.open()


@pytest.mark.since(11, "TRUNCATE is replicated")
def test_a_null_where_none_was_allowed_stops_at_its_transaction(db, make_source, drain):
    """What is absent or gone is not NULL: keys of old rows, unchanged TOAST, TRUNCATE."""
    big = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)"
    db.execute("CREATE TABLE t (id int PRIMARY KEY, big text NOT NULL, x int NOT NULL, y int)")
    source = make_source("t", snapshot_mode="never", on_schema_change="stop")
    source.open()
    db.execute(f"INSERT INTO t VALUES (1, {big}, 1, 1), (2, {big}, 2, NULL), (3, 'c', 3, 3)")
    db.execute("UPDATE t SET x = 9, y = NULL WHERE id = 1")
    db.execute("UPDATE t SET id = 4 WHERE id = 2")
    db.execute("DELETE FROM t WHERE id = 3")
    db.execute("TRUNCATE t; ALTER TABLE t ALTER x DROP NOT NULL; INSERT INTO t VALUES (5, 'e', 5, 5)")
    received = drain(source)
    with db.transaction():
        db.execute("INSERT INTO t VALUES (6, 'f', 6, 6)")
        db.execute("UPDATE t SET x = NULL WHERE id = 5")
    with pytest.raises(
        SchemaChanged, match=r"public\.t is not as it was captured: column x may now be NULL"
    ) as stopped:
        drain(source, received)
    assert "resync" in stopped.value.hint
    assert list(received.state("public.t", "id")) == [(5,)]


def test_a_null_in_an_old_image_counts_too(db, make_source, drain):
    db.execute("CREATE TABLE t (id int, x int NOT NULL); ALTER TABLE t REPLICA IDENTITY FULL")
    source = make_source("t", snapshot_mode="never", on_schema_change="stop")
    source.open()
    db.execute("ALTER TABLE t ALTER x DROP NOT NULL; INSERT INTO t VALUES (1, NULL)")
    with pytest.raises(SchemaChanged, match="column x may now be NULL"):
        drain(source)


def test_nulls_from_before_set_not_null_are_read(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x int)")
    source = make_source("t")
    source.open()
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    db.execute("INSERT INTO t VALUES (1, NULL)")
    db.execute("UPDATE t SET x = 1")
    db.execute("ALTER TABLE t ALTER x SET NOT NULL")
    again = make_source("t", schemas=schemas, on_schema_change="stop")
    again.restore(state)
    again.open()
    assert drain(again).state("public.t", "id") == {(1,): {"id": 1, "x": 1}}
    assert again.tables["public.t"].column("x").nullable


def test_harmless_changes_go_on(db, make_source, drain):
    db.execute("CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY, b int)")
    source = make_source("t", "p")
    source.open()
    drain(source)
    schemas = source.tables
    db.execute(
        "ALTER TABLE t ALTER b SET NOT NULL; ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES p; CREATE INDEX ON t (b)"
    )
    db.execute("INSERT INTO p VALUES (1); INSERT INTO t VALUES (1, 1)")
    assert [row["id"] for row in drain(source).rows("public.t")] == [1]
    state = source.checkpoint()
    source.close()
    again = make_source("t", "p", schemas=schemas, on_schema_change="stop")
    again.restore(state)
    again.open()
    assert again.tables["public.t"].foreign_keys[0].parent == "public.p"
