"""A random life of two sources and one home: transactions, TRUNCATE, DDL, new keys and identities, publishes, crashes.

Steps are plain tuples, so that a failing life can be written down as a test. The oracle is PostgreSQL: `verify` at its
own LSN, and for earlier frontiers the rows that the source had when they were reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from hypothesis import strategies as st
from psycopg import sql

import penstock
from penstock import failpoint
from penstock.catalog import relations
from penstock.cut import Frontier
from penstock.errors import NotRetained, SchemaChanged
from penstock.failpoint import FailpointReached
from penstock.refresh.lake_side import LakeSide

Step = tuple[Any, ...]
Rows = Counter[tuple[Any, ...]]
SOURCES = ("a", "b")
TABLES = ("keyed", "pair", "bag")
CRASHES = (
    "ingest.before_commit", "ingest.before_acknowledge", "settle.files_written", "settle.before_commit",
    "settle.after_commit", "publish.delta_committed", "publish.before_commit", "publish.after_commit",
)  # fmt: skip
SCHEMA = """
    CREATE TABLE {0}.keyed
        (id int PRIMARY KEY, v text, n numeric(10,2), big text, f float8, list int[], at timestamptz);
    ALTER TABLE {0}.keyed ALTER big SET STORAGE EXTERNAL;
    CREATE TABLE {0}.pair (a int, b text, v bigint, PRIMARY KEY (a, b));
    ALTER TABLE {0}.pair REPLICA IDENTITY FULL;
    CREATE TABLE {0}.bag (x int, y text, gone date);
    ALTER TABLE {0}.bag REPLICA IDENTITY FULL;
"""

keys, texts = st.integers(1, 6), st.sampled_from([None, "", "é'\\", "long"])
numbers = st.integers(-(10**6), 10**6)
statements = st.tuples(st.sampled_from(range(11)), keys, keys, texts, numbers)
steps = st.one_of(
    *[st.tuples(st.just("transaction"), st.sampled_from(SOURCES), st.lists(statements, min_size=1, max_size=8))] * 4,
    st.tuples(st.just("rolled back"), st.sampled_from(SOURCES), st.lists(statements, min_size=1, max_size=4)),
    st.tuples(st.just("truncate"), st.sampled_from(SOURCES), st.sets(st.sampled_from(TABLES), min_size=1)),
    st.tuples(st.just("identity"), st.sampled_from(SOURCES), st.sampled_from(["keyed", "pair"]), st.booleans()),
    st.tuples(st.just("ddl"), st.sampled_from(SOURCES), st.sampled_from(TABLES), st.integers(0, 4)),
    *[st.tuples(st.just("catch up"))] * 2,
    st.tuples(st.just("crash"), st.sampled_from(CRASHES)),
    st.tuples(st.just("publish"), st.sampled_from(SOURCES), st.sampled_from(TABLES)),
    st.tuples(st.just("verify")),
)
lives = st.lists(steps, min_size=5, max_size=20)


@dataclass
class Life:
    """One example. `open` opens the home (again, after a crash); schemas of the two databases are its own."""

    open: Callable[[], penstock.Session]
    dsns: dict[str, str]
    schema: str
    seen: list[tuple[Frontier, dict[str, Rows]]] = field(default_factory=list)
    columns: int = 0

    def __post_init__(self) -> None:
        self.db = {name: psycopg.connect(dsn, autocommit=True) for name, dsn in self.dsns.items()}
        for connection in self.db.values():
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"CREATE SCHEMA {self.schema}")
            connection.execute(SCHEMA.format(self.schema))
            self.run(connection, [(0, 1, 1, "x", 5), (5, 1, 1, "y", 1), (8, 1, 1, None, 2)])
        self.ps = self.open()

    def source(self, name: str) -> str:
        return f"{name}_{self.schema}"

    def relation(self, source: str, table: str) -> str:
        return f"{self.source(source)}.{self.schema}.{table}"

    def live(self, life: Sequence[Step]) -> None:
        try:
            for name, dsn in self.dsns.items():
                self.ps.add_source(self.source(name), dsn, tables=[f"{self.schema}.*"])
            for step in life:
                getattr(self, step[0].replace(" ", "_"))(*step[1:])
            self.verify()
            self.look_back()
        finally:
            self.end()

    def end(self) -> None:
        for name in self.dsns:
            if any(one.name == self.source(name) for one in self.ps.status().sources):
                self.ps.remove_source(self.source(name), force=True)
        self.ps.close()
        for connection in self.db.values():
            connection.execute(f"DROP SCHEMA {self.schema} CASCADE")
            connection.close()

    # What the applications do -----------------------------------------------------------------------------------------

    def transaction(self, source: str, statements: Sequence[Step]) -> None:
        with self.db[source].transaction():
            self.run(self.db[source], statements)

    def rolled_back(self, source: str, statements: Sequence[Step]) -> None:
        with self.db[source].transaction(force_rollback=True):
            self.run(self.db[source], statements)

    def run(self, db: psycopg.Connection[Any], statements: Sequence[Step]) -> None:
        for kind, key, other, text, number in statements:
            text = "toasted " * 400 if text == "long" else text
            given = {"k": key, "o": other, "t": text, "n": number, "s": str(other)}
            db.execute(STATEMENTS[kind].replace("$", self.schema + "."), given)

    def truncate(self, source: str, tables: set[str]) -> None:
        listed = ", ".join(f"{self.schema}.{table}" for table in sorted(tables))
        self.db[source].execute(f"TRUNCATE {listed}")

    def identity(self, source: str, table: str, full: bool) -> None:
        kind = "FULL" if full else "DEFAULT"
        self.db[source].execute(f"ALTER TABLE {self.schema}.{table} REPLICA IDENTITY {kind}")

    def ddl(self, source: str, table: str, kind: int) -> None:
        self.columns += 1
        name, own = f"c{self.columns}", f"{self.schema}.{table}"
        added = [
            column
            for (column,) in self.db[source].execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attname ~ '^c[0-9]'"
                " AND NOT attisdropped",
                (own,),
            )
        ]
        match kind:
            case 0:
                change = f"ADD {name} int"
            case 1:
                change = f"ADD {name} text DEFAULT 'd{self.columns}'"
            case 2 if added:
                change = f"DROP {added[0]}"
            case 3 if added:
                change = f"RENAME {added[-1]} TO {name}"
            case _:
                change = f"ADD {name} numeric NOT NULL DEFAULT {self.columns}.50"
        self.db[source].execute(f"ALTER TABLE {own} {change}")
        if kind in (2, 3):  # without one more change the log does not tell, and what is gone cannot be compared
            self.transaction(source, [(kind, 1, 2, "touched", self.columns) for kind in TOUCH[table]])
        for _, rows in self.seen:  # of another shape from here on
            rows.pop(self.relation(source, table), None)

    # What the home does -----------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        self.following(self.ps.catch_up)
        frontier = self.ps.frontier()
        now = {self.relation(s, t): self.rows(s, t) for s in self.dsns for t in TABLES}
        self.seen.append((frontier, now))

    def following(self, call: Callable[[], Any]) -> Any:
        """A table whose shape changed in a way that is not followed is copied again."""
        for _ in range(2 * len(TABLES) * len(SOURCES)):
            try:
                return call()
            except SchemaChanged as error:
                self.copy_again(error)
        raise AssertionError("the shapes of tables change without end")

    def copy_again(self, error: SchemaChanged) -> None:
        named = [t for t in TABLES if f"{self.schema}.{t}" in error.message]
        assert len(named) == 1, error.message
        for source in self.dsns:
            if self.stopped(source):
                with suppress(SchemaChanged):  # another table of it changed too: the next turn copies that one
                    self.resync(source, named[0])
                return
        raise error

    def stopped(self, source: str) -> bool:
        try:
            self.ps.engine.captures.catch_up(self.source(source))
        except SchemaChanged:
            return True
        return False

    def resync(self, source: str, table: str) -> None:
        self.ps.resync(self.source(source), f"{self.schema}.{table}")
        for _, rows in self.seen:
            rows.pop(self.relation(source, table), None)

    def crash(self, where: str) -> None:
        """The process ends at a durable step, if it comes to one; another one goes on."""
        with failpoint.arm(where):
            try:
                self.following(self.ps.catch_up)
                if where.startswith("publish"):
                    self.publish("a", "keyed")
            except FailpointReached:
                pass
        self.ps.close()
        self.ps = self.open()

    def publish(self, source: str, table: str) -> None:
        self.ps.publish(self.relation(source, table))

    def verify(self) -> None:
        outcome = self.following(self.ps.verify)
        assert outcome.ok, str(outcome)
        assert len(outcome.rows) >= len(TABLES) * len(self.dsns)

    def rows(self, source: str, table: str) -> Rows:
        listed = sql.Identifier(self.schema, table)
        return Counter(
            _plain(row) for row in self.db[source].execute(sql.SQL("SELECT * FROM {}").format(listed)).fetchall()
        )

    def look_back(self) -> None:
        """Every frontier that was reached, as far as it is still there to be read."""
        for frontier, tables in self.seen:
            for name, expected in tables.items():
                relation = relations.find(self.ps.catalog, name)
                try:
                    position = self.ps.engine.position(name, frontier)[1]
                except NotRetained:
                    continue
                side = LakeSide(self.ps.engine.reader, relation, position, relation.schema.columns, 1)
                found = Counter({_plain(row): weight for row, weight in side.rows([0], 1)})
                assert found == expected, (name, frontier)


TOUCH = {"keyed": (0,), "pair": (5, 6), "bag": (8,)}
STATEMENTS = (
    "INSERT INTO $keyed (id, v, n, big, f, list, at) VALUES (%(k)s, %(t)s, %(n)s / 100.0, %(t)s, %(n)s / 7.0, "
    "ARRAY[%(k)s, NULL, %(o)s], now()) ON CONFLICT (id) DO UPDATE SET v = excluded.v, f = -keyed.f",
    "UPDATE $keyed SET n = n + 1, v = v WHERE id %% 3 = %(k)s %% 3",
    "UPDATE $keyed SET id = %(o)s + 100 WHERE id = %(k)s AND NOT EXISTS (SELECT FROM $keyed WHERE id = %(o)s + 100)",
    "DELETE FROM $keyed WHERE id = %(k)s",
    "UPDATE $keyed SET big = %(t)s, list = CASE WHEN list IS NULL THEN '{}'::int[] END WHERE id >= %(k)s",
    "INSERT INTO $pair (a, b, v) VALUES (%(k)s %% 3, %(s)s, %(n)s) ON CONFLICT DO NOTHING",
    "UPDATE $pair SET v = v + 1, b = CASE WHEN a = %(k)s %% 3 THEN b || 'x' ELSE b END",
    "DELETE FROM $pair WHERE a = %(k)s %% 3 AND b > %(s)s",
    "INSERT INTO $bag (x, y, gone) SELECT %(k)s %% 3, %(s)s, date '2020-01-30' + i * %(o)s "
    "FROM generate_series(0, 1) i, generate_series(1, 2)",
    "DELETE FROM $bag WHERE ctid IN (SELECT ctid FROM $bag WHERE x = %(k)s %% 3 LIMIT 1)",
    "UPDATE $bag SET y = %(s)s WHERE ctid IN (SELECT ctid FROM $bag WHERE x = %(k)s %% 3 LIMIT 2)",
)


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
