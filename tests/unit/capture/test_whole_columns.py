"""Rows that are decoded in one pass are those that are taken apart with care, value by value."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.capture.columns import RowRefused, placed_columns, whole_columns
from penstock.capture.discover import SourceTable
from penstock.capture.kernels import frames
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.relation.types import PgType


def numeric(cents: int) -> bytes:
    """As numeric_send has it: digits of four places, none of them 0 at either end."""
    whole, rest = divmod(abs(cents), 100)
    digits = [whole // 10_000**place % 10_000 for place in range(2, -1, -1)] + [rest * 100]
    weight = 2
    while digits and not digits[0]:
        digits, weight = digits[1:], weight - 1
    while digits and not digits[-1]:
        digits = digits[:-1]
    head = struct.pack("!HhHH", len(digits), weight if digits else 0, 0x4000 if cents < 0 else 0, 2)
    return head + b"".join(struct.pack("!H", digit) for digit in digits)


KINDS = {
    "boolean": (16, -1, "boolsend", st.sampled_from([b"\0", b"\1"])),
    "smallint": (21, -1, "int2send", st.binary(min_size=2, max_size=2)),
    "integer": (23, -1, "int4send", st.binary(min_size=4, max_size=4)),
    "bigint": (20, -1, "int8send", st.binary(min_size=8, max_size=8)),
    "double precision": (701, -1, "float8send", st.binary(min_size=8, max_size=8)),
    "date": (1082, -1, "date_send", st.integers(-700_000, 2_900_000).map(lambda day: struct.pack("!i", day))),
    "timestamp with time zone": (
        1184, -1, "timestamptz_send", st.integers(-6 * 10**16, 10**17).map(lambda micros: struct.pack("!q", micros)),
    ),
    "text": (25, -1, "textsend", st.text("aé€", max_size=9).map(str.encode)),
    "numeric(12,2)": (1700, (12 << 16) + 2 + 4, "numeric_send", st.integers(-(10**11), 10**11).map(numeric)),
}  # fmt: skip


def table(names: list[str], *, nullable: bool) -> SourceTable:
    columns = tuple(
        Column.of(f"c{i}", PgType(KINDS[name][0], KINDS[name][1], name), nullable=nullable)
        for i, name in enumerate(names)
    )
    sends = tuple(KINDS[name][2] for name in names)
    return SourceTable("public", "t", 1, Schema(columns, ("c0",), ReplicaIdentity.FULL), sends)


def framed(rows: list[list[bytes | None]], *, marked: bool) -> tuple[np.ndarray, np.ndarray]:
    """The rows' bytes behind each other, and where each of them is."""
    data, found = b"", []
    for row in rows:
        first = len(data)
        for value in row:
            mark = (b"n" if value is None else b"b") if marked else b""
            length = b"" if value is None and marked else struct.pack("!i", -1 if value is None else len(value))
            data += mark + length + (value or b"")
        found.append([first, len(data), frames.WHOLE, -1, len(row)])
    return np.frombuffer(data or b"\0", np.uint8).copy(), np.array(found, np.int64).reshape(len(rows), 5)


@st.composite
def shapes(draw):
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=12))
    values = [KINDS[name][3] for name in names]
    rows = draw(st.lists(st.tuples(*(st.none() | value for value in values)).map(list), max_size=20))
    return names, rows


@settings(max_examples=200, deadline=None)
@given(shapes(), st.booleans())
def test_both_ways_give_the_same(shape, marked):
    names, rows = shape
    here, (data, found) = table(names, nullable=True), framed(rows, marked=marked)
    formats = None if marked else np.full(len(names), ord("b"), np.uint8)
    quick = whole_columns(here, data, found, formats)
    careful, _ = placed_columns(here, data, found, formats)
    assert quick is not None
    for one, other in zip(quick, careful, strict=True):
        one.validate(full=True)
        assert one.type == other.type
        assert [repr(value) for value in one.to_pylist()] == [repr(value) for value in other.to_pylist()]  # NaN is NaN


@settings(max_examples=200, deadline=None)
@given(shapes().filter(lambda shape: shape[1]), st.data())
def test_what_breaks_the_framing_is_refused_by_both(shape, data):
    """A byte more or less, at the end of any row."""
    names, rows = shape
    here, (raw, found) = table(names, nullable=True), framed(rows, marked=True)
    row = data.draw(st.integers(0, len(rows) - 1))
    found[row, 1] += data.draw(st.sampled_from([-1, 1])) if found[row, 1] < len(raw) else -1
    assert whole_columns(here, raw, found) is None
    with pytest.raises(RowRefused) as refused:
        placed_columns(here, raw, found)
    assert refused.value.row == row


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda row: row.__setitem__(2, frames.KEY), "the key alone"),
        (lambda row: row.__setitem__(0, -1), "a truncate"),
        (lambda row: row.__setitem__(4, 3), "another number of columns"),
    ],
)
def test_rows_that_are_not_whole_are_left_to_the_careful_way(change, why):
    names = ["integer", "text"]
    data, found = framed([[b"\0\0\0\1", b"x"], [b"\0\0\0\2", b"y"]], marked=True)
    assert whole_columns(table(names, nullable=True), data, found) is not None
    change(found[1])
    assert whole_columns(table(names, nullable=True), data, found) is None, why


def test_a_null_where_none_may_be_is_left_to_the_careful_way():
    data, found = framed([[b"\0\0\0\1", None]], marked=True)
    assert whole_columns(table(["integer", "text"], nullable=True), data, found) is not None
    assert whole_columns(table(["integer", "text"], nullable=False), data, found) is None


def test_a_number_of_another_width_is_left_to_the_careful_way():
    data, found = framed([[b"\0\0\0\1\0"]], marked=True)
    assert whole_columns(table(["integer"], nullable=True), data, found) is None
    with pytest.raises(RowRefused, match="wrong length"):
        placed_columns(table(["integer"], nullable=True), data, found)


def test_nothing_but_null_needs_no_known_form():
    columns = (Column.of("id", PgType(23, -1, "integer")), Column.of("v", PgType(3614, -1, "tsvector")))
    here = SourceTable("public", "t", 1, Schema(columns, ("id",), ReplicaIdentity.FULL), ("int4send", "tsvectorsend"))
    data, found = framed([[b"\0\0\0\1", None]], marked=True)
    quick, careful = whole_columns(here, data, found), placed_columns(here, data, found)[0]
    assert quick is not None
    assert [one.to_pylist() for one in quick] == [one.to_pylist() for one in careful] == [[1], [None]]


def test_a_field_that_is_marked_has_no_negative_length():
    data, found = framed([[b"", b"\0\0\0\1"]], marked=True)
    data[1:5] = 0xFF
    here = table(["text", "integer"], nullable=True)
    assert whole_columns(here, data, found) is None
    with pytest.raises(RowRefused, match="framing"):
        placed_columns(here, data, found)


def test_one_long_text_among_many_short_ones_takes_no_more_room_than_all_have():
    """The first row is always among those that tell how long texts are."""
    rows = [[struct.pack("!q", number), b"ab"] for number in range(5000)]
    for place in (0, 2500, 4999):
        long = [*rows]
        long[place] = [rows[place][0], b"x" * 1_000_000]
        data, found = framed(long, marked=True)
        here = table(["bigint", "text"], nullable=True)
        before = pa.total_allocated_bytes()
        quick = whole_columns(here, data, found)
        assert pa.total_allocated_bytes() - before < 3 * len(data)
        assert quick[1].to_pylist() == [row[1].decode() for row in long]


def test_few_rows_take_the_room_that_their_values_have():
    """Much waits for its commit in chunks of some rows: what they hold must be what they say they hold."""
    names = ["bigint"] + ["text"] * 50
    data, found = framed([[struct.pack("!q", number)] + [b"abc"] * 50 for number in range(200)], marked=True)
    before = pa.total_allocated_bytes()
    quick = whole_columns(table(names, nullable=True), data, found)
    assert pa.total_allocated_bytes() - before < 3 * sum(column.nbytes for column in quick)


def test_texts_that_are_longer_than_expected_are_counted():
    """None of the rows that are looked at has a long one."""
    rows = [[b"\0\0\0\1", b"a" if number % 39 == 0 else b"b" * 50] for number in range(5000)]
    data, found = framed(rows, marked=True)
    quick = whole_columns(table(["integer", "text"], nullable=True), data, found)
    assert quick[1].to_pylist() == [row[1].decode() for row in rows]
