"""What a relation's rows look like, by version: columns in order, key, replica identity, foreign keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import pyarrow as pa

from penstock.relation.types import BPCHAR_OID, PgType, arrow_type, spark_type
from penstock.zset import CHANGE_FIELDS, RAW_FIELDS


class ReplicaIdentity(StrEnum):
    """What UPDATE and DELETE write of the old row, with PostgreSQL's own letters."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True)
class Column:
    """A column: `spark` is its form, the type it is stored and read as, `pg` the PostgreSQL type it means."""

    name: str
    pg: PgType
    spark: str
    attnum: int = 0
    nullable: bool = True
    missing: str | None = None  # what rows have that are older than the column, in `encoded` form; None is NULL

    @property
    def older(self) -> pa.Scalar:
        """The value in rows that are older than the column."""
        return pa.scalar(None, self.arrow) if self.missing is None else decoded(self.missing)

    @property
    def arrow(self) -> pa.DataType:
        return arrow_type(self.spark)

    @property
    def in_text_form(self) -> bool:
        """Whether it holds PostgreSQL's text where its type has a native form too."""
        return bool(self.arrow == pa.string() and self.pg.arrow != pa.string())

    @property
    def identical_if_equal(self) -> bool:
        """Whether two values that PostgreSQL calls equal have the same bits here, collations aside.

        0.0 and -0.0 have not, nor have texts that end in blanks (bpchar without a length), nor what `equal_as_held`
        leaves out.
        """
        plain = self.pg.plain
        padded = plain.oid == BPCHAR_OID and plain.typmod < 0
        return self.computed.equal_as_held and not pa.types.is_floating(self.arrow) and not padded

    @property
    def computed(self) -> PgType:
        """The type that a view computes with: a domain is its base, and a text form is nothing but its text."""
        return replace(self.pg.plain, in_text_form=True) if self.in_text_form else self.pg.plain

    def with_form(self, arrow: pa.DataType) -> Column:
        return replace(self, spark=spark_type(arrow))

    @classmethod
    def of(cls, name: str, pg: PgType, *, attnum: int = 0, nullable: bool = True) -> Column:
        return cls(name, pg, spark_type(pg.arrow), attnum, nullable)


@dataclass(frozen=True)
class ForeignKey:
    """An enforced, validated foreign key of a source table."""

    columns: tuple[str, ...]
    parent: str  # schema.table in the same source
    parent_columns: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """The shape of a relation's rows. `key` is empty for a relation that may hold duplicates."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    identity: ReplicaIdentity = ReplicaIdentity.FULL
    foreign_keys: tuple[ForeignKey, ...] = field(default=())

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def _made(self) -> dict[tuple[str, ...], pa.Schema]:
        """Those that were asked for: a refresh of few rows asks for dozens, and each takes a look at every type."""
        return {}

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def arrow(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The rows alone."""
        names = self.names if columns is None else tuple(columns)
        if names not in self._made:
            self._made[names] = pa.schema([pa.field(c.name, c.arrow) for c in map(self.column, names)])
        return self._made[names]

    def arrow_changes(self) -> pa.Schema:
        """The rows with what a settled change knows beside them."""
        return self._changes

    def arrow_raw(self) -> pa.Schema:
        """The rows as captured, before settling."""
        return self._raw

    @cached_property
    def _changes(self) -> pa.Schema:
        return pa.schema([*self.arrow(), *CHANGE_FIELDS])

    @cached_property
    def _raw(self) -> pa.Schema:
        return pa.schema([*self.arrow(), *RAW_FIELDS])

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schema:
        raw = json.loads(text)
        return cls(
            columns=tuple(
                Column(c["name"], PgType.from_dict(c["pg"]), c["spark"], c["attnum"], c["nullable"], c.get("missing"))
                for c in raw["columns"]
            ),
            key=tuple(raw["key"]),
            identity=ReplicaIdentity(raw["identity"]),
            foreign_keys=tuple(
                ForeignKey(tuple(f["columns"]), f["parent"], tuple(f["parent_columns"])) for f in raw["foreign_keys"]
            ),
        )


def encoded(value: pa.Array) -> str:
    """One value of any type as text, exactly: an Arrow stream of one row.

    >>> decoded(encoded(pa.array([[1, None]], pa.list_(pa.int32())))).as_py()
    [1, None]
    """
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([value], ["value"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def decoded(text: str) -> pa.Scalar:
    """The inverse of `encoded`."""
    with pa.ipc.open_stream(base64.b64decode(text)) as stream:
        return stream.read_next_batch().column(0)[0]
