"""Every PostgreSQL type in a mirrored table: settled, published to Delta and verified against the source."""

from __future__ import annotations

import psycopg

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN price AS numeric(10,2);
"""
COLUMNS = {
    "b": ("bool", "true"), "i2": ("int2", "-1"), "i4": ("int4", "7"), "i8": ("int8", "9007199254740993"),
    "f4": ("float4", "0.1"), "f8": ("float8", "NaN"), "n": ("numeric", "1.50"), "n2": ("numeric(12,4)", "2.5"),
    "bytes": ("bytea", "\\x00ff"), "d": ("date", "2020-02-29"), "ts": ("timestamp", "2020-01-01 12:00:00.000001"),
    "tz": ("timestamptz", "2020-01-01 12:00:00+02"), "t": ("text", "ü"), "c": ("char(4)", "ab"),
    "u": ("uuid", "0" * 32), "j": ("json", '{"a" : 1}'), "jb": ("jsonb", '{"a": 1.10}'), "tm": ("time", "24:00:00"),
    "ttz": ("timetz", "1:00+05:30"), "ip": ("inet", "10.0.0.1"), "net": ("cidr", "10.0.0.0/8"),
    "mac": ("macaddr", "08002b010203"), "m": ("money", "12.5"), "bits": ("bit(3)", "101"), "mood": ("mood", "ok"),
    "price": ("price", "9.99"), "pair": ("pair", "(1,x)"), "r": ("numrange", "[1.0,2)"),
    "mr": ("int4multirange", "{[1,3)}"), "tsv": ("tsvector", "'a':1"), "bx": ("box", "(1,1),(0,0)"),
    "rc": ("regclass", "pg_class"), "lsn": ("pg_lsn", "1/2"), "iv": ("interval", "1 mon -3 days 00:00:01.5"),
    "pt": ("point", "(1.5,-0)"), "ints": ("int[]", "{1,NULL,3}"), "texts": ("text[]", '{"a,b",NULL,""}'),
    "moods": ("mood[]", "{sad,ok}"), "prices": ("price[]", "{1.10,NULL}"),
    "ivs": ("interval[]", '{"1 mon","30 days"}'), "pts": ("point[]", '{"(1,2)"}'), "days": ("date[]", "{}"),
    "bxs": ("box[]", "{(1,1),(0,0)}"), "nan": ("numeric", "NaN"), "wide": ("numeric", "1" * 50),
    "inf": ("date", "infinity"), "bc": ("timestamp", "0044-03-15 00:00:00 BC"),
    "far": ("timestamptz", "20000-01-01 00:00:00+00"), "square": ("int[]", "{{1,2},{3,4}}"),
}  # fmt: skip


def test_every_type_is_mirrored_published_and_verified(ps, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute(TYPES)
        listed = ", ".join(f"{name} {pg}" for name, (pg, _) in COLUMNS.items())
        casts = ", ".join(f"%s::text::{pg}" for pg, _ in COLUMNS.values())
        values = [value for _, value in COLUMNS.values()]
        db.execute(f"CREATE TABLE t (id int PRIMARY KEY, {listed})")
        for number in (1, 2, 3):
            db.execute(f"INSERT INTO t VALUES ({number}, {casts})", values)
        db.execute("INSERT INTO t (id) VALUES (4)")
        # Without a key every row is found by all its columns.
        db.execute(
            "CREATE TABLE pile AS SELECT i4, iv, ints, texts, ivs, nan FROM t; ALTER TABLE pile REPLICA IDENTITY FULL"
        )

        ps.add_source("shop", source_db, tables=["public.*"])
        ps.create_stream_table("passed", "SELECT id, ints, iv, pt, nan, inf, price * 2 AS twice FROM t WHERE i4 = 7")
        path = ps.publish("t").path
        ps.publish("pile")
        ps.refresh("passed")

        db.execute("UPDATE t SET i2 = 5, ints = '{4}', iv = '2 mons', nan = 3, inf = '2020-01-01' WHERE id = 1")
        db.execute("DELETE FROM t WHERE id = 2")
        db.execute(f"INSERT INTO t VALUES (5, {casts})", values)
        db.execute("UPDATE pile SET iv = '30 days' WHERE iv = '1 mon -3 days 00:00:01.5'")
        db.execute("INSERT INTO pile SELECT * FROM pile")
        assert_verified(ps)
        before = {row["id"]: row for row in ps.table("t").toArrow().to_pylist()}
        ps.publish("t")
        found = {row["id"]: row for row in ps.spark.read.format("delta").load(path).toArrow().to_pylist()}
        assert {key: str(row) for key, row in found.items()} == {key: str(row) for key, row in before.items()}
        assert found[1]["ints"] == [4]
        assert found[3]["ints"] == [1, None, 3]
        assert found[3]["iv"] == {"months": 1, "days": -3, "microseconds": 1_500_000}
        assert (found[3]["nan"], found[3]["inf"], found[3]["square"]) == ("NaN", "infinity", "{{1,2},{3,4}}")


def assert_verified(ps) -> None:
    """Row by row, and where one differs, which values do."""
    found = ps.verify("shop")
    pairs = [pair for one in found.differences for pair in zip(one.missing, one.extra, strict=False)]
    assert found.ok, [(a, b) for missing, extra in pairs for a, b in zip(missing, extra, strict=True) if a != b]
