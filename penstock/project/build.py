"""Files compared with the catalog: every query is compiled over what will be there, and nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from penstock.catalog import projects, publishing, relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.stream_tables import StreamTable
from penstock.errors import ConfigError, PenstockError
from penstock.project.compare import Finding, Here, steps
from penstock.project.files import Definition
from penstock.project.plan import Cost, Kind, Plan
from penstock.refresh.alter import other_columns
from penstock.refresh.dag import upstream_first
from penstock.refresh.define import Wanted, check_name, define, inputs_by_name
from penstock.views import View

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine


def build(engine: Engine, project: str, definitions: Sequence[Definition], *, drop: bool = False) -> Plan:
    catalog = engine.catalog
    tables = {table.name: table for table in stream_tables.every(catalog)}
    owners = projects.owners(catalog)
    for one in definitions:
        check_name(one.name, where=one.path)
        owner = owners.get(one.name)
        if one.name in tables and owner is not None and owner != project:
            raise ConfigError(
                f"{one.path}: stream table {one.name} belongs to project {owner}",
                hint="Name it otherwise, or give that project's name with --project.",
            )
    comparison = _Comparison(engine, tables, {one.name: one for one in definitions})
    findings = [comparison.finding(one) for one in _in_order(definitions)]
    ours = [name for name, owner in owners.items() if owner == project]
    here = Here(inputs_by_name(catalog, list(tables.values())), ours)
    return Plan(project, tuple(steps(findings, here, drop=drop)), tuple(definitions))


def _in_order(definitions: Sequence[Definition]) -> list[Definition]:
    """Inputs first, by the names that the queries use."""
    by_name = {one.name: one for one in definitions}
    reads = {one.name: [name for name in named_tables(one.query) if name in by_name] for one in definitions}
    try:
        return [by_name[name] for name in upstream_first(by_name, reads)]
    except ConfigError as error:
        itself = [one for one in definitions if one.name in reads[one.name]]
        if not itself:
            raise
        raise ConfigError(
            f"{itself[0].place}: stream table {itself[0].name} reads itself",
            hint=f"If a table of that name is meant, write it with its schema, such as public.{itself[0].name}.",
        ) from error


def named_tables(query: str) -> list[str]:
    """Names without a schema that a query reads; not those of its own WITH.

    >>> named_tables("WITH a AS (SELECT * FROM b) SELECT * FROM a JOIN public.c ON true JOIN d ON true")
    ['b', 'd']
    """
    found = [
        source
        for scope in traverse_scope(sqlglot.parse_one(query, read="postgres"))
        for source in scope.sources.values()
        if isinstance(source, exp.Table) and len(source.parts) == 1
    ]
    return [one.name if one.this.args.get("quoted") else one.name.lower() for one in found]


@dataclass
class _Comparison:
    """`_will_be` has the relations as they will be once the definitions looked at so far are applied."""

    engine: Engine
    tables: Mapping[str, StreamTable]
    definitions: Mapping[str, Definition]
    _will_be: dict[str, Relation] = field(init=False)
    _moved: set[str] = field(default_factory=set)  # have other columns than now, or are new

    def __post_init__(self) -> None:
        self._now = {one.name: one for one in relations.every(self.engine.catalog)}
        self._will_be = {name: one for name, one in self._now.items() if name not in self.definitions}

    def finding(self, one: Definition) -> Finding:
        table = self.tables.get(one.name)
        wanted = self._wanted(one)
        names = named_tables(one.query)
        if table is not None and not self._moved.intersection(names) and self._is_same(table, wanted):
            self._will_be[one.name] = self._now[one.name]
            reads = tuple(inputs_by_name(self.engine.catalog, [table])[one.name])
            kind, reason = self._settings(table, wanted, one)
            return Finding(replace(one, query=table.written), kind, reason, reads, self._cost(reads, table))
        view = self._compiled(one, wanted)
        reads = tuple(relation.name for relation in view.inputs)
        kind, reason = self._change(one, table, view)
        now = self._now.get(one.name)
        self._will_be[one.name] = Relation(now.id if now else 0, one.name, "view", "", view.schema, 1)
        if kind in (Kind.CREATE, Kind.REBUILD):
            self._moved.add(one.name)
        return Finding(one, kind, reason, reads, self._cost(reads, table))

    def _wanted(self, one: Definition) -> Wanted:
        try:
            return Wanted(one.query, **one.settings).checked(
                self.engine.settings.cdc_mode, self.engine.settings.min_schedule
            )
        except PenstockError as error:
            error.message = f"{one.path}: {error.message}"
            raise

    def _is_same(self, table: StreamTable, wanted: Wanted) -> bool:
        """A query that is only written otherwise is the same."""
        if table.dialect != wanted.dialect or table.suspended_by == "inputs":
            return False
        return table.written == wanted.query or _tree(table.written) == _tree(wanted.query)

    def _settings(self, table: StreamTable, wanted: Wanted, one: Definition) -> tuple[Kind, str]:
        pairs = [
            ("schedule", table.schedule or "downstream", wanted.schedule or "downstream"),
            ("mode", table.mode, wanted.mode),
            ("cdc_mode", table.cdc_mode or "the home's", wanted.cdc_mode or "the home's"),
        ]
        if one.publish is not None:
            now = publishing.pace_of(self.engine.catalog, one.name)
            pairs.append(("publish", now or "the home's", one.publish))
        said = [f"{name} is {new}, was {old}" for name, old, new in pairs if old != new]
        return (Kind.ALTER, ", ".join(said)) if said else (Kind.KEEP, "as its file says")

    def _compiled(self, one: Definition, wanted: Wanted) -> View:
        known = list(self._will_be.values())
        try:
            definition = define(self.engine.catalog, wanted, known)
            return self.engine.plans.compile(one.name, definition.query, definition.dialect, known)
        except PenstockError as error:
            error.message = f"{one.place}: {error.message}"
            raise

    def _change(self, one: Definition, table: StreamTable | None, view: View) -> tuple[Kind, str]:
        if table is None:
            return Kind.CREATE, "new"
        other = other_columns(self._now[one.name].schema, view.schema)
        if other is not None:
            return Kind.REBUILD, other
        reason = "its inputs fit again" if table.suspended_by == "inputs" else "another query"
        return Kind.REINITIALIZE, reason

    def _cost(self, reads: Sequence[str], table: StreamTable | None) -> Cost:
        from penstock.refresh.compute import size

        rows = sum(size(self.engine.reader, self._now[name]) for name in reads if name in self._now)
        return Cost(rows, len(reads), None if table is None else projects.last_full(self.engine.catalog, table))


def _tree(query: str) -> exp.Expr:
    return sqlglot.parse_one(query, read="postgres")
