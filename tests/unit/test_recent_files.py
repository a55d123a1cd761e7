"""What is kept of small files: only while they are what they were, and only as much as there is room for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.relation.recent_files import RecentFiles


def write(path: Path, rows: int, value: int = 1) -> Path:
    pq.write_table(pa.table({"a": [value] * rows, "b": list(range(rows))}), path)
    return path


def test_columns_come_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    files, path = RecentFiles(), write(tmp_path / "one.parquet", 3)
    for _ in range(2):
        assert files.read(path, ["b", "a"]).column_names == ["b", "a"]
    assert files.read(path, ["b"]).to_pydict() == {"b": [0, 1, 2]}


def test_a_file_that_is_gone_or_another_one_is_noticed(tmp_path: Path) -> None:
    files, path = RecentFiles(), write(tmp_path / "one.parquet", 3)
    assert files.read(path, ["a"])["a"].to_pylist() == [1, 1, 1]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.read(path, ["a"])
    assert files.read(write(path, 4, 7), ["a"])["a"].to_pylist() == [7, 7, 7, 7]


def test_large_files_are_not_kept_and_old_ones_make_room(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.parquet", 100) for number in range(5)]
    rows = pq.read_table(paths[0])
    files = RecentFiles(room=2 * rows.nbytes)
    for path in paths:
        assert files.read(path, ["a", "b"]).num_rows == 100
    assert list(files._kept) == paths[-2:]
    none = RecentFiles(largest=10)
    assert none.small(paths[0], ["a"]) is None
    assert none.read(paths[0], ["a"]).num_rows == 100
    assert not none._kept
