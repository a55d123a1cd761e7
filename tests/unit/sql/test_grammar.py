"""Statements as they are written, and what is said of those that are written otherwise."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError, InvalidQuery, NotYet, PenstockError
from penstock.sql.grammar import GRAMMARS, parse
from penstock.sql.statements import (
    AlterStreamTable,
    CreateSource,
    CreateStreamTable,
    Describe,
    DescribeConnector,
    DropSource,
    DropStreamTable,
    Explain,
    RefreshStreamTable,
    Select,
    Show,
    ShowCreate,
    Statement,
)

QUERY = "SELECT city, count(*) AS n FROM customers GROUP BY city"
WRITTEN: list[tuple[str, Statement]] = [
    (f"CREATE STREAM TABLE cities AS {QUERY}", CreateStreamTable("cities", QUERY)),
    (
        f"create stream table if not exists Cities schedule '5m' mode full as {QUERY} ;",
        CreateStreamTable("cities", QUERY, {"schedule": "5m", "mode": "FULL"}, if_not_exists=True),
    ),
    (
        f"CREATE STREAM TABLE cities CRON '*/5 * * * *' CDC_MODE 'WAL' AS {QUERY}",
        CreateStreamTable("cities", QUERY, {"schedule": "*/5 * * * *", "cdc_mode": "wal"}),
    ),
    (
        f"CREATE OR REPLACE STREAM TABLE c WITH (mode = differential, initialize = true, publish = '30s') AS {QUERY}",
        CreateStreamTable("c", QUERY, {"mode": "DIFFERENTIAL", "initialize": True}, "30s", replace=True),
    ),
    ("CREATE STREAM TABLE v AS WITH x AS (SELECT 1 AS a) SELECT a FROM x",
     CreateStreamTable("v", "WITH x AS (SELECT 1 AS a) SELECT a FROM x")),
    ("ALTER STREAM TABLE v SUSPEND", AlterStreamTable("v", {"status": "SUSPENDED"})),
    ("ALTER STREAM TABLE IF EXISTS v RESUME", AlterStreamTable("v", {"status": "ACTIVE"}, if_exists=True)),
    ("ALTER STREAM TABLE v SET SCHEDULE '30s', MODE auto", AlterStreamTable("v", {"schedule": "30s", "mode": "AUTO"})),
    ("ALTER STREAM TABLE v SET STATUS active", AlterStreamTable("v", {"status": "ACTIVE"})),
    (
        f"ALTER STREAM TABLE v SET (cdc_mode = 'trigger', publish = manual) AS {QUERY}",
        AlterStreamTable("v", {"cdc_mode": "trigger", "query": QUERY}, "manual"),
    ),
    ("ALTER STREAM TABLE v AS SELECT 1 AS a", AlterStreamTable("v", {"query": "SELECT 1 AS a"})),
    ("DROP STREAM TABLE a, b CASCADE", DropStreamTable(("a", "b"), cascade=True)),
    ('DROP STREAM TABLE IF EXISTS "a" RESTRICT', DropStreamTable(("a",), if_exists=True)),
    ("REFRESH STREAM TABLE v FULL", RefreshStreamTable("v", full=True)),
    ("REFRESH ALL STREAM TABLES", RefreshStreamTable(None)),
    (
        "CREATE SOURCE shop WITH (connector = 'postgres-cdc', hostname = db, port = 5432, 'table.name' = 'o''s')",
        CreateSource("shop", {"connector": "postgres-cdc", "hostname": "db", "port": "5432", "table.name": "o's"}),
    ),
    (
        "CREATE SOURCE TABLE IF NOT EXISTS u (id BIGINT, price DECIMAL(10, 2)) WITH (slot.name = 's')",
        CreateSource("u", {"slot.name": "s"}, (("id", "BIGINT"), ("price", "DECIMAL(10, 2)")), if_not_exists=True),
    ),
    ("DROP SOURCE IF EXISTS shop CASCADE FORCE", DropSource("shop", if_exists=True, cascade=True, force=True)),
    ("DESCRIBE CONNECTOR 'postgres-cdc'", DescribeConnector("postgres-cdc")),
    ("DESCRIBE CONNECTOR 'postgres-cdc' WITH (database = 'x')", DescribeConnector("postgres-cdc", {"database": "x"})),
    ("SHOW STREAM TABLES LIKE 'rev%'", Show("STREAM TABLES", like="rev%")),
    ("SHOW HISTORY OF v LIMIT 5", Show("HISTORY", name="v", limit=5)),
    ("SHOW SOURCES", Show("SOURCES")),
    ("SHOW CREATE STREAM TABLE v", ShowCreate("STREAM TABLE", "v")),
    ("DESCRIBE STREAM TABLE v", Describe("STREAM TABLE", "v")),
    ("DESCRIBE shop.public.orders", Describe("RELATION", "shop.public.orders")),
    ("EXPLAIN STREAM TABLE v", Explain("v")),
    (f"EXPLAIN CREATE STREAM TABLE v AS {QUERY}", Explain(CreateStreamTable("v", QUERY))),
    ("SELECT 'a;b' AS x", Select("SELECT 'a;b' AS x")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "statement"), WRITTEN, ids=lambda value: str(value)[:60])
def test_a_statement_is_read(text: str, statement: Statement) -> None:
    (found,) = parse(text)
    assert found.statement == statement


def test_every_statement_has_an_example_here() -> None:
    for grammar in GRAMMARS:
        assert any(text.upper().startswith(grammar.words) for text, _ in WRITTEN), grammar.words


REFUSED: list[tuple[str, type[PenstockError], str]] = [
    ("CREATE VIEW v AS SELECT 1", InvalidQuery, "line 1, column 8: expected STREAM TABLE, OR REPLACE STREAM TABLE or"),
    ("VACUUM", InvalidQuery, "line 1, column 1: expected CREATE STREAM TABLE"),
    ("CREATE STREAM TABLE v\n  SCHEDULE '5x' AS SELECT 1", ConfigError, "line 2, column 12: '5x' is not a schedule"),
    ("CREATE STREAM TABLE v MODE quick AS SELECT 1", InvalidQuery, "a mode (AUTO, DIFFERENTIAL, FULL, IMMEDIATE)"),
    ("CREATE STREAM TABLE v SCHEDULE '1m' CRON '* * * * *' AS SELECT 1", InvalidQuery, "column 37: the schedule is"),
    ("CREATE STREAM TABLE v CRON 'daily' AS SELECT 1", ConfigError, "'daily' is not a cron expression"),
    ("CREATE STREAM TABLE v\nWITH (sched = '1m') AS SELECT 1", InvalidQuery, "line 2, column 6: no option sched"),
    ("CREATE STREAM TABLE v SELECT 1", InvalidQuery, "AS, SCHEDULE, CRON, MODE, CDC_MODE or WITH, found SELECT"),
    ("CREATE STREAM TABLE v AS", InvalidQuery, "line 1, column 25: expected a query"),
    ("CREATE STREAM TABLE v AS\nSELECT a FROM\nWHERE b", InvalidQuery, "line 3, column 1: syntax error near WHERE"),
    ("CREATE STREAM TABLE v AS DROP TABLE x", InvalidQuery, "column 26: expected a SELECT"),
    ("CREATE STREAM TABLE v AS\nSELECT a FROM t EMIT CHANGES", NotYet, "line 2, column 17: the EMIT clause is not"),
    ("CREATE STREAM TABLE v AS SELECT a FROM t GROUP BY a EMIT ON WINDOW CLOSE", NotYet, "the EMIT clause"),
    ("CREATE SOURCE s (a int,\n WATERMARK FOR a AS a) WITH (x = 1)", NotYet, "line 2, column 16: the WATERMARK clause"),
    ("CREATE SOURCE s WITH (a = 1, a = 2)", InvalidQuery, "column 30: a is given twice"),
    ("CREATE SOURCE s WITH (a = 1", InvalidQuery, "expected ',' or ')', found the end of the statement"),
    ("DROP STREAM TABLE a b", InvalidQuery, "column 21: expected ',', CASCADE, RESTRICT or the end of the statement"),
    ("ALTER STREAM TABLE v SET NAME x", InvalidQuery, "expected SCHEDULE, CRON, MODE, CDC_MODE, STATUS or '('"),
    ("ALTER STREAM TABLE v SET (initialize = true)", InvalidQuery, "no option initialize"),
    ("SHOW nothing", InvalidQuery, "expected CREATE STREAM TABLE, CREATE SOURCE, STREAM TABLES"),
    ("SHOW SOURCES;\nSHOW HISTORY LIMIT x", InvalidQuery, "line 2, column 20: expected a number of lines, found x"),
    ("SELECT 1; SELECT 'open", InvalidQuery, "line 1, column 18: a text begins here and does not end"),
    ("SHOW SOURCES /* open", InvalidQuery, "a comment begins here and does not end"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "said"), REFUSED, ids=lambda value: str(value)[:50])
def test_an_error_names_the_place_and_what_was_expected(text: str, kind: type[PenstockError], said: str) -> None:
    with pytest.raises(kind) as refused:
        parse(text)
    assert said in refused.value.message
    assert refused.value.hint


def test_several_statements_keep_their_places_and_their_words() -> None:
    text = "-- the first\nSHOW SOURCES; /* ; */\n  SELECT 'it\\'s; fine' AS \"a;b\";;\nSHOW ALERTS"
    found = parse(text)
    assert [(one.line, one.column) for one in found] == [(2, 1), (3, 3), (4, 1)]
    assert found[1].statement == Select("SELECT 'it\\'s; fine' AS \"a;b\"")


def test_a_query_is_kept_as_it_was_written() -> None:
    query = "SELECT $$a;b$$ AS x, -- why\n  E'it\\'s;' AS y"
    (found,) = parse(f"CREATE STREAM TABLE v AS {query};")
    assert found.statement == CreateStreamTable("v", query)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SOURCE s WITH (password 's3cret')",
        "CREATE SOURCE s WITH (password = 's3cret', password = 's3cret')",
        "CREATE SOURCE s WITH (password = 's3cret' 'x')",
        "CREATE SOURCE s WITH (password = 's3cret'; SHOW SOURCES",
        "CREATE SOURCE s WITH (password = 's3cret') 's3cret'",
        "CREATE SOURCE s WITH (password = 's3cret, x = 'y')",
    ],
)
def test_a_password_is_in_no_error(text: str) -> None:
    with pytest.raises(PenstockError) as refused:
        parse(text)
    assert "s3cret" not in str(refused.value)


def test_a_password_is_in_no_representation() -> None:
    found = parse(
        "CREATE SOURCE s WITH (password = 's3cret'); DESCRIBE CONNECTOR 'postgres-cdc' WITH (password = 's3cret')"
    )
    assert "s3cret" not in repr(found)
