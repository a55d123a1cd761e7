"""Rows that are encoded while more come are in the same files as if they had all been there."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from full_disk import largest_file

from penstock.capture.change_files import ChangeFiles
from penstock.errors import PenstockError, StorageFull
from penstock.relation.home import Home
from penstock.relation.segment import Form


class _NoCopies:
    def folder(self, table: str) -> str:
        return f"tables/{table}"

    def split(self, table: str, rows: pa.Table) -> list[pa.Table]:
        return [rows]


def form_of(table: str, rows: pa.Table) -> Form:
    return "raw" if 13 in rows["id"].to_pylist() else "settled"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path)


@pytest.fixture
def files(home: Home) -> Iterator[ChangeFiles]:
    copies: Any = _NoCopies()
    found = ChangeFiles(home, copies, form_of)
    yield found
    found.close()


def rows(*ids: int, weight: int = 1) -> pa.Table:
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([f"number {one}" for one in ids]),
        "_weight": pa.array([weight] * len(ids), pa.int64()),
        "_lsn": pa.array([10 * one for one in ids], pa.int64()),
    })  # fmt: skip


def written(home: Home, files: ChangeFiles, table: str) -> list[list[int]]:
    return [pq.read_table(home.path(one.path))["id"].to_pylist() for one in files.written[table]]


def test_a_file_that_grew(home: Home, files: ChangeFiles) -> None:
    files.grow(7, ("t", 1), [rows(1, 2), rows(3)])
    files.grow(7, ("t", 1), [rows(4)])
    files.write(7, {("t", 1): [rows(5), rows(6)], ("u", 1): [rows(1)]}, few=False)
    files.grow(7, ("t", 1), [rows(7, 13)])
    files.write(7, {}, few=False)
    files.finish()
    assert written(home, files, "t") == [[1, 2, 3, 4, 5, 6], [7, 13]]
    assert written(home, files, "u") == [[1]]
    assert [(one.rows, one.low, one.high, one.form) for one in files.written["t"]] == [
        (6, 10, 60, "settled"),
        (2, 70, 130, "raw"),
    ]


def test_earlier_shapes_come_first(home: Home, files: ChangeFiles) -> None:
    files.grow(7, ("t", 2), [rows(5)])
    files.write(7, {("t", 1): [rows(1)], ("t", 2): [rows(6)]}, few=True)
    files.finish()
    assert written(home, files, "t") == [[1], [5, 6]]
    assert [one.version for one in files.written["t"]] == [1, 2]


def test_nothing_is_written_before_its_file_ends(home: Home, files: ChangeFiles) -> None:
    files.grow(7, ("t", 1), [rows(1)])
    files.finish()
    assert files.written == {}


def test_an_error_is_not_lost(files: ChangeFiles) -> None:
    def refuse(table: str, rows: pa.Table) -> Form:
        raise PenstockError("no", hint="-")

    files._form_of = refuse
    files.grow(7, ("t", 1), [rows(1)])
    with pytest.raises(PenstockError):
        files.finish()


def test_texts_have_statistics_only_where_a_file_may_become_one_of_a_table(home: Home, files: ChangeFiles) -> None:
    files.grow(7, ("t", 1), [rows(1, 2)])
    files.grow(7, ("u", 1), [rows(1, 2, weight=-1)])
    files.write(7, {}, few=False)
    files.finish()
    told = {table: pq.read_metadata(home.path(files.written[table][0].path)).row_group(0) for table in "tu"}
    assert [told["t"].column(place).statistics.has_min_max for place in range(4)] == [True, True, True, True]
    assert [told["u"].column(place).statistics.has_min_max for place in range(4)] == [True, False, True, True]
    assert files.written["u"][0].ranges == {"id": (1, 2)}


def test_files_of_few_rows_are_there_when_it_is_finished(home: Home, files: ChangeFiles) -> None:
    files.write(7, {("t", 1): [rows(1), rows(2)], ("t", 2): [rows(3)], ("u", 1): [rows(4)]}, few=True)
    files.finish()
    assert written(home, files, "t") == [[1, 2], [3]]
    assert written(home, files, "u") == [[4]]
    assert {one.segment for one in home.owed} == {one for done in files.written.values() for one in done}


def test_no_room(home: Home, files: ChangeFiles) -> None:
    """The error says so, wherever it is met, and nothing holds the room of files that are gone."""
    dice = random.Random(1)
    many = [rows(*(dice.getrandbits(50) for _ in range(150_000))) for _ in range(2)]
    with largest_file(100_000):
        for part in many:
            files.grow(7, ("t", 1), [part])
            files.write(7, {("u", 1): [part]}, few=False)
            with pytest.raises(StorageFull):
                files.finish()
            files._since, files._ended = [], []
        files.grow(7, ("t", 1), [many[0]])
        files.close()
    assert not list(home.changelog().rglob("*.parquet"))
    assert not [one for one in Path("/proc/self/fd").iterdir() if "parquet (deleted)" in _target(one)]


def _target(link: Path) -> str:
    with suppress(FileNotFoundError):  # that of the listing itself
        return os.readlink(link)
    return ""
