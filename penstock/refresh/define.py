"""Stream tables made, altered and dropped."""

from __future__ import annotations

import re
import shutil

from penstock.catalog import dropped, relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import Dependency, StreamTable
from penstock.errors import AlreadyExists, ConfigError
from penstock.refresh.decision import Mode
from penstock.refresh.plans import Plans
from penstock.refresh.round import LEASE
from penstock.refresh.schedule import Schedule
from penstock.refresh.source_views import source_views
from penstock.relation.home import Home
from penstock.views.inline import inline_views

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_DIALECTS = ("postgres", "spark")


def create(
    catalog: Catalog, plans: Plans, name: str, query: str, *, schedule: str | None, mode: str, dialect: str
) -> StreamTable:
    """Check the query against what it reads and register the stream table; the same again does nothing."""
    if not _NAME.match(name):
        raise ConfigError(f"{name!r} cannot be a stream table's name", hint="Use lower-case letters, digits and _.")
    if dialect not in _DIALECTS:
        raise ConfigError(f"no dialect {dialect!r}", hint=f"Choose one of {', '.join(_DIALECTS)}.")
    wanted = Mode.parse(mode)
    if schedule is not None:
        Schedule.parse(schedule)
    known = relations.every(catalog)
    query = inline_views(query, source_views(catalog, known))
    found = stream_tables.lookup(catalog, name)
    if found is not None:
        if (found.query, found.dialect, found.mode, found.schedule) == (query, dialect, wanted, schedule):
            return found
        raise AlreadyExists(
            f"stream table {name!r} exists with another definition",
            hint="Alter it, or drop it first.",
        )
    view = plans.compile(name, query, dialect, known)
    named = {relation.name: relation for relation in known}
    with catalog.lease(LEASE) as lease, catalog.commit(lease, None, "create") as commit:
        relation_id = relations.add(commit, name, "view", f"views/{name}", view.schema)
        for state in view.states:
            folder = f"states/{name}/{state.name}"
            relations.add(commit, f"{name}#{state.name}", "state", folder, state.schema, owner_id=relation_id)
        inputs = {
            named[one.name].id: Dependency(tuple(view.used_columns[one.name]), named[one.name].schema)
            for one in view.inputs
        }
        stream_tables.add(commit, relation_id, query, dialect, wanted, schedule, inputs)
    return stream_tables.get(catalog, name)


def alter(catalog: Catalog, name: str, *, schedule: str | None, mode: str | None) -> None:
    found = stream_tables.get(catalog, name)
    if schedule is not None:
        Schedule.parse(schedule)
    with catalog.lease(LEASE) as lease, catalog.commit(lease, None, "alter") as commit:
        stream_tables.change(
            commit, found.relation_id, schedule=schedule or found.schedule, mode=Mode.parse(mode or found.mode)
        )


def drop(catalog: Catalog, home: Home, name: str) -> None:
    """Remove a stream table with its Delta table and changelog; refused while another one reads it."""
    found = stream_tables.get(catalog, name)
    readers = stream_tables.dependants(catalog, found.relation_id)
    if readers:
        raise ConfigError(f"stream table {name!r} is read by {', '.join(readers)}", hint="Drop those first.")
    relation: Relation = relations.find(catalog, name)
    gone = [relation, *relations.states_of(catalog, relation)]
    with catalog.lease(LEASE) as lease, catalog.commit(lease, None, "drop") as commit:
        stream_tables.remove(commit, found.relation_id)
    for one in gone:
        shutil.rmtree(home.base(one.folder), ignore_errors=True)
    dropped.remove_of(catalog, home, [one.id for one in gone])
