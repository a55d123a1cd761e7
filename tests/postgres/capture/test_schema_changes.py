"""A table whose shape changed stops the source by name, behind everything that still had the old shape."""

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
    ("ALTER TABLE t RENAME TO t2", r"now called public\.t2"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_change_of_shape_in_the_stream(db, make_source, drain, change, said):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, n numeric(10,2))")
    source = make_source("t", snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO t VALUES (1, 1, 1)")
    db.execute("INSERT INTO t VALUES (2, 2, 2)")
    db.execute(change)
    name = "t2" if "t2" in change else "t"
    db.execute(f"INSERT INTO {name} SELECT 3" + (", 3" if "DROP b" not in change else ""))
    ids, said_error = [], None
    while said_error is None:
        try:
            batch = source.poll(timeout=2)
            ids += batch.to_arrow()["public.t"]["id"].to_pylist()
        except SchemaChanged as error:
            said_error = error
    assert ids == [1, 2]
    with pytest.raises(SchemaChanged, match=said):
        raise said_error
    assert "public.t" in said_error.message
    assert said_error.hint
    assert "resync" in said_error.hint


@pytest.mark.parametrize(("change", "said"), CHANGES[:7])
def test_a_change_of_shape_between_runs(db, make_source, drain, change, said):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, n numeric(10,2))")
    source = make_source("t")
    source.open()
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    db.execute(change)
    again = make_source("t", schemas=schemas)
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
    again = make_source("t", schemas=schemas)
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
    again = make_source("a", schemas=schemas)
    again.restore(state)
    with pytest.raises(NotFound, match=r"public\.b"):
        again.open()


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
    again = make_source("t", "p", schemas=schemas)
    again.restore(state)
    again.open()
    assert again.tables["public.t"].foreign_keys[0].parent == "public.p"
