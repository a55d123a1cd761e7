"""A publication gives what was asked for, to the copy and to the stream alike, and never harms the application."""

from __future__ import annotations

import psycopg
import pytest

from penstock.capture import check
from penstock.capture.selection import Selection
from penstock.errors import NotFound, PublicationLost, SourceError, UnsafeTable

pytestmark = [pytest.mark.usefixtures("orders"), pytest.mark.since(15, "row filters and column lists")]


@pytest.fixture
def orders(db):
    db.execute("CREATE TABLE orders (id int PRIMARY KEY, status text, note text, amount int)")
    db.execute("INSERT INTO orders SELECT g, CASE WHEN g % 3 = 0 THEN 'open' ELSE 'done' END, 'n' || g, g "
               "FROM generate_series(1, 30) g")  # fmt: skip


def publications(db) -> list[str]:
    return [name for (name,) in db.execute("SELECT pubname FROM pg_publication ORDER BY 1")]


def test_a_row_filter_holds_for_the_copy_the_stream_and_a_restart(db, make_source, drain):
    """Rows that enter or leave the filter by an UPDATE come and go; the oracle is the same condition on the table."""
    db.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    wanted = "status = 'open' AND note IS NOT NULL -- only what is to be done"
    source = make_source("orders", publication_row_filter=wanted)
    source.open()
    received = drain(source)
    assert len(received.rows("public.orders")) == 10
    db.execute("UPDATE orders SET status = 'open' WHERE id IN (1, 2)")
    db.execute("UPDATE orders SET status = 'done' WHERE id IN (3, 6)")
    db.execute("UPDATE orders SET amount = amount + 1; DELETE FROM orders WHERE id < 13")
    db.execute("INSERT INTO orders VALUES (99, 'open', 'x', 1)")
    drain(source, received)
    state = source.checkpoint()
    source.acknowledge(state)
    source.close()
    db.execute("UPDATE orders SET status = 'open' WHERE id = 20; UPDATE orders SET note = NULL WHERE id = 15")
    source.restore(state)
    source.open()
    drain(source, received)
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        expected = {(r["id"],): r for r in cursor.execute(f"SELECT * FROM orders WHERE {wanted}")}
    assert received.state("public.orders", "id") == expected


def test_a_column_list_holds_for_the_copy_the_stream_and_a_restart(db, make_source, drain):
    source = make_source("orders", publication_column_list="amount, id")
    source.open()
    assert source.tables["public.orders"].names == ("id", "amount")
    received = drain(source)
    db.execute("UPDATE orders SET amount = -1, note = 'x' WHERE id = 4; INSERT INTO orders VALUES (50, 'open', 'z', 5)")
    drain(source, received)
    state = source.checkpoint()
    source.acknowledge(state)
    source.close()
    source.restore(state)
    source.open()
    db.execute("DELETE FROM orders WHERE id = 5")
    drain(source, received)
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        expected = {(r["id"],): r for r in cursor.execute("SELECT id, amount FROM orders")}
    assert received.state("public.orders", "id") == expected


def test_filters_and_lists_are_by_table(db, make_source, drain):
    db.execute("CREATE TABLE lines (id int PRIMARY KEY, x int); INSERT INTO lines VALUES (1, 1), (2, 2)")
    source = make_source(
        "orders", "lines", publication_row_filter={"lines": "id > 1"}, publication_column_list={"orders": ["id"]}
    )
    source.open()
    received = drain(source)
    assert [(row["id"], row["x"]) for row in received.rows("public.lines")] == [(2, 2)]
    assert len(received.rows("public.orders")) == 30
    assert source.tables["public.orders"].names == ("id",)


@pytest.mark.parametrize(
    ("setup", "options", "kind", "hint"),
    [
        ("", {"publication_row_filter": "status = 'open'"}, UnsafeTable, "REPLICA IDENTITY FULL"),
        ("", {"publication_column_list": "status, note"}, UnsafeTable, "Add id"),
        ("ALTER TABLE orders REPLICA IDENTITY FULL", {"publication_column_list": "id"}, UnsafeTable, "DEFAULT"),
        ("", {"publication_column_list": "id, color"}, NotFound, "status"),
        ("", {"publication_row_filter": {"other": "true"}}, NotFound, "public.orders"),
        ("", {"publication_row_filter": "id >"}, SourceError, "condition"),
        ("", {"publication_row_filter": "color = 'red'"}, SourceError, "condition"),
        ("", {"publication_row_filter": "id > random()"}, SourceError, "immutable"),
        ("", {"publication_row_filter": "true); DROP TABLE orders; SELECT (1"}, SourceError, "condition"),
        ("", {"publication_row_filter": "id > 1) --"}, SourceError, "condition"),
    ],
)
def test_what_would_harm_the_application_or_cannot_be_is_refused_before_anything_is_made(
    db, make_source, setup, options, kind, hint
):
    db.execute(setup or "SELECT 1")
    with pytest.raises(kind) as refused:
        make_source("orders", **options).open()
    assert hint in refused.value.hint, refused.value
    assert publications(db) == []
    db.execute("UPDATE orders SET status = 'closed', note = NULL; DELETE FROM orders")


@pytest.mark.parametrize(
    ("listed", "options"),
    [
        ("orders WHERE (id > 10 AND amount IS NOT NULL)", {"publication_row_filter": "id > 10 and amount is not null"}),
        ("orders (id, status)", {"publication_column_list": ["status", "id"]}),
    ],
)
def test_a_given_publication_may_select_if_the_same_was_asked_for(db, make_source, drain, listed, options):
    if "publication_row_filter" in options:
        db.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    db.execute(f"CREATE PUBLICATION given FOR TABLE {listed}")
    with pytest.raises(PublicationLost) as refused:
        make_source("orders", publication_name="given").open()
    assert next(iter(options)) in refused.value.hint
    source = make_source("orders", publication_name="given", **options)
    source.open()
    count = "SELECT count(*) FROM orders" + (" WHERE id > 10" if "publication_row_filter" in options else "")
    assert len(drain(source).rows("public.orders")) == db.execute(count).fetchone()[0]


def test_a_publication_that_was_changed_since_is_said(db, make_source, drain):
    source = make_source("orders", slot="changed_publication", publication_name="ours")
    source.open()
    drain(source)
    state = source.checkpoint()
    source.close()
    db.execute("ALTER PUBLICATION ours SET TABLE orders WHERE (id > 3)")
    source.restore(state)
    with pytest.raises(PublicationLost, match=r"lost public\.orders, or a row filter"):
        source.open()


def test_a_publication_of_a_schema_is_taken_if_all_its_tables_are_safe(db, make_source, drain):
    db.execute("CREATE TABLE keyless (x int); CREATE PUBLICATION given FOR TABLES IN SCHEMA public")
    with pytest.raises(UnsafeTable, match=r"public\.keyless"):
        make_source("orders", publication_name="given").open()
    db.execute("ALTER TABLE keyless REPLICA IDENTITY FULL; CREATE TABLE beside (id int PRIMARY KEY)")
    source = make_source("orders", publication_name="given")
    source.open()
    db.execute("INSERT INTO beside VALUES (1); CREATE TABLE later (id int PRIMARY KEY); INSERT INTO later VALUES (1)")
    db.execute("INSERT INTO orders VALUES (77, 'open', 'n', 1); UPDATE keyless SET x = 1")
    received = drain(source)
    assert [row["id"] for row in received.rows("public.orders") if row["_op"] == "I"] == [77]
    assert all(set(batch.to_arrow()) <= {"public.orders"} for batch in received.batches)


def test_a_role_that_may_not_publish_is_told_what_to_run(db, source_db):
    role = f"filtering_{db.info.dbname}"
    db.execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON orders TO {role}")
    db.execute("CREATE PUBLICATION given FOR TABLE orders WHERE (id > 10)")
    dsn = source_db.replace("user=postgres", f"user={role}")
    assert check(dsn, ["orders"], publication="given", selection=Selection({"public.orders": "id > 10"}))
    with pytest.raises(PublicationLost) as refused:
        check(dsn, ["orders"], publication="given", selection=Selection({"public.orders": "10 < id"}))
    assert "id > 10" in refused.value.hint
    db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
