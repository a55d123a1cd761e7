"""One number for a row, the same in PostgreSQL and here: what tells two tables apart without moving their rows.

Each column is hashed by PostgreSQL's own function for its type, with the column's place as seed, from the value in the
form in which it is held here; the columns are joined by XOR and mixed once more. So equal rows have equal hashes: 1.5
and 1.50 as a number, both zeros, every NaN. Rows that differ have different ones but for a chance of 2⁻⁶⁴ (2⁻³² where
they differ in one timestamp only: PostgreSQL folds its halves).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from psycopg import sql

from penstock.capture.kernels import hashes
from penstock.refresh.held import element_as_held, text_as_held
from penstock.relation.schema import Column
from penstock.relation.types import INTERVAL, POINT

Hashes = npt.NDArray[np.uint64]
OLDEST = 110000  # the first servers with hash functions of 64 bits

_SECOND = 1 << 20  # further seeds of one column: the upper half of a number, the second field of a struct
_ELEMENT = 1 << 40
_EPOCH = 946_684_800_000_000  # 2000-01-01 in microseconds since 1970: PostgreSQL counts from there
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NULL = 0x5BD1_E995


def _null(seed: int) -> int:
    return (_NULL * (seed + 1)) & 0x7FFF_FFFF_FFFF_FFFF


# In PostgreSQL ------------------------------------------------------------------------------------------------------


def expression(columns: Sequence[Column]) -> sql.Composed:
    """The row's hash before its last mix, as an int8; names are those of the columns."""
    if not columns:
        return sql.Composed([sql.SQL("0::int8")])
    parts = [
        sql.SQL("coalesce({}, {})").format(_hashed(column, seed), sql.Literal(_null(seed)))
        for seed, column in enumerate(columns, 1)
    ]
    return sql.SQL(" # ").join(parts)


def mixed(value: sql.Composable) -> sql.Composed:
    return sql.SQL("({0} # hashint8extended({0}, 0))").format(value)


def _hashed(column: Column, seed: int) -> sql.Composed:
    name = sql.Composed([sql.Identifier(column.name)])
    held = column.arrow
    if not pa.types.is_list(held):
        value = text_as_held(column) if held == pa.string() else name
        return _value_hash(value, held, seed)
    element = element_as_held(column, sql.SQL("{}[i]").format(name))
    inner = _value_hash(element, held.value_type, seed + _ELEMENT)
    listed = sql.SQL("ARRAY(SELECT {} FROM generate_subscripts({}, 1) AS i ORDER BY i)").format(inner, name)
    text = sql.SQL("array_to_string({}, ',', 'N')").format(listed)
    return sql.SQL("CASE WHEN {} IS NOT NULL THEN {} END").format(name, _value_hash(text, pa.string(), seed))


def _value_hash(value: sql.Composed, held: pa.DataType, seed: int) -> sql.Composed:
    return sql.SQL(_FUNCTIONS[_kind(held)]).format(value, sql.Literal(seed), sql.Literal(seed + _SECOND))


_FUNCTIONS = {
    "int": "hashint8extended({0}::int8, {1})",
    "bool": "hashint8extended({0}::int4::int8, {1})",
    "long": "(hashint8extended({0}::int8, {1}) # hashint8extended({0}::int8 >> 32, {2}))",
    # NaN as itself: servers of 13 and older hash each of its bit patterns in its own way.
    "float": "hashfloat8extended(CASE WHEN {0} = 'NaN' THEN 'NaN' ELSE {0}::float8 END, {1})",
    "decimal": "hash_numeric_extended({0}::numeric, CASE WHEN {0} < 0 THEN {2} ELSE {1} END)",
    "time": "timestamp_hash_extended({0}::timestamp, {1})",
    "text": 'hashtextextended({0} COLLATE "C", {1})',
    "bytes": "hashtextextended(encode({0}, 'hex') COLLATE \"C\", {1})",
    "interval": "hashtextextended(encode(interval_send({0}), 'hex') COLLATE \"C\", {1})",
    "point": "(hashfloat8extended(CASE WHEN ({0})[0] = 'NaN' THEN 'NaN' ELSE ({0})[0] END, {1})"
    " # hashfloat8extended(CASE WHEN ({0})[1] = 'NaN' THEN 'NaN' ELSE ({0})[1] END, {2}))",
}


def _kind(held: pa.DataType) -> str:
    if held in (INTERVAL, POINT):
        return "interval" if held == INTERVAL else "point"
    tests = {
        "bool": pa.types.is_boolean,
        "long": pa.types.is_int64,
        "int": pa.types.is_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "text": pa.types.is_string,
        "bytes": pa.types.is_binary,
        "time": lambda one: pa.types.is_timestamp(one) or pa.types.is_date(one),
    }
    return next(kind for kind, test in tests.items() if test(held))


# Here ---------------------------------------------------------------------------------------------------------------


def row_hashes(rows: pa.Table, columns: Sequence[Column]) -> Hashes:
    """The same of each row, before its last mix."""
    out = np.zeros(rows.num_rows, np.uint64)
    for seed, column in enumerate(columns, 1):
        at = 0
        for chunk in rows[column.name].cast(column.arrow).chunks:
            _add(chunk, seed, _null(seed), out[at : at + len(chunk)])
            at += len(chunk)
    return out


def _add(values: pa.Array, seed: int, null: int, out: Hashes) -> None:
    if not len(values):
        return
    held = values.type
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_list(held):
        offsets, data = _list_texts(values, seed + _ELEMENT)
        hashes.add_bytes(data, offsets, valid, seed, null, out)
        return
    match _kind(held):
        case "bool" | "int":
            numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            hashes.add_ints(numbers, valid, seed, null, out)
        case "long":
            hashes.add_longs(values.fill_null(0).to_numpy(), valid, seed, seed + _SECOND, null, out)
        case "float":
            hashes.add_floats(values.cast(pa.float64()).fill_null(0).to_numpy(), valid, seed, null, out)
        case "decimal":
            pairs = np.frombuffer(values.buffers()[1], np.uint64, 2 * (values.offset + len(values)))
            hashes.add_decimals(
                pairs.reshape(-1, 2)[values.offset :], held.scale, valid, seed, seed + _SECOND, null, out
            )
        case "time":
            micros = values.cast(pa.timestamp("us", getattr(held, "tz", None))).cast(pa.int64()).fill_null(0).to_numpy()
            hashes.add_ints(micros - _EPOCH, valid, seed, null, out)
        case "text":
            hashes.add_bytes(_data(values), _offsets(values), valid, seed, null, out)
        case "bytes":
            hashes.add_bytes(_hex(_data(values)), _offsets(values) * 2, valid, seed, null, out)
        case "interval":
            months, days, micros = (one.fill_null(0).to_numpy() for one in values.flatten())
            fields = [one.astype(wire).view(np.uint8).reshape(len(values), -1)
                      for one, wire in ((micros, ">i8"), (days, ">i4"), (months, ">i4"))]  # fmt: skip
            text = _hex(np.ascontiguousarray(np.concatenate(fields, axis=1)).reshape(-1))
            hashes.add_bytes(text, np.arange(len(values) + 1, dtype=np.int64) * 32, valid, seed, null, out)
        case "point":
            x, y = (one.fill_null(0).to_numpy() for one in values.flatten())
            hashes.add_floats(x, valid, seed, null, out)
            hashes.add_floats(y, valid, seed + _SECOND, 0, out)


def _list_texts(values: pa.Array, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    bounds = values.offsets.to_numpy().astype(np.int64)
    elements = values.values.slice(bounds[0], bounds[-1] - bounds[0])
    inner = np.zeros(len(elements), np.uint64)
    _add(elements, seed, 0, inner)
    text = np.empty(21 * len(elements) + 1, np.uint8)
    offsets = np.empty(len(values) + 1, np.int64)
    valid = elements.is_valid().to_numpy(zero_copy_only=False)
    end = hashes.list_texts(inner, valid, bounds - bounds[0], offsets, text)
    return offsets, text[:end]


def _offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    whole = np.frombuffer(values.buffers()[1], np.int64 if wide else np.int32)
    return whole[values.offset : values.offset + len(values) + 1].astype(np.int64)


def _data(values: pa.Array) -> npt.NDArray[np.uint8]:
    buffer = values.buffers()[2]
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _hex(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.stack([_HEX[data >> 4], _HEX[data & 15]], axis=1).reshape(-1)
