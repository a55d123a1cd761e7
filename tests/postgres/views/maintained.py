"""A view kept fresh in PostgreSQL by its own delta programs, over inputs whose history is never netted.

Every input is a table of weighted rows by round; `before`, `after`, `delta` and `rows` are SQL views of it. The view's
and the states' changes are only ever appended. After each round both must equal what PostgreSQL computes from scratch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from penstock.relation.schema import Column, Schema
from penstock.views import PostgresTyper, Program, Read, Relation, View, compile_view, delta, full, placeholder
from penstock.views.approximate import Rooms, approximate
from penstock.views.expr import kind as kind_of
from penstock.views.oracle import differing_rows
from penstock.views.typer import type_name

Connection = psycopg.Connection[Any]
Row = tuple[Any, ...]


def relation(name: str, *columns: Column, key: Sequence[str] = ()) -> Relation:
    return Relation(name, Schema(columns, tuple(key)))


def floats(columns: Sequence[Column]) -> Rooms:
    """Of what is remembered, float sums depend on the order of adding; the rest is exact."""
    return {column.name: "quotient" for column in columns if kind_of(column.pg) == "float"}


class Inputs:
    """The tables of a test: plain for the oracle, weighted by round for the programs."""

    def __init__(self, connection: Connection, relations: Sequence[Relation]) -> None:
        self.connection = connection
        connection.adapters.register_loader("jsonb", TextLoader)  # as the text that a view holds
        self.relations = {found.name: found for found in relations}
        self.rows: dict[str, list[Row]] = {name: [] for name in self.relations}
        self.round = 0
        self.growing = frozenset[str]()
        connection.execute("CREATE TEMP TABLE the_round (n int); INSERT INTO the_round VALUES (0)")
        for found in relations:
            self._create(found)

    def clear(self) -> None:
        """No rows, no history."""
        self.round = 0
        self.rows = {name: [] for name in self.relations}
        tables = ", ".join(f"{name}, z_{name}" for name in self.relations)
        self.connection.execute(f"TRUNCATE {tables}; UPDATE the_round SET n = 0")

    def _create(self, found: Relation) -> None:
        columns = ", ".join(f'"{c.name}" {type_name(c.pg)}' for c in found.schema.columns)
        names = ", ".join(f'"{c.name}"' for c in found.schema.columns)
        run, table = self.connection.execute, found.name
        run(f"CREATE TEMP TABLE {table} ({columns})")
        run(f"CREATE TEMP TABLE z_{table} ({columns}, _weight bigint, round int)")
        now = "(SELECT n FROM the_round)"
        forms = {
            "rows": f"SELECT {names} FROM {table}",
            "before": f"SELECT {names}, _weight FROM z_{table} WHERE round < {now}",
            "after": f"SELECT {names}, _weight FROM z_{table} WHERE round <= {now}",
            "delta": f"SELECT {names}, sum(_weight)::bigint AS _weight FROM z_{table} WHERE round = {now} "
            f"GROUP BY {names} HAVING sum(_weight) <> 0",
        }
        for kind, query in forms.items():
            run(f"CREATE TEMP VIEW {placeholder(Read(kind, table))} AS {query}")  # type: ignore[arg-type]

    def resolve(self, parts: tuple[str, ...]) -> Relation:
        return self.relations[parts[-1]]

    def apply(self, changes: Mapping[str, Sequence[tuple[Row, int]]]) -> None:
        """One round: rows inserted (+1) and deleted (−1), which must be there."""
        self.round += 1
        self.growing = frozenset(name for name, found in changes.items() if all(weight > 0 for _, weight in found))
        self.connection.execute("UPDATE the_round SET n = %s", [self.round])
        for name, found in changes.items():
            for row, weight in found:
                if weight > 0:
                    self.rows[name].append(row)
                else:
                    self.rows[name].remove(row)
            self._insert(f"z_{name}", name, [(*row, w, self.round) for row, w in found], ("_weight", "round"))
            self.connection.execute(f"DELETE FROM {name}")
            self._insert(name, name, self.rows[name])

    def _insert(self, table: str, name: str, rows: Sequence[Row], more: Sequence[str] = ()) -> None:
        columns = self.relations[name].schema.columns
        cells = [(c.name, _json if c.pg.oid == JSONB else _plain) for c in columns] + [(one, _plain) for one in more]
        data = [
            ", ".join(f"{json.dumps(cell)}: {made(value)}" for (cell, made), value in zip(cells, row, strict=True))
            for row in rows
        ]
        whole = "[" + ", ".join(f"{{{row}}}" for row in data) + "]"
        self.connection.execute(
            f"INSERT INTO {table} SELECT * FROM jsonb_populate_recordset(NULL::{table}, %s)", [whole]
        )


JSONB = 3802


def _plain(value: Any) -> str:
    return json.dumps(value if value is None or isinstance(value, (bool, int, list)) else str(value))


def _json(value: Any) -> str:
    """A text that is JSON already."""
    return "null" if value is None else str(value)


class Maintained:
    """A view beside its inputs: `start`, then `refresh` and `check` after each round."""

    def __init__(self, inputs: Inputs, sql: str) -> None:
        self.inputs = inputs
        self.connection = inputs.connection
        self.sql = sql
        self.view: View = compile_view("v", sql, resolve=inputs.resolve, typer=PostgresTyper(self.connection))
        self.columns: dict[str, Sequence[Column]] = {"view": self.view.columns}
        self.columns |= {state.name: state.schema.columns for state in self.view.states}
        self.approximate = {"view": approximate(self.view)}
        self.approximate |= {state.name: floats(state.schema.columns) for state in self.view.states}

    @cached_property
    def anew(self) -> Program:
        """What computes it from the inputs as they are; its text is made once."""
        return full(self.view, "postgres")

    def start(self) -> None:
        """Stored anew from the inputs as they are."""
        for name, output in self.anew.outputs.items():
            self.connection.execute(f"DROP TABLE IF EXISTS {self.table(name)} CASCADE")
            self.connection.execute(f"CREATE TEMP TABLE {self.table(name)} AS {output.sql}")

    def table(self, name: str) -> str:
        return "stored_view" if name == "view" else placeholder(Read("state", name))

    def refresh(self, changed: frozenset[str], sizes: Mapping[str, int] | None = None) -> None:
        program = delta(self.view, changed, "postgres", sizes, growing=self.inputs.growing & changed)
        self.store({name: self.connection.execute(out.sql).fetchall() for name, out in program.outputs.items()})

    def store(self, changes: Mapping[str, Sequence[Row]]) -> None:
        for name, rows in changes.items():
            if rows:
                marks = ", ".join(["%s"] * len(rows[0]))
                with self.connection.cursor() as cursor:
                    cursor.executemany(f"INSERT INTO {self.table(name)} VALUES ({marks})", rows)

    def check(self) -> None:
        """The view is what PostgreSQL computes from the same rows."""
        self._same("view", self.expected(), self.stored("view"))

    def check_stored(self) -> None:
        """What is stored, the view and what it remembers, is what would be if computed now."""
        for name, output in self.anew.outputs.items():
            rows = [row[:-1] for row in self.connection.execute(output.sql) for _ in range(row[-1])]
            self._same(name, rows, self.stored(name))

    def check_all(self) -> None:
        """So is what `full` computes; and what is remembered is what would be remembered if computed now."""
        expected = self.expected()
        for name, output in self.anew.outputs.items():
            rows = [row[:-1] for row in self.connection.execute(output.sql) for _ in range(row[-1])]
            self._same(name, rows, expected if name == "view" else self.stored(name))

    def expected(self) -> list[Row]:
        """PostgreSQL's answer; JSON as its text, which is what a view holds."""
        cells = [f'"{c.name}"::text' if c.pg.oid in (114, 3802) else f'"{c.name}"' for c in self.view.columns]
        return self.connection.execute(f"SELECT {', '.join(cells)} FROM ({self.sql}) AS q").fetchall()

    def stored(self, name: str) -> list[Row]:
        places = ", ".join(str(i + 1) for i in range(len(self.columns[name])))
        names = ", ".join(f'"{c.name}"' for c in self.columns[name])
        netted = self.connection.execute(
            f"SELECT {names}, sum(_weight)::int FROM {self.table(name)} GROUP BY {places} HAVING sum(_weight) <> 0"
        ).fetchall()
        assert all(row[-1] > 0 for row in netted), f"{name} has rows of negative weight: {netted}"
        return [row[:-1] for row in netted for _ in range(row[-1])]

    def _same(self, name: str, expected: Sequence[Row], found: Sequence[Row]) -> None:
        missing, extra = differing_rows(expected, found, self.columns[name], self.approximate[name])
        assert not missing, f"{name} of {self.sql}: missing {missing}, extra {extra}"
        assert not extra, f"{name} of {self.sql}: missing {missing}, extra {extra}"


class Beside(Maintained):
    """One of several views kept fresh at the same time: each stores in a schema of its own."""

    def __init__(self, inputs: Inputs, schema: str, sql: str) -> None:
        super().__init__(inputs, sql)
        self.schema = schema
        self.rows_seen = 0

    @contextmanager
    def own(self) -> Iterator[None]:
        self.connection.execute(f"SET search_path = {self.schema}, pg_temp, public")
        try:
            yield
        finally:
            self.connection.execute("RESET search_path")

    def start(self) -> None:
        self.connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE; CREATE SCHEMA {self.schema}")
        with self.own():
            for name, output in self.anew.outputs.items():
                self.connection.execute(f"CREATE TABLE {self.table(name)} AS {output.sql}")

    def follow(self, changed: frozenset[str], sizes: Mapping[str, int] | None = None, *, last: bool) -> None:
        with self.own():
            self.refresh(changed & set(self.view.used_columns), sizes)
            self.check()
            self.rows_seen += len(self.stored("view"))
            if last:
                self.check_all()
