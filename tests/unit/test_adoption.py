"""Segments become files of a Delta table by links and one commit: other engines read the rows, and only one writer gets
a version."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from penstock.errors import PublishError
from penstock.lake import adoption
from penstock.lake.delta_log import Stamp, latest
from penstock.relation.schema import Column, Schema
from penstock.relation.types import PgType

INT, TEXT = PgType(20, -1, "bigint"), PgType(25, -1, "text")
TIME, PLAIN_TIME, DAY = PgType(1184, -1, "timestamptz"), PgType(1114, -1, "timestamp"), PgType(1082, -1, "date")
NUMBERS = PgType(1016, -1, "bigint[]", element=INT)
SCHEMA = Schema(
    (
        Column.of("id", INT),
        Column.of("name", TEXT),
        Column.of("at", TIME),
        Column.of("then", PLAIN_TIME),
        Column.of("day", DAY),
        Column.of("list", NUMBERS),
    ),
    ("id",),
)
MADE_WITH = {"delta.enableDeletionVectors": "true"}
AT = datetime(2026, 1, 31, 1, 2, 3, 456789)


def stamp(position: int) -> Stamp:
    return Stamp("shop.public.t", "home/1", position, '{"shop": "0/1"}')


def segment(path: Path, first: int, last: int, schema: Schema = SCHEMA, compression: str = "lz4") -> Path:
    rows = [
        {
            "id": n, "name": f"n{n}" if n % 2 else None, "at": AT.replace(tzinfo=UTC), "then": AT,
            "day": date(2026, 1, n), "list": [n],
            "_weight": 1, "_op": "R", "_lsn": 5, "_ts": None, "_xid": None, "_seq": n,
        }
        for n in range(first, last + 1)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema.arrow_changes()), path, compression=compression)
    return path


def read(folder: Path) -> Counter[Any]:
    rows = pa.table(QueryBuilder().register("t", DeltaTable(str(folder))).execute("SELECT * FROM t"))
    assert rows.column_names == list(SCHEMA.names)
    return Counter(row["id"] for row in rows.to_pylist())


def test_the_rows_of_segments_are_the_rows_of_the_table(tmp_path: Path) -> None:
    one, two = segment(tmp_path / "1.parquet", 1, 3), segment(tmp_path / "2.parquet", 4, 5)
    folder = tmp_path / "t"
    assert adoption.fits(SCHEMA, [one, two])
    adoption.create(folder, SCHEMA, [one], stamp(5), MADE_WITH)
    assert adoption.takes_files(folder, 0, SCHEMA, [two])
    adoption.append(folder, 0, SCHEMA, [two], stamp(6))
    one.unlink()
    two.unlink()
    assert read(folder) == Counter([1, 2, 3, 4, 5])
    found = latest(folder, "home/1", since=-1)
    assert found is not None
    assert (found.version, found.stamp) == (1, stamp(6))
    assert sorted(file.suffix for file in (folder / "_delta_log").iterdir()) == [".json", ".json"]


def test_readers_skip_by_what_the_commit_says_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    adoption.create(folder, SCHEMA, [segment(tmp_path / "1.parquet", 1, 3)], stamp(5), MADE_WITH)
    actions = [json.loads(line) for line in (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    stats = json.loads(next(one["add"]["stats"] for one in actions if "add" in one))
    assert stats["numRecords"] == 3
    assert stats["nullCount"] == {"id": 0, "name": 1, "at": 0, "then": 0, "day": 0}
    assert stats["minValues"] == {
        "id": 1, "name": "n1", "at": "2026-01-31T01:02:03.456Z", "then": "2026-01-31T01:02:03.456", "day": "2026-01-01",
    }  # fmt: skip
    assert stats["maxValues"] == {
        "id": 3, "name": "n3", "at": "2026-01-31T01:02:03.457Z", "then": "2026-01-31T01:02:03.457", "day": "2026-01-03",
    }  # fmt: skip
    engine = QueryBuilder().register("t", DeltaTable(str(folder)))
    for column in ("at", "then"):
        found = pa.table(engine.execute(f"SELECT id FROM t WHERE {column} > '2026-01-31T01:02:03.4565'"))
        assert found.num_rows == 3


def test_a_version_that_another_made_is_not_made_again_and_leaves_no_file(tmp_path: Path) -> None:
    one, folder = segment(tmp_path / "1.parquet", 1, 3), tmp_path / "t"
    adoption.create(folder, SCHEMA, [one], stamp(5), MADE_WITH)
    for attempt in (
        lambda: adoption.create(folder, SCHEMA, [one], stamp(5), MADE_WITH),
        lambda: adoption.append(folder, -1, SCHEMA, [one], stamp(6)),
    ):
        with pytest.raises(PublishError, match=r"version 0 .* was made meanwhile"):
            attempt()
    assert len(list(folder.glob("*.parquet"))) == len(list((folder / "_delta_log").iterdir())) == 1
    assert read(folder) == Counter([1, 2, 3])


def test_what_delta_would_not_read_as_it_lies_is_left_to_spark(tmp_path: Path) -> None:
    plain = segment(tmp_path / "1.parquet", 1, 3)
    for name in ("a b", "ID"):
        assert not adoption.fits(Schema((*SCHEMA.columns, Column.of(name, TEXT)), ("id",)), [])
    assert not adoption.fits(Schema((Column.of("id", PgType(23, -1, "integer")),), ("id",)), [plain])
    assert not adoption.fits(Schema((*SCHEMA.columns, Column.of("more", TEXT)), ("id",)), [plain])


def test_nothing_is_added_to_a_table_of_another_shape(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    adoption.create(folder, SCHEMA, [], stamp(1), MADE_WITH)
    assert adoption.takes_files(folder, 0, SCHEMA, [])
    assert not adoption.takes_files(folder, 0, Schema(SCHEMA.columns[:-1], ("id",)), [])


def test_every_tenth_commit_sums_up_the_log_and_entries_from_long_ago_go(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    log = folder / "_delta_log"
    adoption.create(folder, SCHEMA, [], stamp(1), MADE_WITH | {"delta.logRetentionDuration": "interval 30 days"})
    for version in range(25):
        if version == 15:
            for file in log.iterdir():
                os.utime(file, (time.time() - 40 * 86_400,) * 2)
        adoption.append(folder, version, SCHEMA, [segment(tmp_path / "1.parquet", 1, 1)], stamp(version + 2))
    assert read(folder) == Counter({1: 25})
    there = {file.name for file in log.glob("*.parquet")}
    assert f"{20:020d}.checkpoint.parquet" in there
    assert not (log / f"{5:020d}.json").exists()
    assert DeltaTable(str(folder), version=16).file_uris()  # what came since is still whole
    found = latest(folder, "home/1", since=20)
    assert found is not None
    assert (found.version, found.stamp) == (25, stamp(26))


def test_a_table_for_all_readers_takes_no_lz4(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    adoption.create(folder, SCHEMA, [], stamp(1), {"delta.enableDeletionVectors": "false"})
    common, other = (segment(tmp_path / f"{name}.parquet", 1, 1, compression=name) for name in ("zstd", "lz4"))
    assert adoption.takes_files(folder, 0, SCHEMA, [common])
    assert not adoption.takes_files(folder, 0, SCHEMA, [common, other])


def test_without_hard_links_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def link(*_: object) -> None:
        raise OSError(errno.EXDEV, "other file system")

    monkeypatch.setattr(os, "link", link)
    folder = tmp_path / "t"
    with pytest.raises(adoption.CannotLink):
        adoption.create(folder, SCHEMA, [segment(tmp_path / "1.parquet", 1, 1)], stamp(1), MADE_WITH)
    assert not list(folder.glob("*.parquet"))
    assert not list((folder / "_delta_log").iterdir())
