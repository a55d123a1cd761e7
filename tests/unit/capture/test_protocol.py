"""Bytes that break the protocol are refused; bytes that follow it are read as they are, wherever chunks are cut."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock import capture
from penstock.capture.backlog import Backlog
from penstock.capture.bulk import Chunk
from penstock.capture.decode import WalDecoder
from penstock.capture.discover import SourceTable, split_name
from penstock.capture.kernels import frames
from penstock.capture.messages import parse_relation
from penstock.capture.relations import Relations
from penstock.capture.spill import Spill
from penstock.errors import ConfigError, DecodeError
from penstock.lsn import Lsn
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.relation.types import PgType

TABLE = SourceTable(
    "public", "t", 42,
    Schema(
        (Column.of("id", PgType(23, -1, "integer")), Column.of("x", PgType(25, -1, "text"))),
        ("id",), ReplicaIdentity.DEFAULT,
    ),
    ("int4send", "textsend"),
)  # fmt: skip


def wal(payload: bytes) -> bytes:
    return b"w" + struct.pack("!QQQ", 0, 0, 0) + payload


def keepalive(end: int, reply: int = 0) -> bytes:
    return b"k" + struct.pack("!QQB", end, 0, reply)


def begin(xid: int, end: int = 1 << 40) -> bytes:
    return wal(b"B" + struct.pack("!QQI", end - 1, 0, xid))


def commit(end: int) -> bytes:
    return wal(b"C" + struct.pack("!BQQQ", 0, end - 1, end, 0))


def relation(columns=(("id", 23, 1), ("x", 25, 0))) -> bytes:
    body = b"R" + struct.pack("!I", 42) + b"public\0t\0d" + struct.pack("!h", len(columns))
    return wal(body + b"".join(bytes([k]) + n.encode() + b"\0" + struct.pack("!Ii", o, -1) for n, o, k in columns))


def insert(number: int, text: str | None) -> bytes:
    def value(data: bytes | None) -> bytes:
        return b"n" if data is None else b"t" + struct.pack("!i", len(data)) + data

    fields = value(str(number).encode()) + value(None if text is None else text.encode())
    return wal(b"I" + struct.pack("!I", 42) + b"N" + struct.pack("!h", 2) + fields)


def chunk(messages: list[bytes]) -> Chunk:
    data = b"".join(messages)
    ends = np.cumsum([len(message) for message in messages]).astype(np.int64)
    return Chunk(np.frombuffer(data, np.uint8).copy(), ends, len(messages), len(data))


def decode(chunks: list[list[bytes]], limit: int = 1000, start: int = 0, memory: int = 1 << 30, folder=Path("unused")):
    decoder = WalDecoder(Relations({"public.t": TABLE}), Lsn(start))
    backlog, batches = Backlog(Lsn(start), Spill(folder), memory), []
    for messages in chunks:
        if messages:
            decoded = decoder.decode(chunk(messages))
            for step in decoded.steps:
                backlog.apply(step)
            while (batch := backlog.take(limit)) is not None:
                batches.append(batch)
            if decoded.failure:
                raise decoded.failure
    return batches, decoder


transactions = st.lists(st.lists(st.none() | st.text("abcé", max_size=5), max_size=6), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    transactions,
    st.lists(st.integers(0, 80), max_size=6),
    st.integers(1, 5),
    st.integers(0, 8),
    st.sampled_from([1 << 30, 1, 150, 400]),
)
def test_batches_do_not_depend_on_where_chunks_are_cut_nor_on_memory(history, cuts, limit, delivered, memory):
    messages, expected, number = [relation()], [], 0
    for index, texts in enumerate(history):
        messages.append(begin(index, (index + 1) * 100))
        for seq, text in enumerate(texts):
            number += 1
            messages.append(insert(number, text))
            if index >= delivered:
                expected.append((number, text, (index + 1) * 100, index, seq))
        messages.append(commit((index + 1) * 100))
        messages.append(keepalive((index + 1) * 100 + 7))
    bounds = [0, *sorted(min(cut, len(messages)) for cut in cuts), len(messages)]
    with TemporaryDirectory() as folder:
        chunks = [messages[a:b] for a, b in pairwise(bounds)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(capture.backlog, "_LEAST", 0)
            batches, decoder = decode(chunks, limit, delivered * 100, memory, Path(folder) / "spill")
    rows = [row for batch in batches for t in batch.to_arrow().values() for row in t.to_pylist()]
    assert [(r["id"], r["x"], r["_lsn"], r["_xid"], r["_seq"]) for r in rows] == expected
    assert all(batch.rows <= limit or batch.complete for batch in batches)
    texts = [[row["x"] or "" for t in batch.to_arrow().values() for row in t.to_pylist()] for batch in batches]
    assert all(len(of_one) <= 1 or len("".join(of_one)) <= memory // 2 for of_one in texts)
    assert [batch.cut for batch in batches] == sorted(batch.cut for batch in batches)
    if history:
        assert decoder.keepalive == len(history) * 100 + 7


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_messages_never_pass_as_something_else(data):
    """Any cut or flipped byte of a change is refused, or changes only the value bytes themselves."""
    good = insert(7, "hello")
    position = data.draw(st.integers(26, len(good) - 1))  # behind the kind
    if data.draw(st.booleans()):
        bad = good[:position]
    else:
        bad = good[:position] + bytes([good[position] ^ data.draw(st.integers(1, 255))]) + good[position + 1 :]
        assume((good[position], bad[position]) != (ord("t"), ord("b")))  # the binary form of text is the text
    try:
        batches, _ = decode([[relation(), begin(1), bad, commit(100)]])
    except DecodeError:
        return
    (row,) = batches[0].to_arrow()["public.t"].to_pylist()
    assert (row["id"], row["x"]) != (7, "hello")
    assert len(str(row["id"])) == 1
    assert row["_op"] == "I"
    assert len(row["x"].encode()) == 5


@pytest.mark.parametrize(
    "messages",
    [
        [relation(), insert(1, "outside a transaction")],
        [relation(), begin(1), begin(2)],
        [relation(), commit(5)],
        [begin(1), insert(1, "not announced"), commit(5)],
        [relation(), begin(1), wal(b"S\0\0\0\1\1"), commit(5)],
        [b"x" * 30],
        [wal(b"")],
        [relation()[:-3]],
    ],
)
def test_streams_that_break_the_protocol(messages):
    with pytest.raises(DecodeError):
        decode([messages])


def test_the_arrays_grow_with_the_chunk():
    many = [insert(i, "x") for i in range(40_000)]
    batches, _ = decode([[relation(), begin(1), *many, commit(9)]], limit=100_000)
    assert batches[0].to_arrow()["public.t"]["id"].to_pylist() == list(range(40_000))


def test_a_reply_is_asked_for_once():
    _, decoder = decode([[keepalive(5, reply=1), keepalive(6)]])
    assert decoder.reply_asked()
    assert not decoder.reply_asked()


def test_a_relation_message_is_read():
    parsed = parse_relation(relation()[25:])
    assert (parsed.name, parsed.identity) == ("public.t", "d")
    assert [(c.name, c.type_oid, c.is_key) for c in parsed.columns] == [("id", 23, True), ("x", 25, False)]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(1, 3))
def test_copy_rows_stay_inside_their_bytes(data, columns):
    found = np.empty((64, frames.COPIED_WIDTH), np.int64)
    raw = np.frombuffer(data, np.uint8).copy()
    rows, code = frames.scan_copy(raw, 0, len(raw), columns, found)
    assert code in (frames.OK, frames.NO_ROOM, frames.MALFORMED)
    end = 0
    for first, last, *_ in found[:rows]:
        assert end < first <= last <= len(raw)
        end = last


@pytest.mark.parametrize("name", ["", "t", ".t", "s.", 's."t', 'a"b.c'])
def test_names_that_are_none(name):
    with pytest.raises(ConfigError, match="not a table name"):
        split_name(name)
