"""The hash of a row is the same number in PostgreSQL and here, for every type; a changed value changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres.capture.test_types import BOUNDED, Table
from postgres.capture.type_values import BINARY, TEXTUAL, forms_of
from psycopg import sql

from penstock.capture import PostgresSource, SourceConfig, remove
from penstock.capture.connection import connect
from penstock.refresh.row_hash import expression, row_hashes
from penstock.relation.schema import Column

pytestmark = pytest.mark.since(11, "hash functions of 64 bits")
COLUMNS = BINARY | TEXTUAL
EDGES = {
    "boolean": ["t", "f"],
    "small": ["-32768", "-1", "0"],
    "number": ["-2147483648", "-1", "0", "2147483647"],
    "big": ["-1", "4294967295", "4294967297", "0", "-4294967296", "9223372036854775807", "-9223372036854775808"],
    "real": ["NaN", "-0", "0", "Infinity", "-1e-45", "3.4e38"],
    "double": ["NaN", "-0", "0", "-Infinity", "5e-324", "1.7e308", "0.1"],
    "any_numeric": [
        "0", "0.000", "1", "-1", "10000", "9999.9999", "0.0001", "0.00001", "-0.000000000000000001",
        "99999999999999999999.999999999999999999", "-99999999999999999999.999999999999999999", "100000000", "1.50",
    ],
    "declared": ["0", "-0.0001", "12345678.9012", "10000", "0.1"],
    "naive": ["1999-12-31 23:59:59.999999", "2000-01-01", "0001-01-01", "9999-12-31 23:59:59.999999"],
    "day": ["2000-01-01", "1999-12-31", "0001-01-01", "9999-12-31"],
    "words": ["", "a", "eleven byte", "twelve bytes", "thirteen byte", "ü" * 50],
    "padded": ["", "ab", " a"],
    "bytes": ["\\x", "\\x00", "\\xff" + "00" * 30],
    "numbers": ["{}", "{NULL}", "{NULL,NULL}", "{-1,0}"],
    "texts": ["{}", '{""}', '{"",NULL,","}'],
}  # fmt: skip


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        yield connection


@pytest.fixture
def captured(db: psycopg.Connection[Any], source_db: str) -> Iterator[Callable[[], tuple[pa.Table, list[Column]]]]:
    """A table of every type; `captured()` is its rows as they are held here."""
    table = Table(db, COLUMNS)

    def copy() -> tuple[pa.Table, list[Column]]:
        config = SourceConfig.from_dsn(source_db, ("t",), slot_name="hashes", column_forms=forms_of(COLUMNS))
        remove(source_db, config.slot_name, config.publication_name)
        source = PostgresSource(config)
        source.open()
        try:
            batch = source.poll(max_records=10_000, timeout=5)
            assert batch is not None
            return batch.to_arrow()["public.t"], list(source.tables["public.t"].columns)
        finally:
            source.close()

    copy.table = table  # type: ignore[attr-defined]
    return copy


def wrong(dsn: str, rows: pa.Table, columns: list[Column]) -> list[tuple[str, Any]]:
    """Values whose hashes differ: each column by itself first, then whole rows."""
    sets = [[column] for column in columns] + [columns]
    listed = sql.SQL(", ").join(expression(one) for one in sets)
    with connect(dsn) as there:
        found = {row[0]: row[1:] for row in there.execute(sql.SQL("SELECT id, {} FROM public.t").format(listed))}
    assert len(found) == rows.num_rows
    ids = rows["id"].to_pylist()
    differing = []
    for place, one in enumerate(sets):
        here = row_hashes(rows, one).view(np.int64).tolist()
        name = one[0].name if len(one) == 1 else "id"
        values = rows[name].to_pylist()
        differing += [(name, values[at]) for at, key in enumerate(ids) if found[key][place] != here[at]]
    return differing


def test_edges_of_every_type(captured: Any, source_db: str) -> None:
    longest = max(map(len, EDGES.values()))
    captured.table.insert(
        [{name: values[at % len(values)] if (values := EDGES.get(name)) else None for name in COLUMNS}
         for at in range(longest)]
    )  # fmt: skip
    rows, columns = captured()
    assert wrong(source_db, rows, columns) == []
    for name, values in EDGES.items():
        column = next(one for one in columns if one.name == name)
        hashes = dict(zip(map(str, rows[name].to_pylist()), row_hashes(rows, [column]).tolist(), strict=True))
        equal = {"real": 1, "double": 1, "any_numeric": 1}.get(name, 0)  # −0 and 0, 0 and 0.000
        assert len(set(hashes.values())) >= len(values) - equal, name


@settings(BOUNDED, max_examples=3)
@given(data=st.data())
def test_values_of_every_type(captured: Any, source_db: str, data: st.DataObject) -> None:
    captured.table.db.execute("TRUNCATE t")
    captured.table.insert(data.draw(captured.table.rows))
    rows, columns = captured()
    assert wrong(source_db, rows, columns) == []
    cut = rows.slice(3, 4)
    assert row_hashes(cut, columns).tolist() == row_hashes(rows, columns).tolist()[3:7]
