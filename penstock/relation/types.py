"""How a PostgreSQL type is held in Arrow, Parquet and Spark: exactly, or as PostgreSQL's own text.

Every column has a form: the native one of its type, or the text form, a string that is what PostgreSQL prints. A value
that its column's form cannot hold is an error when it is decoded, never a NULL and never rounded. docs/types.md lists
all types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

UTC_MICROS = pa.timestamp("us", tz="UTC")
NUMERIC_OID, BPCHAR_OID = 1700, 1042
FIRST_USER_OID = 16384

# numeric without precision: 20 digits before the point and 18 after it, unless the values that exist need others.
UNCONSTRAINED_NUMERIC = pa.decimal128(38, 18)

# PostgreSQL's own three fields: one month is not 30 days, and a day may have 23 hours.
INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
POINT = pa.struct([("x", pa.float64()), ("y", pa.float64())])

_NATIVE: dict[int, pa.DataType] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),  # oid
    600: POINT,
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: UTC_MICROS,
    1186: INTERVAL,
}

_SPARK: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    UTC_MICROS: "timestamp",
    pa.string(): "string",
}
_ARROW = {name: arrow for arrow, name in _SPARK.items()}

# Types whose PostgreSQL text is their value: comparing the strings is comparing the values (for equality).
_TEXTUAL = frozenset({18, 19, 25, 1042, 1043, 2950})

# Held as text, and equal exactly where the texts are: cidr, macaddr(8), inet, money, time, timetz, bit, varbit,
# tsvector, pg_lsn, xid, regclass and kin, ranges and multiranges of integers and times; text forms of date, timestamp.
_EQUAL_TEXTS = frozenset({
    24, 27, 28, 29, 650, 774, 790, 829, 869, 1082, 1083, 1114, 1184, 1266, 1560, 1562, 2202, 2203, 2204, 2205, 2206,
    3220, 3614, 3734, 3769, 3904, 3908, 3910, 3912, 3926, 4089, 4096, 4191, 4451, 4533, 4534, 4535, 4536, 5069,
})  # fmt: skip


@dataclass(frozen=True)
class PgType:
    """A PostgreSQL type as the server names it: `numeric(10,2)` is oid 1700 with its modifier."""

    oid: int
    typmod: int
    name: str
    kind: str = ""  # pg_type.typtype: b base, c composite, d domain, e enum, r range, m multirange; "" is unknown
    base: PgType | None = None  # what a domain is made over, itself no domain
    element: PgType | None = None  # of an array whose values may be lists
    in_text_form: bool = False  # of a view's column that reads the text form of a column

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Declared (precision, scale) of a numeric that Decimal128 can hold, else None."""
        if self.oid != NUMERIC_OID or self.typmod < 4:
            return None
        precision, scale = (self.typmod - 4) >> 16 & 0xFFFF, (self.typmod - 4) & 0x7FF
        scale = scale - 0x800 if scale >= 0x400 else scale  # 11 bits, signed since PostgreSQL 15
        return (precision, scale) if precision <= 38 and 0 <= scale <= precision else None

    @property
    def plain(self) -> PgType:
        """The type that values compute as: a domain's base."""
        return self.base or self

    @property
    def arrow(self) -> pa.DataType:
        """The native form."""
        if self.in_text_form:
            return pa.string()
        if self.base is not None:
            return self.base.arrow
        if self.element is not None:
            return list_of(self.element.arrow)
        if self.oid == NUMERIC_OID:
            if self.decimal:
                return pa.decimal128(*self.decimal)
            return UNCONSTRAINED_NUMERIC if self.typmod < 4 else pa.string()
        return _NATIVE.get(self.oid, pa.string())

    @property
    def held_as_text(self) -> bool:
        """True where the column holds PostgreSQL's text of another kind of value: compare it for equality at most."""
        return self.arrow == pa.string() and (self.in_text_form or self.plain.oid not in _TEXTUAL)

    @property
    def equal_as_held(self) -> bool:
        """Whether two values that PostgreSQL calls equal are always held alike.

        Not so for 1.0 and 1.00 as text (also inside jsonb and composites), 1 month and 30 days, citext, and shapes.
        """
        if self.base is not None:
            return self.base.equal_as_held
        if self.arrow != pa.string():
            return not pa.types.is_nested(self.arrow)
        return (
            (self.kind in ("", "e") and self.oid >= FIRST_USER_OID) or self.oid in _TEXTUAL or self.oid in _EQUAL_TEXTS
        )

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> PgType:
        """The inverse of `dataclasses.asdict`."""
        inner = {name: cls.from_dict(raw[name]) for name in ("base", "element") if raw.get(name) is not None}
        return cls(**{**raw, **inner})


def list_of(element: pa.DataType) -> pa.DataType:
    """A list type whose field has the name that Parquet and Spark give it."""
    return pa.list_(pa.field("element", element))


def spark_type(arrow: pa.DataType) -> str:
    """The Spark SQL name of the type that holds the same values.

    >>> spark_type(pa.decimal128(10, 2)), spark_type(list_of(pa.int32())), spark_type(POINT)
    ('decimal(10,2)', 'array<int>', 'struct<x:double,y:double>')
    """
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in arrow)}>"
    return _SPARK[arrow]


@lru_cache
def arrow_type(spark: str) -> pa.DataType:
    """The inverse of `spark_type`.

    >>> arrow_type("array<struct<x:double,y:double>>") == list_of(POINT)
    True
    """
    if spark.startswith("decimal("):
        precision, scale = spark[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if spark.startswith("array<"):
        return list_of(arrow_type(spark[6:-1]))
    if spark.startswith("struct<"):  # its fields are plain ones
        fields = [part.split(":") for part in spark[7:-1].split(",")]
        return pa.struct([(name, arrow_type(kind)) for name, kind in fields])
    return _ARROW[spark]
