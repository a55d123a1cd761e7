"""What is kept of the columns that look-ups read: only while the file is what it was, and what saves the most time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.lake.hot_columns import HotColumns

VALUES = pa.chunked_array([pa.array(range(100), pa.int64())])  # 800 bytes


class Columns:
    """Columns of a file, and which of them were read from it; reading one takes as many seconds as its name says."""

    def __init__(self, file: Path, room: int) -> None:
        self.file, self.read, self._now = file, list[str](), 0.0
        self.hot = HotColumns(room, clock=lambda: self._now)
        file.write_text("one")

    def ask(self, name: str) -> None:
        def read() -> pa.ChunkedArray:
            self.read.append(name)
            self._now += float(name)
            return VALUES

        assert self.hot.column((str(self.file), 0, name), read).equals(VALUES)

    def asked(self, *names: str) -> list[str]:
        """Those of the names that had to be read."""
        self.read.clear()
        for name in names:
            self.ask(name)
        return list(self.read)


def test_what_was_read_is_kept(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=800)
    assert columns.asked("1", "1") == ["1"]
    assert columns.hot.bytes == 800


def test_what_takes_longest_to_read_stays(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=1600)
    columns.asked("5", "3", "1")
    assert columns.asked("5", "3", "1") == ["1"]
    assert columns.hot.bytes == 1600


def test_what_is_asked_for_more_often_stays(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=800)
    columns.asked("2", "2", "2", "3")
    assert columns.asked("2") == []


def test_what_is_not_asked_for_any_more_goes_in_the_end(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=800)
    columns.asked("9", "9")
    columns.asked(*["2"] * 12)
    assert columns.asked("2") == []


def test_another_file_under_the_same_name_is_noticed(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=800)
    columns.asked("1")
    columns.file.unlink()
    with pytest.raises(FileNotFoundError):
        columns.ask("1")
    columns.file.with_suffix(".new").write_text("two")
    columns.file.with_suffix(".new").rename(columns.file)
    assert columns.asked("1", "1") == ["1"]
    assert columns.hot.bytes == 800


def test_less_room(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=1600)
    columns.asked("1", "2")
    columns.hot.limit(800)
    assert columns.asked("2", "1") == ["1"]
    columns.hot.limit(0)
    assert columns.hot.bytes == 0
    assert columns.asked("2", "2") == ["2", "2"]


def test_any_number_of_threads(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "file", room=2400)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(columns.ask, [str(number % 5) for number in range(2000)]))
    assert columns.hot.bytes == 2400
