"""Stream tables made and dropped. Everything is checked first; one catalog transaction then changes it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.catalog import dropped, relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog, Commit
from penstock.catalog.stream_tables import Definition, Dependency, StreamTable
from penstock.errors import AlreadyExists, ConfigError
from penstock.refresh import cdc_mode as cdc_modes
from penstock.refresh.dag import downstream_of, upstream_first
from penstock.refresh.decision import Mode
from penstock.refresh.plans import Plans
from penstock.refresh.round import LEASE
from penstock.refresh.schedule import SHORTEST, Schedule, parse, stored
from penstock.refresh.source_views import SourceViews
from penstock.relation.home import Home
from penstock.views import View
from penstock.views.inline import inline_views

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_DIALECTS = ("postgres", "spark")
WAIT = 30.0  # seconds to wait for a refresh under way


@dataclass(frozen=True)
class Wanted:
    """A stream table as its owner asks for it."""

    query: str
    schedule: str | None = None
    mode: str = "AUTO"
    dialect: str = "postgres"
    cdc_mode: str | None = None

    @classmethod
    def of(cls, table: StreamTable) -> Wanted:
        return cls(table.written, table.schedule, table.mode, table.dialect, table.cdc_mode)

    def checked(self, cdc_default: str = cdc_modes.EFFECTIVE, min_schedule: float = SHORTEST) -> Wanted:
        """Everything but the query, as it is stored; an error where something cannot be meant."""
        when = parse(self.schedule)
        if isinstance(when, Schedule) and when.seconds < min_schedule:
            raise ConfigError(
                f"schedule {self.schedule!r} is too short",
                hint=f"The setting min_schedule allows {min_schedule:g} s; on-commit is as soon as something changes.",
            )
        if self.dialect not in _DIALECTS:
            raise ConfigError(f"no dialect {self.dialect!r}", hint=f"Choose one of {', '.join(_DIALECTS)}.")
        wish = cdc_modes.checked(self.cdc_mode, self.mode, default=cdc_default)
        return replace(self, schedule=stored(self.schedule), mode=str(Mode.parse(self.mode)), cdc_mode=wish)


def create(catalog: Catalog, plans: Plans, name: str, wanted: Wanted) -> StreamTable:
    """Check the query against what it reads and register the stream table; the same again does nothing."""
    check_name(name)
    found = stream_tables.lookup(catalog, name)
    if found is not None:
        if Wanted.of(found) == wanted:
            return found
        raise AlreadyExists(f"stream table {name!r} exists with another definition", hint="Alter it, or drop it first.")
    known = relations.every(catalog)
    definition = define(catalog, wanted, known)
    view = plans.compile(name, definition.query, definition.dialect, known)
    with catalog.lease(LEASE, wait=WAIT) as lease, catalog.commit(lease, None, "create") as commit:
        add(commit, name, view, definition, known)
    return stream_tables.get(catalog, name)


def check_name(name: str, *, where: str = "") -> None:
    if not _NAME.match(name):
        place = f"{where}: " if where else ""
        raise ConfigError(
            f"{place}{name!r} cannot be a stream table's name", hint="Use lower-case letters, digits and _."
        )


def define(catalog: Catalog, wanted: Wanted, known: Sequence[Relation]) -> Definition:
    """What is stored of a wish: its query over tables alone, and the views of the source that were put in."""
    views = SourceViews(catalog, known)
    query = inline_views(wanted.query, views)
    return Definition(
        query, wanted.dialect, wanted.mode, wanted.schedule, wanted.query, views.found, wanted.cdc_mode
    )  # fmt: skip


def reads(view: View, known: Sequence[Relation]) -> dict[int, Dependency]:
    """What a view reads, and the shapes it was compiled over."""
    named = {relation.name: relation for relation in known}
    return {
        named[one.name].id: Dependency(tuple(view.used_columns[one.name]), named[one.name].schema)
        for one in view.inputs
    }


def add(commit: Commit, name: str, view: View, definition: Definition, known: Sequence[Relation]) -> int:
    relation_id = relations.add(commit, name, "view", f"views/{name}", view.schema)
    add_states(commit, name, relation_id, view)
    stream_tables.add(commit, relation_id, definition, reads(view, known))
    return relation_id


def add_states(commit: Commit, name: str, relation_id: int, view: View) -> None:
    for state in view.states:
        folder = f"states/{name}/{state.name}"
        relations.add(commit, f"{name}#{state.name}", "state", folder, state.schema, owner_id=relation_id)


def drop(catalog: Catalog, home: Home, name: str, *, cascade: bool = False) -> list[str]:
    """Remove a stream table with its Delta table and changelog, and with `cascade` all that read it.

    Returns the names of those removed, in the order of their removal.
    """
    stream_tables.get(catalog, name)
    with catalog.lease(LEASE, wait=WAIT) as lease:
        tables = {table.name: table for table in stream_tables.every(catalog)}
        inputs = inputs_by_name(catalog, list(tables.values()))
        readers = downstream_of([name], inputs)
        if readers and not cascade:
            raise ConfigError(
                f"stream table {name!r} is read by {', '.join(sorted(readers))}",
                hint="Drop those first, or all of them with cascade.",
            )
        doomed = [one for one in reversed(upstream_first([name, *readers], inputs)) if one in {name, *readers}]
        gone = [relation for one in doomed for relation in stored_of(catalog, one)]
        with catalog.commit(lease, None, "drop") as commit:
            for one in doomed:
                stream_tables.remove(commit, tables[one].relation_id)
    remove_files(catalog, home, gone)
    return doomed


def inputs_by_name(catalog: Catalog, tables: Sequence[StreamTable]) -> dict[str, list[str]]:
    """What each stream table reads, by name."""
    names = {relation.id: relation.name for relation in relations.every(catalog)}
    return {table.name: [names[one] for one in table.inputs if one in names] for table in tables}


def stored_of(catalog: Catalog, name: str) -> list[Relation]:
    """A stream table and what its operators remember."""
    relation = relations.find(catalog, name)
    return [relation, *relations.states_of(catalog, relation)]


def remove_files(catalog: Catalog, home: Home, gone: Sequence[Relation]) -> None:
    """What relations left that the catalog has forgotten."""
    for one in gone:
        shutil.rmtree(home.base(one.folder), ignore_errors=True)
    dropped.remove_of(catalog, home, [one.id for one in gone])
