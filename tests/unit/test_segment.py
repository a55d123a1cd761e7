"""A segment is described by what is in it, and ends where it should."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.relation import segment
from penstock.relation.compaction import plan
from penstock.relation.description import file_checksum
from penstock.relation.encoded import Encoded
from penstock.relation.home import Home, stem_of
from penstock.relation.rotation import Rotation
from penstock.relation.segment import Segment, SegmentWriter

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def rows(count: int, start: int = 0) -> pa.Table:
    numbers = list(range(start, start + count))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "big": pa.array([None, *numbers[1:]], pa.int64()),
            "day": pa.array(numbers, pa.date32()),
            "texts": pa.array([["x", str(n)] for n in numbers]),
            "numbers": pa.array([[n] for n in numbers], pa.list_(pa.int64())),
            "_weight": pa.array([1] * count, pa.int64()),
            "_op": ["I"] * count,
            "_lsn": pa.array(numbers, pa.int64()),
            "_ts": pa.array([AT.replace(second=n % 60) for n in numbers], pa.timestamp("us", tz="UTC")),
        }
    )


def test_a_file_beside_the_segment_describes_it(tmp_path: Path) -> None:
    writer = SegmentWriter(Home.at(tmp_path), "tables/shop/public/orders", 12)
    written = writer.write(rows(150), 0, 149, version=3)
    path = tmp_path / written.path
    assert path.parent == tmp_path / f"changelog/tables/shop/{datetime.now(UTC):%Y/%m/%d/%H}"
    assert path.name == "public.orders_a00000012-0001.parquet"
    found = json.loads(segment.description_path(path).read_text())
    assert found == {
        "relation": "tables/shop/public/orders",
        "form": "settled",
        "rows": 150,
        "bytes": path.stat().st_size,
        "min_lsn": "0/0",
        "max_lsn": "0/95",
        "first_commit": "2026-01-02T03:04:00+00:00",
        "last_commit": "2026-01-02T03:04:59+00:00",
        "schema_version": 3,
        "checksum": file_checksum(path),
        "columns": {"id": {"min": 0, "max": 149}, "big": {"min": 1, "max": 149}},
    }
    assert (written.rows, written.bytes, written.checksum) == (found["rows"], found["bytes"], found["checksum"])
    assert written.ranges == {"id": (0, 149), "big": (1, 149)}
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert file_checksum(path) != written.checksum


def test_of_few_rows_the_description_is_owed(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    written = SegmentWriter(home, "tables/shop/public/orders", 12).write(rows(50), 0, 49)
    assert [(one.folder, one.segment) for one in home.owed] == [("tables/shop/public/orders", written)]
    assert not segment.description_path(tmp_path / written.path).exists()
    segment.describe(home, "tables/shop/public/orders", written)
    assert json.loads(segment.description_path(tmp_path / written.path).read_text())["checksum"] == written.checksum


def test_what_is_written_in_parts_goes_over_files_of_limited_size(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    file = SegmentWriter(home, "tables/shop/public/orders", 1).file(rows(1).schema, rotation=Rotation(rows=100))
    for start in range(0, 250, 50):
        file.write(rows(50, start))
    written = file.finish(7)
    assert [one.rows for one in written] == [100, 100, 50]
    assert [one.ranges["id"] for one in written] == [(0, 99), (100, 199), (200, 249)]
    assert segment.read(home, written, rows(1).schema).equals(rows(250).set_column(1, "big", _merged("big")))
    assert SegmentWriter(home, "tables/shop/public/orders", 2).file(rows(1).schema).finish(7) == []


def _merged(name: str) -> pa.ChunkedArray:
    return pa.concat_tables([rows(50, start) for start in range(0, 250, 50)])[name]


def test_a_file_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    file = SegmentWriter(Home.at(tmp_path), "views/v", 1).file(rows(1).schema, rotation=Rotation(rows=10))
    file.write(rows(15))
    file.write(rows(5))
    file.abandon()
    assert not [found for found in tmp_path.glob("**/*") if found.is_file()]


@given(
    images=st.lists(st.sampled_from(["I", "UU", "D"]), max_size=40),
    limit=st.integers(1, 7),
)
def test_parts_are_all_rows_in_order_and_no_update_is_torn(images: list[str], limit: int) -> None:
    weights = {"I": [1], "UU": [-1, 1], "D": [-1]}
    table = pa.table(
        {
            "_op": pa.array([op for image in images for op in image], pa.string()),
            "_weight": pa.array([weight for image in images for weight in weights[image]], pa.int64()),
        }
    )
    parts = list(Rotation(rows=limit).parts(table))
    assert pa.concat_tables(parts).equals(table)
    for part in parts:
        assert part.num_rows <= max(limit, 2)
        if part.num_rows:
            assert (part["_op"][0].as_py(), part["_weight"][0].as_py()) != ("U", 1)


def test_wide_rows_are_cut_by_their_size() -> None:
    wide = rows(1000).append_column("_x", pa.array(["y" * 1000] * 1000))
    assert len(list(Rotation(bytes=wide.nbytes // 10).parts(wide))) in (10, 11)


@pytest.mark.parametrize("name", ["a b", "_x", "..", "a*{b}?[c]", "x=1", "é:%2F", "n" * 63 + "/" + "é" * 63])
def test_a_segment_of_any_table_has_a_plain_name(name: str, tmp_path: Path) -> None:
    stem = stem_of(f"tables/shop/public/{name}")
    assert stem[0] not in "._"
    assert not set(stem) & set("/*?[]{}=: ")
    written = SegmentWriter(Home.at(tmp_path), f"tables/shop/{name.replace('/', '%2F')}/t", 1).write(rows(1), 0, 0)
    assert pq.read_metadata(tmp_path / written.path).num_rows == 1


def test_what_is_put_together() -> None:
    def one(number: int, size: int = 10, *, version: int = 1, day: int = 1) -> Segment:
        at = datetime(2026, 1, day, tzinfo=UTC)
        return Segment(f"{number}", 1, size, number, number, version, "settled", at, at)

    def planned(found: list[Segment], base: int = -1) -> list[list[int]]:
        return [[each.low for each in group] for group in plan(found, base, Rotation(bytes=4000, rows=50), least=3)]

    assert planned([one(3), one(1), one(2)]) == [[1, 2, 3]]
    assert planned([one(1), one(2)]) == []
    assert planned([one(number) for number in range(8)], base=3) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert planned([one(number, version=1 + number // 4) for number in range(8)]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert planned([one(number, day=1 + number // 4) for number in range(8)]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    # A large one is left as it is, and one larger than all after it is not written again for them.
    assert planned([one(0), one(1), one(2), one(3, 1000), one(4), one(5), one(6)]) == [[0, 1, 2], [4, 5, 6]]
    assert planned([one(0, 500), one(1), one(2), one(3)]) == [[1, 2, 3]]
    assert planned([one(0, 30), one(1), one(2), one(3)]) == [[0, 1, 2, 3]]
    assert [len(group) for group in planned([one(number, 900) for number in range(9)])] == [4, 4]
    assert [len(group) for group in planned([one(number) for number in range(100)])] == [49, 49]


def test_what_was_abandoned_takes_nothing_more(tmp_path: Path) -> None:
    few = rows(3).drop_columns(["texts", "numbers"])
    file = Encoded(few.schema, to=tmp_path / "x.parquet")
    file.append(few)
    file.abandon()
    assert not (tmp_path / "x.parquet").exists()
    with pytest.raises(ValueError, match="abandoned"):
        file.append(few)
    with pytest.raises(ValueError, match="abandoned"):
        file.end(tmp_path / "x.parquet")


def test_nested_columns_and_very_many_are_written_by_arrow(tmp_path: Path) -> None:
    plain, many = rows(3).drop_columns(["texts", "numbers"]), pa.table({f"c{n}": [n] for n in range(300)})
    creators = []
    for number, some in enumerate((plain, rows(3), many)):
        path = tmp_path / f"{number}.parquet"
        file = Encoded(some.schema, to=path)
        file.append(some)
        file.end(path)
        assert pq.read_table(path).equals(some)
        creators.append(pq.read_metadata(path).created_by.split()[0])
    assert creators == ["penstock", "parquet-cpp-arrow", "parquet-cpp-arrow"]
