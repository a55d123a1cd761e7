"""Every type means the same in the table, in a COPY and in the WAL, binary and text; the server is the oracle.

What is held as text is the text that the server prints; what is held natively is given back to the server, which must
call it the same value.
"""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from postgres.capture.type_values import BINARY, TEXTUAL, TYPES, forms_of, literal
from psycopg import sql
from servers import server_version

from penstock.capture import PostgresSource, SourceConfig, remove
from penstock.capture.binary_columns import is_binary
from penstock.errors import ConfigError, DecodeError, FormChanged

BOUNDED = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # every example talks to a server, so none is shrunk
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SESSION = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET lc_monetary = 'C'"


def _same(name: str, pg: str) -> str:
    """Numbers by value, since a decimal shows all digits of its scale; everything else by what the server prints."""
    shown = "" if "numeric" in pg else "::text"
    return f"t.{name}{shown} IS NOT DISTINCT FROM g.{name}::{pg}{shown}"


class Table:
    """A table `t` of the given columns, filled and compared in one statement each."""

    def __init__(self, db: psycopg.Connection[Any], columns: dict[str, tuple[str, Any]]) -> None:
        self.db, self.columns = db, columns
        self.numbers = itertools.count(1)
        self.rows = st.lists(
            st.fixed_dictionaries({name: st.none() | values for name, (_, values) in columns.items()}),
            min_size=8, max_size=20,
        )  # fmt: skip
        db.execute(TYPES + SESSION)
        listed = ", ".join(f"{name} {pg}" for name, (pg, _) in columns.items())
        db.execute(f"CREATE TABLE t (id int PRIMARY KEY, {listed})")

    def insert(self, rows: list[dict[str, str | None]]) -> None:
        numbers = [next(self.numbers) for _ in rows]
        self.db.execute(
            sql.SQL("INSERT INTO t SELECT id, {} FROM {}").format(
                sql.SQL(", ").join(sql.SQL(f"{name}::{pg}") for name, (pg, _) in self.columns.items()), self._given()
            ),
            [numbers, *([row[name] for row in rows] for name in self.columns)],
        )

    def assert_holds(self, received: dict[int, dict[str, Any]]) -> None:
        """Held as text: what the server prints. Held natively: what the server calls the same."""
        told = [
            sql.SQL(f"CASE WHEN t.{name} IS DISTINCT FROM NULL THEN format('%%s', t.{name}) END")
            for name in self.columns
        ]
        same = [sql.SQL(_same(name, pg)) for name, (pg, _) in self.columns.items()]
        found = self.db.execute(
            sql.SQL("SELECT id, {} FROM t LEFT JOIN {} USING (id)").format(
                sql.SQL(", ").join([*told, *same]), self._given()
            ),
            [list(received), *([literal(row[name]) for row in received.values()] for name in self.columns)],
        ).fetchall()
        assert {row[0] for row in found} == set(received)
        width = len(self.columns)
        wrong = [
            (name, received[row[0]][name], row[1 + at])
            for row in found
            for at, name in enumerate(self.columns)
            if not row[1 + width + at]
            or (isinstance(received[row[0]][name], str) and received[row[0]][name] != row[1 + at])
        ]
        assert not wrong

    def _given(self) -> sql.Composed:
        arrays = sql.SQL(", ").join([sql.SQL("%s::int[]"), *[sql.SQL("%s::text[]")] * len(self.columns)])
        return sql.SQL("unnest({}) AS g(id, {})").format(arrays, sql.SQL(", ").join(map(sql.Identifier, self.columns)))


@pytest.fixture(params=["binary", "text"])
def table(request, db):
    return Table(db, BINARY if request.param == "binary" else BINARY | TEXTUAL)


@pytest.mark.since(11, "arrays of domains")
@settings(BOUNDED, max_examples=5)
@given(data=st.data())
def test_the_stream_holds_what_the_table_holds(table, make_source, drain, data):
    source = getattr(table, "source", None)
    if source is None:
        source = table.source = make_source("t", column_forms=forms_of(table.columns))
        source.open()
        drain(source)
        forms = {column.name: column.spark for column in source.tables["public.t"].columns}
        assert (forms["numbers"], forms["dear"], forms["positive"]) == ("array<int>", "decimal(10,2)", "int")
    table.db.execute("TRUNCATE t")
    table.insert(data.draw(table.rows))
    received = drain(source)
    table.assert_holds({key[0]: row for key, row in received.state("public.t", "id").items()})


@pytest.mark.since(11, "arrays of domains")
@settings(BOUNDED, max_examples=2)
@given(data=st.data())
def test_the_copy_holds_what_the_table_holds(table, make_source, drain, source_db, data):
    source = make_source("t", column_forms=forms_of(table.columns))
    remove(source_db, source._config.slot_name, source._config.publication_name)
    table.db.execute("TRUNCATE t")
    table.insert(data.draw(table.rows))
    source.open()
    received = drain(source)
    source.close()
    table.assert_holds({key[0]: row for key, row in received.state("public.t", "id").items()})


@pytest.mark.since(14, "the binary protocol")
def test_common_types_keep_the_stream_binary(db, make_source):
    Table(db, BINARY)
    source = make_source("t", column_forms=forms_of(BINARY))
    source.open()
    found = source._opened().tables["public.t"]
    assert [
        column.name
        for column, send in zip(found.schema.columns, found.sends, strict=True)
        if not is_binary(column.arrow, send)
    ] == []


CHOSEN = [
    # type, values there are, form
    ("numeric", ["1.5", "-2"], "decimal(38,18)"),
    ("numeric", ["1" * 25, "0.001"], "decimal(38,8)"),
    ("numeric", ["0." + "1" * 30], "decimal(38,34)"),
    ("numeric", ["1" * 30, "0." + "1" * 20], "string"),
    ("numeric", ["NaN", "1"], "string"),
    *([("numeric", ["-Infinity"], "string")] if server_version() >= 14 else []),
    ("numeric", [], "decimal(38,18)"),
    ("numeric(5,1)", ["NaN"], "string"),
    ("numeric(5,1)", ["1.5"], "decimal(5,1)"),
    ("date", ["infinity"], "string"),
    ("date", ["0001-01-01", "9999-12-31"], "date"),
    ("date", ["0001-12-31 BC"], "string"),
    ("timestamp", ["9999-12-31 23:59:59.999999"], "timestamp_ntz"),
    ("timestamp", ["10000-01-01 00:00:00"], "string"),
    ("timestamptz", ["-infinity"], "string"),
    ("int[]", ["{}", "{1,NULL}"], "array<int>"),
    ("int[]", ["{{1,2}}"], "string"),
    ("int[]", ["[0:1]={1,2}"], "string"),
    ("numeric[]", ["{1.5,NULL}"], "array<decimal(38,18)>"),
    ("numeric[]", ["{NaN}"], "string"),
    ("date[]", ["{2020-01-01,infinity}"], "string"),
    ("text[]", ["{a}"], "array<string>"),
    ("interval", ["1 mon"], "struct<months:int,days:int,microseconds:bigint>"),
    ("dear", ["1.50"], "decimal(10,2)"),
]


def test_the_form_suits_the_values_that_exist(db, make_source, drain):
    db.execute(TYPES)
    names = [f"c{number}" for number in range(len(CHOSEN))]
    for name, (pg, values, _) in zip(names, CHOSEN, strict=True):
        db.execute(f"CREATE TABLE {name} (id serial PRIMARY KEY, c {pg})")
        for value in values:
            db.execute(f"INSERT INTO {name} (c) VALUES (%s::text::{pg})", [value])
    source = make_source(*names)
    source.open()
    received = drain(source)
    chosen = {name: source.tables[f"public.{name}"].column("c").spark for name in names}
    assert chosen == {name: form for name, (_, _, form) in zip(names, CHOSEN, strict=True)}
    for name, (_, values, form) in zip(names, CHOSEN, strict=True):
        found = [row["c"] for row in received.rows(f"public.{name}")]
        assert len(found) == len(values)
        assert None not in found
        if form == "string":
            assert found == values


REFUSED = [
    ("numeric", "NaN"), ("numeric(5,1)", "NaN"), *([("numeric", "Infinity")] if server_version() >= 14 else []),
    ("numeric", "123456789012345678901"),
    ("numeric", "0.1234567890123456789"), ("date", "infinity"), ("date", "0044-03-15 BC"), ("date", "10000-01-01"),
    ("timestamp", "0001-12-31 23:59:59 BC"), ("timestamptz", "-infinity"), ("timestamptz", "294276-12-31 00:00:00+00"),
    ("int[]", "{{1,2}}"), ("int[]", "[0:1]={1,2}"), ("date[]", "{2020-01-01,infinity}"), ("numeric[]", "{1,NaN}"),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["binary", "text"])
def test_a_later_value_that_does_not_fit_changes_the_form_behind_what_was_good(db, make_source, drain, mode):
    for number, (pg, value) in enumerate(REFUSED):
        name = f"t{number}"
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, x {pg} {', q box' if mode == 'text' else ''})")
        source = make_source(name, slot=f"refused_{mode}_{number}", snapshot_mode="never")
        source.open()
        with db.transaction():
            db.execute(f"INSERT INTO {name} VALUES (1, NULL), (2, NULL)")
        db.execute(f"INSERT INTO {name} VALUES (3, '{value}')")
        good = source.poll(timeout=10)
        assert good.to_arrow()[f"public.{name}"]["id"].to_pylist() == [1, 2]
        here = source.checkpoint()
        for _ in range(2):
            with pytest.raises(FormChanged, match=rf"public\.{name}\.x .* has the value .* needs its text form"):
                source.poll(timeout=10)
        assert source.checkpoint() == here
        source.close()


def test_a_new_copy_takes_the_text_form(db, make_source, drain, source_db):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric, d date); INSERT INTO t VALUES (1, 1.50, '2020-01-01')")
    source = make_source("t")
    source.open()
    drain(source)
    db.execute("INSERT INTO t VALUES (2, 'NaN', 'infinity')")
    with pytest.raises(FormChanged):
        drain(source)
    source.close()
    remove(source_db, source._config.slot_name, source._config.publication_name)
    source.open()
    db.execute("INSERT INTO t VALUES (3, 7.000, '0044-03-15 BC')")
    state = drain(source).state("public.t", "id")
    assert [tuple(row.values())[1:] for row in state.values()] == [
        ("1.50", "2020-01-01"), ("NaN", "infinity"), ("7.000", "0044-03-15 BC"),
    ]  # fmt: skip


def test_a_restored_source_keeps_the_recorded_form(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric); INSERT INTO t VALUES (1, 'NaN')")
    source = make_source("t")
    source.open()
    drain(source)
    state, schemas = source.checkpoint(), source.tables
    source.close()
    db.execute("UPDATE t SET n = 2")  # now every value would fit a decimal
    again = make_source("t", schemas=schemas)
    again.restore(state)
    again.open()
    rows = drain(again).rows("public.t")
    assert rows[-1]["n"] == "2"
    assert again.tables == schemas


def test_forms_that_cannot_be_are_refused(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric)")
    for forms, match in [({"public.t.n": "float"}, "float"), ({"public.t.m": "text"}, r"public\.t\.m")]:
        with pytest.raises(ConfigError, match=match):
            make_source("t", column_forms=forms).open()


def test_a_list_in_a_key_is_text(db, make_source, drain):
    db.execute("CREATE TABLE t (k int[], i interval, v text, PRIMARY KEY (k, i))")
    db.execute("INSERT INTO t VALUES ('{1,2}', '1 mon', 'a')")
    source = make_source("t")
    source.open()
    db.execute("UPDATE t SET i = '30 days' WHERE k = '{1,2}'")
    assert list(drain(source).state("public.t", "k", "i").values()) == [{"k": "{1,2}", "i": "30 days", "v": "a"}]


@pytest.mark.since(17, "infinite intervals")
@pytest.mark.parametrize("other", ["int", "box"])
def test_the_extremes_of_intervals_are_kept(db, make_source, drain, other):
    """A box makes the stream text."""
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY, i interval, other {other})")
    source = make_source("t")
    source.open()
    db.execute("""INSERT INTO t VALUES (1, '178956970 years 7 mons 2147483646 days 2562047788:00:54.775806'),
        (2, '-178956970 years -8 mons -2147483648 days -2562047788:00:54.775807'), (3, 'infinity'), (4, '-infinity')""")
    found = [tuple(row["i"].values()) for row in drain(source).rows("public.t")]
    assert found == [
        (2**31 - 1, 2**31 - 2, 2**63 - 2), (-(2**31), -(2**31), -(2**63) + 1),
        (2**31 - 1, 2**31 - 1, 2**63 - 1), (-(2**31), -(2**31), -(2**63)),
    ]  # fmt: skip


@pytest.mark.since(13, "DROP DATABASE … WITH (FORCE)")
def test_bytes_that_are_no_text_are_refused(source_server, make_source, drain):
    """Only a SQL_ASCII database can hold them; the server itself stops at them, since we ask for UTF-8."""
    with psycopg.connect(source_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE raw_bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    dsn = source_server.dsn_of("raw_bytes")
    config = SourceConfig.from_dsn(dsn, ["public.t"], slot_name="raw_bytes")
    try:
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute("CREATE TABLE t (id int PRIMARY KEY, w text, l text[])")
            with PostgresSource(config) as source:
                source.open()
                drain(source)
                db.execute(rb"INSERT INTO t VALUES (1, 'good', '{\304\200}'), (2, E'caf\xe9', NULL)")
                with pytest.raises(DecodeError, match="invalid byte sequence"):
                    drain(source)
    finally:
        remove(dsn, config.slot_name, config.publication_name)
        with psycopg.connect(source_server.dsn, autocommit=True) as admin:
            admin.execute("DROP DATABASE raw_bytes WITH (FORCE)")
