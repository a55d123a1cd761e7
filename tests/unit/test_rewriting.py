"""A small Delta table is written anew by one file and one commit, which other engines read; what that cannot do is left
to Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from penstock.errors import PublishError
from penstock.lake import adoption, rewriting
from penstock.lake.delta_log import Stamp, latest
from penstock.relation.schema import Column, Schema
from penstock.relation.types import PgType

INT, TEXT = PgType(20, -1, "bigint"), PgType(25, -1, "text")
SCHEMA = Schema((Column.of("id", INT), Column.of("name", TEXT)), ("id",))


def stamp(position: int) -> Stamp:
    return Stamp("shop.public.t", "home/1", position, '{"shop": "0/1"}')


def rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": one, "name": f"n{one}" if one % 2 else None} for one in ids], SCHEMA.arrow())


def read(folder: Path, version: int | None = None) -> Counter[Any]:
    table = DeltaTable(str(folder), version=version)
    found = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    return Counter((row["id"], row["name"]) for row in found.to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    adoption.create(tmp_path / "t", SCHEMA, [], stamp(1), {"delta.enableDeletionVectors": "true"})
    return tmp_path / "t"


def test_a_version_has_its_own_rows_and_no_others(folder: Path) -> None:
    for version, ids in enumerate([(1, 2, 3), (2, 2, 7), (), (9,)]):
        assert rewriting.rewrite(folder, version, SCHEMA, rows(*ids), stamp(version + 2))
    assert [read(folder, version) for version in (1, 2, 4)] == [
        Counter([(1, "n1"), (2, None), (3, "n3")]), Counter([(2, None), (2, None), (7, "n7")]), Counter([(9, "n9")]),
    ]  # fmt: skip
    assert DeltaTable(str(folder), version=3).file_uris() == []
    found = latest(folder, "home/1", since=-1)
    assert found is not None
    assert (found.version, found.stamp) == (4, stamp(5))
    last = DeltaTable(str(folder)).history(1)[0]
    assert (last["operation"], last["operationParameters"]["mode"]) == ("WRITE", "Overwrite")


def test_files_that_are_no_more_are_told_to_vacuum(folder: Path) -> None:
    rewriting.rewrite(folder, 0, SCHEMA, rows(1), stamp(2))
    (old,) = folder.glob("*.parquet")
    rewriting.rewrite(folder, 1, SCHEMA, rows(2), stamp(3))
    assert DeltaTable(str(folder)).vacuum(0, dry_run=False, enforce_retention_duration=False) == [old.name]
    assert read(folder) == Counter([(2, None)])


def test_a_version_that_another_made_is_not_made_again_and_leaves_no_file(folder: Path) -> None:
    rewriting.rewrite(folder, 0, SCHEMA, rows(1), stamp(2))
    with pytest.raises(PublishError, match=r"version 1 .* was made meanwhile"):
        rewriting.rewrite(folder, 0, SCHEMA, rows(2), stamp(3))
    assert len(list(folder.glob("*.parquet"))) == 1
    assert read(folder) == Counter([(1, "n1")])


def test_other_tables_are_left_to_spark(folder: Path, tmp_path: Path) -> None:
    assert not rewriting.rewrite(folder, 0, Schema(SCHEMA.columns[:1], ("id",)), rows(1).select(["id"]), stamp(2))
    append_only = tmp_path / "append only"
    adoption.create(append_only, SCHEMA, [], stamp(1), {"delta.appendOnly": "true"})
    assert not rewriting.rewrite(append_only, 0, SCHEMA, rows(1), stamp(2))
    spelled = tmp_path / "spelled"
    write_deltalake(spelled, rows(1).append_column("of", pa.array(["a b"])), partition_by=["of"])
    shape = Schema((*SCHEMA.columns, Column.of("of", TEXT)), ("id",))
    assert not rewriting.rewrite(spelled, 0, shape, rows(1).append_column("of", pa.array(["c"])), stamp(2))
    assert DeltaTable(str(spelled)).version() == 0
