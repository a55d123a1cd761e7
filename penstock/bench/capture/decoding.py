"""What decoding costs alone: WAL messages in memory to Arrow tables, on one thread, in its own CPU time."""

from __future__ import annotations

import statistics
import struct
import time
from pathlib import Path

import numpy as np

from penstock.bench.capture import contenders, tables
from penstock.bench.capture.ground import Database, Ground, expect
from penstock.bench.figure import Figure
from penstock.capture.backlog import Backlog
from penstock.capture.bulk import Chunk
from penstock.capture.connection import connect
from penstock.capture.decode import WalDecoder
from penstock.capture.discover import SourceTable, discover
from penstock.capture.relations import Relations
from penstock.capture.spill import Spill
from penstock.lsn import Lsn

_PER_TRANSACTION = 1000
_CHUNK = 8 << 20  # bytes, as the reader's buffer
_BATCH = 100_000
_MOST = 1e-6
_PEEK = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL,
        'proto_version', '1', 'publication_names', %s, 'binary', 'true')
"""


def figures(ground: Ground) -> list[Figure]:
    transactions = ground.rows(300, least=2)
    events = transactions * _PER_TRANSACTION
    with ground.database("decoding") as source:
        ground.say(f"decoding {events:,} inserts from memory")
        source.execute(f"CREATE TABLE t ({tables.NARROW})")
        contenders.prepare_raw(source)
        first, last = f"txn * {_PER_TRANSACTION} + 1", f"(txn + 1) * {_PER_TRANSACTION}"
        body = tables.insert("t", tables.NARROW_ROW, first, last)
        source.execute(tables.in_transactions(transactions, body))
        chunks = _recorded(source)
        with connect(source.dsn) as connection:
            found = discover(connection, ["public.t"])
    _decode(chunks, found, events)
    spent = statistics.median(_decode(chunks, found, events) for _ in range(5)) / events
    text = f"{spent * 1e6:.2f} µs"
    return [Figure("decoding plus Arrow, CPU time per event", text, f"< {_MOST * 1e6:g} µs", spent < _MOST)]


def _recorded(source: Database) -> list[Chunk]:
    """The backlog as a replication stream carries it, in chunks of the reader's size."""
    with source.db.cursor(binary=True) as cursor:
        payloads = [row[0] for row in cursor.execute(_PEEK, (contenders.RAW_SLOT, contenders.PUBLICATION))]
    chunks, messages, size = [], list[bytes](), 0
    for payload in payloads:
        messages.append(b"w" + struct.pack("!QQQ", 0, 0, 0) + payload)
        size += len(messages[-1])
        if size >= _CHUNK:
            chunks.append(_chunk(messages))
            messages, size = [], 0
    return [*chunks, _chunk(messages)] if messages else chunks


def _chunk(messages: list[bytes]) -> Chunk:
    data = np.frombuffer(bytearray(b"".join(messages)), np.uint8)
    ends = np.cumsum([len(message) for message in messages], dtype=np.int64)
    return Chunk(data, ends, len(messages), data.size)


def _decode(chunks: list[Chunk], found: dict[str, SourceTable], events: int) -> float:
    spill = Spill(Path("nothing is spilled"))
    started, rows = time.thread_time(), 0
    decoder, backlog = WalDecoder(Relations(found), Lsn(0)), Backlog(Lsn(0), spill, 1 << 40)
    for chunk in chunks:
        decoded = decoder.decode(chunk)
        expect("failure while decoding", decoded.failure, None)
        for step in decoded.steps:
            backlog.apply(step)
        while (batch := backlog.take(_BATCH)) is not None:
            rows += sum(table.num_rows for table in batch.to_arrow().values())
    spent = time.thread_time() - started
    expect("rows decoded", rows, events)
    return spent
