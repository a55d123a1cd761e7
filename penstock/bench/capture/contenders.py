"""Four readers of one backlog, each timed from before it connects until it has everything.

`pg_recvlogical` and the raw COPY throw the bytes away; both get what penstock gets: protocol version 1, binary values.
The poll interface asks for 100,000 rows at a time, as the way into a home does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.bench.capture.ground import Database, Ground, expect
from penstock.capture import Checkpoint, PostgresSource, SourceConfig
from penstock.capture.bulk import BulkReader
from penstock.capture.connection import Connection, connect
from penstock.catalog import relations
from penstock.lsn import Lsn

RAW_SLOT, PUBLICATION = "raw", "bench"
_RECV_SLOT = "recv"
_BATCH = 100_000


def read_copy(connection: Connection, command: sql.Composed | sql.SQL, take: Callable[[int], None]) -> None:
    """Run a COPY … TO STDOUT and forget what it gives; `take` gets the number of messages of each chunk."""
    result = connection.pgconn.exec_(command.as_bytes(connection))
    expect("COPY", (result.status, result.error_message), (ExecStatus.COPY_OUT, b""))
    reader = BulkReader(connection)
    while not reader.finished:
        chunk = reader.read(1.0)
        if chunk is not None:
            take(chunk.messages)
    reader.close()
    while (ended := connection.pgconn.get_result()) is not None:
        expect("end of COPY", (ended.status, ended.error_message), (ExecStatus.COMMAND_OK, b""))


def prepare_raw(source: Database) -> None:
    """The slot that the two readers of bytes start from."""
    source.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t")
    source.db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (RAW_SLOT,))


def raw_copy(source: Database) -> int:
    """All messages of the backlog in one COPY; the slot stays where it is. Returns how many came."""
    command = sql.SQL(
        "COPY (SELECT data FROM pg_logical_slot_peek_binary_changes({}, NULL, NULL, "
        "'proto_version', '1', 'publication_names', {}, 'binary', 'true')) TO STDOUT (FORMAT binary)"
    ).format(sql.Literal(RAW_SLOT), sql.Literal(PUBLICATION))
    counts: list[int] = []
    with connect(source.dsn) as connection:
        read_copy(connection, command, counts.append)
    return sum(counts)


def copy_slot(source: Database) -> None:
    """pg_recvlogical moves the slot it reads: it gets a copy each time."""
    source.db.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", (RAW_SLOT, _RECV_SLOT))


def drop_copied_slot(source: Database) -> None:
    source.db.execute("SELECT pg_drop_replication_slot(%s)", (_RECV_SLOT,))


def recvlogical(source: Database, end: Lsn) -> None:
    command = [str(source.server.program("pg_recvlogical")), "--start", "--no-loop"]
    command += [f"--dbname={source.dsn}", f"--slot={_RECV_SLOT}"]
    options = ["proto_version=1", f"publication_names={PUBLICATION}", "binary=true"]
    command += [f"--endpos={end}", "--file=/dev/null", *(f"--option={option}" for option in options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect("pg_recvlogical", (done.returncode, done.stderr), (0, ""))


def add_to_home(ground: Ground, source: Database, name: str) -> None:
    """Copy the tables into the home and leave: the slot waits."""
    ground.captures.add(name, source.dsn, ["public.t"], {})
    ground.captures.close(name)


def into_home(ground: Ground, name: str) -> None:
    """From the slot to segments and a position that survive a crash; the slot is told."""
    ground.captures.catch_up(name)


def rows_at_home(ground: Ground, name: str) -> int:
    (table,) = relations.of_source(ground.catalog, name)
    stored = [relations.segments(ground.catalog, table.id, -1, 2**62, form=form) for form in ("raw", "settled")]
    return sum(segment.rows for segments in stored for segment in segments)


def polled_source(dsn: str, slot: str, tables: list[str] | None = None) -> PostgresSource:
    return PostgresSource(SourceConfig.from_dsn(dsn, tables or ["public.t"], slot_name=slot))


def checkpoint_of_new(dsn: str, slot: str, tables: list[str] | None = None) -> Checkpoint:
    """Make a source, take its copy, and leave: the slot waits at the checkpoint."""
    with polled_source(dsn, slot, tables) as source:
        source.open()
        poll_all(source)
        return source.checkpoint()


def poll_from(dsn: str, state: Checkpoint) -> int:
    """Everything after `state`; nothing is acknowledged. Returns the rows that came."""
    with polled_source(dsn, state.slot) as source:
        source.restore(state)
        source.open()
        return poll_all(source)


def poll_all(source: PostgresSource) -> int:
    rows, target = 0, source.current_lsn()
    while source.checkpoint().lsn < target:
        batch = source.poll(max_records=_BATCH, timeout=0.05)
        if batch is not None:
            rows += sum(table.num_rows for table in batch.to_arrow().values())
    return rows
