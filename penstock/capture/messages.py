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


def parse_relation(message: bytes, *, streamed: bool = False) -> Relation:
    """A Relation message, from its kind byte on; inside a streamed block a transaction id follows that."""
    try:
        return _parse_relation(message[:1] + message[5:] if streamed else message)
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


@dataclass(frozen=True)
class Committed:
    """A streamed or prepared transaction took effect, in the order of all commits."""

    xid: int
    end: int
    time: int  # microseconds since 2000
    gid: str | None = None


@dataclass(frozen=True)
class Aborted:
    """A streamed or prepared transaction, or a part of one (`sub` differs from `xid`), never happened."""

    xid: int
    sub: int
    gid: str | None = None


@dataclass(frozen=True)
class Prepared:
    """The first phase of a two-phase commit: its rows wait for a Committed or Aborted with the same xid."""

    xid: int
    lsn: int  # where the PREPARE begins: the slot must not pass it
    gid: str


@dataclass(frozen=True)
class LogicalMessage:
    """What pg_logical_emit_message wrote."""

    lsn: int
    prefix: str
    content: bytes


Event = Committed | Aborted | Prepared


def parse_event(message: bytes) -> Event | None:
    """The end of a streamed or prepared transaction, from its kind byte on; None for any other message."""
    try:
        match message[:1]:
            case b"c":
                xid, _, _, end, at = struct.unpack("!IBQQQ", message[1:])
                return Committed(xid, end, at)
            case b"A":
                xid, sub = struct.unpack_from("!II", message, 1)
                return Aborted(xid, sub)
            case b"P" | b"p":
                _, lsn, _, _, xid = struct.unpack_from("!BQQQI", message, 1)
                return Prepared(xid, lsn, _last_string(message, 30))
            case b"K":
                _, _, end, at, xid = struct.unpack_from("!BQQQI", message, 1)
                return Committed(xid, end, at, _last_string(message, 30))
            case b"r":
                _, _, _, _, _, xid = struct.unpack_from("!BQQQQI", message, 1)
                return Aborted(xid, xid, _last_string(message, 38))
            case _:
                return None
    except (struct.error, ValueError) as error:
        raise malformed(f"{message[:1]!r} message {message[:80]!r}") from error


def parse_message(message: bytes, *, streamed: bool) -> LogicalMessage:
    """A logical decoding message, from its kind byte on."""
    try:
        at = 5 if streamed else 1
        _, lsn = struct.unpack_from("!BQ", message, at)
        prefix, at = _string(message, at + 9)
        (length,) = struct.unpack_from("!i", message, at)
        content = message[at + 4 :]
        if len(content) != length:
            raise ValueError("another length")
        return LogicalMessage(lsn, prefix, content)
    except (struct.error, ValueError) as error:
        raise malformed(f"logical message {message[:80]!r}") from error


def _last_string(message: bytes, at: int) -> str:
    text, end = _string(message, at)
    if end != len(message):
        raise ValueError("bytes left over")
    return text


def standby_status(flushed: int, *, reply: bool) -> bytes:
    """What is durable here. Written, flushed and applied are the same for us: nothing counts before it is durable."""
    now = time.time_ns() // 1000 - PG_EPOCH_MICROS
    return struct.pack("!cQQQqB", b"r", flushed, flushed, flushed, now, reply)


def malformed(what: str) -> DecodeError:
    return DecodeError(
        f"the server sent what this protocol version does not have: {what}",
        hint="Report it with the server's version; nothing was skipped.",
    )
