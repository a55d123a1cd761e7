"""A folder planned and applied: what it says is what is there, also after an interruption. No Spark is needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.failpoint import FailpointReached, arm


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str, source_db: str) -> Iterator[penstock.Session]:
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 1), (2, 2)")
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as session:
        session.add_source("shop", source_db, tables=["t"])
        yield session


def write(folder: Path, **files: str | None) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / f"{name}.sql"
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
    return folder


def applied(ps: penstock.Session, folder: Path, **options: Any) -> list[str]:
    plan = ps.plan(folder, **options)
    done: list[str] = []
    ps.apply(plan, progress=lambda step: done.append(f"{step.kind} {step.name}"))
    assert ps.plan(folder, **options).nothing
    return done


def test_a_folder_is_what_is_there(ps: penstock.Session, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "views",
        sums="-- schedule: 5m\n-- publish: manual\nSELECT v, count(*) AS n FROM t GROUP BY v",
        top="SELECT max(n) AS n FROM sums",
        all_of="SELECT id, v FROM t",
    )
    plan = ps.plan(folder)
    assert [str(step.cost) for step in plan.work if step.name == "sums"] == ["reads 2 rows of 1 input"]
    assert sorted(applied(ps, folder)) == ["create all_of", "create sums", "create top"]
    ps.create_stream_table("by_hand", "SELECT v FROM all_of")
    tables = {one.name: one for one in ps.monitor.stream_tables()}
    assert (tables["sums"].schedule, tables["top"].mode) == ("5m", "AUTO")

    write(folder, sums="-- schedule: 1m\nSELECT v,\n  count(*) AS n -- another spelling\nFROM t GROUP BY v")
    (step,) = ps.plan(folder).work
    assert (str(step.kind), step.reason) == ("alter", "schedule is 1m, was 5m")
    assert applied(ps, folder) == ["alter sums"]

    write(folder, all_of="SELECT id, v FROM t WHERE id > 1")
    assert applied(ps, folder) == ["reinitialize all_of"]
    write(folder, all_of="SELECT id FROM t")
    with pytest.raises(ConfigError, match=r"all_of\.sql:1: .* gets other columns \(v gone\), and by_hand"):
        ps.plan(folder)
    write(folder, all_of="SELECT id, v FROM t WHERE id > 1", top="SELECT sum(m) AS n FROM sums",
          sums="SELECT v, count(*) AS m FROM t GROUP BY v")  # fmt: skip
    assert applied(ps, folder) == ["drop top", "rebuild sums", "create top"]

    write(folder, top=None)
    assert [str(step.kind) for step in ps.plan(folder).steps] == ["keep", "keep", "leave"]
    assert applied(ps, folder, drop=True) == ["drop top"]
    assert {one.name for one in ps.monitor.stream_tables()} == {"sums", "all_of", "by_hand"}


def test_an_interrupted_apply_goes_on(ps: penstock.Session, tmp_path: Path) -> None:
    folder = write(tmp_path / "views", a="SELECT id, v FROM t", b="SELECT v FROM a", c="SELECT v FROM b")
    with arm("project.after_step"), pytest.raises(FailpointReached):
        ps.apply(ps.plan(folder))
    assert [one.name for one in ps.monitor.stream_tables()] == ["a"]
    assert applied(ps, folder) == ["create b", "create c"]
    write(folder, a="SELECT id, v, v AS w FROM t", b="SELECT w FROM a", c="SELECT w FROM b")
    with arm("project.after_step"), pytest.raises(FailpointReached):
        ps.apply(ps.plan(folder))
    assert [one.name for one in ps.monitor.stream_tables()] == ["a", "b"]
    assert applied(ps, folder) == ["drop b", "rebuild a", "create b", "create c"]


WRONG = [
    ({"a": "SELECT nothing FROM t"}, r"a\.sql:1: .*nothing"),
    ({"a": "-- mode: FULL\n\nSELECT id FROM missing"}, r"a\.sql:3: no table or stream table 'missing'"),
    ({"a": "SELECT v FROM b", "b": "SELECT v FROM a"}, "in a circle: a → b → a"),
    ({"t": "SELECT id FROM t"}, r"t\.sql:1: stream table t reads itself"),
    ({"A": "SELECT id FROM t"}, r"A\.sql: 'A' cannot be a stream table's name"),
    ({"a": "-- mode: IMMEDIATE\nSELECT id FROM t"}, r"a\.sql: mode IMMEDIATE is not available yet"),
    ({"a": "SELECT id AS k FROM t", "b": "SELECT id FROM a"}, r"b\.sql:1: .*id"),
]


def test_a_wrong_folder_changes_nothing(ps: penstock.Session, tmp_path: Path) -> None:
    for number, (files, message) in enumerate(WRONG):
        folder = write(tmp_path / f"views{number}", fine="SELECT id FROM public.t", **files)
        with pytest.raises(PenstockError, match=message):
            ps.plan(folder)
    assert ps.monitor.stream_tables() == []


def test_a_table_of_another_project_is_not_taken(ps: penstock.Session, tmp_path: Path) -> None:
    applied(ps, write(tmp_path / "one", a="SELECT id FROM t"))
    other = write(tmp_path / "two", a="SELECT v FROM t")
    with pytest.raises(ConfigError, match=r"a\.sql: stream table a belongs to project one"):
        ps.plan(other)
    assert [step.name for step in ps.plan(other, project="one").work] == ["a"]
    assert dataclasses.is_dataclass(ps.plan(other, project="one"))
