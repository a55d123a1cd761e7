"""The demo's folder is its own: fresh at each run, and nobody's data is ever removed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.demo.home import fresh
from penstock.errors import Busy, ConfigError


def test_a_second_run_starts_afresh(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with fresh(folder) as replaced:
        assert not replaced
        (folder / "tables").mkdir()
        (folder / "tables" / "old.parquet").touch()

    with fresh(folder) as replaced:
        assert replaced
        assert not (folder / "tables").exists()


def test_a_folder_with_other_things_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ConfigError, match="other than a demo"), fresh(tmp_path):
        pass

    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").touch()

    with pytest.raises(ConfigError), fresh(tmp_path / "demo"):
        pass


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    with fresh(tmp_path), pytest.raises(Busy, match="another demo"), fresh(tmp_path):
        pass
