"""Several views kept fresh on Spark beside inputs in PostgreSQL, which is also the oracle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from postgres.views.maintained import Inputs, floats
from spark.runner import Spark, arrow, same

from penstock.relation.schema import Schema
from penstock.views import TERM, PostgresTyper, Program, Read, Relation, View, compile_view, delta, full, placeholder
from penstock.views.approximate import approximate
from penstock.zset import WEIGHT, consolidate


class Follower:
    """Views and what is stored of them, beside tables that are bound once a round for all of them.

    Every other refresh of a view, and every other view of a round, is by the program for reads in memory.
    """

    def __init__(self, runner: Spark, inputs: Inputs) -> None:
        self.runner, self.inputs = runner, inputs
        self.views: list[View] = []
        self.stored: dict[str, dict[str, pa.Table]] = {}
        self.bound: set[Read] = set()
        self.rounds = 0

    def start(self, name: str, sql: str, *, on_spark: bool = True) -> None:
        """Computed from the inputs as they are; where that is exact, PostgreSQL can do it in a tenth of the time."""
        view = compile_view(name, sql, resolve=self.inputs.resolve, typer=PostgresTyper(self.inputs.connection))
        self.views.append(view)
        exact = not approximate(view) and not any(floats(state.schema.columns) for state in view.states)
        self.stored[name] = self._run(view, full(view)) if on_spark or not exact else self._by_postgres(view)

    def _by_postgres(self, view: View) -> dict[str, pa.Table]:
        found = {}
        for name, output in full(view, "postgres").outputs.items():
            rows = self.inputs.connection.execute(output.sql).fetchall()
            shape = Relation(name, Schema(output.columns))
            found[name] = arrow(shape, [row[:-1] for row in rows], [row[-1] for row in rows])
        return found

    def moved(self) -> None:
        """The inputs are in another round: what was bound is old."""
        self.bound.clear()
        self.rounds += 1

    def refresh(self, view: View, changed: frozenset[str]) -> None:
        stored = self.stored[view.name]
        moved = changed & set(view.used_columns)
        program = delta(view, moved, growing=self.inputs.growing & moved)
        if (self.rounds + self.views.index(view)) % 2:
            program = program.in_memory()
        for name, rows in self._run(view, program).items():
            stored[name] = pa.concat_tables([stored[name], rows.cast(stored[name].schema)])

    def check(self, view: View) -> int:
        netted = consolidate(self.stored[view.name]["view"], [c.name for c in view.columns]).to_pylist()
        assert all(row[WEIGHT] > 0 for row in netted)
        found = [tuple(row.values())[:-1] for row in netted for _ in range(row[WEIGHT])]
        cells = [f'"{c.name}"::text' if c.pg.oid in (114, 3802) else f'"{c.name}"' for c in view.columns]
        expected = self.inputs.connection.execute(f"SELECT {', '.join(cells)} FROM ({view.sql}) AS q").fetchall()
        same(found, expected, view)
        return len(found)

    def _run(self, view: View, program: Program) -> dict[str, pa.Table]:
        for read in program.reads:
            if read.kind == "state":
                self.runner.bind(read, self.stored[view.name][read.relation])
            elif read not in self.bound:
                self.bound.add(read)
                self.runner.bind(read, self._rows(read))
        return self.runner.outputs(program)

    def _rows(self, read: Read) -> pa.Table:
        if read.forms:
            terms = [self._rows(Read(form, read.relation)) for form in read.forms]
            return pa.concat_tables(
                rows.append_column(TERM, pa.repeat(pa.scalar(place, pa.int32()), rows.num_rows))
                for place, rows in enumerate(terms)
            )
        rows: list[Any] = self.inputs.connection.execute(f"SELECT * FROM {placeholder(read)}").fetchall()
        relation = self.inputs.relations[read.relation]
        if read.kind == "rows":
            return arrow(relation, rows)
        return arrow(relation, [row[:-1] for row in rows], [row[-1] for row in rows])
