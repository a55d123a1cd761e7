"""Compiled views, kept for as long as their query and the shape of their inputs stay the same."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from penstock.catalog import relations
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import StreamTable
from penstock.views import PostgresTyper, View, compile_view
from penstock.views import Relation as Input


class Plans:
    """Compiles queries against the relations of a catalog, whose server also tells the types of expressions."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._compiled: dict[tuple[object, ...], View] = {}

    def compile(self, name: str, query: str, dialect: str, known: Sequence[Relation]) -> View:
        """`known` is what the query may read."""
        inputs = {relation.name: Input(relation.name, relation.schema) for relation in known}

        def resolve(parts: tuple[str, ...]) -> Input:
            return inputs[relations.choose(known, ".".join(parts)).name]

        with psycopg.connect(self._catalog.dsn, autocommit=True) as connection:
            return compile_view(name, query, dialect=dialect, resolve=resolve, typer=PostgresTyper(connection))

    def of(self, table: StreamTable, known: Sequence[Relation]) -> View:
        """The compiled view of a stream table."""
        reads = [relation for relation in known if relation.id in table.inputs]
        version = tuple((relation.id, relation.version) for relation in reads)
        key = (table.relation_id, table.query, table.dialect, version)
        if key not in self._compiled:
            self._compiled[key] = self.compile(table.name, table.query, table.dialect, reads)
        return self._compiled[key]
