"""From a source into the changelog, exactly once.

The order of durable steps: files (fsynced), then one catalog transaction with segments and position, then the slot.
A crash before the transaction leaves files nobody reads, and the slot still has the changes. A crash after it leaves a
slot that is behind: what it sends again is at or before the position and is dropped. Capture alone moves the slot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.attach import remove
from penstock.capture.batch import Batch
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.config import SourceConfig
from penstock.capture.source import PostgresSource
from penstock.catalog import attempts, relations, sources
from penstock.catalog.lease import Lease
from penstock.catalog.store import Catalog, Commit
from penstock.errors import SourceUnreachable
from penstock.failpoint import hit
from penstock.lsn import Lsn
from penstock.relation.home import Home
from penstock.relation.segment import Form, Segment, SegmentWriter
from penstock.zset import is_settled

Progress = Callable[[str, int], None]

# Rows are written when this many wait, or when everything asked for has arrived.
_FLUSH_ROWS = 250_000
_PATIENCE = 300.0  # a server may decode one long transaction for minutes before it sends anything


class Ingest:
    """Captures one source under a lease that the caller holds, from the moment it is made until `close`.

    After any error it is done for: what it had taken in is only in memory, ahead of the catalog. A new one starts at
    the position that is recorded there.
    """

    def __init__(
        self, home: Home, catalog: Catalog, name: str, lease: Lease, *, progress: Progress | None = None
    ) -> None:
        self._home = home
        self._catalog = catalog
        self._progress = progress
        self.lease = lease
        attempts.collect(catalog, home, lease)
        self.source = sources.get(catalog, name)
        self._captured = self.source.captured or Lsn(0)
        self._postgres = self._open()
        self._waiting: dict[str, list[pa.Table]] = {}
        self._written: dict[str, list[Segment]] = {}
        self._attempt: int | None = None
        self.rows = 0

    def close(self) -> None:
        """Stop capturing; what was not committed comes again next time."""
        self._postgres.close()

    @property
    def captured(self) -> Lsn:
        """Every commit up to here is durable in this home."""
        return self._captured

    def server_position(self) -> Lsn:
        return self._postgres.current_lsn()

    def reach(self, target: Lsn) -> None:
        """Capture until every commit up to `target` is durable here."""
        moved = time.monotonic()
        while self._captured < target:
            if self._step(0.05, enough=target):
                moved = time.monotonic()
            elif time.monotonic() - moved > _PATIENCE:
                raise SourceUnreachable(
                    f"source {self.source.name!r} sent nothing for {_PATIENCE:.0f} s; "
                    f"captured {self._captured}, asked for {target}",
                    hint="Is the server busy decoding a long transaction? Look at pg_stat_replication.",
                )

    def _open(self) -> PostgresSource:
        """Go on from the recorded position; a copy that never committed leaves a slot behind, and starts again."""
        source = self.source
        known = {relation.table: relation.schema for relation in relations.of_source(self._catalog, source.name)}
        config = SourceConfig.from_dsn(
            source.dsn,
            tables=tuple(known) or source.tables,
            slot_name=source.slot,
            **{
                "spill_directory": str(self._home.path("spill")),
                **source.options,
                "publication_name": source.publication,
            },
        )
        postgres = PostgresSource(config, schemas=known or None)
        if source.checkpoint is None:
            remove(source.dsn, source.slot, source.publication)
        else:
            postgres.restore(Checkpoint.from_json(source.checkpoint))
        postgres.open()
        return postgres

    def _step(self, timeout: float, *, enough: Lsn) -> bool:
        """One poll; True when something came or was made durable."""
        batch = self._postgres.poll(max_records=100_000, timeout=timeout)
        if batch is not None:
            self._take(batch)
        here = self._postgres.checkpoint()
        whole = batch is None or batch.complete
        # The copy is a commit of its own: it is complete, so what it holds can be read before anything is settled.
        due = here.lsn >= enough or self._waiting_rows() >= _FLUSH_ROWS or (batch is not None and batch.snapshot)
        if whole and here.lsn > self._captured and due:
            self._commit(here)
            return True
        return batch is not None

    def _waiting_rows(self) -> int:
        return sum(rows.num_rows for parts in self._waiting.values() for rows in parts)

    def _take(self, batch: Batch) -> None:
        for table, rows in batch.to_arrow().items():
            self._waiting.setdefault(table, []).append(rows)
            self.rows += rows.num_rows
            if self._progress:
                self._progress(table, rows.num_rows)
        if not batch.complete and self._waiting_rows() >= _FLUSH_ROWS:
            self._write()

    def _write(self) -> int:
        """Put what waits into files of the current attempt; nothing of it counts yet."""
        if self._attempt is None:
            self._attempt = self._catalog.begin(self.lease, "ingest")
        for table in list(self._waiting):
            parts = self._waiting.pop(table)
            done = self._written.setdefault(table, [])
            writer = SegmentWriter(self._home, self._folder(table), self._attempt, first=len(done))
            rows = pa.concat_tables(parts)
            positions = pc.min_max(rows["_lsn"]).as_py()
            form: Form = "settled" if is_settled(rows) else "raw"
            done.append(writer.write(rows, positions["min"], positions["max"], form=form))
        return self._attempt

    def _commit(self, checkpoint: Checkpoint) -> None:
        attempt = self._write()
        hit("ingest.files_written")
        readable = all(segment.form == "settled" for done in self._written.values() for segment in done)
        with self._catalog.commit(self.lease, attempt, "ingest") as commit:
            known = self._relation_ids(commit, checkpoint.lsn)
            for table, done in self._written.items():
                # A transaction in several files is settled as one, so one unsettled file makes all of them wait.
                whole = all(segment.form == "settled" for segment in done)
                form: Form = "settled" if whole else "raw"
                relations.record_segments(commit, known[table], [replace(segment, form=form) for segment in done])
            sources.move(commit, self.source.id, checkpoint.to_json(), checkpoint.lsn, readable=readable)
        self._written, self._attempt, self._captured = {}, None, checkpoint.lsn
        hit("ingest.before_acknowledge")
        self._postgres.acknowledge(checkpoint)

    def _relation_ids(self, commit: Commit, position: Lsn) -> dict[str, int]:
        """The source's relations by table, made in the commit of the initial copy."""
        known = {one.table: one.id for one in relations.of_source(self._catalog, self.source.name)}
        for table, schema in self._postgres.tables.items():
            if table not in known:
                known[table] = relations.add(
                    commit,
                    f"{self.source.name}.{table}",
                    "table",
                    self._folder(table),
                    schema,
                    source_id=self.source.id,
                    position=position,
                )
        return known

    def _folder(self, table: str) -> str:
        schema, _, name = table.partition(".")
        return f"tables/{self.source.name}/{schema}/{name}"
