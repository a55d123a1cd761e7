"""A stream table's definition changed, where possible without losing what is stored.

Schedule, mode, capture and status change at once. Another query over the same output columns keeps the stream table:
its next refresh computes it anew and gives what reads it the exact difference. Other columns mean another stream table
under the same name, which nothing may read meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.catalog import relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog, Commit
from penstock.catalog.stream_tables import Definition, StreamTable
from penstock.errors import ConfigError
from penstock.refresh import define, life
from penstock.refresh.dag import check_acyclic, downstream_of
from penstock.refresh.define import Wanted
from penstock.refresh.life import Event
from penstock.refresh.plans import Plans
from penstock.refresh.round import LEASE
from penstock.relation.home import Home
from penstock.relation.schema import Schema
from penstock.views import View


class Change(StrEnum):
    """What altering a stream table comes to."""

    UNCHANGED = "unchanged"
    ALTERED = "altered"  # nothing is computed for it
    REINITIALIZED = "reinitialized"  # computed anew at its next refresh, over the same columns
    REBUILT = "rebuilt"  # empty until its next refresh, over other columns


@dataclass(frozen=True)
class Alteration:
    """What would be done, and why; `definition` and `view` are those it would have then."""

    change: Change
    reason: str
    definition: Definition
    view: View | None = None


def plan(catalog: Catalog, plans: Plans, name: str, wanted: Wanted, *, anew: bool = False) -> Alteration:
    """What it takes to make a stream table what is wanted; changes nothing, and raises what would be refused.

    `anew`: also if its query is the same, since what it means may have changed.
    """
    table = stream_tables.get(catalog, name)
    was = Wanted.of(table)
    known = [one for one in relations.every(catalog) if one.id != table.relation_id]
    if (was.query, was.dialect) == (wanted.query, wanted.dialect) and table.suspended_by != "inputs" and not anew:
        definition = Definition(
            table.query, table.dialect, wanted.mode, wanted.schedule, table.written, table.source_views, wanted.cdc_mode
        )
        names = [name for name in ("schedule", "mode", "cdc_mode") if getattr(was, name) != getattr(wanted, name)]
        return Alteration(Change.ALTERED if names else Change.UNCHANGED, ", ".join(names), definition)
    definition = define.define(catalog, wanted, [*known, *relations.by_id(catalog, [table.relation_id])])
    view = plans.compile(name, definition.query, definition.dialect, [*known, relations.find(catalog, name)])
    _check_acyclic(catalog, table, view)
    other = other_columns(relations.find(catalog, name).schema, view.schema)
    if other is None:
        return Alteration(Change.REINITIALIZED, "the query was altered", definition, view)
    readers = stream_tables.dependants(catalog, table.relation_id)
    if readers:
        raise ConfigError(
            f"stream table {name!r} is read by {', '.join(readers)}, and the new query changes its columns: {other}",
            hint="Keep the columns they were defined over, or drop those stream tables first.",
        )
    return Alteration(Change.REBUILT, other, definition, view)


def alter(
    catalog: Catalog, plans: Plans, home: Home, name: str, wanted: Wanted, status: str | None = None, *,
    reason: str | None = None,
) -> Alteration:  # fmt: skip
    """Make a stream table what is wanted, and suspend or resume it; with a `reason`, also if that is what it was."""
    event = None if status is None else life.asked(status)
    gone: list[Relation] = []
    with catalog.lease(LEASE, wait=define.WAIT) as lease:
        planned = plan(catalog, plans, name, wanted, anew=reason is not None)
        planned = replace(planned, reason=reason or planned.reason)
        if planned.change is Change.UNCHANGED and event is None:
            return planned
        known = relations.every(catalog)
        with catalog.commit(lease, None, "alter") as commit:
            table = stream_tables.get(catalog, name)
            if planned.change is Change.REBUILT:
                gone = define.stored_of(catalog, name)
                _rebuild(commit, catalog, table, planned, known)
            elif planned.change is not Change.UNCHANGED:
                gone = redefine(commit, catalog, table, planned, known)
            if event is not None:
                _move(commit, stream_tables.get(catalog, name), event)
    define.remove_files(catalog, home, gone)
    return planned


def redefine(
    commit: Commit, catalog: Catalog, table: StreamTable, planned: Alteration, known: Sequence[Relation]
) -> list[Relation]:
    """In place; what its operators remembered for another query goes."""
    view = planned.view
    if view is None:
        inputs = stream_tables.dependencies(catalog, table.relation_id)
        stream_tables.change(commit, table.relation_id, planned.definition, inputs)
        return []
    stream_tables.change(commit, table.relation_id, planned.definition, define.reads(view, known))
    states = relations.states_of(catalog, relations.find(catalog, table.name))
    for state in states:
        relations.remove(commit, state.id)
    define.add_states(commit, table.name, table.relation_id, view)
    if table.frontier is not None:
        _mark(commit, catalog, table, planned.reason)
    if table.suspended_by != "hand":
        _move(commit, table, Event.RESUMED)
    return states


def _mark(commit: Commit, catalog: Catalog, table: StreamTable, reason: str) -> None:
    """It and all that read it are computed anew: what they were at a frontier is not what they would be now."""
    tables = stream_tables.every(catalog)
    readers = downstream_of([table.name], define.inputs_by_name(catalog, tables))
    ids = [one.relation_id for one in tables if one.name in readers and one.frontier is not None]
    stream_tables.mark(commit, [table.relation_id], reason)
    stream_tables.mark(commit, ids, f"the query of {table.name}, which it reads, was altered")


def _rebuild(
    commit: Commit, catalog: Catalog, table: StreamTable, planned: Alteration, known: Sequence[Relation]
) -> None:
    """Another relation under the same name; it keeps the history, not the rows."""
    assert planned.view is not None
    rows = stream_tables.row_count(catalog, table.relation_id)
    stream_tables.put_aside(commit, table.relation_id)
    new = define.add(commit, table.name, planned.view, planned.definition, known)
    stream_tables.hand_over(commit, table.relation_id, new, rows)
    stream_tables.remove(commit, table.relation_id)
    if table.suspended_by == "hand":
        _move(commit, replace(table, relation_id=new, frontier=None, status=str(life.Status.INITIALIZING)), Event.HELD)


def _move(commit: Commit, table: StreamTable, event: Event) -> None:
    status = life.after(table.status, event, filled=table.frontier is not None)
    held = event is Event.HELD
    reason, by = ("suspended by hand", "hand") if held else (None, None)
    stream_tables.set_status(commit, table.relation_id, status, reason, by)
    if not held:
        stream_tables.forgive(commit, table.relation_id)


def _check_acyclic(catalog: Catalog, table: StreamTable, view: View) -> None:
    inputs = define.inputs_by_name(catalog, stream_tables.every(catalog))
    check_acyclic({**inputs, table.name: [one.name for one in view.inputs]})


def other_columns(was: Schema, now: Schema) -> str | None:
    """What tells the two apart for a reader, if anything does; a column may lose its NULLs."""
    if was.names != now.names:
        gone = [name for name in was.names if name not in now.names]
        new = [name for name in now.names if name not in was.names]
        parts = [f"{', '.join(gone)} gone" if gone else "", f"{', '.join(new)} new" if new else ""]
        return "; ".join(part for part in parts if part) or "another order"
    for old, new_ in zip(was.columns, now.columns, strict=True):
        if (old.pg, old.spark) != (new_.pg, new_.spark):
            return f"{old.name} is {new_.pg.name}, was {old.pg.name}"
        if new_.nullable and not old.nullable:
            return f"{old.name} may be NULL now"
    if tuple(was.key) != tuple(now.key):
        return f"its key is ({', '.join(now.key)}), was ({', '.join(was.key)})"
    return None
