"""Which tables a source has: new ones taken in, some left out, one copied again.

Each is one commit here, made before capture goes on: what is to be copied is then found there by whoever goes on. The
publication is extended before it (a published table that nobody asked for is passed over) and reduced after it.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from penstock.capture.attach import publish
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.checks import check_readable
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, connect
from penstock.capture.discover import Patterns, SourceTable, discover, spell
from penstock.capture.forms import looked_at
from penstock.capture.home_copy import add_relation, check_can_join
from penstock.capture.home_options import check_sync_modes, reader_options, schema_policy
from penstock.capture.leaves import Moved, moved, read_leaves
from penstock.capture.partitions import VIA_ROOT
from penstock.capture.publication import read_publication, shrink_publication
from penstock.capture.recovery import check_server
from penstock.capture.selection import Selection, for_tables, select
from penstock.capture.slot import read_slot
from penstock.capture.surroundings import Captured, Surroundings, compare_tables, digest, look, schemas_of
from penstock.catalog import copies, dropped, relations, source_events, sources, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.source_events import SourceEvent
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import (
    ConfigError,
    MissingPrivilege,
    NotFound,
    NotYet,
    PublicationLost,
    SlotLost,
    UnsafeTable,
)
from penstock.relation.home import Home

log = logging.getLogger("penstock.capture")
_REFUSALS = (UnsafeTable, NotFound, NotYet, MissingPrivilege)  # of a table, not of its source


@dataclass(frozen=True)
class Membership:
    """What changes: `listed` as the user wrote it, tables to take in, tables to leave out."""

    listed: tuple[str, ...]
    added: dict[str, SourceTable]
    left_out: tuple[str, ...]
    before: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        return not self.added and not self.left_out and self.listed == self.before


def compare(catalog: Catalog, source: Source, tables: Sequence[str]) -> Membership:
    """The asked tables beside those that are here.

    One that is gone from the server stays while it is listed, unless it was still to be copied.
    """
    config = _config(source, tables)
    with connect(source.dsn) as connection:
        found = _selected(connection, config, config.tables)
        copied = {one.table: one.id for one in relations.of_source(catalog, source.name)}
        pending = {one.name: one.replaces for one in copies.pending(catalog, source.id)}
        known = {*copied, *pending}
        added = {name: table for name, table in found.items() if name not in known}
        check_readable(connection, added)
        check_can_join(config, added)
        check_sync_modes(source.options, added)
        streamed = {name: table for name, table in added.items() if sources.is_partial(source.options, name)}
        added |= looked_at(connection, streamed, {})
    left_out = sorted((known if tuple(tables) != source.tables else set(pending)) - set(found))
    for name in left_out:
        relation = copied.get(name, pending.get(name))  # one that is copied again still has its readers
        readers = stream_tables.dependants(catalog, relation) if relation is not None else []
        if readers:
            raise ConfigError(
                f"{name} cannot be left out: stream tables read it: {', '.join(readers)}", hint="Drop them first."
            )
    return Membership(tuple(tables), added, tuple(left_out), source.tables)


def apply(
    home: Home, catalog: Catalog, lease: Lease, source: Source, plan: Membership, why: SourceEvent | None = None
) -> None:
    """Make it so; the rows of new tables come when capture goes on."""
    with connect(source.dsn) as connection:
        if plan.added:
            _extend(connection, source, plan.added)
        gone = [one for name in plan.left_out if (one := _relation(catalog, source, name))]
        with catalog.commit(lease, None, "tables") as commit:
            streamed = [name for name in plan.added if sources.is_partial(source.options, name)]
            for name, table in plan.added.items():
                if name in streamed:
                    add_relation(commit, source, name, table, source.captured or 0)
                else:
                    copies.add(commit, source.id, name)
            if streamed and (here := sources.get(catalog, source.name)).checkpoint is not None:
                state = Checkpoint.from_json(here.checkpoint).joined_by({plan.added[name].oid for name in streamed})
                sources.move(commit, source.id, state.to_json(), state.lsn)
            for name in plan.left_out:
                copies.drop(commit, source.id, name)
            for relation in gone:
                relations.remove(commit, relation.id)
            if why is not None:
                source_events.record(commit, source.id, why)
            sources.change_tables(commit, source.id, plan.listed)
            sources.tell_state(commit, source.id)
        _reduce(connection, source, plan.left_out)
    for relation in gone:
        shutil.rmtree(home.base(relation.folder), ignore_errors=True)
    dropped.remove_of(catalog, home, [relation.id for relation in gone])


def names(catalog: Catalog, source: Source) -> list[str]:
    """The tables that are here or on their way."""
    here = {one.table for one in relations.of_source(catalog, source.name)}
    return sorted(here | {one.name for one in copies.pending(catalog, source.id)})


def select_anew(catalog: Catalog, lease: Lease, source: Source, tables: Sequence[str]) -> None:
    """Other rows or columns of some tables: published so, then copied again, all in one commit with the settings.

    `source` has the settings to be. Until the commit a repeated call finds the publication half-way and does the same.
    """
    spelled = [spell(*name.split(".", 1)) for name in tables]
    with connect(source.dsn) as connection:
        _check_slot(connection, source)
        _reduce(connection, source, tables)
        config = _config(source, spelled)
        found = _selected(connection, config, config.tables)
        check_readable(connection, found)
        check_can_join(config, found)
        _extend(connection, source, found)
    with catalog.commit(lease, None, "tables") as commit:
        sources.change_settings(commit, source.id, source.dsn, source.options)
        for name in tables:
            relation = _relation(catalog, source, name)
            if relation is not None:
                copies.retire(commit, relation)
            copies.add(commit, source.id, name, replaces=relation.id if relation else None)
            event = SourceEvent(name, "resync", "other rows or columns of it are asked for", source.captured)
            source_events.record(commit, source.id, event)
        sources.tell_state(commit, source.id)


def look_around(catalog: Catalog, source: Source) -> Surroundings:
    """What became of the source's tables while nobody looked, and which tables it has that match by now."""
    config = _config(source, source.tables)
    captured = relations.of_source(catalog, source.name)
    storages = relations.storages(catalog, source.id)
    pending = {one.name for one in copies.pending(catalog, source.id)}
    unlike = bool(config.column_lists) or schema_policy(source.options) == "ignore"
    known = {
        one.table: Captured(
            storages.get(one.id, relations.Storage()).oid, None if unlike else digest(one.schema), one.ended is not None
        )
        for one in captured
    }
    with connect(source.dsn) as connection:
        schemas = schemas_of(known, config.tables)
        seen = look(connection, schemas)
        as_root = config.partitions == "root" and connection.info.server_version >= VIA_ROOT
        listed = Patterns.listed(config.tables)
        if not as_root:
            roots = [seen[one].oid for one in listed if one in seen and seen[one].kind == "p"]
            listed |= {name for leaves in read_leaves(connection, roots).values() for name in leaves.values()}
            seen |= look(connection, schemas_of(listed, ()) - schemas)
        found = compare_tables(seen, known, pending, Patterns(config.tables), as_root=as_root, listed=listed)
        standing = {name: one.oid for name, one in seen.items() if one.kind == "p" and name not in found.made_again}
        captured_roots = {one.id: standing[one.table] for one in captured if one.table in standing}
        compared = _compare_leaves(catalog, connection, captured_roots, storages)
    return replace(found, moved={one.table: compared[one.id] for one in captured if one.id in compared})


def _compare_leaves(
    catalog: Catalog, connection: Connection, roots: Mapping[int, int], storages: Mapping[int, relations.Storage]
) -> dict[int, str]:
    """By relation, what became of its leaves if rows moved with them; what is known of the others is written down."""
    found = {}
    leaves = read_leaves(connection, set(roots.values()))
    for relation, oid in roots.items():
        storage = storages.get(relation, relations.Storage())
        now = leaves[oid]
        compared = Moved(frozenset(now)) if storage.leaves is None else moved(connection, storage.leaves, now)
        if compared.what is not None:
            found[relation] = compared.what
        elif compared.known != storage.leaves:
            relations.remember_storage(catalog, relation, replace(storage, leaves=compared.known))
    return found


def take_in(home: Home, catalog: Catalog, lease: Lease, source: Source, name: str) -> None:
    """A table that matches by now; its rows come when capture goes on."""
    schema, _, table = name.partition(".")
    config = _config(source, [spell(schema, table)])
    with connect(source.dsn) as connection:
        found = _selected(connection, config, config.tables)
        check_readable(connection, found)
        check_can_join(config, found)
    event = SourceEvent(name, "added", "it is new and asked for", source.captured)
    apply(home, catalog, lease, source, Membership(source.tables, found, (), source.tables), event)


def end(catalog: Catalog, lease: Lease, source: Source, event: SourceEvent) -> None:
    """A table that cannot be captured any more: it stays readable up to where capture is now.

    One that was to be copied again stays readable up to where it was taken out of sight, and one that has ended already
    up to where it did: nothing was captured of it since.
    """
    relation = _relation(catalog, source, event.table)
    with catalog.commit(lease, None, "tables") as commit:
        before = copies.give_up(commit, source.id, event.table)
        if relation is not None and relation.ended is None:
            relations.end(commit, relation.id, source.captured or 0, event.detail)
        elif before is not None:
            relations.end(commit, *before, event.detail)
        if relation is None or relation.ended is None:
            source_events.record(commit, source.id, event)
        sources.tell_state(commit, source.id)


def check_pending(catalog: Catalog, lease: Lease, source: Source) -> None:
    """Before interrupted copies go on: tables that cannot be copied any more end, without stopping the others.

    One that was made again is published again; nothing of what was copied of it is kept then.
    """
    waiting = [copy.name for copy in copies.pending(catalog, source.id)]
    if not waiting:
        return
    refused: dict[str, str] = {}
    with connect(source.dsn) as connection:
        try:
            found = _as_they_are(connection, source, waiting)
        except _REFUSALS:
            found = {}
            for name in waiting:
                try:
                    found |= _as_they_are(connection, source, [name])
                except _REFUSALS as refusal:
                    refused[name] = refusal.message
        if refused:
            check_server(source)
        if found:
            _extend(connection, source, found)
    for name, why in refused.items():
        detail = f"it cannot be copied: {why}"
        log.warning("%s: %s: %s", source.name, name, detail)
        end(catalog, lease, source, SourceEvent(name, "ended", detail, source.captured, alert=True))


def _as_they_are(connection: Connection, source: Source, tables: Sequence[str]) -> dict[str, SourceTable]:
    config = _config(source, [spell(*name.split(".", 1)) for name in tables])
    found = _selected(connection, config, config.tables)
    if missing := sorted(set(tables) - set(found)):
        raise UnsafeTable(
            f"{', '.join(missing)} is a partitioned table now, and its partitions are tables of their own"
        )
    check_readable(connection, found)
    return found


def copy_again(
    catalog: Catalog, lease: Lease, source: Source, table: str, why: SourceEvent | None = None, *, look: bool = False
) -> None:
    """Take a table out of sight and have it copied anew, with the shape that it has now.

    `look`: in forms that hold all its values.
    """
    _copy_again(catalog, lease, source, [_name(catalog, source, table)], why, look=look)


def copy_all_again(catalog: Catalog, lease: Lease, source: Source) -> None:
    """The same for all tables at once: afterwards nothing is needed of the log up to here."""
    ended = {one.table for one in relations.of_source(catalog, source.name) if one.ended is not None}
    _copy_again(catalog, lease, source, [name for name in names(catalog, source) if name not in ended])


def _copy_again(
    catalog: Catalog,
    lease: Lease,
    source: Source,
    tables: Sequence[str],
    why: SourceEvent | None = None,
    *,
    look: bool = False,
) -> None:
    replaced = {name: _relation(catalog, source, name) for name in tables}
    config = _config(source, tables)
    with connect(source.dsn) as connection:
        _check_slot(connection, source)
        found = _selected(connection, config, tables)
        check_readable(connection, found)
        check_can_join(config, found)
        _extend(connection, source, found)
    with catalog.commit(lease, None, "tables") as commit:
        for name, relation in replaced.items():
            if relation is not None:
                copies.retire(commit, relation)
            copies.add(commit, source.id, name, replaces=relation.id if relation else None, look=look)
        if why is not None:
            source_events.record(commit, source.id, why)
        sources.tell_state(commit, source.id)


def _name(catalog: Catalog, source: Source, table: str) -> str:
    """`schema.table` of a table that is here or on its way, however it is named."""
    here = names(catalog, source)
    wanted = table.removeprefix(f"{source.name}.")
    matches = [name for name in here if name == wanted or name.partition(".")[2] == wanted]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(matches or here) or "none yet"
    raise NotFound(
        f"{'several tables' if matches else 'no table'} of source {source.name!r} called {table!r}",
        hint=f"Write schema.table; there are: {listed}.",
    )


def _relation(catalog: Catalog, source: Source, name: str) -> Relation | None:
    return next((one for one in relations.of_source(catalog, source.name) if one.table == name), None)


def _check_slot(connection: Connection, source: Source) -> None:
    """Without its slot no copy can join the stream, and the old one would be out of sight for nothing."""
    found = read_slot(connection, source.slot)
    reason = "it does not exist" if found is None else found.lost
    if reason:
        raise SlotLost(
            f"the slot {source.slot} of source {source.name} cannot be read: {reason}",
            hint=f"Run `penstock slots recover {source.name}`; all its tables are copied again.",
        )


def _extend(connection: Connection, source: Source, tables: dict[str, SourceTable]) -> None:
    if read_publication(connection, source.publication) is None:
        raise PublicationLost(
            f"publication {source.publication} does not exist",
            hint=f"Remove source {source.name} and add it again: changes made without it cannot be read.",
        )
    publish(connection, source.publication, tables, ExitStack())


def _reduce(connection: Connection, source: Source, names: Sequence[str]) -> None:
    found = read_publication(connection, source.publication)
    if found is not None and found.ours:
        shrink_publication(connection, source.publication, names)


def _selected(connection: Connection, config: SourceConfig, names: Sequence[str]) -> dict[str, SourceTable]:
    found = discover(connection, names, config.partitions)
    return select(connection, found, Selection.of(for_tables(config, found)), config.publication_name)


def _config(source: Source, tables: Sequence[str]) -> SourceConfig:
    options = {**reader_options(source.options), "publication_name": source.publication}
    return SourceConfig.from_dsn(source.dsn, tables=tuple(tables), slot_name=source.slot, **options)
