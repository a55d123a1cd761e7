"""A value means the same in the table, in a COPY and in the WAL, in text and in binary form.

The oracle is psycopg reading the table. test_types has every type, with the server as its oracle.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import uuid
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from penstock.capture import remove

COLUMNS = {
    "b": "bool", "i2": "int2", "i4": "int4", "i8": "int8", "o": "oid", "f4": "float4", "f8": "float8",
    "n": "numeric", "n2": "numeric(12,4)", "n38": "numeric(38,0)", "t": "text", "v": "varchar(40)", "c": "char(5)",
    "e": "mood", "dom": "word", "raw": "bytea", "d": "date", "ts": "timestamp", "tz": "timestamptz", "u": "uuid",
    "j": "json", "jb": "jsonb",
}  # fmt: skip
TYPES = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'très'); CREATE DOMAIN word AS text CHECK (length(value) < 99)"
# It makes the whole WAL come as text.
TEXTUAL = {"q": '"char"'}

# Every example talks to a server, so none is shrunk: six rows are short enough to read.
BOUNDED = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
first, last = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
json = st.recursive(st.none() | st.booleans() | st.integers(-99, 99) | words, st.lists, max_leaves=4)


def digits(whole: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    return st.integers(-(10 ** (whole + scale)) + 1, 10 ** (whole + scale) - 1).map(
        lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=60))
    )


rows = st.fixed_dictionaries({
    "b": st.none() | st.booleans(),
    "i2": st.none() | st.integers(-(2**15), 2**15 - 1),
    "i4": st.none() | st.integers(-(2**31), 2**31 - 1),
    "i8": st.none() | st.integers(-(2**63), 2**63 - 1),
    "o": st.none() | st.integers(0, 2**32 - 1),
    "f4": st.none() | st.floats(width=32),
    "f8": st.none() | st.floats(),
    "n": st.none() | digits(20, 18) | digits(3, 2),
    "n2": st.none() | digits(8, 4),
    "n38": st.none() | digits(38, 0),
    "t": st.none() | words,
    "v": st.none() | words,
    "c": st.none() | st.text("ab c", max_size=5),
    "e": st.none() | st.sampled_from(["sad", "ok", "très"]),
    "dom": st.none() | words,
    "raw": st.none() | st.binary(max_size=40),
    "d": st.none() | st.dates(),
    "ts": st.none() | st.datetimes(first, last),
    "tz": st.none() | st.datetimes(first, last, timezones=st.just(dt.UTC)),
    "u": st.none() | st.uuids(),
    "j": st.none() | json.map(psycopg.types.json.Json),
    "jb": st.none() | json.map(Jsonb),
})  # fmt: skip


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def insert(db, number: int, row: dict[str, Any]) -> None:
    names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
    db.execute(f"INSERT INTO t (id, {names}) VALUES ({number}, {marks})", list(row.values()))


def oracle(db) -> dict[int, dict[str, Any]]:
    """What psycopg reads, with text for what penstock holds as text."""
    db.execute("SET TimeZone = 'UTC'; SET search_path = pg_catalog")
    as_text = {"u", "j", "jb", "dom", *TEXTUAL}
    described = db.execute("SELECT * FROM public.t LIMIT 0").description
    names = [column.name for column in described]
    text = "CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END AS {0}"
    spelled = {**dict.fromkeys(as_text, text), "f4": "f4::float8 AS f4"}
    chosen = ", ".join(spelled.get(name, "{0}").format(name) for name in names)
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        found = cursor.execute(f"SELECT {chosen} FROM public.t").fetchall()
    db.execute("RESET search_path")
    return {row["id"]: {n: comparable(v) for n, v in row.items()} for row in found}


def assert_same(received, db) -> None:
    state = {key[0]: row for key, row in received.state("public.t", "id").items()}
    expected = oracle(db)
    assert state.keys() == expected.keys()
    different = [
        (name, row[name], expected[number][name])
        for number, row in state.items()
        for name in row
        if comparable(row[name]) != expected[number][name]
    ]
    assert not different


@pytest.fixture(params=["binary", "text"])
def values_source(request, db, make_source):
    """A table of every type, copied once it has rows, then streamed."""
    db.execute(TYPES)
    extra = TEXTUAL if request.param == "text" else {}
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(f'{n} {t}' for n, t in (COLUMNS | extra).items())})")
    return make_source("t")


@settings(BOUNDED, max_examples=8)
@given(sample=st.lists(rows, min_size=1, max_size=6))
def test_stream_equals_table(values_source, db, drain, sample):
    if values_source.phase == "closed":
        values_source.open()
        drain(values_source)
        values_source.numbers = itertools.count(1)
    db.execute("TRUNCATE t")
    for row in sample:
        insert(db, next(values_source.numbers), row)
    assert_same(drain(values_source), db)


@settings(BOUNDED, max_examples=3)
@given(sample=st.lists(rows, min_size=1, max_size=12))
def test_copy_equals_table(values_source, db, drain, sample, source_db):
    values_source.close()
    config = values_source._config
    remove(source_db, config.slot_name, config.publication_name)
    db.execute("TRUNCATE t")
    for number, row in enumerate(sample):
        insert(db, number, row)
    values_source.open()
    assert_same(drain(values_source), db)


def test_uuid_and_names_come_as_their_text(db, make_source, drain):
    key = uuid.uuid4()
    db.execute('CREATE TABLE "Odd Name" ("Key" uuid PRIMARY KEY, "a.b" name, "q""q" int)')
    db.execute('INSERT INTO "Odd Name" VALUES (%s, %s, 1)', [key, "n"])
    source = make_source('"Odd Name"')
    source.open()
    db.execute('UPDATE "Odd Name" SET "q""q" = 2')
    received = drain(source)
    assert received.state("public.Odd Name", "Key") == {(str(key),): {"Key": str(key), "a.b": "n", 'q"q': 2}}
