"""Settling: captured changes, whatever the replica identity left out, sum up to the table's true history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError
from penstock.lake.settle import settle
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.relation.types import PgType
from penstock.zset import is_settled

INT, TEXT = PgType(23, -1, "integer"), PgType(25, -1, "text")
SCHEMA = Schema(
    (Column.of("a", INT), Column.of("b", INT), Column.of("v", TEXT), Column.of("big", TEXT)),
    key=("a", "b"),
    identity=ReplicaIdentity.DEFAULT,
)
Row = tuple[int, int, str | None, str | None]


@dataclass
class Table:
    """A table that writes what PostgreSQL would, with both replica identities."""

    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    default: list[dict[str, Any]] = field(default_factory=list)
    truth: list[tuple[Row, int]] = field(default_factory=list)
    lsn: int = 100
    seq: int = 0

    def emit(self, op: str, weight: int, row: Row | None, absent: str | None, shown: Row | None = None) -> None:
        self.seq += 1
        a, b, v, big = shown or row or (None, None, None, None)
        hidden = set((absent or "").split(","))
        self.default.append(
            {"a": a, "b": b, "v": None if "2" in hidden else v, "big": None if "3" in hidden else big, "_ts": None,
             "_weight": weight, "_op": op, "_lsn": self.lsn, "_xid": 1, "_seq": self.seq, "_absent": absent}
        )  # fmt: skip
        if row is not None:
            self.truth.append((row, weight))

    def apply(self, command: tuple[Any, ...]) -> None:
        match command:
            case ("insert", a, b, v, big) if (a, b) not in self.rows:
                self.rows[a, b] = (a, b, v, big)
                self.emit("I", 1, (a, b, v, big), None)
            case ("delete", a, b, *_) if (a, b) in self.rows:
                self.emit("D", -1, self.rows.pop((a, b)), "2,3")
            case ("update", a, b, v, big) if (a, b) in self.rows:
                old = self.rows[a, b]
                new = (a, b, v, old[3] if big is None else big)
                self.rows[a, b] = new
                self.emit("U", -1, old, "2,3")
                self.emit("U", 1, new, "3" if big is None else None)
            case ("rekey", a, b, c, d) if (a, b) in self.rows and (c, d) not in self.rows:
                old = self.rows.pop((a, b))
                self.rows[c, d] = (c, d, old[2], old[3])
                self.emit("U", -1, old, "2,3")
                self.emit("U", 1, (c, d, old[2], old[3]), "3")
            case ("truncate", *_):
                for row in self.rows.values():
                    self.truth.append((row, -1))
                self.rows.clear()
                self.emit("T", 0, None, None)
            case ("commit", *_):
                self.lsn, self.seq = self.lsn + 10, 0


small = st.integers(0, 2)
text = st.one_of(st.none(), st.text("xy", max_size=2))
commands = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), small, small, text, text),
        st.tuples(st.just("delete"), small, small),
        st.tuples(st.just("update"), small, small, text, text),
        st.tuples(st.just("rekey"), small, small, small, small),
        st.tuples(st.just("truncate")),
        st.tuples(st.just("commit")),
    ),
    max_size=25,
)


def plain(rows: dict[tuple[int, int], Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows.values()], SCHEMA.arrow())


def net(rows: list[tuple[Row, int]]) -> Counter[Row]:
    total: Counter[Row] = Counter()
    for row, weight in rows:
        total[row] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


@settings(max_examples=150, deadline=None)
@given(history=commands, changes=commands)
def test_settled_changes_equal_the_true_ones(history: list[Any], changes: list[Any]) -> None:
    table = Table()
    for command in history:
        table.apply(command)
    table.default, table.truth = [], []
    table.apply(("commit",))
    start = plain(table.rows)
    for command in changes:
        table.apply(command)

    raw = pa.Table.from_pylist(table.default, SCHEMA.arrow_raw())
    settled = settle(raw, SCHEMA, lambda keys: start, lambda: start)

    assert settled.schema.names == SCHEMA.arrow_changes().names
    got = [((r["a"], r["b"], r["v"], r["big"]), r["_weight"]) for r in settled.to_pylist()]
    assert net(got) == net(table.truth)
    # Not only the sum: a cut after any transaction of the range is a table, each row once.
    for lsn in {r["_lsn"] for r in settled.to_pylist()}:
        upto = [((r["a"], r["b"], r["v"], r["big"]), r["_weight"]) for r in settled.to_pylist() if r["_lsn"] <= lsn]
        at_cut = net([(row, 1) for row in _rows(start)] + upto)
        assert set(at_cut.values()) <= {1}
        assert len({row[:2] for row in at_cut}) == len(at_cut)


def _rows(table: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_pylist()]  # type: ignore[misc]


def test_a_row_that_should_be_known_and_is_not_is_an_error() -> None:
    table = Table(rows={(1, 1): (1, 1, "v", "w")})
    table.apply(("delete", 1, 1))
    raw = pa.Table.from_pylist(table.default, SCHEMA.arrow_raw())
    nothing = SCHEMA.arrow().empty_table()
    with pytest.raises(SourceError, match=r"not known here: \{'a': 1, 'b': 1\}"):
        settle(raw, SCHEMA, lambda keys: nothing, lambda: nothing)


def test_complete_changes_are_left_as_they_are() -> None:
    table = Table()
    table.apply(("insert", 1, 1, "v", "w"))
    raw = pa.Table.from_pylist(table.default, SCHEMA.arrow_raw())
    assert is_settled(raw)
    assert settle(raw, SCHEMA, pytest.fail, pytest.fail).num_rows == 1  # type: ignore[arg-type]


def test_a_table_without_a_key_is_emptied_by_truncate_with_its_duplicates() -> None:
    keyless = Schema(SCHEMA.columns, key=(), identity=ReplicaIdentity.FULL)
    start = pa.Table.from_pylist([{"a": 1, "b": 1, "v": None, "big": None}] * 3, keyless.arrow())
    table = Table()
    table.apply(("truncate",))
    raw = pa.Table.from_pylist(table.default, keyless.arrow_raw())
    settled = settle(raw, keyless, pytest.fail, lambda: start)  # type: ignore[arg-type]
    assert sum(settled["_weight"].to_pylist()) == -3
