"""Files of our own writer, as other readers see them: Spark, vectorised or not, and the reader of `deltalake`."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, convert_to_deltalake

from penstock.relation.encoded import Encoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000
WORDS = ["", "a", "customer 17", "é€😀", "x" * 100, "a\0b"]


def table() -> pa.Table:
    """Every plain type, with NULLs, extremes, and runs of the same."""
    dice = random.Random(7)
    first, moment = date(1, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)
    digits = [10**38 - 1, -(10**38) + 1, 0, 1, -1]

    def some(values: Any) -> list[Any]:
        return [None if dice.random() < 0.1 else values(number) for number in range(ROWS)]

    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "small": pa.array(some(lambda n: dice.randint(-(1 << 15), (1 << 15) - 1)), pa.int16()),
            "number": pa.array(some(lambda n: dice.choice([-(1 << 31), (1 << 31) - 1, n])), pa.int32()),
            "large": pa.array(some(lambda n: dice.choice([-(1 << 63), (1 << 63) - 1, n])), pa.int64()),
            "same": pa.array([7] * ROWS, pa.int64()),
            "flag": pa.array(some(lambda n: n % 3 == 0), pa.bool_()),
            "half": pa.array(some(lambda n: n / 4), pa.float32()),
            "real": pa.array(some(lambda n: n / 7), pa.float64()),
            "day": pa.array(some(lambda n: first + timedelta(days=n * 1000)), pa.date32()),
            "at": pa.array(some(lambda n: moment + timedelta(microseconds=n**3)), pa.timestamp("us", tz="UTC")),
            "clock": pa.array(some(lambda n: datetime(1970, 1, 1) + timedelta(seconds=n)), pa.timestamp("us")),
            "word": pa.array(some(lambda n: dice.choice(WORDS)), pa.string()),
            "bytes": pa.array(some(lambda n: dice.randbytes(n % 50)), pa.binary()),
            "cents": pa.array(some(lambda n: Decimal(n).scaleb(-2)), pa.decimal128(9, 2)),
            "price": pa.array(some(lambda n: Decimal(-n).scaleb(-4)), pa.decimal128(18, 4)),
            "long": pa.array(some(lambda n: Decimal(dice.choice(digits))), pa.decimal128(38, 0)),
            "nothing": pa.nulls(ROWS, pa.string()),
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = table()
    path = tmp_path / "table" / "part-0.parquet"
    path.parent.mkdir()
    encoded = Encoded(rows.schema, to=path)
    for start in range(0, ROWS, 1000):
        encoded.append(rows.slice(start, 1000))
    encoded.end(path)
    assert pq.read_metadata(path).created_by.startswith("penstock")
    return path


@pytest.mark.parametrize("vectorised", [True, False])
def test_spark_reads_them(spark: SparkSession, file: Path, vectorised: bool) -> None:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
    try:
        found = spark.read.parquet(str(file)).orderBy("id").toArrow()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    wanted = table()
    for name in wanted.column_names:
        assert found[name].cast(wanted[name].type).to_pylist() == wanted[name].to_pylist(), name


def test_spark_skips_by_what_they_say(spark: SparkSession, file: Path) -> None:
    """A filter on every column finds the rows that it finds in Arrow."""
    frame, wanted = spark.read.parquet(str(file)), table()
    for name in ("id", "number", "large", "real", "day", "word", "price", "long"):
        value = next(value for value in wanted[name].to_pylist()[1500:] if value is not None)
        expected = [n for n, one in enumerate(wanted[name].to_pylist()) if one == value]
        assert sorted(row.id for row in frame.where(frame[name] == value).select("id").collect()) == expected, name


def test_deltalake_reads_them(file: Path) -> None:
    wanted = table().drop_columns(["clock"])  # a timestamp without a zone is a feature that has to be asked for
    plain = file.parent.parent / "plain" / "part-0.parquet"
    plain.parent.mkdir()
    encoded = Encoded(wanted.schema, to=plain)
    encoded.append(wanted)
    encoded.end(plain)
    convert_to_deltalake(str(plain.parent))
    query = QueryBuilder().register("t", DeltaTable(str(plain.parent)))
    found = pa.table(query.execute("SELECT * FROM t ORDER BY id").read_all())
    for name in wanted.column_names:
        assert found[name].cast(wanted[name].type).to_pylist() == wanted[name].to_pylist(), name
    some = pa.table(query.execute("SELECT id FROM t WHERE large = 1700 OR word = 'customer 17'").read_all())
    matches = [
        n
        for n, (large, word) in enumerate(zip(wanted["large"].to_pylist(), wanted["word"].to_pylist(), strict=True))
        if large == 1700 or word == "customer 17"
    ]
    assert sorted(some["id"].to_pylist()) == matches
