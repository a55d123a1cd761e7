"""Log lines reach whoever reads them, in either form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, os, sys
from penstock.telemetry import log_to_stderr
log_to_stderr("json")
log = logging.getLogger("penstock.run")
other = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
before = os.dup(2)
os.dup2(other, 2)  # as while Spark starts
log.info("%s: done", "v", extra={"stream_table": "v", "round": 7})
os.dup2(before, 2)
log.error("last")
"""


def test_lines_are_written_while_spark_has_the_error_output(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "spark.log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    first, last = (json.loads(line) for line in done.stderr.splitlines())
    assert (first["message"], first["stream_table"], first["round"], first["level"]) == ("v: done", "v", 7, "INFO")
    assert (last["message"], last["level"]) == ("last", "ERROR")
    assert (tmp_path / "spark.log").read_text() == ""
