"""From a configuration to a place to read from: everything checked, then made, then undone again if a step fails.

Order of the durable steps on a new source: publication, slot, (copy). A failure in between takes back what this call
made, so that nothing holds WAL on a server that nobody reads.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial

import psycopg
from psycopg import errors as pg

from penstock import failpoint
from penstock.capture import ddl_trigger
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.checks import check_new, check_promoted, check_readable, check_role, check_server, check_truncates
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, connect, connect_replication
from penstock.capture.continuity import check_same_log
from penstock.capture.copy_pool import open_snapshot
from penstock.capture.copy_ranges import CopyRange, TableSize, plan_ranges, table_sizes
from penstock.capture.discover import SourceTable, discover
from penstock.capture.evolution import Known
from penstock.capture.forms import in_recorded_forms, looked_at, looked_at_again, native_forms
from penstock.capture.publication import (
    ALL_AGAIN,
    check_membership,
    check_publication,
    check_still_given,
    drop_publication,
    extend_publication,
    make_publication,
    read_membership,
    read_publication,
    shrink_publication,
)
from penstock.capture.relations import differs, schema_changed
from penstock.capture.selection import Selection, narrowed_like, select
from penstock.capture.slot import (
    CreatedSlot,
    Identity,
    check_restorable,
    create_slot,
    drop_slot,
    identify,
    identify_after,
    read_slot,
    wait_until_free,
)
from penstock.capture.snapshot import SnapshotReader
from penstock.capture.table_look import TableLook
from penstock.capture.toast import check_full
from penstock.errors import ChangedMeanwhile, NotFound, PenstockError, PublicationLost, SourceError, UnsafeTable
from penstock.lsn import Lsn
from penstock.relation.schema import Schema

NOWHERE = Lsn(0)


@dataclass(frozen=True)
class PreparedCopy:
    """Connections under one snapshot, and what is to be copied on them."""

    connections: list[Connection]
    point: Lsn
    tables: dict[str, SourceTable]
    sizes: dict[str, TableSize]
    ranges: list[CopyRange]
    column_forms: Mapping[str, str]

    def close(self) -> None:
        for one in self.connections:
            one.close()

    def reader(self, *, anew: bool = False) -> SnapshotReader:
        look_again = partial(looked_at_again, overrides=self.column_forms)
        return SnapshotReader(self.connections, self.point, self.tables, self.ranges, self.sizes, look_again, anew=anew)


@dataclass(frozen=True)
class Attached:
    """Where reading starts: a copy first if there is one, then the stream from `start`."""

    identity: Identity
    tables: dict[str, SourceTable]
    start: Lsn
    snapshot: SnapshotReader | None
    undo: ExitStack = field(default_factory=ExitStack)  # takes back what was made, if opening fails after all
    only: bool = False  # nothing comes after the copy
    before: Lsn = NOWHERE  # where the caller stands until the copy is delivered whole
    copy: PreparedCopy | None = None  # the same copy, for whoever reads it without the stream
    switch: Lsn | None = None  # where the timeline of the checkpoint ended, if the server is on a later one


def attach_new(
    connection: Connection,
    config: SourceConfig,
    expected: Mapping[str, Schema] | None,
    look: Callable[[str], bool] | None = None,
) -> Attached:
    """`look` says of which tables all values shall be looked at now, since their copy cannot start again."""
    check_truncates(connection, config.assume_no_truncate)
    only = config.snapshot_mode == "initial_only"
    publication = None if only else config.publication_name
    found = check_new(
        connection,
        config.tables,
        config.slot_name,
        publication,
        partitions=config.partitions,
        selection=Selection.of(config),
    )
    check_expected(found, expected)
    if config.toast_handling == "require-full":
        check_full(connection, found.values())
    looked = {name: table for name, table in found.items() if look is not None and look(name)}
    tables = native_forms(found, config.column_forms) | looked_at(connection, looked, config.column_forms)
    undo = ExitStack()
    try:
        if not only:
            publish(connection, config.publication_name, tables, undo)
            _watch_ddl(connection, config, undo)
        failpoint.hit("capture.publication_made")
        attached = _make_slot(connection, config, tables, undo)
    except (PenstockError, psycopg.Error):
        undo.close()
        raise
    return attached


def attach_finished(connection: Connection, config: SourceConfig, state: Checkpoint) -> Attached:
    """A source that was only to be copied, and was."""
    with closing(connect_replication(config.dsn)) as replication:
        identity = identify(replication)
    return Attached(identity, discover(connection, config.tables, config.partitions), state.lsn, None, only=True)


def attach_restored(
    connection: Connection,
    config: SourceConfig,
    state: Checkpoint,
    expected: Mapping[str, Schema] | None,
    storages: Mapping[str, Known] | None = None,
) -> Attached:
    check_promoted(connection)
    check_server(connection)
    check_truncates(connection, config.assume_no_truncate)
    check_role(connection)
    status = read_slot(connection, config.slot_name)
    with closing(connect_replication(config.dsn)) as replication:
        identity, switch = identify_after(replication, state)
    check_restorable(state, config.database, config.slot_name, identity, status, switch)
    status = wait_until_free(connection, config.slot_name)  # whoever leaves may have moved it
    tables = discover(connection, config.tables, config.partitions)
    oids = [table.oid for table in tables.values()]
    given = read_membership(connection, config.publication_name, oids)
    check_membership(config.publication_name, state.membership, given, tables)
    tables = select(connection, tables, Selection.of(config), config.publication_name)
    check_readable(connection, tables)
    if config.on_schema_change == "follow" and config.snapshot_mode != "always":
        _check_asked(tables, expected or {})
        expected = {name: loosened(schema, tables[name].schema) for name, schema in (expected or {}).items()}
        tables = _as_known(connection, tables, expected, storages or {})
    else:
        check_expected(tables, expected)
    if config.toast_handling == "require-full":
        check_full(connection, tables.values())
    publication = read_publication(connection, config.publication_name)
    if publication is None:
        raise PublicationLost(f"publication {config.publication_name} does not exist", hint=ALL_AGAIN)
    check_still_given(publication, tables)
    if config.ddl_trigger:
        ddl_trigger.install(connection, config.slot_name)
    if not config.two_phase:  # what is prepared has rows before it has a commit
        confirmed = status.confirmed_lsn if status else None
        check_same_log(connection, config.publication_name, state, confirmed, tables)
    tables = _as_captured(connection, config, tables, expected or {}, state)
    if config.snapshot_mode == "always":
        snapshot = copy_again(connection, config, tables)
        return Attached(identity, tables, snapshot.point, snapshot.reader(anew=True), before=state.lsn)
    return Attached(identity, tables, state.lsn, None, switch=switch)


def remove(dsn: str, slot: str, publication: str) -> None:
    """Drop the slot, and the publication if penstock made it. May be repeated; refuses a slot that is being read.

    Event triggers go too, unless another slot needs them.
    """
    with connect(dsn) as connection:
        drop_slot(connection, slot)
        ddl_trigger.remove(connection, slot)
        drop_publication(connection, publication)


def check_expected(tables: Mapping[str, SourceTable], expected: Mapping[str, Schema] | None) -> None:
    """The shapes a caller captured before must still be the tables' shapes."""
    _check_asked(tables, expected or {})
    for name, schema in (expected or {}).items():
        difference = differs(schema, tables[name].schema)
        if difference:
            raise schema_changed(name, difference)


def _check_asked(tables: Mapping[str, SourceTable], expected: Mapping[str, Schema]) -> None:
    for name in expected:
        if name not in tables:
            raise NotFound(f"{name} was captured but is not asked for now", hint="Ask for the same tables as before.")


def _as_known(
    connection: Connection,
    tables: dict[str, SourceTable],
    expected: Mapping[str, Schema],
    storages: Mapping[str, Known],
) -> dict[str, SourceTable]:
    """A table that changed since is taken up in the shape it had: the WAL tells where it got the new one."""
    known = dict(tables)
    for name, schema in expected.items():
        if differs(schema, tables[name].schema) is None:
            continue
        types = TableLook(lambda: connection).types([(column.pg.oid, column.pg.typmod) for column in schema.columns])
        if None in types:
            raise schema_changed(name, "a column's type does not exist any more")
        sends = tuple(found[1] for found in types if found is not None)
        then = storages.get(name, Known())
        known[name] = replace(
            tables[name], schema=schema, sends=sends, filenode=then.filenode, attributes=then.attributes
        )
    return known


def loosened(recorded: Schema, found: Schema) -> Schema:
    """The recorded shape, with columns that may be NULL where they may be now.

    The WAL need not tell of it before the first NULL, and of the rows before it is no less true.
    """
    now = {column.attnum: column.nullable for column in found.columns}
    columns = tuple(replace(c, nullable=c.nullable or now.get(c.attnum, False)) for c in recorded.columns)
    return recorded if columns == recorded.columns else replace(recorded, columns=columns)


def _as_captured(
    connection: Connection,
    config: SourceConfig,
    tables: dict[str, SourceTable],
    expected: Mapping[str, Schema],
    state: Checkpoint,
) -> dict[str, SourceTable]:
    """The recorded forms; a position that has none recorded calls for a look at the values.

    A column that became NOT NULL meanwhile may still be NULL in the WAL before that.
    """
    recorded = {
        name: replace(table, schema=held_as(expected[name], table.schema))
        for name, table in tables.items()
        if name in expected
    }
    others = {name: table for name, table in tables.items() if name not in expected}
    if state.forms is None:
        return recorded | looked_at(connection, others, config.column_forms)
    return recorded | in_recorded_forms(native_forms(others, config.column_forms), state.forms)


def held_as(expected: Schema, found: Schema) -> Schema:
    """The shape that is there, its columns held as they were recorded."""
    if found is expected:
        return found
    pairs = zip(found.columns, expected.columns, strict=True)
    columns = tuple(replace(new, nullable=old.nullable, spark=old.spark, missing=old.missing) for new, old in pairs)
    return replace(found, columns=columns)


def check_unchanged(before: Mapping[str, SourceTable], locked: Mapping[str, SourceTable]) -> None:
    """No DDL may lie between the look at the tables and the lock on them: the snapshot is in between."""
    for name, table in before.items():
        difference = differs(table.schema, narrowed_like(locked[name], table).schema)
        there = locked[name]
        if difference is None and (table.oid, table.filenode) != (there.oid, there.filenode):
            difference = "it was rewritten, truncated or made again"
        if difference is None and set(table.leaves) != set(there.leaves):
            difference = "a partition came, went, or was rewritten or truncated"
        if difference:
            raise ChangedMeanwhile(
                f"{name} changed while its copy was prepared: {difference}", hint="Open the source again."
            )


def publish(connection: Connection, name: str, tables: dict[str, SourceTable], undo: ExitStack) -> None:
    """Have the tables in the publication, made or extended."""
    found = read_publication(connection, name)
    if found is None:
        make_publication(connection, name, tables)
        undo.callback(drop_publication, connection, name)
        return
    check_publication(found, tables, extend=True)
    added = {missing: tables[missing] for missing in found.missing(tables)}
    if added:
        extend_publication(connection, name, added)
        undo.callback(shrink_publication, connection, name, added)


def _watch_ddl(connection: Connection, config: SourceConfig, undo: ExitStack) -> None:
    """Before the slot is made: none of what it will give is missed then."""
    if config.ddl_trigger:
        undo.callback(ddl_trigger.remove, connection, config.slot_name)
        ddl_trigger.install(connection, config.slot_name)


def _make_slot(
    connection: Connection, config: SourceConfig, tables: dict[str, SourceTable], undo: ExitStack
) -> Attached:
    """The slot, and the copy under its snapshot; a source that is only copied has a temporary one, for its snapshot."""
    only = config.snapshot_mode == "initial_only"
    created = create_slot(
        config.dsn,
        config.slot_name,
        timeout=config.slot_timeout,
        temporary=only,
        failover=config.failover and not only,
        two_phase=config.two_phase and not only,
    )
    if not only:
        undo.callback(drop_slot, connection, config.slot_name)
    with closing(created.connection):
        failpoint.hit("capture.slot_created")
        copy, snapshot = None, None
        if config.snapshot_mode != "never":
            copy = start_copy(connection, config, created, tables)
            undo.callback(copy.close)
            snapshot = copy.reader()
            undo.callback(snapshot.close)
        identity = identify(created.connection)
        return Attached(identity, tables, created.consistent_point, snapshot, undo, only=only, copy=copy)


def start_copy(
    connection: Connection, config: SourceConfig, created: CreatedSlot, tables: dict[str, SourceTable]
) -> PreparedCopy:
    """The copy under a new slot's snapshot, all tables locked and still as they were looked at."""
    try:
        opened = open_snapshot(config.dsn, created.snapshot, tables, config.copy_workers)
    except SourceError as error:
        if isinstance(error.__cause__, (pg.UndefinedTable, pg.InvalidSchemaName)):
            raise _gone(error) from error
        raise
    try:
        try:
            found = discover(connection, [table.spelled for table in tables.values()], config.partitions)
        except (NotFound, UnsafeTable) as error:
            raise _gone(error) from error
        check_unchanged(tables, found)
        # On a connection that has the locks: another would wait behind a DDL that waits for them.
        sizes = table_sizes(opened[0], tables)
        ranges = plan_ranges(opened[0], tables, sizes, config.copy_range_blocks, config.copy_workers)
        return PreparedCopy(opened, created.consistent_point, tables, sizes, ranges, config.column_forms)
    except BaseException:
        for one in opened:
            one.close()
        raise


def _gone(error: PenstockError) -> ChangedMeanwhile:
    """All of them were there, and safe, a moment ago."""
    return ChangedMeanwhile(f"tables changed while their copy was prepared: {error.message}", hint=error.hint)


def copy_again(connection: Connection, config: SourceConfig, tables: dict[str, SourceTable]) -> PreparedCopy:
    """A copy at a newer LSN, which belongs to the snapshot of a temporary slot."""
    name = f"penstock_at_{secrets.token_hex(4)}"
    created = create_slot(config.dsn, name, timeout=config.slot_timeout, temporary=True)
    with closing(created.connection):
        return start_copy(connection, config, created, tables)
