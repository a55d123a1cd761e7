"""Compiled views and their rendered programs, kept while the query and the shape of its inputs stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import psycopg

from penstock.catalog import relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import StreamTable
from penstock.errors import Suspended
from penstock.refresh.fit import misfit, shape_for
from penstock.relation.schema import Schema
from penstock.views import PostgresTyper, Program, View, compile_view, delta, full, minds_growth
from penstock.views import Relation as Input

_FEW = 8_192  # rows: below that, nothing is chosen by their number


@dataclass(frozen=True)
class Rendered:
    """A program and its SQL, made when first asked for; `cut`: what it shares may be computed before it."""

    program: Program
    cut: bool = True

    @cached_property
    def parted(self) -> Program:
        """As it is run."""
        return self.program.parted() if self.cut else self.program

    @cached_property
    def sql(self) -> str:
        return self.parted.combined_sql()

    @cached_property
    def in_memory(self) -> Rendered:
        """For the case that everything it reads was found in memory."""
        return Rendered(self.program.in_memory())


@dataclass(frozen=True)
class Plan:
    """A compiled view; `delta` and `full` are rendered once for each situation."""

    view: View
    _rendered: dict[object, Rendered] = field(default_factory=dict)

    @cached_property
    def _minds_growth(self) -> bool:
        return minds_growth(self.view)

    def full(self) -> Rendered:
        if "full" not in self._rendered:
            self._rendered["full"] = Rendered(full(self.view, "spark"), cut=False)
        return self._rendered["full"]

    def delta(
        self,
        changed: frozenset[str],
        sizes: Mapping[str, int],
        changes: Mapping[str, int],
        growing: frozenset[str] = frozenset(),
    ) -> Rendered:
        """Sizes are compared with each other and with limits far above `_FEW`, so powers of two tell enough and let one
        program serve many rounds."""
        about = {name: _about(size) for name, size in sizes.items()}
        changing = {name: _about(size) for name, size in changes.items()}
        growing = growing if self._minds_growth else frozenset()
        key = (changed, tuple(about.items()), tuple(changing.items()), growing)
        if key not in self._rendered:
            program = delta(self.view, changed, "spark", sizes=about, changes=changing, growing=growing)
            self._rendered[key] = Rendered(program)
        return self._rendered[key]


def _about(size: int) -> int:
    """
    >>> _about(7), _about(9_000), _about(16_384)
    (8192, 16384, 32768)
    """
    return 1 << max(size, _FEW - 1).bit_length()


def _forms(schemas: Mapping[str, Schema]) -> dict[str, list[tuple[str, str]]]:
    return {name: [(column.name, column.spark) for column in schema.columns] for name, schema in schemas.items()}


class Plans:
    """Compiles queries against the relations of a catalog, whose server also tells the types of expressions."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._compiled: dict[tuple[object, ...], Plan] = {}

    def compile(self, name: str, query: str, dialect: str, known: Sequence[Relation]) -> View:
        """`known` is what the query may read."""
        inputs = {relation.name: Input(relation.name, relation.schema) for relation in known}

        def resolve(parts: tuple[str, ...]) -> Input:
            return inputs[relations.choose(known, ".".join(parts)).name]

        with psycopg.connect(self._catalog.dsn, autocommit=True) as connection:
            return compile_view(name, query, dialect=dialect, resolve=resolve, typer=PostgresTyper(connection))

    def of(self, table: StreamTable, known: Sequence[Relation]) -> Plan:
        """The compiled view of a stream table; `Suspended` where it does not fit its inputs any more."""
        reads = [relation for relation in known if relation.id in table.inputs]
        version = tuple((relation.id, relation.version) for relation in reads)
        key = (table.relation_id, table.query, table.dialect, version)
        if key not in self._compiled:
            shaped = self._shaped(table, reads)
            view = self.compile(table.name, table.query, table.dialect, shaped)
            self._check_outputs(table, view)
            self._compiled[key] = Plan(view)
        return self._compiled[key]

    def _shaped(self, table: StreamTable, reads: Sequence[Relation]) -> list[Relation]:
        """The inputs in the shapes that the view was defined over."""
        dependencies = stream_tables.dependencies(self._catalog, table.relation_id)
        for relation in reads:
            reason = misfit(dependencies[relation.id], relation)
            if reason is not None:
                raise Suspended(
                    f"stream table {table.name} is suspended: {reason}",
                    hint="Drop it and create it again over the new shape; its last state stays readable until then.",
                )
        return [replace(relation, schema=shape_for(dependencies[relation.id], relation)) for relation in reads]

    def _check_outputs(self, table: StreamTable, view: View) -> None:
        """What is stored was made by a plan with these outputs, and by no other."""
        own = relations.by_id(self._catalog, [table.relation_id])[0]
        stored = {one.name.rpartition("#")[2]: one.schema for one in relations.states_of(self._catalog, own)}
        made = {state.name: state.schema for state in view.states}
        if _forms({"": own.schema, **stored}) != _forms({"": view.schema, **made}):
            raise Suspended(
                f"stream table {table.name} is suspended: its inputs changed so that it is computed otherwise",
                hint="Drop it and create it again; its last state stays readable until then.",
            )
