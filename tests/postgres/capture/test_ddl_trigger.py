"""With event triggers on the source, DDL that leaves no other trace in the WAL stops the source in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.capture import PostgresSource, SourceConfig, remove
from penstock.capture.ddl_trigger import _BODY, install_sql, parse_ddl
from penstock.capture.messages import LogicalMessage
from penstock.capture.stream import PluginOptions
from penstock.catalog import relations
from penstock.errors import DecodeError, MissingPrivilege, SchemaChanged

pytestmark = pytest.mark.since(14, "pgoutput passes messages on")

TABLE = "CREATE TABLE t (id int PRIMARY KEY, x int NOT NULL, v varchar(10))"
REWRITE = "ALTER TABLE t ALTER x TYPE int USING x * 2"
LEFT = """
SELECT (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_namespace WHERE nspname = 'penstock_ddl')
"""


@pytest.fixture
def opened(db: Any, make_source: Any, drain: Any) -> Any:
    """A source over table t that has delivered what is there."""
    db.execute(TABLE)

    def make(*tables: str, **options: Any) -> tuple[PostgresSource, Any]:
        source = make_source(*(tables or ("t",)), **{"ddl_trigger": True, **options})
        source.open()
        return source, drain(source)

    return make


def refusal(source: Any, drain: Any, received: Any, said: str) -> SchemaChanged:
    with pytest.raises(SchemaChanged, match=said) as refused:
        drain(source, received)
    assert "resync" in (refused.value.hint or "")
    return refused.value


@pytest.mark.parametrize("reader", ["stream", "pull"])
def test_a_rewrite_that_keeps_name_and_type_stops_behind_what_came_before(
    db: Any, opened: Any, drain: Any, reader: str
) -> None:
    source, received = opened(reader=reader)
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    with db.transaction():
        db.execute("INSERT INTO t VALUES (2, 2, 'two')")
        db.execute(REWRITE)
    db.execute("INSERT INTO t VALUES (3, 3, 'three')")
    refusal(source, drain, received, "rows of public.t .* rewritten its values")
    assert [row["id"] for row in received.rows("public.t")] == [1]
    state = source.checkpoint()
    source.close()
    again = PostgresSource(source._config)
    again.restore(state)
    with again:
        again.open()
        refusal(again, drain, None, "rewritten its values")


def test_without_the_trigger_that_rewrite_is_not_noticed(db: Any, opened: Any, drain: Any) -> None:
    """What docs/capture.md warns of."""
    source, received = opened(ddl_trigger=False)
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute(REWRITE)
    drain(source, received)
    assert [row["x"] for row in received.rows("public.t")] == [1]
    assert db.execute("SELECT x FROM t").fetchall() == [(2,)]


@pytest.mark.parametrize(
    "ddl",
    ["DROP TABLE t", f"DROP TABLE t; {TABLE}", "CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; DROP SCHEMA s CASCADE"],
)
def test_a_dropped_table_stops(db: Any, opened: Any, drain: Any, ddl: str) -> None:
    db.execute("CREATE TABLE other (id int PRIMARY KEY)")
    source, received = opened("t", "other")
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute(ddl)
    db.execute("INSERT INTO other VALUES (1)")
    refused = refusal(source, drain, received, "public.t .* dropped")
    assert "leave it out" in (refused.hint or "")
    assert [row["id"] for row in received.rows("public.t")] == [1]
    assert received.rows("public.other") == []


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t ADD c int DEFAULT 7",
        "ALTER TABLE t ALTER v TYPE text",
        "ALTER TABLE t DROP v",
        "ALTER TABLE t ADD CHECK (x > 0)",
        "CREATE INDEX ON t (x)",
        "CREATE INDEX CONCURRENTLY ON t (x)",
        "VACUUM FULL t",
        "CLUSTER t USING t_pkey",
        "CREATE TABLE u (x int); ALTER TABLE u ALTER x TYPE int USING 1; DROP TABLE u",
        "CREATE TEMP TABLE w (x int); ALTER TABLE w ADD y int; DROP TABLE w",
        f"BEGIN; {REWRITE}; ROLLBACK",
        f"BEGIN; SAVEPOINT s; {REWRITE}; ROLLBACK TO s; INSERT INTO t VALUES (9, 9); COMMIT",
    ],
)
def test_what_loses_no_row_passes(db: Any, opened: Any, drain: Any, ddl: str) -> None:
    source, received = opened()
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    for statement in ddl.split("; "):
        db.execute(statement)
    db.execute("INSERT INTO t SELECT 2, 2")
    drain(source, received)
    assert [(row["id"], row["x"]) for row in received.rows("public.t") if row["id"] < 9] == [(1, 1), (2, 2)]


def test_the_new_column_has_its_default_for_older_rows(db: Any, opened: Any, drain: Any) -> None:
    source, received = opened()
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute("ALTER TABLE t ADD c int DEFAULT 7")
    db.execute("INSERT INTO t VALUES (2, 2, 'two')")
    drain(source, received)
    (version,) = source.schema_versions
    assert [change.default for change in version.changes] == ["7"]


@pytest.mark.parametrize(("end", "stops"), [("COMMIT", True), ("ROLLBACK", False)])
def test_a_rewrite_in_a_streamed_transaction_counts_when_it_commits(
    db: Any, source_db: str, opened: Any, drain: Any, end: str, stops: bool
) -> None:
    source, received = opened(streaming="on")
    with psycopg.connect(source_db, autocommit=True) as server:
        server.execute("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
        server.execute("SELECT pg_reload_conf()")
    try:
        source.close()
        source, received = opened_again(source, drain)
        db.execute("BEGIN")
        db.execute("INSERT INTO t SELECT i, i, 'before' FROM generate_series(1000, 4000) i")
        db.execute(REWRITE)
        db.execute("INSERT INTO t SELECT i, i, 'after' FROM generate_series(5000, 9000) i")
        with psycopg.connect(source_db, autocommit=True) as other:
            other.execute("CREATE TABLE beside (id int)")
            drain(source, received)  # what is open was sent, and is not refused yet
            if db.info.server_version >= 150000:  # before, the counts came late
                assert other.execute("SELECT stream_count > 0 FROM pg_stat_replication_slots").fetchall() == [(True,)]
        db.execute(end)
        if stops:
            refusal(source, drain, received, "rewritten its values")
            assert received.rows("public.t") == []
        else:
            db.execute("INSERT INTO t VALUES (1, 1, 'one')")
            drain(source, received)
            assert [row["id"] for row in received.rows("public.t")] == [1]
    finally:
        db.execute("ALTER SYSTEM RESET logical_decoding_work_mem")
        db.execute("SELECT pg_reload_conf()")


def opened_again(source: PostgresSource, drain: Any) -> tuple[PostgresSource, Any]:
    remove(source._config.dsn, source._config.slot_name, source._config.publication_name)
    source.restore(None)
    source.open()
    return source, drain(source)


def test_a_rewritten_leaf_is_a_rewritten_root(db: Any, opened: Any, drain: Any) -> None:
    db.execute("CREATE TABLE p (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)")
    db.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    source, received = opened("p")
    db.execute("INSERT INTO p VALUES (1, 1)")
    db.execute("ALTER TABLE p ALTER x TYPE int USING x * 2")
    refusal(source, drain, received, "rows of public.p .* rewritten its values")


BROKEN = {
    "calls what is not there": ("pg_logical_emit_message(", "no_such_function("),
    "asks for a column that is not there": ("d.object_type", "d.no_such_column"),
    "divides by zero": ("IF tables IS NOT NULL", "IF 1 / 0 = 1"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_ddl_of_the_application_goes_on_whatever_happens_in_the_trigger(db: Any, opened: Any, broken: str) -> None:
    opened()
    text = install_sql()
    function = text[text.index("CREATE FUNCTION") : text.index("CREATE EVENT")]
    assert BROKEN[broken][0] in function
    db.execute(function.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1).replace(*BROKEN[broken]))
    warnings: list[str] = []
    db.add_notice_handler(lambda notice: warnings.append(str(notice.message_primary)))
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    db.execute(REWRITE)
    assert db.execute("SELECT x FROM t").fetchall() == [(2,)]
    db.execute("DROP TABLE t")
    assert db.execute("SELECT to_regclass('t')").fetchone() == (None,)
    assert any("penstock was not told of this" in warning for warning in warnings)


@pytest.fixture
def plain_role(db: Any) -> Iterator[str]:
    """A role that may capture table t, and is no superuser."""
    role = f"plain_{db.info.dbname}"
    db.execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT CREATE ON DATABASE {db.info.dbname} TO {role}")
    db.execute(f"{TABLE}; ALTER TABLE t OWNER TO {role}; GRANT CREATE ON SCHEMA public TO {role}")
    yield role
    db.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def test_a_role_that_may_not_is_told_what_an_administrator_must_run(
    db: Any, source_db: str, plain_role: str, drain: Any
) -> None:
    dsn = re.sub(r"user=\w+", f"user={plain_role}", source_db)
    config = SourceConfig.from_dsn(dsn, ["t"], slot_name=f"slot_{plain_role}", ddl_trigger=True)
    source = PostgresSource(config)
    with pytest.raises(MissingPrivilege, match="may not make event triggers") as missing:
        source.open()
    assert db.execute(LEFT).fetchone() == (0, 0)
    assert db.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
    _, _, script = (missing.value.hint or "").partition("open again:\n")
    db.execute(script)
    with source:
        source.open()
        received = drain(source)
        with psycopg.connect(dsn, autocommit=True) as application:
            application.execute("INSERT INTO t VALUES (1, 1, 'one')")
            application.execute(REWRITE)
        refusal(source, drain, received, "rewritten its values")
    remove(dsn, config.slot_name, config.publication_name)
    assert db.execute(LEFT).fetchone() == (3, 1)  # the administrator's stay


def test_removal_leaves_nothing_once_no_slot_needs_the_triggers(db: Any, source_db: str, opened: Any) -> None:
    first, _ = opened(slot=f"first_{db.info.dbname}")
    second, _ = opened(slot=f"second_{db.info.dbname}")
    assert db.execute(LEFT).fetchone() == (3, 1)
    for source, left in ((first, (3, 1)), (second, (0, 0)), (second, (0, 0))):
        config = source._config
        source.close()
        remove(source_db, config.slot_name, config.publication_name)
        assert db.execute(LEFT).fetchone() == left


def test_triggers_that_were_turned_off_or_changed_are_put_right_at_open(db: Any, opened: Any, drain: Any) -> None:
    source, _ = opened()
    state = source.checkpoint()
    source.close()
    db.execute("ALTER EVENT TRIGGER penstock_ddl_drop DISABLE; DROP EVENT TRIGGER penstock_ddl_rewrite")
    source.restore(state)
    source.open()
    enabled = db.execute("SELECT evtenabled::text FROM pg_event_trigger ORDER BY evtname").fetchall()
    assert enabled == [("O",)] * 3
    assert db.execute("SELECT prosrc FROM pg_proc WHERE proname = 'tell'").fetchone() == (_BODY,)


def test_a_source_that_cannot_be_made_takes_the_triggers_back(db: Any, make_source: Any) -> None:
    db.execute(TABLE)
    db.execute("BEGIN; SELECT txid_current()")  # a slot waits for it
    source = make_source("t", ddl_trigger=True, slot_timeout=0.3)
    with pytest.raises(Exception, match="transaction"):
        source.open()
    db.execute("COMMIT")
    assert db.execute(LEFT).fetchone() == (0, 0)


@pytest.mark.parametrize("ddl", [REWRITE, f"DROP TABLE t; {TABLE}; INSERT INTO t VALUES (1, 5)"])
def test_a_home_copies_the_table_again_and_goes_on(
    db: Any, source_db: str, tmp_path: Path, catalog_db: str, ddl: str
) -> None:
    db.execute(f"{TABLE}; INSERT INTO t VALUES (1, 1); CREATE TABLE other (id int PRIMARY KEY)")
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as ps:
        ps.add_source("shop", source_db, tables=["t", "other"], ddl_trigger=True)
        db.execute(ddl)
        db.execute("INSERT INTO other VALUES (1)")
        ps.engine.captures.catch_up("shop")
        assert [(event.kind, event.table) for event in ps.events("shop")] == [("resync", "public.t")]
        db.execute("INSERT INTO t VALUES (2, 2)")
        ps.engine.captures.catch_up("shop")
        for name in ("t", "other"):
            rows = ps.engine.reader.rows_arrow(relations.find(ps.catalog, name), ps.frontier()["shop"]).to_pylist()
            assert sorted(tuple(row.values()) for row in rows) == db.execute(f"SELECT * FROM {name}").fetchall()
        ps.remove_source("shop")
    assert db.execute(LEFT).fetchone() == (0, 0)


@pytest.mark.parametrize("version", [130000, 140000, 150000, 180000])
def test_messages_are_asked_for_only_with_the_trigger(version: int) -> None:
    assert "messages" not in PluginOptions("p", True, True).of(version)
    asked = PluginOptions("p", True, True, messages=True).of(version)
    assert ("messages" in asked) == (version >= 140000)


@pytest.mark.parametrize("reader", ["stream", "pull"])
def test_messages_of_others_do_not_come(db: Any, opened: Any, drain: Any, reader: str) -> None:
    source, received = opened(ddl_trigger=False, reader=reader)
    db.execute("SELECT pg_logical_emit_message(true, 'penstock_ddl', 'not what we write')")
    db.execute("INSERT INTO t VALUES (1, 1, 'one')")
    drain(source, received)
    assert [row["id"] for row in received.rows("public.t")] == [1]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"event": "x", "tag": "", "reason": 0, "tables": []}', b"\xff"]
)
def test_a_message_that_is_not_ours_is_never_taken_for_one(content: bytes) -> None:
    assert parse_ddl(LogicalMessage(1, "application", content)) is None
    with pytest.raises(DecodeError, match="cannot be read"):
        parse_ddl(LogicalMessage(1, "penstock_ddl", content))
