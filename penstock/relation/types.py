"""How a PostgreSQL type is held in Arrow, Parquet and Spark: exactly, or as PostgreSQL's own text.

A value that its column's form cannot hold is an error when it is decoded, never a NULL and never rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

UTC_MICROS = pa.timestamp("us", tz="UTC")
NUMERIC_OID = 1700

# numeric without precision: 20 digits before the point and 18 after it.
UNCONSTRAINED_NUMERIC = pa.decimal128(38, 18)

_NATIVE: dict[int, pa.DataType] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),  # oid
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: UTC_MICROS,
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

# Types whose PostgreSQL text is their value: comparing the strings is comparing the values (for equality).
_TEXTUAL = frozenset({18, 19, 25, 1042, 1043, 2950})


@dataclass(frozen=True)
class PgType:
    """A PostgreSQL type as the server names it: `numeric(10,2)` is oid 1700 with its modifier."""

    oid: int
    typmod: int
    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Declared (precision, scale) of a numeric that Decimal128 can hold, else None."""
        if self.oid != NUMERIC_OID or self.typmod < 4:
            return None
        precision, scale = (self.typmod - 4) >> 16 & 0xFFFF, (self.typmod - 4) & 0x7FF
        scale = scale - 0x800 if scale >= 0x400 else scale  # 11 bits, signed since PostgreSQL 15
        return (precision, scale) if precision <= 38 and 0 <= scale <= precision else None

    @property
    def arrow(self) -> pa.DataType:
        if self.oid == NUMERIC_OID:
            if self.decimal:
                return pa.decimal128(*self.decimal)
            return UNCONSTRAINED_NUMERIC if self.typmod < 4 else pa.string()
        return _NATIVE.get(self.oid, pa.string())

    @property
    def held_as_text(self) -> bool:
        """True where the column holds PostgreSQL's text of another kind of value: compare it for equality at most."""
        return self.arrow == pa.string() and self.oid not in _TEXTUAL


def spark_type(arrow: pa.DataType) -> str:
    """The Spark SQL name of the type that holds the same values.

    >>> spark_type(pa.decimal128(10, 2)), spark_type(pa.timestamp("us"))
    ('decimal(10,2)', 'timestamp_ntz')
    """
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SPARK[arrow]


def arrow_type(spark: str) -> pa.DataType:
    """The inverse of `spark_type`."""
    if spark.startswith("decimal("):
        precision, scale = spark[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {name: arrow for arrow, name in _SPARK.items()}[spark]
