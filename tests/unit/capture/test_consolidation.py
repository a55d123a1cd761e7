"""Consolidation changes no sum: not of a transaction, not of what settling makes of it, whatever the identity."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.capture.consolidate import consolidate
from penstock.lake.settle import settle
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.relation.types import PgType

INT, TEXT = PgType(23, -1, "integer"), PgType(25, -1, "text")
COLUMNS = (Column.of("a", INT), Column.of("b", TEXT), Column.of("v", TEXT), Column.of("big", TEXT))
DEFAULT = Schema(COLUMNS, key=("a", "b"), identity=ReplicaIdentity.DEFAULT)
FULL = Schema(COLUMNS, key=("a", "b"), identity=ReplicaIdentity.FULL)
KEYLESS = Schema(COLUMNS, key=(), identity=ReplicaIdentity.FULL)
Row = tuple[Any, ...]


class Table:
    """A table that writes what PostgreSQL would under its identity."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.rows: dict[tuple[Any, Any], Row] = {}
        self.changes: list[dict[str, Any]] = []
        self.lsn, self.seq = 100, 0

    def emit(self, op: str, weight: int, row: Row | None, absent: str | None) -> None:
        if self.schema.identity is ReplicaIdentity.FULL:
            absent = None
        values = [
            None if row is None or str(at) in (absent or "").split(",") else row[at] for at in range(len(COLUMNS))
        ]
        self.changes.append(
            {**dict(zip(self.schema.names, values, strict=True)), "_ts": None, "_weight": weight, "_op": op,
             "_lsn": self.lsn, "_xid": self.lsn, "_seq": self.seq, "_absent": absent}
        )  # fmt: skip
        self.seq += 1

    def apply(self, command: tuple[Any, ...]) -> None:
        match command:
            case ("insert", a, b, v, big) if (a, b) not in self.rows:
                self.rows[a, b] = (a, b, v, big)
                self.emit("I", 1, (a, b, v, big), None)
            case ("delete", a, b) if (a, b) in self.rows:
                self.emit("D", -1, self.rows.pop((a, b)), "2,3")
            case ("update", a, b, v, big) if (a, b) in self.rows:
                old = self.rows[a, b]
                new = self.rows[a, b] = (a, b, v, old[3] if big == "same" else big)
                self.emit("U", -1, old, "2,3")
                self.emit("U", 1, new, "3" if big == "same" else None)
            case ("rekey", a, b, c, d) if (a, b) in self.rows and (c, d) not in self.rows:
                old = self.rows.pop((a, b))
                new = self.rows[c, d] = (c, d, *old[2:])
                self.emit("U", -1, old, "2,3")
                self.emit("U", 1, new, "3")
            case ("swap", a, b, c, d) if {(a, b), (c, d)} <= self.rows.keys() and (a, b) != (c, d):
                self.apply(("rekey", a, b, 9, "z"))
                self.apply(("rekey", c, d, a, b))
                self.apply(("rekey", 9, "z", c, d))
            case ("truncate",):
                self.rows.clear()
                self.emit("T", 0, None, None)
            case ("commit",):
                self.lsn, self.seq = self.lsn + 10, 0
            case ("elsewhere",):
                self.seq += 1

    def raw(self) -> pa.Table:
        return pa.Table.from_pylist(self.changes, self.schema.arrow_raw())


number, letter = st.integers(0, 2), st.sampled_from("xy")
value = st.sampled_from([None, "", "p", "q"])
keys = (number, letter)
commands = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), *keys, value, value),
        st.tuples(st.just("update"), *keys, value, st.one_of(value, st.just("same"))),
        st.tuples(st.just("delete"), *keys),
        st.tuples(st.just("rekey"), *keys, *keys),
        st.tuples(st.just("swap"), *keys, *keys),
        *[st.tuples(st.just(word)) for word in ("elsewhere", "commit")],
    ),
    max_size=40,
)
rarely_truncated = st.tuples(commands, st.booleans(), commands).map(
    lambda parts: [*parts[0], *([("truncate",)] if parts[1] else []), *parts[2]]
)


def per_transaction(rows: pa.Table, names: tuple[str, ...]) -> dict[Any, int]:
    total: Counter[Any] = Counter()
    for row in rows.to_pylist():
        total[row["_lsn"], *(row[name] for name in names)] += row["_weight"]
    return {row: weight for row, weight in total.items() if weight}


def prepared(schema: Schema, history: list[Any], changes: list[Any]) -> tuple[pa.Table, pa.Table, Table]:
    table = Table(schema)
    for command in history:
        table.apply(command)
    start = pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in table.rows.values()], schema.arrow())
    table.changes = []
    table.apply(("commit",))
    for command in changes:
        table.apply(command)
    return start, table.raw(), table


SWAP = [("insert", 0, "x", "p", "p"), ("insert", 1, "x", "q", "q")]


@pytest.mark.parametrize("schema", [DEFAULT, FULL, KEYLESS], ids=["default", "full", "keyless"])
@settings(max_examples=60, deadline=None)
@given(history=commands, changes=rarely_truncated, cut=st.integers(0, 60))
@example(history=SWAP, changes=[("swap", 0, "x", 1, "x")], cut=60)
@example(history=SWAP, changes=[("rekey", 0, "x", 2, "x"), ("rekey", 2, "x", 2, "y")], cut=3)
@example(history=[], changes=[("insert", 0, "x", "p", "p"), ("update", 0, "x", "q", "same")], cut=2)
def test_sums_and_settled_rows_stay_the_same(schema: Schema, history: list[Any], changes: list[Any], cut: int) -> None:
    start, raw, _ = prepared(schema, history, changes)
    # A transaction may come in parts, cut anywhere.
    parts = [consolidate(part, schema.key) for part in (raw.slice(0, cut), raw.slice(cut))]
    out = pa.concat_tables(parts)
    assert out.num_rows <= raw.num_rows
    assert out.schema == raw.schema
    places = [(row["_lsn"], row["_seq"]) for row in out.to_pylist()]
    assert places == sorted(set(places))
    before, after = (settle(rows, schema, lambda keys: start, lambda: start) for rows in (raw, out))
    assert per_transaction(after, schema.names) == per_transaction(before, schema.names)
    if schema.identity is ReplicaIdentity.FULL:
        assert per_transaction(out, schema.names) == per_transaction(raw, schema.names)


@settings(max_examples=80, deadline=None)
@given(history=commands, changes=commands.filter(lambda all: not {"swap", "rekey"} & {c[0] for c in all}))
def test_at_most_one_old_and_one_new_image_of_a_key_stay(history: list[Any], changes: list[Any]) -> None:
    _, raw, _ = prepared(DEFAULT, history, changes)
    out = consolidate(raw, DEFAULT.key).to_pylist()
    counts = Counter((row["_lsn"], row["a"], row["b"], row["_weight"]) for row in out)
    assert set(counts.values()) <= {1}
    for one, other in pairwise(out):  # an update is a pair side by side
        if one["_op"] == "U" and one["_weight"] < 0:
            assert (other["_op"], other["_weight"], other["a"], other["b"]) == ("U", 1, one["a"], one["b"])


CASES = [
    (DEFAULT, [("insert", 1, "x", "p", "big"), ("update", 1, "x", "q", "same")], ["I+1qbig"]),
    (DEFAULT, [("insert", 1, "x", "p", "big"), ("delete", 1, "x")], []),
    (DEFAULT, [("insert", 1, "x", "p", "b"), ("rekey", 1, "x", 2, "x"), ("update", 2, "x", "q", "same")], ["I+2qb"]),
    (DEFAULT, [("update", 0, "x", "p", "new"), ("update", 0, "x", "q", "same")], ["U-0--", "U+0qnew"]),
    (DEFAULT, [("update", 0, "x", "p", "same"), ("update", 0, "x", "q", "same")], ["U-0--", "U+0q-"]),
    (DEFAULT, [("update", 0, "x", "p", "same"), ("delete", 0, "x")], ["D-0--"]),
    (DEFAULT, [("delete", 0, "x"), ("insert", 0, "x", "n", "n"), ("update", 0, "x", "m", "same")], ["D-0--", "I+0mn"]),
    (DEFAULT, [("rekey", 0, "x", 1, "x"), ("rekey", 1, "x", 2, "x")], ["U-0--", "U+2v-"]),
    (FULL, [("update", 0, "x", "p", "same"), ("update", 0, "x", "v", "same")], []),
    (FULL, [("update", 0, "x", "v", "same")], []),
    (FULL, [("rekey", 0, "x", 1, "x"), ("rekey", 1, "x", 0, "x")], []),
    (KEYLESS, [("update", 0, "x", "p", "same"), ("update", 0, "x", "q", "same")], ["D-0vw", "I+0qw"]),
    (KEYLESS, [("insert", 1, "x", "p", "q"), ("delete", 1, "x")], []),
    (DEFAULT, [("update", 0, "x", "p", "w"), ("truncate",)], ["U-0--", "U+0pw", "T0"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "changes", "left"), CASES)
def test_what_is_left(schema: Schema, changes: list[Any], left: list[str]) -> None:
    _, raw, _ = prepared(schema, [("insert", 0, "x", "v", "w")], changes)
    out = consolidate(raw, schema.key).to_pylist()

    def said(row: dict[str, Any]) -> str:
        if row["_op"] == "T":
            return "T0"
        hidden = (row["_absent"] or "").split(",")
        v, big = ("-" if at in hidden else row[name] for at, name in (("2", "v"), ("3", "big")))
        return f"{row['_op']}{'+' if row['_weight'] > 0 else '-'}{row['a']}{v}{big}"

    assert [said(row) for row in out] == left


def test_nothing_repeats_nothing_is_copied() -> None:
    _, raw, _ = prepared(
        DEFAULT, [("insert", 0, "x", "v", "w")], [("insert", 1, "x", "", ""), ("update", 0, "x", "", "")]
    )
    assert consolidate(raw, DEFAULT.key) is raw


def test_the_bits_of_a_value_count() -> None:
    schema = Schema((Column.of("a", PgType(701, -1, "float8")),), key=(), identity=ReplicaIdentity.FULL)
    rows = [{"a": a, "_weight": w, "_op": "U", "_lsn": 1, "_ts": None, "_xid": 1, "_seq": i, "_absent": None}
            for i, (a, w) in enumerate([(0.0, -1), (-0.0, 1), (np.nan, -1), (np.nan, 1)])]  # fmt: skip
    out = consolidate(pa.Table.from_pylist(rows, schema.arrow_raw()), ())
    assert [str(value) for value in out["a"].to_pylist()] == ["0.0", "-0.0"]
