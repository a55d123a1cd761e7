"""Looking rows up in a base's files finds exactly the rows that a scan and a comparison of each would."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake import base_files
from penstock.lake.base_files import BaseFiles, among_any

SCHEMA = pa.schema([("a", pa.int32()), ("s", pa.string()), ("b", pa.int64()), ("d", pa.decimal128(8, 2))])
small = st.one_of(st.none(), st.integers(-3, 12))
texts = st.sampled_from([None, "", "x", "y", "é"])
rows = st.tuples(small, texts, small, st.sampled_from([None, "1.50", "-2.00"]))
COLUMNS = [("a",), ("s",), ("b",), ("a", "b"), ("a", "s"), ("a", "s", "b")]


def table(found: list[tuple[Any, ...]], names: tuple[str, ...] = ("a", "s", "b", "d")) -> pa.Table:
    types = pa.schema([SCHEMA.field(name) for name in names])
    columns = [pa.array([row[i] for row in found]).cast(types.field(i).type) for i in range(len(names))]
    return pa.table(columns, schema=types)


@st.composite
def wanted(draw: st.DrawFn) -> list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    values = {"a": small, "s": texts, "b": small}
    chosen = draw(st.lists(st.sampled_from(COLUMNS), unique=True, max_size=2))
    return [(names, draw(st.lists(st.tuples(*(values[n] for n in names)), max_size=4))) for names in chosen]


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(st.lists(rows, min_size=1, max_size=30), min_size=1, max_size=3),
    wanted=wanted(),
    small=st.booleans(),
)
def test_matching(files: list[list[tuple[Any, ...]]], wanted: list[tuple[Any, ...]], small: bool) -> None:
    everything = [row for file in files for row in file]
    places = {"a": 0, "s": 1, "b": 2}
    expected = [
        row for row in everything if any(tuple(row[places[n]] for n in names) in keys for names, keys in wanted)
    ]
    keys = [table(found, names) for names, found in wanted]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if not small:
            patch.setattr(base_files.RECENT, "small", lambda *_: None)
        for file in files:
            properties = WriterProperties(max_row_group_size=7, write_batch_size=7)
            write_deltalake(folder, table(file), mode="append", writer_properties=properties)
        base = BaseFiles(Path(folder), len(files) - 1)
        assert base.holds(SCHEMA)
        for _ in ("from the file", "from memory"):
            found = base.matching(keys, SCHEMA)
            assert found is not None
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, table(expected).to_pylist()))
        assert base.may_match(keys) >= len(expected)
        assert (base.matching(keys, SCHEMA, limit=3) is None) == (len(expected) > 3)
    mask = among_any(table(everything), keys)
    assert [row for row, hit in zip(everything, mask, strict=True) if hit] == expected


def test_row_groups_that_cannot_match_are_not_read(tmp_path: Path) -> None:
    rows = table([(n, "x", n, None) for n in range(1000)])
    write_deltalake(tmp_path, rows, writer_properties=WriterProperties(max_row_group_size=100, write_batch_size=100))
    base = BaseFiles(tmp_path, 0)
    assert base.may_match([table([(5,), (950,)], ("a",))]) == 200
    assert base.may_match([table([(5, 950)], ("a", "b"))]) == 0
    assert base.may_match([table([(None,)], ("a",))]) == 1000


def test_many_row_groups_are_looked_into_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_files.RECENT, "small", lambda *_: None)
    rows = table([(n, f"s{n % 7}", n % 90, None) for n in range(1000)])
    write_deltalake(tmp_path, rows, writer_properties=WriterProperties(max_row_group_size=100, write_batch_size=100))
    found = BaseFiles(tmp_path, 0).matching([table([(5,), (77,)], ("b",)), table([(950,)], ("a",))], SCHEMA)
    assert found is not None
    assert found["a"].to_pylist() == [n for n in range(1000) if n % 90 in (5, 77) or n == 950]
    assert found["s"].to_pylist() == [f"s{n % 7}" for n in found["a"].to_pylist()]


def test_files_of_an_earlier_shape_are_recognised(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": pa.array([1], pa.int32())}))
    base = BaseFiles(tmp_path, 0)
    assert base.holds(pa.schema([("a", pa.int32())]))
    assert not base.holds(pa.schema([("a", pa.int64())]))
    assert not base.holds(pa.schema([("a", pa.int32()), ("s", pa.string())]))
