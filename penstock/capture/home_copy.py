"""Tables on their way into a home: copied in ranges by threads, while capture goes on with everything else.

Order of durable steps: what will be copied, under which snapshot and in which ranges; then each range by itself (its
file, fsynced, then a commit); the changes streamed meanwhile, with capture's own commits; at last one commit that makes
a relation of all of it, readable from capture's position on. After a crash the snapshot is gone: what is left is copied
under a newer one, and `moved_keys` argues why finished ranges can stay. A table that was rewritten (or truncated), or
whose rows cannot be asked for by key, is copied from the start.

A table that is copied from the start joins the stream at its snapshot's LSN, `join_at`, and not before: what the
stream has of it up to there is in the copy, and may be of another shape.

A value that its column's form cannot hold means another copy of that table, under a newer snapshot: what was streamed
of it meanwhile is in the old form. The other tables are copied to their end first, since the snapshot goes then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture import moved_keys
from penstock.capture.attach import PreparedCopy, attach_new, copy_again, held_as
from penstock.capture.batch import Stamp, stamped
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, connect, connect_replication
from penstock.capture.copy_pool import CopyPool, Job
from penstock.capture.copy_ranges import CopyRange, TableSize, table_sizes
from penstock.capture.discover import SourceTable, discover
from penstock.capture.forms import looked_at, native_forms
from penstock.capture.home_options import check_sync_modes
from penstock.capture.publication import read_membership
from penstock.capture.relations import differs
from penstock.capture.rows import Rows
from penstock.capture.selection import Selection, for_tables, select
from penstock.capture.slot import identify
from penstock.capture.table_copy import TableCopy, copy_command
from penstock.catalog import copies, dropped, relations, sources
from penstock.catalog.copies import Copy, Range
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Storage
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog, Commit
from penstock.errors import ChangedMeanwhile, FormChanged, NotYet
from penstock.failpoint import FailpointReached, hit
from penstock.lsn import Lsn
from penstock.relation import segment
from penstock.relation.home import Home, folder_name
from penstock.relation.schema import Schema
from penstock.relation.segment import Segment, SegmentWriter
from penstock.zset import among

Progress = Callable[[str, int], None]


@dataclass
class _Table:
    """A table under way; threads count `left` down."""

    copy: Copy
    table: SourceTable
    left: int  # ranges
    mixed: bool  # has ranges of older snapshots, so it needs a correction
    correcting: bool = False
    misfit: FormChanged | None = None  # it must start again, in other forms
    reported: int = 0  # rows, to who watches

    @property
    def lsn(self) -> int:
        assert self.copy.lsn is not None
        return self.copy.lsn


class HomeCopies:
    """The copies of one source under its lease. Used by capture's thread, which `complete`s what the others made."""

    def __init__(
        self, home: Home, catalog: Catalog, lease: Lease, source: Source, progress: Progress | None = None
    ) -> None:
        self._home = home
        self._catalog = catalog
        self._lease = lease
        self._source = source
        self._progress = progress
        self._time = time.time_ns() // 1000
        self._lock = threading.Lock()
        self._tables: dict[str, _Table] = {}
        self._pool: CopyPool | None = None
        self.join_at: Lsn | None = None
        self._joining: set[str] = set()

    @property
    def under_way(self) -> set[str]:
        return set(self._tables)

    def streamed(self) -> dict[str, Schema]:
        """The tables under way that the stream has, and their shapes."""
        return {name: one.table.schema for name, one in self._tables.items() if name not in self._joining}

    def joined(self) -> None:
        """Capture is at `join_at`: from here on the stream has all tables."""
        self.join_at = None
        self._joining = set()

    def needed(self) -> Lsn:
        """Where capture must be for all copies to be completed."""
        return Lsn(max((one.lsn for one in self._tables.values()), default=0))

    # Beginning --------------------------------------------------------------------------------------------------------

    def begin(self, config: SourceConfig) -> None:
        """A new source: publication and slot are made, and the copy under the slot's own snapshot begins."""
        with connect(config.dsn) as connection:
            # Tables that are only streamed, and those of a source that no table can join later.
            attached = attach_new(
                connection,
                config,
                None,
                lambda name: config.two_phase or sources.is_partial(self._source.options, name),
            )
            identity = attached.identity
            oids = [table.oid for table in attached.tables.values()]
            position = Checkpoint(
                identity.system_identifier, identity.timeline, config.database, config.slot_name, attached.start
            ).published_by(read_membership(connection, config.publication_name, oids))
            try:
                storages = _storages(connection, config, attached.tables, attached.copy.sizes if attached.copy else {})
                with self._catalog.commit(self._lease, None, "copy_begin") as commit:
                    check_sync_modes(self._source.options, attached.tables)
                    for name, table in attached.tables.items():
                        if sources.is_partial(self._source.options, name):
                            self.add_relation(commit, name, table, attached.start)
                        else:
                            copies.add(commit, self._source.id, name)
                    if attached.copy is not None:
                        pending = copies.pending(self._catalog, self._source.id)
                        self._plan(commit, attached.copy, pending, storages, keep=set())
                    sources.move(commit, self._source.id, position.to_json(), attached.start)
            except FailpointReached:
                if attached.copy is not None:
                    attached.copy.close()
                raise
            except BaseException:
                attached.undo.close()
                raise
        if attached.copy is not None and copies.pending(self._catalog, self._source.id):
            self._start(attached.copy)
        elif attached.copy is not None:  # all tables are only streamed
            attached.copy.close()

    def resume(self, config: SourceConfig) -> None:
        """Go on with what is not complete, under a new snapshot."""
        pending = copies.pending(self._catalog, self._source.id)
        if not pending:
            return
        same = self._is_same_log()
        with connect(config.dsn) as connection:
            found = discover(connection, [copy.name for copy in pending], config.partitions)
            found = select(connection, found, Selection.of(for_tables(config, found)), config.publication_name)
            sizes = table_sizes(connection, found)
            storages = _storages(connection, config, found, sizes)
            kept = {
                copy.name: replace(found[copy.name], schema=held_as(copy.schema, found[copy.name].schema))
                for copy in pending
                if same and copy.schema is not None and self._may_go_on(copy, found[copy.name], storages[copy.name])
            }
            anew = {name: table for name, table in found.items() if name not in kept}
            check_can_join(config, anew)
            odd = {copy.name: anew[copy.name] for copy in pending if copy.look and copy.name in anew}
            looked = looked_at(connection, odd, config.column_forms)
            tables = kept | native_forms(anew, config.column_forms) | looked
            prepared = copy_again(connection, config, tables)
        with ExitStack() as failed:
            failed.callback(prepared.close)
            _check_storage(prepared, sizes)
            keep = set(kept)
            with self._catalog.commit(self._lease, None, "copy_begin") as commit:
                self._plan(commit, prepared, pending, storages, keep)
            dropped.remove_unread(self._catalog, self._home)
            failed.pop_all()
        self._joining = {copy.name for copy in pending} - keep
        self.join_at = prepared.point if self._joining else None
        self._start(prepared)

    def _is_same_log(self) -> bool:
        """Whether there was no failover since. A range may be of a later moment than the position, and have rows that
        the new server never had."""
        assert self._source.checkpoint is not None
        with closing(connect_replication(self._source.dsn)) as replication:
            return identify(replication).is_of(Checkpoint.from_json(self._source.checkpoint))

    def _may_go_on(self, copy: Copy, table: SourceTable, storage: str) -> bool:
        """Whether finished ranges may stay: the same table, never rewritten, whose rows can be read by key.

        The stream must have had it ever since the oldest of them.
        """
        if copy.lsn is None or copy.schema is None or copy.storage != storage:
            return False
        done = [one.lsn for one in copies.ranges(self._catalog, copy.id) if one.lsn is not None]
        if not done or min(done) > (self._source.captured or 0):
            return False
        return differs(copy.schema, table.schema) is None and moved_keys.can_be_read_by_key(copy.schema)

    def _plan(
        self,
        commit: Commit,
        prepared: PreparedCopy,
        pending: Sequence[Copy],
        storages: Mapping[str, str],
        keep: set[str],
    ) -> None:
        """Write down the snapshot, and for what is copied from the start the ranges."""
        planned: dict[str, list[Range]] = {copy.name: [] for copy in pending}
        for one in (one for one in prepared.ranges if one.table in planned):
            planned[one.table].append(Range(one.number, one.by, one.low, one.high))
        for copy in pending:
            if copy.name in keep:
                copies.go_on(commit, copy.id, prepared.point)
            else:
                storage, schema = storages[copy.name], prepared.tables[copy.name].schema
                copies.begin(commit, copy.id, prepared.point, storage, schema, planned[copy.name])

    def _start(self, prepared: PreparedCopy) -> None:
        jobs: list[Job] = []
        self._pool = CopyPool(prepared.connections, self._catalog.leave)
        for copy in copies.pending(self._catalog, self._source.id):
            ranges = copies.ranges(self._catalog, copy.id)
            undone = [one for one in ranges if one.lsn is None]
            mixed = any(one.lsn is not None and one.lsn < prepared.point for one in ranges)
            self._tables[copy.name] = _Table(copy, prepared.tables[copy.name], len(undone), mixed)
            jobs += [self._range_job(self._tables[copy.name], one) for one in undone]
        self._pool.start(jobs)

    # In the threads ---------------------------------------------------------------------------------------------------

    def _range_job(self, one: _Table, part: Range) -> Job:
        condition = CopyRange(one.copy.name, part.number, part.by, part.low, part.high).condition()

        def run(connection: Connection, stopped: Callable[[], bool]) -> None:
            copy = TableCopy(connection, one.table, copy_command(one.table, condition))
            attempt = self._catalog.begin(self._lease, "copy")
            written = self._write(one, attempt, self._copied(one, copy, stopped))
            hit("copy.range_written")
            with self._catalog.commit(self._lease, attempt, "copy") as commit:
                copies.finish_range(commit, one.copy.id, part.number, one.lsn, written)
            with self._lock:
                one.left -= 1

        return self._unless_odd(one, run)

    def _unless_odd(self, one: _Table, work: Job) -> Job:
        """Work on a table as long as all its values fit; the first that does not leaves other tables alone."""

        def run(connection: Connection, stopped: Callable[[], bool]) -> None:
            if one.misfit is not None:
                return
            try:
                work(connection, stopped)
            except FormChanged as misfit:
                with self._lock:
                    one.misfit = one.misfit or misfit
                    reported, one.reported = one.reported, 0
                if reported and self._progress:
                    self._progress(one.copy.name, -reported)

        return run

    def _copied(self, one: _Table, copy: TableCopy, stopped: Callable[[], bool]) -> Iterable[pa.Table]:
        seq = 0
        while (rows := copy.read(seq, stopped)) is not None:
            count = len(rows.weights)
            seq += count
            yield self._stamped(one, rows)
            if self._progress and self._report(one, count):
                self._progress(one.copy.name, count)

    def _report(self, one: _Table, count: int) -> bool:
        """Whether rows count: those of a copy that will start again do not."""
        with self._lock:
            if one.misfit is None:
                one.reported += count
            return one.misfit is None

    def _stamped(self, one: _Table, rows: Rows) -> pa.Table:
        count = len(rows.weights)
        stamp = Stamp(np.full(count, one.lsn, np.int64), np.full(count, self._time, np.int64), None)
        return stamped(one.table, rows, stamp)

    def _write(self, one: _Table, attempt: int, parts: Iterable[pa.Table]) -> list[Segment]:
        writer = SegmentWriter(self._home, self.folder(one.copy.name), attempt)
        # Copies wait for the compressor: LZ4 takes a quarter of the time of zstd, for twice the room.
        file = writer.file(one.table.schema.arrow_changes(), quick=True)
        try:
            for rows in parts:
                file.write(rows)
            return file.finish(one.lsn)
        except BaseException:
            file.abandon()
            raise

    def _correction_job(self, one: _Table) -> Job:
        def run(connection: Connection, stopped: Callable[[], bool]) -> None:
            schema = one.table.schema
            changes = [f for f in copies.files(self._catalog, one.copy.id, "change") if f.low <= one.lsn]
            keys = moved_keys.distinct_keys(
                (segment.read(self._home, [file], schema.arrow(schema.key)) for file in changes), schema
            )
            attempt = self._catalog.begin(self._lease, "copy_correct")
            written = self._write(one, attempt, self._corrections(one, keys, connection, stopped))
            hit("copy.correction_written")
            with self._catalog.commit(self._lease, attempt, "copy_correct") as commit:
                copies.record_files(commit, one.copy.id, "correction", written)
            with self._lock:
                one.mixed = False

        return self._unless_odd(one, run)

    def _corrections(
        self, one: _Table, keys: pa.Table, connection: Connection, stopped: Callable[[], bool]
    ) -> Iterable[pa.Table]:
        """What the ranges have of `keys` taken back, and their rows as they are at the copy's LSN."""
        if not keys.num_rows:
            return
        schema = one.table.schema
        for file in copies.files(self._catalog, one.copy.id, "range"):
            rows = segment.read(self._home, [file], schema.arrow_changes())
            yield moved_keys.taken_back(rows, keys, one.lsn)
        again = [schema.arrow_raw().empty_table()]
        for chunk in moved_keys.chunks(keys):
            copy = TableCopy(connection, one.table, moved_keys.by_key_command(one.table, chunk))
            while (found := copy.read(0, stopped)) is not None:
                again.append(self._stamped(one, found))
        # The server may hold keys equal that are not the same text here; a row belongs to one of them.
        rows = pa.concat_tables(again)
        rows = rows.filter(among(rows.select(list(schema.key)), keys))
        yield moved_keys.first_of_each(rows, schema)

    # In capture's thread ----------------------------------------------------------------------------------------------

    def ready(self, captured: int) -> list[str]:
        """The tables whose copy is durable, corrections included; raises what a thread raised.

        A value that did not fit is raised when no other table is left.
        """
        if self._pool is None:
            return []
        self._pool.check()
        misfits = [one.misfit for one in self._tables.values() if one.misfit is not None]
        if misfits and len(misfits) == len(self._tables):
            raise misfits[0]
        done = []
        for name, one in self._tables.items():
            with self._lock:
                left, mixed = one.left, one.mixed
            if left or name in self._joining or captured < one.lsn:
                continue
            if not mixed:
                done.append(name)
            elif not one.correcting:
                one.correcting = True
                self._pool.add([self._correction_job(one)])
        return done

    def split(self, name: str, rows: pa.Table) -> list[pa.Table]:
        """Changes up to the copy's LSN and those after it: only the latter become the table's."""
        if name not in self._tables:
            return [rows]
        after = pc.greater(rows["_lsn"], self._tables[name].lsn)
        return [part for part in (rows.filter(pc.invert(after)), rows.filter(after)) if part.num_rows]

    def record_changes(self, commit: Commit, name: str, written: Iterable[Segment]) -> None:
        copies.record_files(commit, self._tables[name].copy.id, "change", written)

    def complete(self, commit: Commit, names: Sequence[str], position: Lsn) -> list[str]:
        """Make relations of finished copies, readable from `position` on.

        If the source can be read at `position` already, changes that are not settled would be missing there: such a
        table waits until capture has moved on.
        """
        done: list[str] = []
        if not names:
            return done
        settled = sources.get(self._catalog, self._source.name).settled or Lsn(0)
        for name in names:
            one = self._tables[name]
            if settled < position or not copies.unsettled(commit, one.copy):
                relation = self.add_relation(commit, name, one.table, position)
                copies.complete(commit, one.copy, relation)
                done.append(name)
        return done

    def completed(self, names: Iterable[str]) -> None:
        """The commit is durable."""
        for name in names:
            del self._tables[name]
        if not self._tables and self._pool is not None:
            self.close()
            dropped.remove_unread(self._catalog, self._home)

    def add_relation(self, commit: Commit, name: str, table: SourceTable, position: Lsn) -> int:
        return add_relation(commit, self._source, name, table, position)

    def folder(self, name: str) -> str:
        return _folder(self._source, name)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def add_relation(commit: Commit, source: Source, name: str, table: SourceTable, position: int) -> int:
    """A table that can be read from `position` on."""
    identifier = relations.add(
        commit,
        f"{source.name}.{name}",
        "table",
        _folder(source, name),
        table.schema,
        source_id=source.id,
        position=position,
    )
    leaves = frozenset(table.leaves) if table.partitioned else None
    relations.remember_storage(commit, identifier, Storage(table.filenode, table.attributes, table.oid, leaves))
    return identifier


def _folder(source: Source, name: str) -> str:
    schema, _, table = name.partition(".")
    return f"tables/{source.name}/{folder_name(schema)}/{folder_name(table)}"


def _storages(
    connection: Connection, config: SourceConfig, tables: Mapping[str, SourceTable], sizes: Mapping[str, TableSize]
) -> dict[str, str]:
    """What must not change while a copy is under way: the table's storage, and that the publication has it."""
    found = read_membership(connection, config.publication_name, [table.oid for table in tables.values()])
    given = {name: found.entries.get(table.oid, (0,)) if found else (0,) for name, table in tables.items()}
    return {name: f"{size.storage} in {' '.join(map(str, given[name]))}" for name, size in sizes.items()}


def _check_storage(prepared: PreparedCopy, before: Mapping[str, TableSize]) -> None:
    """The look at the tables and the lock on them must have seen the same storage: the snapshot is in between."""
    for name, size in prepared.sizes.items():
        if size.storage != before[name].storage:
            raise ChangedMeanwhile(
                f"{name} was rewritten or truncated while its copy was prepared", hint="Call this again."
            )


def check_can_join(config: SourceConfig, tables: Collection[str]) -> None:
    """To join, the stream begins again at the copy's LSN: what was prepared before it and is open would be lost."""
    if tables and config.two_phase:
        raise NotYet(
            f"copying {', '.join(sorted(tables))} into a source with two_phase",
            hint="Remove the source and add it again with all its tables.",
        )
