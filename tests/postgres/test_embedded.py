"""A server in a folder ends with its last living user, and leaves nothing behind for the process's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock.embedded import EmbeddedPostgres

_HOLD = "import sys; from penstock.embedded import EmbeddedPostgres as E; E(sys.argv[1]); print(flush=True); input()"
_USE_AND_REMOVE = """
import shutil, sys; from penstock.embedded import EmbeddedPostgres as E
E(sys.argv[1] + "/pg").stop(); shutil.rmtree(sys.argv[1])
"""


def test_a_killed_user_does_not_keep_it_running(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "pg")
    dsn = server.dsn
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path / "pg")], **pipes) as other:  # type: ignore[call-overload]
        other.stdout.readline()
        os.kill(other.pid, signal.SIGKILL)
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)


def test_a_removed_folder_stays_removed(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", _USE_AND_REMOVE, str(folder)], check=True)
    assert not folder.exists()
