"""Stream tables follow what becomes of the things they read on the source, where it is plain what is meant.

A column that only got another name is read by that name and shown by the old one. A view of the source that was defined
anew is put in its place again. Either way the stream table keeps its columns and is computed anew at its next refresh.
What would change its columns, or cannot be read any more, suspends it, and a person decides.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sqlglot import exp

from penstock.catalog import relations, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import Definition, StreamTable
from penstock.errors import NotFound, PenstockError
from penstock.refresh import alter, define, life
from penstock.refresh.alter import Alteration, Change
from penstock.refresh.fit import renamed
from penstock.refresh.life import Event
from penstock.refresh.plans import Plans
from penstock.refresh.source_views import SourceViews
from penstock.relation.home import Home
from penstock.views.inline import inline_once

log = logging.getLogger("penstock.stream_tables")


def follow_renames(
    catalog: Catalog, plans: Plans, home: Home, lease: Lease, tables: Sequence[StreamTable], known: Sequence[Relation]
) -> list[str]:
    """Redefine those whose columns were renamed; their names. `known` are the relations as they are now."""
    by_id = {relation.id: relation for relation in known}
    followed = []
    for table in tables:
        changed = [by_id[one] for one in table.inputs if one in by_id and by_id[one].version > 1]
        if not changed or table.dialect != "postgres":
            continue
        shapes = stream_tables.dependencies(catalog, table.relation_id)
        found = {one.name: names for one in changed if (names := renamed(shapes[one.id], one))}
        if found and _rename(catalog, plans, home, lease, table, known, found):
            followed.append(table.name)
    return followed


def _rename(
    catalog: Catalog, plans: Plans, home: Home, lease: Lease, table: StreamTable, known: Sequence[Relation],
    found: Mapping[str, Mapping[str, str]],
) -> bool:  # fmt: skip
    def definition(parts: tuple[str, ...]) -> exp.Expr | None:
        try:
            name = relations.choose(known, ".".join(parts)).name
        except NotFound:
            return None
        return None if name not in found else _as_it_was(name, found[name])

    query = inline_once(table.query, definition)
    told = [
        f"column {old} of {name} is now called {new}"
        for name, names in found.items() for new, old in names.items() if new != old
    ]  # fmt: skip
    new = Definition(
        query, table.dialect, table.mode, table.schedule, table.written, table.source_views, table.cdc_mode
    )
    view = plans.compile(table.name, query, table.dialect, known)
    own = next(one for one in known if one.id == table.relation_id)
    if alter.other_columns(own.schema, view.schema) is not None:
        return False
    planned = Alteration(Change.REINITIALIZED, ", ".join(told), new, view)
    with catalog.commit(lease, None, "alter") as commit:
        gone = alter.redefine(commit, catalog, table, planned, known)
    define.remove_files(catalog, home, gone)
    log.info("%s: %s; it is read by that name from now on", table.name, planned.reason)
    return True


def _as_it_was(name: str, names: Mapping[str, str]) -> exp.Expr:
    """A table with its columns under the names that the view knows."""
    source, schema, table = name.split(".", 2)
    columns = [
        exp.alias_(exp.column(exp.to_identifier(new, quoted=True)), exp.to_identifier(old, quoted=True))
        for new, old in names.items()
    ]
    parts = [exp.to_identifier(one, quoted=True) for one in (table, schema, source)]
    return exp.select(*columns).from_(exp.Table(this=parts[0], db=parts[1], catalog=parts[2]))


def follow_views(catalog: Catalog, plans: Plans, home: Home) -> list[str]:
    """Put views of sources that were changed in their place again; the names of the stream tables concerned.

    Asks the sources. A stream table that cannot follow is suspended, and told so once.
    """
    concerned = []
    for table in stream_tables.every(catalog):
        now = _views_now(catalog, table) if table.source_views else {}
        changed = [name for name, text in table.source_views.items() if now.get(name) != text]
        if changed:
            concerned.append(table.name)
            _follow_view(catalog, plans, home, table, changed, now)
    return concerned


def _views_now(catalog: Catalog, table: StreamTable) -> dict[str, str]:
    views = SourceViews(catalog, relations.every(catalog))
    for name in table.source_views:
        views(tuple(name.split(".")))
    return views.found


def _follow_view(
    catalog: Catalog, plans: Plans, home: Home, table: StreamTable, changed: list[str], now: Mapping[str, str]
) -> None:
    named = ", ".join(changed)
    if any(name not in now for name in changed):
        _suspend(catalog, table, now, f"view {named} of the source was dropped")
        return
    wanted = define.Wanted.of(table)
    try:
        planned = alter.plan(catalog, plans, table.name, wanted, anew=True)
    except PenstockError as error:
        _suspend(catalog, table, now, f"view {named} of the source was changed: {error.message}")
        return
    if planned.change is Change.REBUILT:
        _suspend(catalog, table, now, f"view {named} of the source was changed: {planned.reason}")
        return
    alter.alter(catalog, plans, home, table.name, wanted, reason=f"view {named} of the source was changed")
    log.info("%s: view %s of the source was changed; it is computed anew", table.name, named)


def _suspend(catalog: Catalog, table: StreamTable, now: Mapping[str, str], reason: str) -> None:
    """Until a person resumes it, as it was, or alters it."""
    status = life.after(table.status, Event.HELD)
    with catalog.connection.transaction():
        stream_tables.set_status(catalog, table.relation_id, status, reason, "hand")
        stream_tables.remember_views(
            catalog, table.relation_id, {name: now.get(name, "") for name in table.source_views}
        )
    log.warning("%s is suspended: %s", table.name, reason)
