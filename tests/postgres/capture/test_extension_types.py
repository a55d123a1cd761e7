"""Types of extensions, and xml: what the server prints, in the copy as in the stream."""

from __future__ import annotations

import psycopg
import pytest

MADE = {
    "hstore": ("CREATE EXTENSION hstore", ['a=>1, "b c"=>NULL', '', 'k=>"q\\"uo,te"']),
    "citext": ("CREATE EXTENSION citext", ["MiXed", "", "ünï"]),
    "xml": ("SELECT xml '<a/>'", ["<a>ü</a>", "<b x='1'/>text", "<!-- c -->"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_what_the_server_prints(db, make_source, drain, kind):
    values = prepared(db, kind)
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {kind}, many {kind}[])")
    row = f"%s, %s::text::{kind}, ARRAY[%s::text::{kind}, NULL]"
    for number, value in enumerate(values):
        db.execute(f"INSERT INTO t SELECT {row}", [number, value, value])
    source = make_source("t")
    source.open()
    received = drain(source)
    assert held(received) == printed(db)
    for number, value in enumerate(values, start=100):
        db.execute(f"INSERT INTO t SELECT {row}", [number, value, value])
    db.execute("INSERT INTO t VALUES (200); DELETE FROM t WHERE id = 0")
    drain(source, received)
    assert held(received) == printed(db)


def test_an_array_that_no_list_can_hold_is_what_the_server_prints(db, make_source, drain):
    """The bytes of its elements are texts; those of the array are not."""
    prepared(db, "citext")
    db.execute("CREATE TABLE t (id int PRIMARY KEY, many citext[])")
    db.execute("INSERT INTO t VALUES (1, '{{a,B},{c,NULL}}'), (2, '{d}')")
    source = make_source("t")
    source.open()
    received = drain(source)
    db.execute("INSERT INTO t VALUES (3, '{{x,Y}}')")
    drain(source, received)
    found = {key[0]: row["many"] for key, row in received.state("public.t", "id").items()}
    assert found == {1: "{{a,B},{c,NULL}}", 2: "{d}", 3: "{{x,Y}}"}


def prepared(db, kind: str) -> list[str]:
    """Values of a type that the server has now."""
    prepare, values = MADE[kind]
    try:
        db.execute(prepare)
    except psycopg.errors.FeatureNotSupported as missing:
        pytest.skip(f"this build of PostgreSQL has no {kind}: {missing}")
    return values


def held(received) -> dict[int, tuple]:
    return {key[0]: (row["v"], row["many"]) for key, row in received.state("public.t", "id").items()}


def printed(db) -> dict[int, tuple]:
    """Lists are lists here; of what has no list the server's text is held."""
    return {
        number: (text, [first, None] if many else None)
        for number, text, many, first in db.execute("SELECT id, v::text, many::text, many[1]::text FROM t")
    }
