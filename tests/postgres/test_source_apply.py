"""A file is applied, changed and applied again: what it asks for is there, and nothing else is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.catalog import relations
from penstock.errors import ConfigError

pytestmark = pytest.mark.since(15, "column lists")


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        for name in ("a", "b", "log_1"):
            connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text, secret text)")
            connection.execute(f"INSERT INTO {name} VALUES (1, 'v', 's'), (2, 'w', 't')")
        yield connection


def rows(ps: penstock.Session, table: str) -> tuple[list[str], Counter[Any]]:
    found = ps.engine.reader.rows_arrow(*ps.engine.position(table)[:2])
    return found.column_names, Counter(tuple(row.values()) for row in found.to_pylist())


def tables(ps: penstock.Session) -> dict[str, int]:
    return {one.table: one.id for one in relations.of_source(ps.catalog, "shop")}


def test_a_file_is_applied_changed_and_applied_again(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, tmp_path: Path
) -> None:
    file = tmp_path / "sources.yaml"

    def apply(schemas: str, options: str = "", **given: Any) -> list[str]:
        file.write_text(f"sources:\n  shop:\n    dsn: {source_db}\n{options}    schemas: {{public: {schemas}}}\n")
        return [step for one in ps.apply_sources(file, **given) for step in one.steps]

    first = '{"*": , exclude: [log_*], b: {exclude_columns: [secret]}}'
    assert apply(first, dry_run=True) == ["captured with public.*, !public.log_*, public.b"]
    assert ps.status().sources == ()
    apply(first)
    here = tables(ps)
    assert set(here) == {"public.a", "public.b"}
    assert rows(ps, "b") == (["id", "v"], Counter({(1, "v"): 1, (2, "w"): 1}))
    assert apply(first) == []
    assert tables(ps) == here

    db.execute("INSERT INTO a VALUES (3, 'x', 'y'); INSERT INTO b VALUES (3, 'x', 'y')")
    second = '{"*": , b: {row_filter: "id > 1"}}'
    changed = "    on_schema_change: pause\n"
    assert apply(second, changed, dry_run=True) == apply(second, changed) == [
        "on_schema_change is pause, was the default",
        "public.b is copied again with other rows or columns",
        "public.log_1 is copied",
    ]  # fmt: skip
    assert apply(second, changed) == []
    db.execute("UPDATE b SET v = 'new' WHERE id < 3; DELETE FROM log_1 WHERE id = 1")
    ps.catch_up()
    assert rows(ps, "b") == (["id", "v", "secret"], Counter({(2, "new", "t"): 1, (3, "x", "y"): 1}))
    assert rows(ps, "log_1")[1] == Counter({(2, "w", "t"): 1})
    assert tables(ps)["public.a"] == here["public.a"]
    assert rows(ps, "a")[1] == Counter(db.execute("SELECT * FROM a").fetchall())

    with pytest.raises(ConfigError, match="partitions of source shop cannot be changed"):
        apply("[a]", "    partitions: leaves\n")
    assert set(tables(ps)) == {"public.a", "public.b", "public.log_1"}
    assert apply("[a]") == [
        "on_schema_change is the default, was pause", "public.b is left out", "public.log_1 is left out",
    ]  # fmt: skip
    assert tables(ps) == {"public.a": here["public.a"]}
