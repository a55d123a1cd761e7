"""Joins of tables that are in one partition each: one task, without a shuffle, and the same rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from penstock.lake.session import small_queries
from penstock.views.render.dialect import IN_MEMORY
from penstock.views.render.hints import add_hint
from penstock.views.render.one_partition import in_one_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOINS = [
    "SELECT a.`k`, b.`v` AS `bv`, c.`v` FROM a JOIN b ON b.`k` = a.`k` JOIN c ON c.`v` = b.`v`",
    "SELECT a.`v`, d.`v` AS w FROM a JOIN b ON b.`k` = a.`k` JOIN c ON c.`v` = b.`v` JOIN d ON d.`k` = a.`v` + b.`v`",
    "SELECT a.`k`, c.`v` FROM a LEFT JOIN b ON b.`k` = a.`k` JOIN c ON c.`k` = a.`k` JOIN d ON d.`v` = c.`v`",
    "SELECT a.`k`, c.`v` FROM a JOIN b ON b.`k` = a.`k` LEFT JOIN c ON c.`v` = b.`v` AND a.`v` > 1",
    "SELECT a.`k`, b.`k` AS l, c.`v` FROM a FULL JOIN b ON b.`k` = a.`k` JOIN c ON c.`v` = b.`v`",
    "SELECT a.`k` FROM a JOIN b ON b.`k` = a.`k` LEFT SEMI JOIN c ON c.`v` = b.`v`"
    " LEFT ANTI JOIN d ON d.`k` = a.`k` + 3",
    "SELECT b.`v`, COUNT(*) AS n, SUM(a.`v` * c.`v`) AS s FROM a JOIN b ON b.`k` = a.`k` JOIN c ON c.`v` = b.`v`"
    " WHERE a.`v` < 7 GROUP BY b.`v` HAVING COUNT(*) > 0",
    "SELECT a.`k`, e.`s` FROM a JOIN (SELECT b.`k`, c.`v` AS `s` FROM b JOIN c ON c.`v` = b.`v`) AS e ON e.`k` = a.`k`",
    "SELECT e.`k`, a.`v` FROM (SELECT f.`k` FROM (SELECT b.`k` FROM b JOIN c ON c.`v` = b.`v`) AS f WHERE f.`k` > 0)"
    " AS e JOIN a ON e.`k` = a.`k`",
    "SELECT 1 AS one FROM a JOIN b ON b.`k` = a.`k` JOIN c ON true",
    "SELECT a.`k`, x.`m` FROM a JOIN b ON b.`k` = a.`k`"
    " JOIN LATERAL (SELECT a.`v` + b.`v` AS `m` UNION ALL SELECT b.`k`) AS x",
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    small = small_queries(spark)
    for number, name in enumerate("abcd", 1):
        rows = pa.table({"k": [(n * number) % 5 for n in range(9)], "v": [n % (number + 2) for n in range(9)]})
        small.createDataFrame(rows).coalesce(1).createOrReplaceTempView(name)
    return small


@pytest.mark.parametrize("sql", JOINS)
def test_the_same_rows(session: SparkSession, sql: str) -> None:
    expected, found = session.sql(sql), session.sql(_kept(sql))
    assert found.columns == expected.columns
    assert Counter(found.collect()) == Counter(expected.collect())
    assert expected.collect(), "no rows prove nothing"


@pytest.mark.parametrize("sql", [sql for sql in JOINS if not {"true", "LATERAL", "SEMI"} & set(sql.split())])
def test_nothing_is_shuffled(session: SparkSession, sql: str) -> None:
    plan = session.sql(_kept(sql))._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan, plan


def test_spark_still_needs_to_be_told(session: SparkSession) -> None:
    """Where this fails, `one_partition` can go."""
    hinted = JOINS[0].replace("SELECT", "SELECT /*+ SHUFFLE_HASH(b, c) */", 1)
    assert "Exchange" in session.sql(hinted)._jdf.queryExecution().executedPlan().toString()


def test_what_needs_no_word_stays_as_it_is() -> None:
    for sql in (
        "SELECT a.`k` FROM a",
        "SELECT a.`k`, b.`v` FROM a JOIN b ON b.`k` = a.`k`",
        "SELECT a.`k` FROM a LEFT JOIN b ON b.`k` = a.`k` JOIN c ON c.`k` = a.`k`",
        "SELECT a.`k` FROM a JOIN (SELECT b.`k`, COUNT(*) AS n FROM b GROUP BY b.`k`) AS e ON e.`k` = a.`k`",
    ):
        assert "COALESCE" not in _kept(sql)


def _kept(sql: str) -> str:
    """As the renderer does it: the innermost statement first."""
    query = sqlglot.parse_one(sql, dialect="spark")
    for select in reversed(list(query.find_all(exp.Select))):
        assert isinstance(select, exp.Select)
        joins = select.args.get("joins") or []
        tables = [select.args["from_"].this, *(join.this for join in joins)] if joins else []
        for table in tables:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias_or_name)))
        add_hint(select, IN_MEMORY.join_hint([table.alias for table in tables]))
        kept = in_one_partition(select, IN_MEMORY.join_hint)
        if select is query:
            return IN_MEMORY.text(kept)
        select.replace(kept)
    raise AssertionError("no statement")
