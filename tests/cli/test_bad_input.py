"""Whatever goes wrong, the command line says what happened and what to do: right exit code, no traceback."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import psycopg
import pytest

from penstock.cli.main import main
from penstock.embedded import EmbeddedPostgres

PENSTOCK = [sys.executable, "-c", "from penstock.cli.main import main; main()"]


def environment_with(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**clean, "COLUMNS": "200", **more}


def penstock(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the console script does, in this process: a new one would spend its second on imports."""
    stdout, stderr = io.StringIO(), io.StringIO()
    on_terminate = signal.getsignal(signal.SIGTERM)
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, environment_with(**environment), clear=True),
        mock.patch.object(sys, "argv", ["penstock", *arguments]),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            signal.signal(signal.SIGTERM, on_terminate)
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def penstock_process(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [*PENSTOCK, *arguments],
        cwd=cwd,
        env=environment_with(**environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose catalog server stays up between the commands."""
    home = tmp_path_factory.mktemp("cli") / "home"
    made = penstock_process("init", "--home", str(home), cwd=home.parent)
    assert made.returncode == 0, made.stderr
    server = EmbeddedPostgres(home / "catalog")
    yield home
    server.stop()


WITHOUT_A_HOME = [
    (["status"], "there is no penstock home at data", "penstock init"),
    (["sql", "SELECT 1"], "there is no penstock home at data", "--home"),
    (["run", "--home", "elsewhere"], "there is no penstock home at elsewhere", "penstock init"),
    (["plan"], "there is no penstock home at data", "penstock init"),
    (["slots", "recreate", "shop"], "there is no penstock home at data", "penstock init"),
    (["status", "--catalog", "host=/nowhere dbname=x", "--home", "."], "the catalog cannot be opened", "catalog DSN"),
    (["bench", "nonsense"], "no benchmark 'nonsense'", "Choose from"),
    (["demo", "--home", "/etc"], "/etc holds something other than a demo", "--home"),
]


@pytest.mark.parametrize(("arguments", "message", "hint"), WITHOUT_A_HOME, ids=lambda value: str(value)[:40])
def test_an_error_has_a_message_and_a_hint(tmp_path: Path, arguments: list[str], message: str, hint: str) -> None:
    said = penstock(*arguments, cwd=tmp_path)

    assert said.returncode == 1
    assert_two_lines(said.stderr, message, hint)


IN_A_HOME = [
    (["plan", "nowhere"], "there is no folder nowhere", ".sql files"),
    (["apply", "home"], "home has no .sql files", "one for each stream table"),
    (["source", "remove", "shop", "--yes"], "no source 'shop'", "penstock source add"),
    (["source", "add", "shop", "host=/nowhere dbname=x"], "", ""),
    (["source", "add", "shop", "nonsense"], "", ""),
    (["explain", "revenue"], "no table or stream table 'revenue'", "Known"),
    (["refresh", "revenue", "--no-capture"], "no stream table 'revenue'", "Known"),
    (["sql", "SELECT 1", "--at", "yesterday"], "neither a frontier, an LSN nor a time", "Write"),
    (["publish", "orders"], "no table or stream table 'orders'", "Known relations"),
    (["sql", "SELECT * FROM orders"], "no table or stream table 'orders'", "Known relations"),
    (["sql", "CREATE STREAM TABLE v MODE IMMEDIATE AS SELECT 1 AS a"], "mode IMMEDIATE is not available yet", "AUTO"),
    (["sql", "CREATE STREAM TABLE v\n SELECT 1"], "line 2, column 2: expected AS, SCHEDULE", "Write it as"),
    (["sql", "CREATE SOURCE s WITH (database = 'x', slot.nam = 'y')"], "no such source option: slot.nam", "slot.name"),
    (["sql", "--file", "nowhere.sql"], "nowhere.sql cannot be read", "path"),
    (["sql", "SELECT FROM WHERE"], "this is not spark SQL", "Check"),
]


@pytest.mark.parametrize(("arguments", "message", "hint"), IN_A_HOME, ids=lambda value: str(value)[:40])
def test_an_error_in_a_home_has_a_message_and_a_hint(home: Path, arguments: list[str], message: str, hint: str) -> None:
    said = penstock(*arguments, cwd=home.parent, PENSTOCK_HOME=str(home))

    assert said.returncode == 1
    assert_two_lines(said.stderr, message, hint)


def assert_two_lines(stderr: str, message: str, hint: str) -> None:
    lines = stderr.splitlines()
    assert len(lines) == 2, stderr
    assert lines[0].startswith("Error: ")
    assert message in lines[0]
    assert lines[1].startswith("Hint: ")
    assert hint in lines[1]


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["source", "add"], ["status", "--nonsense"], ["demo", "--seconds", "soon"], ["sql"]],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_points_to_help(tmp_path: Path, arguments: list[str]) -> None:
    said = penstock(*arguments, cwd=tmp_path)

    assert said.returncode == 2
    assert "--help" in said.stderr or " -h" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_process_exits_with_the_code_and_says_nothing_else(home: Path) -> None:
    said = penstock_process("explain", "revenue", cwd=home.parent, PENSTOCK_HOME=str(home))

    assert (said.returncode, said.stdout) == (1, "")
    assert_two_lines(said.stderr, "no table or stream table 'revenue'", "Known")


def test_debug_shows_the_stack_trace(tmp_path: Path) -> None:
    assert "Traceback" in penstock_process("plan", cwd=tmp_path, PENSTOCK_DEBUG="1").stderr


def test_a_new_home_is_empty_and_says_what_to_do(home: Path) -> None:
    said = penstock("status", "--home", str(home), cwd=home.parent)

    assert said.returncode == 0, said.stderr
    assert "penstock source add" in said.stdout


@pytest.mark.parametrize("command", ["", "demo", "init", "source add", "run", "status", "sql", "refresh", "publish"])
def test_help_is_there(tmp_path: Path, command: str) -> None:
    said = penstock(*command.split(), "--help", cwd=tmp_path)

    assert said.returncode == 0
    assert "Usage:" in said.stdout


def test_help_is_quick(tmp_path: Path) -> None:
    started = time.monotonic()
    said = penstock_process("--help", cwd=tmp_path)

    assert said.returncode == 0
    assert time.monotonic() - started < 5  # 0.3 s alone; the bound only catches an import of Spark on a busy machine


def test_the_start_of_the_command_line_imports_neither_spark_nor_arrow(tmp_path: Path) -> None:
    code = (
        "import sys, penstock.cli.main;"
        "print([name for name in ('pyspark', 'pyarrow', 'numba', 'sqlglot', 'psycopg') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert said.stdout.strip() == "[]"


def test_ctrl_c_ends_with_130_and_no_traceback(source_server: EmbeddedPostgres, home: Path) -> None:
    running = subprocess.Popen(
        [*PENSTOCK, "run", "--home", str(home)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert "Ctrl-C" in running.stdout.readline()
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=30)

    assert running.returncode == 130
    assert stderr == ""


class TestDoctor:
    def test_a_ready_database_passes(self, source_db: str, tmp_path: Path) -> None:
        with psycopg.connect(source_db) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        said = penstock("doctor", source_db, cwd=tmp_path)

        assert said.returncode == 0, said.stdout
        assert "✓ tables: can all be captured" in said.stdout

    def test_a_table_that_must_not_be_captured_is_named(self, source_db: str, tmp_path: Path) -> None:
        with psycopg.connect(source_db) as connection:
            connection.execute("CREATE TABLE keyless (id int)")
        said = penstock("doctor", source_db, cwd=tmp_path)

        assert said.returncode == 1
        assert "public.keyless" in said.stdout

    def test_a_database_without_logical_replication_fails_with_a_hint(self, home: Path, tmp_path: Path) -> None:
        server = EmbeddedPostgres(home / "catalog")  # a catalog's server has PostgreSQL's default, replica
        try:
            said = penstock("doctor", server.dsn, cwd=tmp_path)
        finally:
            server.stop()

        assert said.returncode == 1
        assert "wal_level = 'logical'" in said.stdout

    def test_an_unreachable_database_fails_without_a_traceback(self, tmp_path: Path) -> None:
        said = penstock("doctor", "host=/nowhere dbname=x password=hush", cwd=tmp_path)

        assert said.returncode == 1
        assert "Hint" in said.stdout
        assert "hush" not in said.stdout + said.stderr
