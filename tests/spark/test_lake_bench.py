"""`penstock bench lake` runs to its end and leaves nothing; a trial run says nothing about the bars."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.matrix
def test_a_trial_gives_every_figure(tmp_path: Path) -> None:
    """In a process of its own: it starts and stops a Spark of its own."""
    said = subprocess.run(
        [sys.executable, "-c", "from penstock.cli.main import main; main()", "bench", "lake", "--scale", "0.001"],
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert said.returncode in (0, 1), said.stderr
    reading, mirror, verify = "reading 2,000 rows", "mirror of 5,000 rows", "verify of 5,000 rows, published"
    for what in (reading, mirror, "publishing 50 changes", "50 inserts", verify, "5 idle tables"):
        assert what in said.stdout
    assert list(tmp_path.glob("penstock-bench-*")) == []
