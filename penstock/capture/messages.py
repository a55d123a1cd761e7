"""The replication messages that Python handles, as values: no socket here.

Changes, commits and keepalives, which come by the million, are read by the kernels in `kernels.frames` instead.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass

from penstock.errors import DecodeError

PG_EPOCH = 946_684_800  # 2000-01-01 in Unix seconds
PG_EPOCH_MICROS = PG_EPOCH * 1_000_000


@dataclass(frozen=True)
class RelationColumn:
    name: str
    type_oid: int
    typmod: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """The shape of a table as of the changes that follow."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def name(self) -> str:
        return f"{self.schema or 'pg_catalog'}.{self.table}"


def parse_relation(message: bytes) -> Relation:
    """A Relation message, from its kind byte on."""
    try:
        return _parse_relation(message)
    except (struct.error, ValueError, IndexError) as error:
        raise malformed(f"Relation message {message[:80]!r}") from error


def _parse_relation(message: bytes) -> Relation:
    (oid,) = struct.unpack_from("!I", message, 1)
    schema, at = _string(message, 5)
    table, at = _string(message, at)
    identity, count = struct.unpack_from("!ch", message, at)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        name, at = _string(message, at + 1)
        type_oid, typmod = struct.unpack_from("!Ii", message, at)
        at += 8
        columns.append(RelationColumn(name, type_oid, typmod, bool(flags & 1)))
    if at != len(message):
        raise ValueError("bytes left over")
    return Relation(oid, schema, table, identity.decode(), tuple(columns))


def _string(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


def standby_status(flushed: int, *, reply: bool) -> bytes:
    """What is durable here. Written, flushed and applied are the same for us: nothing counts before it is durable."""
    now = time.time_ns() // 1000 - PG_EPOCH_MICROS
    return struct.pack("!cQQQqB", b"r", flushed, flushed, flushed, now, reply)


def malformed(what: str) -> DecodeError:
    return DecodeError(
        f"the server sent what this protocol version does not have: {what}",
        hint="Report it with the server's version; nothing was skipped.",
    )
