"""The commands of a source say what they do, do it once, and show what happened."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli.main import app
from penstock.errors import SchemaChanged

pytestmark = pytest.mark.since(11, "TRUNCATE in the stream")


def test_apply_pause_resume_events_and_resync(tmp_path: Path, catalog_db: str, source_db: str) -> None:
    where = ["--home", str(tmp_path / "home"), "--catalog", catalog_db]
    file = tmp_path / "sources.yaml"
    file.write_text(
        f"sources:\n  shop:\n    dsn: {source_db}\n    on_schema_change: pause\n    schemas: {{public: [t, other]}}\n"
    )

    def ran(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*arguments, *where])
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO other VALUES (1)")
        ran("source", "apply", str(file), "--dry-run", code=1)  # there is no home yet, and none is made to look
        assert not (tmp_path / "home").exists()
        assert ran("source", "apply", str(file)).endswith("Applied.")
        assert ran("source", "apply", str(file)) == "shop: unchanged"
        file.write_text(file.read_text().replace("[t, other]", "[t]"))
        assert "public.other is left out" in ran("source", "apply", str(file), "--dry-run")
        file.write_text(file.read_text().replace("[t]", "[t, other]"))
        assert ran("source", "apply", str(file)) == "shop: unchanged"

        db.execute(
            "ALTER TABLE t ADD w text DEFAULT 'w'; INSERT INTO t VALUES (3, 3, 'new'); INSERT INTO other VALUES (2)"
        )
        with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as ps, pytest.raises(SchemaChanged):
            ps.catch_up()
        (paused,) = json.loads(ran("source", "events", "shop", "--json"))
        assert (paused["table"], paused["kind"], paused["alert"]) == ("public.t", "paused", "!")
        assert "paused" in ran("source", "events", "shop")
        assert "shop is captured up to" in ran("source", "resume", "shop")
        assert json.loads(ran("source", "events", "shop", "--json"))[0]["kind"] != "paused"
        assert "public.t of source shop is copied" in ran("source", "resync", "shop", "public.t")
        assert "All 2 relations equal the source" in ran("verify")
        for command in ("resume", "events"):
            ran("source", command, "nobody", code=1)
