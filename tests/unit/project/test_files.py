"""A folder of definitions, and what is said of files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.project.files import read, read_folder


def test_a_header_is_read_up_to_the_first_other_line() -> None:
    found = read(
        "\n-- name: revenue\n-- cron: */5 * * * *\n-- Mode: full\n-- cdc_mode: WAL\n-- publish: 30s\n\n"
        "-- What it is for; note: not a key\nSELECT 'a;b\\' AS x -- last\n;\n",
        "sales/rev.sql",
    )
    assert (found.name, found.place, found.publish) == ("revenue", "sales/rev.sql:9", "30s")
    assert found.settings == {"schedule": "*/5 * * * *", "mode": "FULL", "cdc_mode": "wal"}
    assert found.query == "SELECT 'a;b\\' AS x -- last"


REFUSED = [
    ("-- shedule: 5m\nSELECT 1", "a.sql:1: no key 'shedule'", "Did you mean schedule?"),
    ("-- schedule: 5x\nSELECT 1", "a.sql:1: '5x' is not a schedule", "interval"),
    ("-- mode: AUTO\n-- mode: FULL\nSELECT 1", "a.sql:2: the mode is given twice", "Keep one"),
    ("-- schedule: 5m\n-- cron: @hourly\nSELECT 1", "a.sql:2: the schedule is given twice", "Keep one"),
    ("-- mode: AUTO\n", "a.sql: there is no query", "after the header"),
    ("SELECT 1 AS a;\nSELECT 2", "a.sql: line 2, column 1: a second statement", "one query"),
    ("-- mode: FULL\nSELECT a\nFROM WHERE b", "a.sql: line 3, column 6: syntax error near WHERE", "PostgreSQL"),
    ("DROP TABLE x", "a.sql: line 1, column 1: expected a SELECT", "one query"),
    ("SELECT 'open", "a.sql: line 1, column 8: a text begins here", "Close it"),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED, ids=lambda value: str(value)[:40])
def test_an_error_names_file_and_line(text: str, message: str, hint: str) -> None:
    with pytest.raises(PenstockError) as refused:
        read(text, "a.sql")
    assert message in refused.value.message
    assert hint in str(refused.value.hint)


def test_folders_are_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b.sql", "deep/a.sql", ".git/c.sql", "notes.txt"):
        (tmp_path / name).write_text("SELECT 1 AS x")
    assert [one.name for one in read_folder(tmp_path)] == ["b", "a"]
    (tmp_path / "deep" / "b.sql").write_text("SELECT 1 AS x")
    with pytest.raises(PenstockError, match=r"deep/b\.sql: stream table b is defined in b\.sql too"):
        read_folder(tmp_path)
