"""What a view cannot have is refused by its name; what is wrong is said in PostgreSQL's words, with near names."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidQuery, NotYet, PenstockError, UnsupportedQuery
from penstock.relation.schema import Column, Schema
from penstock.views import Described, Relation, compile_view
from penstock.views.expr import INT4, TEXT

T = Relation("t", Schema((Column.of("a", INT4), Column.of("s", TEXT))))


class NeverAsked:
    def describe(self, sql: str) -> tuple[Described, ...]:
        raise AssertionError("refused before PostgreSQL is asked")


def compiled(sql: str, dialect: str = "postgres") -> None:
    compile_view("v", sql, dialect=dialect, resolve=lambda parts: T, typer=NeverAsked())


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT DISTINCT ON (a) a, s FROM (SELECT a, s FROM t ORDER BY a, s) x", "ORDER BY without LIMIT"),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) x LIMIT 1", "ORDER BY without LIMIT"),
        ("SELECT array_agg(a) FROM (SELECT a FROM t ORDER BY a) x", "ORDER BY without LIMIT"),
        ("SELECT 1 FROM t FULL JOIN t u USING (a) JOIN t v USING (a)", "USING after a RIGHT or FULL JOIN"),
        ("SELECT t.a FROM t LEFT JOIN t u ON u.a IN (SELECT a FROM t)", "a subquery in ON"),
        ("WITH RECURSIVE r AS (SELECT a FROM t UNION ALL SELECT a FROM r) SELECT a FROM r", "WITH RECURSIVE"),
        ("SELECT a FROM t TABLESAMPLE SYSTEM (10)", "TABLESAMPLE"),
        ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
    ],
)
def test_refused_by_name(sql: str, name: str) -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        compiled(sql)
    assert name in refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC a FROM t", "line 1"),
        ("SELECT a FROM t WHERE", "line 1"),
        ("SELECT a FROM t; SELECT a FROM t", "expected one query"),
        ("DELETE FROM t", "not DELETE"),
        ("", "expected one query"),
    ],
)
def test_what_does_not_parse_is_invalid(sql: str, said: str) -> None:
    with pytest.raises(InvalidQuery) as error:
        compiled(sql)
    assert said in str(error.value)


def test_spark_sql_is_not_there_yet() -> None:
    with pytest.raises(NotYet):
        compiled("SELECT a FROM t", dialect="spark")
    with pytest.raises(PenstockError):
        compiled("SELECT a FROM t", dialect="mysql")
