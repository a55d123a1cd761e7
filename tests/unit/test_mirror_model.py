"""Base, changelog and settling against a model of the source: the mirror equals it at every frontier, whatever happens.

Transactions of all kinds over tables with a key, with REPLICA IDENTITY FULL and without a key; captured in pieces,
settled in steps that may be lost before they are committed, published at any time. No Spark and no server: what is
read here is what `verify` reads, file by file.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.relations import Base, Relation
from penstock.lake.reader import Reader
from penstock.lake.settle import settle
from penstock.refresh.bucket_sums import BucketSums
from penstock.refresh.lake_side import LakeSide
from penstock.refresh.row_hash import row_hashes
from penstock.relation import segment
from penstock.relation.home import Home
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.relation.segment import Segment, SegmentWriter
from penstock.relation.types import PgType
from penstock.zset import among

INT, TEXT = PgType(23, -1, "integer"), PgType(25, -1, "text")
COLUMNS = (Column.of("k", INT), Column.of("v", TEXT), Column.of("big", TEXT))
FULL, DEFAULT = ReplicaIdentity.FULL, ReplicaIdentity.DEFAULT
SHAPES = {
    "keyed": Schema(COLUMNS, key=("k",), identity=DEFAULT),
    "full": Schema(COLUMNS, key=("k",), identity=FULL),
    "bag": Schema(COLUMNS, key=(), identity=FULL),
}
Row = tuple[int, str | None, str | None]


@dataclass
class Source:
    """A table as PostgreSQL has it, what it writes to its log, and how it was after each transaction."""

    schema: Schema
    rows: Counter[Row] = field(default_factory=Counter)
    log: list[dict[str, Any]] = field(default_factory=list)
    history: dict[int, Counter[Row]] = field(default_factory=dict)
    seq: int = 0

    def __post_init__(self) -> None:
        self.identity = self.schema.identity

    def emit(self, lsn: int, op: str, weight: int, row: Row | None, *, kept: bool = False) -> None:
        """`kept`: the value of `big` did not change, so that the log leaves it out where it has no old row."""
        self.seq += 1
        values: list[Any] = list(row or (None, None, None))
        absent = None
        if self.identity is DEFAULT and op in "UD" and weight < 0:
            values[1:], absent = [None, None], "1,2"
        elif self.identity is DEFAULT and kept:
            values[2], absent = None, "2"
        change = {
            "_weight": weight,
            "_op": op,
            "_lsn": lsn,
            "_ts": None,
            "_xid": 1,
            "_seq": self.seq,
            "_absent": absent,
        }
        self.log.append(dict(zip(self.schema.names, values, strict=True)) | change)

    def find(self, key: int) -> Row | None:
        return next((row for row in sorted(self.rows, key=repr) if row[0] == key), None)

    def run(self, lsn: int, statement: tuple[Any, ...]) -> None:
        kind, key, other, text = statement
        old = self.find(key)
        keyed = bool(self.schema.key)
        if kind == "insert" and not (keyed and old):
            self.change(lsn, "I", None, (key, text, text))
        elif kind == "delete" and old:
            self.change(lsn, "D", old, None)
        elif kind == "update" and old:
            self.change(lsn, "U", old, (key, text, old[2]))
        elif kind == "rewrite" and old:
            self.change(lsn, "U", old, (key, old[1], text))
        elif kind == "rekey" and old and not (keyed and self.find(other)):
            self.change(lsn, "U", old, (other, old[1], old[2]))
        elif kind == "truncate":
            self.rows.clear()
            self.emit(lsn, "T", 0, None)
        elif kind == "identity" and keyed:
            self.identity = DEFAULT if self.identity is FULL else FULL

    def change(self, lsn: int, op: str, old: Row | None, new: Row | None) -> None:
        if old:
            self.rows[old] -= 1
            self.emit(lsn, op, -1, old)
        if new:
            self.rows[new] += 1
            self.emit(lsn, op, 1, new, kept=old is not None and old[2] == new[2])
        self.rows = +self.rows


class StoredBase:
    """The rows of a base, as `BaseFiles` gives them."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def rows(self, schema: pa.Schema) -> pa.Table:
        return self._rows.select(schema.names).cast(schema)

    def lookup(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        return self._rows.filter(among(self._rows.select(keys.column_names), keys)).cast(schema)

    def may_match(self, wanted: Sequence[pa.Table]) -> int:
        return int(self._rows.num_rows)

    def parts(self, schema: pa.Schema) -> Iterator[Callable[[], pa.Table]]:
        half = self._rows.num_rows // 2
        for part in (self._rows.slice(0, half), self._rows.slice(half)):
            yield lambda part=part: part.select(schema.names).cast(schema)  # type: ignore[misc]


class Mirror(Reader):
    """One relation of a home: real files and the real reader; the catalog is these lists."""

    def __init__(self, home: Home, schema: Schema) -> None:
        super().__init__(home, cast(Any, None), pytest.fail)
        self.relation = Relation(1, "s.t", "table", "tables/s/t", schema, 1, source="s")
        self.raw: list[tuple[pa.Table, int, int]] = []
        self.settled: list[Segment] = []
        self.cut = 0
        self.bases: list[tuple[Base, StoredBase]] = []
        self.attempts = 0

    def base(self, relation: Relation) -> Base | None:
        return self.bases[-1][0] if self.bases else None

    def base_files(self, relation: Relation, base: Base) -> Any:
        return next(files for one, files in self.bases if one == base)

    def committed(self, relation: Relation, after: int, until: int) -> list[Segment]:
        return [one for one in self.settled if one.high > after and one.low <= until]

    def settle(self, *, commit: bool) -> None:
        """As `settling` does it, piece by piece against the state before it; a crash loses what was not committed."""
        self.attempts += 1
        writer = SegmentWriter(self.home, self.relation.folder, self.attempts)
        done: list[Segment] = []
        cut = self.cut
        for raw, low, high in self.raw:
            there = self.beside({self.relation.id: done})
            rows = settle(
                raw,
                self.relation.schema,
                lambda keys, there=there, low=low: there.lookup(self.relation, keys, low - 1),  # type: ignore[misc]
                lambda there=there, low=low: there.rows_arrow(self.relation, low - 1),  # type: ignore[misc]
            )
            done.append(writer.write(rows, low, high))
            cut = high
        if commit:
            self.settled += done
            self.raw, self.cut = [], cut

    def publish(self) -> None:
        rows = table(self.relation.schema, self.at(self.cut))
        base = Base(self.cut, len(self.bases), rows.num_rows)
        self.bases = [one for one in self.bases if one[0].position != self.cut] + [(base, StoredBase(rows))]

    def at(self, position: int, *, base: int | None = None) -> Counter[Row]:
        """What verify sees there, from the newest base or an older one."""
        side = LakeSide(self._from(base), self.relation, position, self.relation.schema.columns, 1)
        return Counter({cast(Row, row): weight for row, weight in side.rows([0], 1)})

    def sums(self, position: int) -> BucketSums:
        return LakeSide(self, self.relation, position, self.relation.schema.columns, 1).sums(4)

    def _from(self, base: int | None) -> Reader:
        if base is None:
            return self
        other = cast(Mirror, self.beside({}))
        other.bases = self.bases[: base + 1]
        return other


def table(schema: Schema, rows: Counter[Row]) -> pa.Table:
    each = [dict(zip(schema.names, row, strict=True)) for row in rows.elements()]
    return pa.Table.from_pylist(each, schema.arrow())


keys, texts = st.integers(0, 4), st.sampled_from([None, "", "x", "long"])
kinds = st.sampled_from(["insert"] * 4 + ["update", "rewrite", "rekey", "delete"] * 2 + ["truncate", "identity"])
transactions = st.lists(st.tuples(kinds, keys, keys, texts), min_size=1, max_size=6)
steps = st.lists(
    st.one_of(
        transactions.map(lambda statements: ("commit", statements)),
        transactions.map(lambda statements: ("commit", statements)),
        st.tuples(st.sampled_from(["capture", "settle", "settle", "crash", "publish"])),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=250, deadline=None)
@given(shape=st.sampled_from(sorted(SHAPES)), steps=steps, rng=st.randoms(use_true_random=False))
def test_the_mirror_equals_the_source_at_every_frontier(
    without_fsync: None, shape: str, steps: Sequence[tuple[Any, ...]], rng: random.Random
) -> None:
    source = Source(SHAPES[shape])
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Home.at(Path(folder)), SHAPES[shape])
        lsn = 0
        source.history[0] = Counter()
        for step in [*steps, ("settle",)]:
            match step:
                case ("commit", statements):
                    lsn += 10
                    source.seq = 0
                    for statement in statements:
                        source.run(lsn, statement)
                    source.history[lsn] = Counter(source.rows)
                case ("capture",):
                    capture(source, mirror)
                case ("settle",) | ("crash",):
                    capture(source, mirror)
                    mirror.settle(commit=step[0] == "settle")
                case ("publish",):
                    mirror.publish()
        assert mirror.at(lsn) == source.history[lsn]
        check_sums(source, mirror, lsn)
        check_past(source, mirror, rng)


def capture(source: Source, mirror: Mirror) -> None:
    if source.log:
        raw = pa.Table.from_pylist(source.log, replace(source.schema, identity=source.identity).arrow_raw())
        mirror.raw.append((raw, source.log[0]["_lsn"], source.log[-1]["_lsn"]))
        source.log = []


def check_sums(source: Source, mirror: Mirror, lsn: int) -> None:
    """The sums of the rows' hashes, which verify compares first."""
    sums, rows = BucketSums.empty(4), table(mirror.relation.schema, source.history[lsn])
    sums.add_rows(row_hashes(rows, mirror.relation.schema.columns), np.ones(rows.num_rows, np.int64))
    assert not sums.differing(mirror.sums(lsn))


def check_past(source: Source, mirror: Mirror, rng: random.Random) -> None:
    """Frontiers from the newest base back, and the newest one from an older base."""
    for lsn in rng.sample(list(source.history), min(4, len(source.history))):
        assert mirror.at(lsn) == source.history[lsn], lsn
    if mirror.bases:
        assert mirror.at(mirror.cut, base=rng.randrange(len(mirror.bases))) == mirror.at(mirror.cut)


@pytest.fixture(scope="module")
def without_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "sync", lambda *files: None)
        yield
