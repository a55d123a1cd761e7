"""What is written is what Arrow reads, value by value, whatever the columns hold; what the file says of it is so."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.parquet import kernels, writer
from penstock.parquet.writer import Writer, can_write

DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale, context=None))


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) | st.integers(-3, 3)


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): integers(16),
    pa.int32(): integers(32),
    pa.int64(): integers(64),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.date32(): DAYS,
    pa.timestamp("us"): TIMES,
    pa.timestamp("us", tz="UTC"): TIMES.map(lambda time: time.replace(tzinfo=UTC)),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=40),
    pa.decimal128(4, 2): decimals(4, 2),
    pa.decimal128(18, 0): decimals(18, 0),
}
# Python's decimals have no room for these: they come as their digits.
LONG = [pa.decimal128(19, 3), pa.decimal128(28, 10), pa.decimal128(38, 0)]


@st.composite
def columns(draw: st.DrawFn) -> pa.ChunkedArray:
    """In pieces, each cut out of a longer array at any place."""
    kind = draw(st.sampled_from([*VALUES, *LONG]))
    if kind in LONG:
        most = 10**kind.precision - 1
        values = st.integers(-most, most).map(lambda number: Decimal(number).as_tuple()).map(
            lambda digits: Decimal((digits.sign, digits.digits, -kind.scale))
        )  # fmt: skip
    else:
        values = VALUES[kind]
    pieces = []
    for _ in range(draw(st.integers(1, 3))):
        whole = pa.array(draw(st.lists(st.none() | values if draw(st.booleans()) else values, max_size=30)), kind)
        start = draw(st.integers(0, len(whole)))
        pieces.append(whole.slice(start, draw(st.integers(0, len(whole) - start))))
    return pa.chunked_array(pieces, kind)


def written(table: pa.Table, **options: Any) -> tuple[pa.Table, pq.FileMetaData]:
    sink = io.BytesIO()
    made = Writer(sink, table.schema, **options)
    made.write(table)
    footer = made.close()
    assert footer.equals(pq.read_metadata(io.BytesIO(sink.getvalue())))
    return pq.read_table(io.BytesIO(sink.getvalue())), footer


def alike(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Bit for bit: NaN is NaN, and -0 is not 0."""
    if pa.types.is_floating(one.type):
        return [repr(value) for value in one.to_pylist()] == [repr(value) for value in other.to_pylist()]
    return bool(one.equals(other))


@settings(max_examples=400, deadline=None)
@given(columns(), st.booleans(), st.booleans())
@example(pa.chunked_array([pa.array([-(1 << 63), (1 << 63) - 1] * 70)]), True, False)
@example(pa.chunked_array([pa.array([(1 << 31) - 1, -(1 << 31)] * 70, pa.int32())]), True, False)
@example(pa.chunked_array([pa.array([None, None], pa.string())]), True, False)
@example(pa.chunked_array([pa.array(["", ""])]), False, False)
def test_arrow_reads_what_was_written(values: pa.ChunkedArray, nullable: bool, pages_of_one_row: bool) -> None:
    nullable = nullable or values.null_count > 0
    table = pa.table([values], schema=pa.schema([pa.field("x", values.type, nullable=nullable)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_PIECE", 0)  # no piece is copied in front of the others
        if pages_of_one_row:
            patch.setattr(writer, "_PAGE", 1)
        back, footer = written(table)
    assert back.schema.equals(table.schema)
    assert alike(back["x"], values)
    assert footer.num_rows == len(values)
    if len(values):
        told = footer.row_group(0).column(0).statistics
        assert told.null_count == values.null_count
        _check_extremes(told, values)


def _check_extremes(told: pq.Statistics, values: pa.ChunkedArray) -> None:
    there = values.drop_null()
    if not told.has_min_max:
        not_a_number = pa.types.is_floating(values.type) and pc.any(pc.is_nan(there)).as_py()
        assert not len(there) or not_a_number or values.type in LONG
        return
    found = there.to_pylist()
    assert (told.min, told.max) == (min(found), max(found))


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 127, 128, 129, 130, 160, 161, 257, 5000])
@pytest.mark.parametrize("bits", [0, 1, 2, 7, 8, 13, 31, 32, 33, 47, 63, 64])
def test_integers_of_every_width_and_number(count: int, bits: int) -> None:
    dice = np.random.default_rng(count * 100 + bits)
    numbers = (
        dice.integers(0, 1 << 64, count, np.uint64) >> np.uint64(64 - bits) if bits else np.zeros(count, np.uint64)
    )
    table = pa.table({"x": numbers.view(np.int64), "y": numbers.astype(np.uint32).view(np.int32)})
    back, _ = written(table)
    assert back.equals(table)


def test_what_packing_may_take_has_room() -> None:
    """Differences of 64 bits in every block, and the longest of everything beside them."""
    for count in (1, 2, 128, 129, 1000):
        numbers = np.where(np.arange(count) % 2, -(1 << 63), (1 << 63) - 1)
        for values in (numbers, np.where(np.arange(count) % 2, -(1 << 31), (1 << 31) - 1).astype(np.int32)):
            out = np.empty(kernels.packed_room(count), np.uint8)
            pieces, step = np.array([(values.ctypes.data, count)]), values.itemsize
            assert kernels.pack(pieces, step, step == 4, out, np.empty(kernels.BLOCK, np.int64))[0] <= len(out)


@pytest.mark.parametrize("lengths", [[1, 1, 1], [128, 1, 127], [1, 128, 300, 0, 5], [0, 129, 0], [5000, 37, 4000]])
@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64(), pa.decimal128(9, 2), pa.decimal128(18, 2)])
def test_pieces_become_one_page(lengths: list[int], kind: pa.DataType) -> None:
    dice = np.random.default_rng(sum(lengths))
    most = 9_999 if kind == pa.int16() else 9_999_999
    decimal = pa.types.is_decimal(kind)
    pieces = [
        pa.array([Decimal(number).scaleb(-2) if decimal else number for number in some], kind)
        for some in (dice.integers(-most, most, length).tolist() for length in lengths)
    ]
    table = pa.table({"x": pa.chunked_array(pieces, kind)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_PIECE", 0)
        back, footer = written(table)
    assert back.equals(table)
    told = footer.row_group(0).column(0).statistics
    assert (told.min, told.max) == tuple(pc.min_max(table["x"]).as_py().values())


def test_several_row_groups_and_pages() -> None:
    texts = ["a" * 70_000, "", "b" * 3_000_000, "é€"] * 10
    sink = io.BytesIO()
    made = Writer(sink, pa.schema([("t", pa.string()), ("n", pa.int64())]))
    for start in range(3):
        made.write(pa.table({"t": texts, "n": range(start, start + 40)}))
    footer = made.close()
    assert footer.num_row_groups == 3
    back = pq.read_table(io.BytesIO(sink.getvalue()))
    assert back["t"].to_pylist() == texts * 3
    assert back["n"].to_pylist() == [n for start in range(3) for n in range(start, start + 40)]


def test_texts_that_are_too_long_to_tell_are_not_told() -> None:
    _, footer = written(pa.table({"t": ["a", "b" * 5000]}))
    assert not footer.row_group(0).column(0).statistics.has_min_max


def test_only_named_columns_have_extremes() -> None:
    _, footer = written(pa.table({"a": [1, 2], "b": ["x", "y"]}), extremes=["a"])
    assert [footer.row_group(0).column(place).statistics.has_min_max for place in (0, 1)] == [True, False]


def test_what_does_not_get_smaller_is_not_compressed() -> None:
    dice = np.random.default_rng(1)
    hexadecimal = [dice.bytes(16).hex() for _ in range(3000)]
    _, footer = written(pa.table({"a": [f"customer {n}" for n in range(3000)], "b": hexadecimal}))
    assert [footer.row_group(0).column(place).compression for place in (0, 1)] == ["SNAPPY", "UNCOMPRESSED"]


def test_zeros_of_both_signs_can_be_looked_for() -> None:
    _, footer = written(pa.table({"x": [0.0, -0.0]}))
    told = footer.row_group(0).column(0).statistics
    assert (repr(told.min), repr(told.max)) == ("-0.0", "0.0")


def test_a_file_without_rows() -> None:
    sink = io.BytesIO()
    Writer(sink, pa.schema([("a", pa.int64())])).close()
    assert pq.read_table(io.BytesIO(sink.getvalue())).num_rows == 0


def test_nested_columns_are_left_to_arrow() -> None:
    assert not can_write(pa.schema([("a", pa.int64()), ("b", pa.list_(pa.int64()))]))
    assert not can_write(pa.schema([]))
    assert can_write(pa.schema([(str(kind), kind) for kind in (*VALUES, *LONG)]))


def test_rows_of_another_shape_are_refused() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    made = Writer(io.BytesIO(), schema)
    for wrong in (
        pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}),
        pa.table({"b": ["x"], "a": [1]}),
        pa.table({"a": [1], "b": pa.array(["x"], pa.large_string())}),
        pa.table({"a": [1, None], "b": ["x", "y"]}),
    ):
        with pytest.raises(ValueError, match="another shape"):
            made.write(wrong)
    with pytest.raises(ValueError, match="a NULL in a"):
        made.write(pa.table([pa.array([1, None]), pa.array(["x", "y"])], schema=schema))


def test_memory_that_may_not_be_written_to_or_lies_anywhere() -> None:
    """As it comes from another process."""
    table = pa.table({"n": range(3000), "t": [f"customer {n}" for n in range(3000)], "f": np.arange(3000) / 7})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    sent = sink.getvalue().to_pybytes()
    assert written(pa.ipc.open_stream(sent).read_all())[0].equals(table)
    shifted = pa.py_buffer(b"xyz" + np.arange(100).tobytes()).slice(3)
    numbers = pa.Array.from_buffers(pa.int64(), 100, [None, shifted])
    assert written(pa.table({"n": numbers}))[0]["n"].to_pylist() == list(range(100))


def test_long_texts_are_not_held_more_than_once() -> None:
    """Nor are those put together that are large by themselves."""
    texts = ["a" * (40 << 20), "b" * (40 << 20)]
    pieces = pa.chunked_array([pa.array([text]) for text in texts])
    before = pa.total_allocated_bytes()
    made = Writer(_Nowhere(), pa.schema([("t", pa.string())]))
    made.write(pa.table({"t": pieces}))
    assert len(made._room) == 0
    assert pa.total_allocated_bytes() - before < 1 << 20
    assert not made.close().row_group(0).column(0).statistics.has_min_max


class _Nowhere:
    def write(self, content: memoryview) -> None:
        """Thrown away."""
