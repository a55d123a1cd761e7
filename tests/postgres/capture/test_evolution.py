"""A changed table goes on in its new shape where nothing is lost, and is refused where older rows would be unknown."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from servers import server_version

from penstock.errors import SchemaChanged

kept_defaults = pytest.mark.since(11, "columns added with a default without a rewrite")
TABLE = "CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, v varchar(10))"
FOLLOWED = [
    ("ALTER TABLE t ADD c int", "column_added", ["id", "b", "v", "c"], None),
    pytest.param("ALTER TABLE t ADD c int DEFAULT 7", "column_added", ["id", "b", "v", "c"], "7", marks=kept_defaults),
    pytest.param(
        "ALTER TABLE t ADD c text DEFAULT 'a,\"b'", "column_added", ["id", "b", "v", "c"], 'a,"b', marks=kept_defaults
    ),
    ("ALTER TABLE t DROP v", "column_dropped", ["id", "b"], None),
    ("ALTER TABLE t RENAME v TO w", "column_renamed", ["id", "b", "w"], None),
    ("ALTER TABLE t RENAME b TO bb", "column_renamed", ["id", "bb", "v"], None),
    ("ALTER TABLE t RENAME id TO key", "column_renamed", ["key", "b", "v"], None),
    ("ALTER TABLE t ALTER v TYPE varchar(20)", "type_changed", ["id", "b", "v"], None),
    ("ALTER TABLE t ALTER v TYPE text", "type_changed", ["id", "b", "v"], None),
    ("ALTER TABLE t REPLICA IDENTITY FULL", "identity_changed", ["id", "b", "v"], None),
    ("ALTER TABLE t ALTER b DROP NOT NULL", "column_loosened", ["id", "b", "v"], None),
]
REFUSED = [
    ("ALTER TABLE t ADD c text DEFAULT md5(random()::text)", "c was added, unknown with what"),
    ("ALTER TABLE t ALTER b TYPE bigint", "type of b changed"),
    ("ALTER TABLE t ALTER b TYPE bigint USING b * 2", "type of b changed"),
    ("ALTER TABLE t DROP v; ALTER TABLE t ADD v varchar(10)", "column v was dropped and made again"),
    ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b)", r"key is \(b\), was \(id\)"),
    ("ALTER TABLE t DROP v; ALTER TABLE t ADD d int DEFAULT 3; VACUUM FULL t", "d was added, unknown"),
]
if server_version() < 11:  # a default is written into every row
    REFUSED.append(("ALTER TABLE t ADD c int DEFAULT 7", "c was added, unknown with what"))


def run(db: Any, script: str) -> None:
    for statement in script.split("; "):
        db.execute(statement)


def opened(make_source: Any, **options: Any) -> Any:
    source = make_source("t", **options)
    source.open()
    return source


@pytest.mark.parametrize(("ddl", "kind", "names", "default"), FOLLOWED)
def test_a_lossless_change_is_followed(
    db: Any, make_source: Any, drain: Any, ddl: str, kind: str, names: list[str], default: str | None
) -> None:
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    source = opened(make_source)
    received = drain(source)
    db.execute("INSERT INTO t VALUES (2, 2, 'two')")
    db.execute(ddl)
    db.execute("INSERT INTO t SELECT 3, 3")
    key = names[0]
    db.execute(f"UPDATE t SET {names[1]} = 9 WHERE {key} = 2")
    before = len(received.batches)
    drain(source, received)
    shapes = [batch.shapes["public.t"] for batch in received.batches[before:]]
    assert shapes[0].version == 1
    assert list(shapes[0].schema.names) == ["id", "b", "v"]
    assert shapes[-1].version == 2
    assert list(shapes[-1].schema.names) == names
    (change,) = shapes[-1].changes
    assert (change.kind, change.lossless, change.rewrite, change.default) == (kind, True, False, default)
    later = [batch for batch in received.batches[before:] if batch.shapes["public.t"].version == 2]
    last = pa.concat_tables(batch.to_arrow()["public.t"] for batch in later)
    assert last.schema == shapes[-1].schema.arrow_raw()
    new = [row for row in last.to_pylist() if row["_weight"] > 0]
    assert [(row[key], row[names[1]]) for row in new][-2:] == [(3, 3), (2, 9)]
    (version,) = source.schema_versions
    assert (version.table, version.version, version.changes) == ("public.t", 2, (change,))
    assert version.lsn == min(last["_lsn"].to_pylist())
    assert source.metrics().schema_changes == 1
    assert list(source.tables["public.t"].names) == names


@pytest.mark.parametrize(("ddl", "said"), REFUSED)
def test_a_change_that_leaves_older_rows_unknown_stops(
    db: Any, make_source: Any, drain: Any, ddl: str, said: str
) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    received = drain(source)
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    run(db, ddl)
    db.execute("INSERT INTO t SELECT 3, 3")
    with pytest.raises(SchemaChanged, match=said) as refused:
        drain(source, received)
    assert "resync" in (refused.value.hint or "")
    assert [row["id"] for row in received.rows("public.t")] == [1]


def test_a_renamed_table_goes_on_under_its_new_name(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    received = drain(source)
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute("ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (2, 2, 'two')")
    drain(source, received)
    assert [row["id"] for row in received.rows("public.t")] == [1]
    assert [row["id"] for row in received.rows("public.t2")] == [2]
    assert list(source.tables) == ["public.t2"]
    assert [change.kind for change in source.schema_versions[0].changes] == ["table_renamed"]


def test_a_table_made_again_is_refused(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    source = opened(make_source, publication_name="everything")
    drain(source)
    db.execute(f"DROP TABLE t; {TABLE}; INSERT INTO t VALUES (1, 1, 'one')")
    with pytest.raises(SchemaChanged, match="dropped and made again"):
        drain(source)


@kept_defaults
def test_shapes_change_inside_a_transaction_too(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    received = drain(source)
    received.batches.clear()
    with db.transaction():
        db.execute("INSERT INTO t VALUES (1, 1, 'one')")
        db.execute("ALTER TABLE t ADD c int; INSERT INTO t VALUES (2, 2, 'two', 2)")
        db.execute("ALTER TABLE t ADD d int DEFAULT 5; INSERT INTO t VALUES (3, 3, 'three', 3, 3)")
    drain(source, received)
    assert [batch.complete for batch in received.batches] == [False, False, True]
    assert [(row["id"], row.get("c"), row.get("d")) for row in received.rows("public.t")] == [
        (1, None, None),
        (2, 2, None),
        (3, 3, 3),
    ]
    assert [version.changes[0].default for version in source.schema_versions] == [None, "5"]


def test_changes_one_at_a_time_are_followed(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    received = drain(source)
    for place, ddl in enumerate(["ADD c int", "RENAME b TO bb", "DROP v", "ADD d text", "DROP c"]):
        db.execute(f"ALTER TABLE t {ddl}")
        db.execute("INSERT INTO t SELECT %s, 0", [place])
        drain(source, received)
    assert [version.version for version in source.schema_versions] == [2, 3, 4, 5, 6]
    assert list(source.tables["public.t"].names) == ["id", "bb", "d"]
    assert [row["id"] for row in received.rows("public.t")] == [0, 1, 2, 3, 4]


def test_rows_from_before_the_change_keep_their_shape_over_a_restart(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute("ALTER TABLE t RENAME v TO w")
    db.execute("INSERT INTO t VALUES (2, 2, 'two')")
    again = make_source("t", schemas=schemas)
    again.restore(state)
    again.open()
    received = drain(again)
    assert [list(batch.to_arrow()["public.t"].to_pylist()[0])[:3] for batch in received.batches] == [
        ["id", "b", "v"],
        ["id", "b", "w"],
    ]
    assert [change.kind for change in again.schema_versions[0].changes] == ["column_renamed"]


def test_without_known_shapes_the_first_announcement_tells(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    drain(source)
    state = source.checkpoint()
    source.close()
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute("ALTER TABLE t DROP v")
    again = make_source("t")
    again.restore(state)
    again.open()
    (row,) = drain(again).rows("public.t")
    assert row["v"] == "one"


@kept_defaults
def test_a_vacuumed_table_is_the_same_table(db: Any, make_source: Any, drain: Any) -> None:
    db.execute(TABLE)
    source = opened(make_source)
    received = drain(source)
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute("VACUUM FULL t")
    db.execute("INSERT INTO t VALUES (2, 2, 'two')")
    drain(source, received)
    db.execute("ALTER TABLE t ADD c int DEFAULT 1")
    db.execute("INSERT INTO t VALUES (3, 3, 'three')")
    drain(source, received)
    assert [row["id"] for row in received.rows("public.t")] == [1, 2, 3]
    assert source.schema_versions[0].changes[0].default == "1"
