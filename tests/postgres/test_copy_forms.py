"""A value that does not fit its column's form while a table is copied: that table starts again, and no row is wrong.

The oracle is PostgreSQL's own text of every value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import penstock
from penstock import failpoint
from penstock.capture import forms
from penstock.catalog import copies, relations, source_events, sources
from penstock.errors import FormChanged
from penstock.failpoint import FailpointReached
from penstock.lake.settling import settle_source

pytestmark = pytest.mark.since(14, "ranges of blocks")
OPTIONS: dict[str, Any] = {"copy_range_blocks": 2, "copy_workers": 2}
NAN_FIRST = "UPDATE t SET n = 'NaN' WHERE id = 1; VACUUM FULL t"
NAN_LAST = "INSERT INTO t VALUES (2001, 'NaN', '2020-01-01', 'last')"
BOTH = "INSERT INTO t VALUES (2001, '1e30', '2020-01-01', 'x'), (2002, 1, 'infinity', 'y')"


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric, d date, v text)")
        connection.execute(
            "INSERT INTO t SELECT i, i + 0.50, '2020-01-01', repeat('v', 50) FROM generate_series(1, 500) i"
        )
        connection.execute("CREATE TABLE o (id int, v text); ALTER TABLE o REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO o SELECT i, repeat('o', 50) FROM generate_series(1, 500) i")
        yield connection


def assert_equal(ps: penstock.Session, db: psycopg.Connection[Any], *names: str) -> None:
    """Everything captured, value by value as PostgreSQL prints it (a number without zeros at its end)."""
    lease = ps.engine.captures.catch_up("shop")
    settle_source(ps.engine.reader, ps.catalog, lease, "shop")
    cut = sources.get(ps.catalog, "shop").settled
    assert cut is not None
    for name in names:
        found = ps.engine.reader.rows_arrow(relations.find(ps.catalog, name), cut).to_pylist()
        texts = db.execute(f"SELECT {_texts(db, name)} FROM {name}").fetchall()
        assert Counter(tuple(_text(value) for value in row.values()) for row in found) == Counter(texts)


def _texts(db: psycopg.Connection[Any], name: str) -> str:
    columns = db.execute(
        "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0", [name]
    ).fetchall()
    return ", ".join(f"trim_scale({c})::text" if t == "numeric" else f"{c}::text" for c, t in columns)


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = format(value, "f") if hasattr(value, "as_tuple") else str(value)
    number = text.replace(".", "", 1).lstrip("-").isdigit() and "." in text
    return text.rstrip("0").rstrip(".") if number else text


def held(ps: penstock.Session, name: str) -> dict[str, str]:
    return {column.name: column.spark for column in relations.find(ps.catalog, name).schema.columns}


def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose values were all looked at."""
    asked: list[str] = []
    before: Callable[..., Any] = forms._answers

    def watched(connection: Any, table: Any, wanted: Any) -> Any:
        asked.append(table.name)
        return before(connection, table, wanted)

    monkeypatch.setattr(forms, "_answers", watched)
    return asked


def pending(ps: penstock.Session) -> dict[str, copies.Copy]:
    return {one.name: one for one in copies.pending(ps.catalog, sources.get(ps.catalog, "shop").id)}


def test_a_table_whose_values_fit_is_not_looked_at(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = looks(monkeypatch)
    ps.add_source("shop", source_db, tables=["t", "o"], **OPTIONS)
    assert held(ps, "t")["n"] == "decimal(38,18)"
    assert_equal(ps, db, "t", "o")
    ps.resync("shop", "t")
    assert_equal(ps, db, "t")
    assert asked == []


@pytest.mark.parametrize(
    ("odd", "forms_then"),
    [(NAN_FIRST, ("string", "date")), (NAN_LAST, ("string", "date")), (BOTH, ("decimal(38,4)", "string"))],
    ids=["first row", "last range", "two columns"],
)
@pytest.mark.parametrize("policy", ["follow", "pause"])
def test_only_the_table_with_an_odd_value_starts_again(
    ps: penstock.Session,
    db: psycopg.Connection[Any],
    source_db: str,
    monkeypatch: pytest.MonkeyPatch,
    odd: str,
    forms_then: tuple[str, str],
    policy: str,
) -> None:
    for statement in odd.split("; "):
        db.execute(statement)
    asked = looks(monkeypatch)
    seen: Counter[str] = Counter()
    ps.add_source(
        "shop", source_db, tables=["t", "o"], progress=lambda name, rows: seen.update({name: rows}),
        on_schema_change=policy, **OPTIONS,
    )  # fmt: skip
    assert asked == ["public.t"]
    assert seen == {"public.t": db.execute("SELECT count(*) FROM t").fetchone()[0], "public.o": 500}  # type: ignore[index]
    assert (held(ps, "t")["n"], held(ps, "t")["d"]) == forms_then
    db.execute("INSERT INTO t VALUES (3000, 7.5, '2021-01-01', NULL); UPDATE t SET v = 'w' WHERE id = 2")
    assert_equal(ps, db, "t", "o")
    events = source_events.recent(ps.catalog, sources.get(ps.catalog, "shop").id)
    assert [event.table for event in events if event.kind == "resync"] == ["public.t"]


@pytest.mark.parametrize(
    ("point", "after"),
    [("copy.after_commit", 1), ("tables.after_commit", 1), ("copy_begin.after_commit", 2), ("copy.after_commit", 6)],
    ids=["before the odd value", "once it is known", "once it is looked at", "in the second copy"],
)
def test_a_crash_of_a_copy_that_starts_again(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, point: str, after: int
) -> None:
    """The first copy finishes five ranges, three of them of the other table."""
    db.execute(NAN_LAST)
    with failpoint.arm(point, after=after), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t", "o"], **OPTIONS)
    ps.engine.captures.close()
    db.execute("UPDATE t SET n = n + 1 WHERE id % 7 = 0")
    ps.add_source("shop", source_db, tables=["t", "o"], **OPTIONS)
    assert held(ps, "t")["n"] == "string"
    assert_equal(ps, db, "t", "o")


def test_a_value_that_came_while_the_copy_was_interrupted(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    with failpoint.arm("copy.after_commit", after=3), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    ps.engine.captures.close()
    assert pending(ps)["public.t"].lsn is not None
    db.execute("UPDATE t SET n = 'Infinity' WHERE id = 3")  # in a range that is copied already, and in the stream
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    assert_equal(ps, db, "t")


@pytest.mark.parametrize("policy", ["follow", "pause"])
def test_a_value_in_the_stream_while_the_table_is_copied(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, policy: str
) -> None:
    options = {**OPTIONS, "on_schema_change": policy}
    with failpoint.arm("copy_begin.after_commit"), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t", "o"], **options)
    ps.engine.captures.close()
    db.execute("INSERT INTO t VALUES (9001, 'NaN', '2020-01-01', 'gone again'); DELETE FROM t WHERE id = 9001")
    db.execute("UPDATE t SET v = 'x' WHERE id < 20; INSERT INTO o VALUES (501, 'new')")
    ps.add_source("shop", source_db, tables=["t", "o"], **options)
    assert held(ps, "t")["n"] == "decimal(38,18)"
    assert_equal(ps, db, "t", "o")


def test_one_odd_column_after_the_other(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    """The second one becomes odd only after the first was looked at: with the first commit of the second time.

    One worker, because two may be at the last range when the first time ends, and then there are fewer commits.
    """
    db.execute(NAN_LAST)
    options = {**OPTIONS, "copy_workers": 1}
    with failpoint.arm("copy.after_commit", after=3), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t"], **options)
    ps.engine.captures.close()
    db.execute("UPDATE t SET d = '-infinity' WHERE id = 400")
    ps.add_source("shop", source_db, tables=["t"], **options)
    assert (held(ps, "t")["n"], held(ps, "t")["d"]) == ("string", "string")
    assert_equal(ps, db, "t")


def test_a_form_that_was_asked_for_is_not_changed(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    db.execute(NAN_FIRST.split("; ")[0])
    with pytest.raises(FormChanged, match=r"public\.t\.n .* has the value NaN"):
        ps.add_source("shop", source_db, tables=["t"], column_forms={"public.t.n": "native"}, copy_workers=1)
    assert sources.lookup(ps.catalog, "shop") is None
    assert db.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").fetchone() == (
        0,
    )


@pytest.mark.since(15, "two-phase slots")
def test_a_source_that_no_table_can_join_is_looked_at_first(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(NAN_LAST)
    asked = looks(monkeypatch)
    ps.add_source("shop", source_db, tables=["t"], two_phase=True, **OPTIONS)
    assert asked == ["public.t"]
    assert_equal(ps, db, "t")
