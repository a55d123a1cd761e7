"""From a source into the changelog, exactly once.

The order of durable steps: files (fsynced), then one catalog transaction with segments and position, then the slot.
A crash before the transaction leaves files nobody reads, and the slot still has the changes. A crash after it leaves a
slot that is behind: what it sends again is at or before the position and is dropped. Capture alone moves the slot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture import column_memory, membership
from penstock.capture.attach import remove
from penstock.capture.batch import Batch
from penstock.capture.change_files import ChangeFiles
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.config import SourceConfig
from penstock.capture.connection import connect, connect_replication, translated
from penstock.capture.evolution import Known
from penstock.capture.home_copy import HomeCopies, Progress
from penstock.capture.home_options import SchemaPolicy, reader_options, schema_policy
from penstock.capture.key_sightings import KeySightings
from penstock.capture.quiet_tables import evolved, shape_now
from penstock.capture.recovery import positions_go_back
from penstock.capture.returned_memory import give_back
from penstock.capture.selection import for_tables
from penstock.capture.shapes import Shapes
from penstock.capture.slot import identify
from penstock.capture.source import PostgresSource
from penstock.catalog import attempts, copies, dropped, foreign_keys, relations, sources
from penstock.catalog.foreign_keys import Sighting
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Storage
from penstock.catalog.store import Catalog, Question, beginning
from penstock.errors import ChangedMeanwhile, SchemaChanged, SourceUnreachable
from penstock.failpoint import hit
from penstock.lsn import Lsn
from penstock.relation.home import Home
from penstock.relation.rotation import ROTATION
from penstock.relation.segment import Form, Segment
from penstock.zset import ABSENT, WEIGHT, is_settled

log = logging.getLogger("penstock.capture")

# A file ends when this much is there for files, and all are committed when so many rows are there, or all that was
# asked for. If so much waits of one table, it is encoded meanwhile.
_FLUSH_ROWS, _FLUSH_BYTES = 250_000, 48 << 20
_PART_ROWS, _PART_BYTES = 25_000, 12 << 20
_COMMIT_ROWS = 3_000_000
_NEVER = Lsn((1 << 64) - 1)
_MOMENT = 0.002  # seconds for the first of what lies in the socket
_MOMENTS = 0.05  # seconds for all of it, if it does not end
# A commit of so much at most is settled before it is written.
AT_ONCE_ROWS, _AT_ONCE_BYTES = 10_000, 16 << 20
_PAUSE = 1.0  # seconds between commits while tables are copied
_OWN = {"toast_handling": "settle"}  # the changelog fills in what the WAL left out, exactly
_TRIES, _SHORTLY = 5, 0.2  # to prepare copies while somebody changes tables; seconds in between
_PATIENCE = 300.0  # a server may decode one long transaction for minutes before it sends anything

Settle = Callable[[sources.Source, Mapping[str, tuple[int, pa.Table]], Question[None]], dict[str, pa.Table]]
"""Settles changes that are in memory, by table with its version; gives those that can be settled now. The question is
asked in any case."""


@dataclass
class _Waiting:
    """Changes of one version of a table that nobody writes yet."""

    parts: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.parts.append(rows)
            self.rows += rows.num_rows
            self.bytes += rows.nbytes


class Ingest:
    """Captures one source under a lease that the caller holds, from the moment it is made until `close`.

    After any error it is done for: what it had taken in is only in memory, ahead of the catalog. A new one starts at
    the position that is recorded there.
    """

    def __init__(
        self,
        home: Home,
        catalog: Catalog,
        name: str,
        lease: Lease,
        *,
        progress: Progress | None = None,
        policy: SchemaPolicy | None = None,
        settle: Settle | None = None,
    ) -> None:
        self._settle = settle
        self._home = home
        self._catalog = catalog
        self.lease = lease
        attempts.collect(catalog, home, lease)
        self.source = sources.get(catalog, name)
        self._policy = policy or schema_policy(self.source.options)
        self._whole = True  # nothing of a transaction that goes on is in memory or in files
        copies.forget_retired(catalog, self.source.id)
        dropped.remove_unread(catalog, home)
        self._waiting: dict[tuple[str, int], _Waiting] = {}  # by table and version
        self._shapes = Shapes()
        self._rows = 0  # waiting or written, and not committed
        self.unsettled = True  # whether something that was captured may not be readable; not known yet
        self._ids: dict[str, int] | None = None
        self._attempt: int | None = None
        self._committed_at = time.monotonic()
        self._passed_join = False
        self._noted: Lsn | None = None  # where the foreign keys were looked at
        self._seen: frozenset[str] | None = None  # those that were written down then
        self._keys = KeySightings(catalog)
        self._copies = HomeCopies(home, catalog, lease, self.source, progress)
        self._files = ChangeFiles(home, self._copies, self._form)
        self._handed_rows = self._handed_bytes = 0  # to files that have not ended
        self._begin()

    def _begin(self) -> None:
        try:
            self._begin_copies()
            self._postgres = self._open()
        except BaseException:
            self._files.close()
            self._copies.close()
            self._keys.close()
            raise

    def _begin_copies(self) -> None:
        """Nothing is copied yet when DDL comes in between: then all of it begins again."""
        for more in reversed(range(_TRIES)):
            try:
                if self.source.checkpoint is None:
                    remove(self.source.dsn, self.source.slot, self.source.publication)  # of an interrupted start
                    self._copies.begin(self._config(self.source.tables))
                else:
                    membership.check_pending(self._catalog, self.lease, self.source)
                    self._copies.resume(self._config(self.source.tables))
                return
            except ChangedMeanwhile as change:
                if not more:
                    raise
                log.info("%s: %s; the copy is prepared again", self.source.name, change.message)
                time.sleep(_SHORTLY)

    def close(self) -> None:
        """Stop capturing; what was not committed comes again next time."""
        with ExitStack() as all_of_them:  # the last one first; each, whatever becomes of the others
            for one in (self._keys, self._postgres, self._copies, self._files):
                all_of_them.callback(one.close)

    @property
    def captured(self) -> Lsn:
        """Every commit up to here is durable in this home."""
        return self._captured

    def server_position(self) -> Lsn:
        return self._postgres.current_lsn()

    def advance(self) -> None:
        """Make durable what has come by now; only what is behind much of it is waited for."""
        enough, moment = time.monotonic() + _MOMENTS, _MOMENT
        while self._step(moment, enough=_NEVER) and time.monotonic() < enough:
            if self._rows > AT_ONCE_ROWS or not self._rows:
                return self.reach(self.server_position())
            moment = 0.0  # what comes from now on is the next turn's
        self._step(0, enough=Lsn(0))
        return None

    def reach(self, target: Lsn) -> None:
        """Capture until every commit up to `target` is durable here."""
        moved = time.monotonic()
        self._step(0, enough=target)  # also when nothing is to be captured, a copy may be complete
        while self._captured < target:
            if self._step(0.05, enough=target):
                moved = time.monotonic()
            elif time.monotonic() - moved > _PATIENCE:
                raise SourceUnreachable(
                    f"source {self.source.name!r} sent nothing for {_PATIENCE:.0f} s; "
                    f"captured {self._captured}, asked for {target}",
                    hint="Is the server busy decoding a long transaction? Look at pg_stat_replication.",
                )

    def note_foreign_keys(self) -> None:
        """Write down which foreign keys hold up to here, so that refreshes may rely on them."""
        if self._noted == self._captured:
            return
        seen = self._keys.look(self.source).result()
        if seen is not None:
            with self._catalog.connection.transaction():
                foreign_keys.saw(self._catalog.connection, self.source.id, seen)
            self._noted, self._seen = self._captured, _identities(seen)

    def finish_copies(self) -> None:
        """Capture until no table is being copied any more."""
        asked: PostgresSource | None = None
        while self._copies.under_way:
            needed = self._copies.needed()
            if self._captured < needed and asked is not self._postgres:
                asked = self._postgres
                asked.current_lsn()  # so that a quiet server is helped to get there
            self._step(0.05, enough=needed)

    def take_up(self, columns: Mapping[str, str]) -> None:
        """Tables that were seen with other columns, and have given no row since: their next version begins here."""
        quiet = self._shapes.unlike(columns)
        if not quiet:
            return
        config = self._config(self.source.tables)
        with connect(self.source.dsn) as connection:
            for name in quiet:
                found = shape_now(connection, name, config.partitions)
                if found is not None:
                    now, lsn = found
                    self.reach(lsn)  # a row in the new shape before `lsn` would bring it here
                    self._shapes.adopt(evolved(connection, self._postgres.shapes[name], now), lsn)
        self._commit(replace(self._postgres.checkpoint(), lsn=self._captured), [])
        self._postgres.close()
        self._postgres = self._open()

    def _config(self, tables: Iterable[str]) -> SourceConfig:
        source = self.source
        options = {
            "spill_directory": str(self._home.path("spill")),
            **reader_options({**source.options, "on_schema_change": self._policy}),
            "publication_name": source.publication,
            **_OWN,
        }
        return SourceConfig.from_dsn(source.dsn, tables=tuple(tables), slot_name=source.slot, **options)

    def _open(self) -> PostgresSource:
        """Go on from the recorded position, with all tables that are in the stream there."""
        self._ids = None
        self.unsettled = True
        self.source = sources.get(self._catalog, self.source.name)
        self._captured = self.source.captured or Lsn(0)
        captured = [one for one in relations.of_source(self._catalog, self.source.name) if one.ended is None]
        copied = self._copies.streamed()
        known = {relation.table: relation.schema for relation in captured} | copied
        if not known and self._copies.join_at is None:
            raise SchemaChanged(
                f"source {self.source.name!r} has no table left that can be captured",
                hint="`penstock source events` tells what became of them. Add others, or remove the source: its slot "
                "keeps WAL on the server.",
            )
        if not known:
            return self._skip_to_join()
        self._shapes = Shapes(captured, copied, ignoring=self._policy == "ignore")
        storages = relations.storages(self._catalog, self.source.id)
        config = for_tables(self._config(known), known)
        if self._copies.under_way:
            # A row may move to another block without being another row: a copy that goes on must see its key.
            config = replace(config, consolidate="off")
        there = {
            one.table: Known(storages[one.id].filenode, storages[one.id].attributes)
            for one in captured
            if one.id in storages
        }
        postgres = PostgresSource(config, schemas=known, storages=there)
        postgres.restore(self._checkpoint())
        postgres.open()
        for relation in captured:
            table = postgres.shapes[relation.table]
            now, before = Storage(table.filenode, table.attributes, table.oid), storages.get(relation.id)
            if before is None or now != replace(before, leaves=None):  # what is known of leaves is left as it is
                relations.remember_storage(self._catalog, relation.id, now)
        return postgres

    def _checkpoint(self) -> Checkpoint:
        assert self.source.checkpoint is not None
        return Checkpoint.from_json(self.source.checkpoint)

    def _checkpoint_at(self, lsn: Lsn) -> Checkpoint:
        """A position before which nothing matters, so that it may lie in another log than the last one did, and it
        does not matter either what the publication gave."""
        if lsn < self._captured:
            raise positions_go_back(self.source, lsn, self._captured)
        state = replace(self._checkpoint(), lsn=lsn, mark=None).published_by(None)
        with closing(connect_replication(self.source.dsn)) as replication:
            here = identify(replication)
        if here.is_of(state):
            return state
        return replace(state, system_identifier=here.system_identifier, timeline=here.timeline)

    def _skip_to_join(self) -> PostgresSource:
        """Nothing in the stream up to the copy's LSN is anybody's."""
        assert self._copies.join_at is not None
        there = self._checkpoint_at(self._copies.join_at)
        with self._catalog.commit(self.lease, None, "ingest") as commit:
            sources.move(commit, self.source.id, there.to_json(), there.lsn)
        self._copies.joined()
        return self._open()

    def _step(self, timeout: float, *, enough: Lsn) -> bool:
        """One poll; True when something came or was made durable."""
        try:
            batch = self._postgres.poll(max_records=100_000, timeout=timeout)
        except SchemaChanged:
            self._keep_whole()
            raise
        if batch is not None:
            self._take(batch)
            self._whole = batch.complete
        here = self._postgres.checkpoint()
        join = self._copies.join_at
        if join is not None and (self._passed_join or here.lsn >= join):
            # The mark may lie past `join`, and tables that join change what counts as ours before it.
            self._join(replace(here, lsn=join, mark=None))
            return True
        whole = batch is None or batch.complete
        ready = self._copies.ready(self._captured)
        waited = time.monotonic() - self._committed_at > (_PAUSE if self._copies.under_way else ROTATION.seconds)
        due = here.lsn >= enough or self._rows >= _COMMIT_ROWS or ready or waited
        if whole and here.lsn > self._captured and due:
            self._commit(here, ready)
            return True
        if ready and whole and not self._rows:
            self._commit(replace(here, lsn=self._captured), ready)
            if self._copies.under_way.intersection(ready):
                self._nudge()
        return batch is not None

    def _keep_whole(self) -> None:
        """In front of a change that stops the source: what came before it becomes durable."""
        here = self._postgres.checkpoint()
        if self._whole and here.lsn > self._captured and self._copies.join_at is None:
            self._commit(here, [], acknowledge=False)

    def _nudge(self) -> None:
        """Let a quiet server move on."""
        with connect(self.source.dsn) as connection, translated():
            connection.execute("SELECT pg_logical_emit_message(true, 'penstock', '')")

    def _join(self, there: Checkpoint) -> None:
        """Everything up to the copies' LSN is here: go on from exactly there with their tables."""
        self._postgres.close()
        self._passed_join = False
        self._commit(there, [], acknowledge=False)
        self._copies.joined()
        self._postgres = self._open()

    def _much_waits(self, *, whole: bool) -> bool:
        """Of a transaction that is larger than memory may be, a third of it is much."""
        rows = self._handed_rows + sum(one.rows for one in self._waiting.values())
        size = self._handed_bytes + self._waiting_bytes()
        share = 1 if whole else 3
        return rows >= _FLUSH_ROWS // share or size >= _FLUSH_BYTES // share

    def _hand_over(self) -> None:
        """Changes of tables that are being copied wait: a part of them is not the table's."""
        for of in [of for of in self._waiting if of[0] not in self._copies.under_way]:
            one = self._waiting[of]
            if one.rows >= _PART_ROWS or one.bytes >= _PART_BYTES:
                self._files.grow(self._begin_attempt(), of, self._waiting.pop(of).parts)
                self._handed_rows += one.rows
                self._handed_bytes += one.bytes

    def _waiting_bytes(self) -> int:
        return sum(one.bytes for one in self._waiting.values())

    def _take(self, batch: Batch) -> None:
        join = self._copies.join_at
        for table, rows in batch.to_arrow().items():
            taken = rows if join is None else rows.filter(pc.less_equal(rows["_lsn"], int(join)))
            self._passed_join |= taken.num_rows < rows.num_rows
            if taken.num_rows:
                version, taken = self._shapes.take(batch.shapes[table], taken)
                self._waiting.setdefault((table, version), _Waiting()).add(taken)
                self._rows += taken.num_rows
        if self._much_waits(whole=batch.complete):
            self._write()
            if not batch.complete:
                give_back()
        elif batch.complete:
            self._hand_over()

    def _settle_at_once(self) -> None:
        """Few changes that are all in memory: settled now, they are written and committed once instead of twice."""
        tables = [table for table, _ in self._waiting]
        if self._settle is None or self._rows > AT_ONCE_ROWS or self._copies.under_way:
            return
        if self._attempt is not None or self._handed_rows:  # not all of it is in memory any more
            return
        raw = {
            table: (version, pa.concat_tables(one.parts))
            for (table, version), one in self._waiting.items()
            if tables.count(table) == 1
        }
        raw = {table: (version, rows) for table, (version, rows) in raw.items() if self._form(table, rows) == "raw"}
        if raw and sum(rows.nbytes for _, rows in raw.values()) <= _AT_ONCE_BYTES:
            for table, rows in self._settle(self.source, raw, self._beginning()).items():
                version, _ = raw[table]
                self._waiting[table, version] = _Waiting()
                self._waiting[table, version].add(rows)

    def _beginning(self) -> Question[None]:
        return beginning(self.lease, "ingest", self._begun)

    def _begun(self, attempt: int) -> None:
        self._attempt = attempt

    def _write(self) -> int:
        """Have what waits put into files of the current attempt, after the last such; nothing of it counts yet."""
        attempt = self._begin_attempt()
        few = self._rows <= AT_ONCE_ROWS and self._waiting_bytes() <= _AT_ONCE_BYTES
        self._files.write(attempt, {of: one.parts for of, one in self._waiting.items()}, few=few)
        self._waiting = {}
        self._handed_rows = self._handed_bytes = 0
        return attempt

    def _begin_attempt(self) -> int:
        """The one under way, if there is one."""
        if self._attempt is None:
            self._catalog.answer(self._beginning())
        assert self._attempt is not None
        return self._attempt

    def _form(self, table: str, rows: pa.Table) -> Form:
        """Of a table that was never copied, a row that is removed may never have been here."""
        captured = ABSENT in rows.column_names
        unknown = captured and sources.is_partial(self.source.options, table) and pc.min(rows[WEIGHT]).as_py() < 0
        return "settled" if is_settled(rows) and not unknown else "raw"

    def _known_ids(self) -> dict[str, int]:
        """By table. They are others only after tables were added, which takes this lease, or a copy is complete."""
        if self._ids is None:
            self._ids = relations.ids_of_source(self._catalog, self.source.id)
        return self._ids

    def _commit(self, checkpoint: Checkpoint, ready: Sequence[str], *, acknowledge: bool = True) -> None:
        looking = None if self._copies.under_way else self._keys.look(self.source)
        self._settle_at_once()
        attempt = self._write()
        if not self._files.told:
            self._files.finish()
        seen = None if looking is None else looking.result()
        with self._catalog.commit(self.lease, attempt, "ingest", piped=True) as commit:
            known = self._known_ids()
            self._shapes.record(commit, self.source.id, known)
            recorded: dict[int, list[Segment]] = {}
            for table, done in self._files.written.items():
                # A transaction in several files is settled as one, so one unsettled file makes all of them wait.
                whole = all(segment.form == "settled" for segment in done)
                form: Form = "settled" if whole else "raw"
                segments = [replace(segment, form=form) for segment in done]
                if table in known:
                    recorded[known[table]] = segments
                else:
                    self._copies.record_changes(commit, table, segments)
            relations.record_all_segments(commit, recorded)
            completed = self._copies.complete(commit, ready, checkpoint.lsn)
            moved = sources.move(commit, self.source.id, checkpoint.to_json(), checkpoint.lsn)
            if seen is not None:
                foreign_keys.saw(commit.connection, self.source.id, seen, again=_identities(seen) == self._seen)
            self._files.finish()  # and only then the COMMIT
            hit("ingest.files_written")
        self.unsettled = sources.left_unsettled(moved)
        if seen is not None:
            self._noted, self._seen = checkpoint.lsn, _identities(seen)
        if completed:
            self._ids = None
        self._shapes.recorded(completed)
        self._copies.completed(completed)
        self._files.written = {}
        column_memory.forget()
        self._rows, self._attempt, self._captured = 0, None, checkpoint.lsn
        self._committed_at = time.monotonic()
        hit("ingest.before_acknowledge")
        if acknowledge:
            self._postgres.acknowledge(checkpoint)


def _identities(seen: Iterable[Sighting]) -> frozenset[str]:
    return frozenset(one.identity for one in seen)
