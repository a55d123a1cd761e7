"""A publication that gave less for a while has missed changes: that is said, also once it is as it was again."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from servers import server_version

import penstock
from penstock.capture import PostgresSource
from penstock.capture.checkpoint import Checkpoint
from penstock.catalog import relations, sources
from penstock.errors import PublicationLost

WHOLE = "insert, update, delete" + ", truncate" * (server_version() >= 11)
PLAIN = "CREATE TABLE t (id int PRIMARY KEY, v int)"
LISTED = "CREATE PUBLICATION given FOR TABLE t"
of_roots = pytest.mark.since(13, "partitions under the name of their root")
of_schemas = pytest.mark.since(15, "publications of a schema")

# The table, its publication, what is done to that, the change that is missed, and what puts it back.
ALTERED = [
    pytest.param(
        PLAIN, LISTED, "ALTER PUBLICATION given SET (publish = 'insert')", "UPDATE t SET v = 9",
        f"ALTER PUBLICATION given SET (publish = '{WHOLE}')", id="operations",
    ),
    pytest.param(
        PLAIN, LISTED, "ALTER PUBLICATION given DROP TABLE t", "UPDATE t SET v = 9",
        "ALTER PUBLICATION given ADD TABLE t", id="table dropped",
    ),
    pytest.param(
        PLAIN, LISTED, "ALTER PUBLICATION given RENAME TO other", "UPDATE t SET v = 9",
        "ALTER PUBLICATION other RENAME TO given", id="renamed",
    ),
    pytest.param(
        PLAIN + " PARTITION BY LIST (id); CREATE TABLE t1 PARTITION OF t DEFAULT",
        f"{LISTED} WITH (publish_via_partition_root = true)",
        "ALTER PUBLICATION given SET (publish_via_partition_root = false)", "UPDATE t SET v = 9",
        "ALTER PUBLICATION given SET (publish_via_partition_root = true)", id="not by its root", marks=of_roots,
    ),
    pytest.param(
        PLAIN, "CREATE PUBLICATION given FOR TABLES IN SCHEMA public",
        "ALTER PUBLICATION given DROP TABLES IN SCHEMA public", "UPDATE t SET v = 9",
        "ALTER PUBLICATION given ADD TABLES IN SCHEMA public", id="schema dropped", marks=of_schemas,
    ),
    pytest.param(
        PLAIN, LISTED, "ALTER PUBLICATION given SET TABLE t WHERE (id > 100)", "UPDATE t SET v = 9",
        "ALTER PUBLICATION given SET TABLE t", id="filtered", marks=of_schemas,
    ),
]  # fmt: skip
altered = pytest.mark.parametrize(("table", "publication", "change", "missed", "back"), ALTERED)


def run(db: Any, script: str) -> None:
    for statement in script.split("; "):
        db.execute(statement)


def opened(db: Any, make_source: Any, drain: Any, table: str, publication: str) -> PostgresSource:
    """A source of a table in a given publication, its copy read."""
    run(db, f"{table}; INSERT INTO t VALUES (1, 1)")
    run(db, publication)
    source: PostgresSource = make_source("t", publication_name="given")
    source.open()
    drain(source)
    return source


def poll_for(source: PostgresSource, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        source.poll(timeout=0.05)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publication is looked at often."""
    monkeypatch.setattr("penstock.capture.vitals._LOOK_EVERY", 0.1)


@altered
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.usefixtures("looking")
def test_an_alteration_stops_a_running_source_and_stays_known(
    db: Any, make_source: Any, drain: Any, table: str, publication: str, change: str, missed: str, back: str,
    restored: bool,
) -> None:  # fmt: skip
    source = opened(db, make_source, drain, table, publication)
    state = source.checkpoint()
    run(db, f"{change}; {missed}")
    if restored:
        run(db, back)
    with pytest.raises(PublicationLost) as lost:
        poll_for(source, 5)
    assert "copied again" in (lost.value.hint or "")
    source.close()
    if not restored:
        run(db, back)
    source.restore(state)
    with pytest.raises(PublicationLost, match="given"):
        source.open()


@altered
@pytest.mark.parametrize("restored", [False, True])
def test_an_alteration_while_closed_is_told_at_the_next_open(
    db: Any, make_source: Any, drain: Any, table: str, publication: str, change: str, missed: str, back: str,
    restored: bool,
) -> None:  # fmt: skip
    """No hint leads to a source that goes on without what was missed."""
    source = opened(db, make_source, drain, table, publication)
    state = Checkpoint.from_json(source.checkpoint().to_json())
    source.acknowledge(state)
    source.close()
    run(db, f"{change}; {missed}" + f"; {back}" * restored)
    source.restore(state)
    for repeated in range(2):
        with pytest.raises(PublicationLost) as lost:
            source.open()
        assert "copied again" in (lost.value.hint or "")
        if not (restored or repeated):
            run(db, back)


@pytest.mark.since(15, "publications of a schema")
@pytest.mark.usefixtures("looking")
def test_a_table_that_leaves_the_schema_of_its_publication_is_lost(db: Any, make_source: Any, drain: Any) -> None:
    run(db, f"{PLAIN}; CREATE SCHEMA z; CREATE PUBLICATION given FOR TABLES IN SCHEMA public")
    source = make_source("t", publication_name="given")
    source.open()
    drain(source)
    run(db, "ALTER TABLE t SET SCHEMA z; INSERT INTO z.t VALUES (1, 1)")
    with pytest.raises(PublicationLost, match=r"lost public\.t"):
        poll_for(source, 5)


@pytest.mark.since(13, "partitions under the name of their root")
@pytest.mark.usefixtures("looking")
def test_a_partition_whose_root_is_published_comes_under_another_name(db: Any, make_source: Any, drain: Any) -> None:
    run(db, f"{PLAIN} PARTITION BY LIST (id); CREATE TABLE t1 PARTITION OF t DEFAULT")
    db.execute("CREATE PUBLICATION given FOR TABLE t1 WITH (publish_via_partition_root = true)")
    source = make_source("t1", publication_name="given", partitions="leaves")
    source.open()
    drain(source)
    run(db, "ALTER PUBLICATION given ADD TABLE t; INSERT INTO t VALUES (1, 1)")
    with pytest.raises(PublicationLost, match=r"lost public\.t1"):
        poll_for(source, 5)


@pytest.mark.usefixtures("looking")
def test_what_loses_nothing_passes(db: Any, make_source: Any, drain: Any) -> None:
    """Other tables come and go, the table is renamed, catalogs are rewritten."""
    run(db, f"{PLAIN}; CREATE TABLE other (id int PRIMARY KEY); {LISTED}")
    source = make_source("t", publication_name="given")
    source.open()
    received = drain(source)
    run(
        db,
        "ALTER PUBLICATION given ADD TABLE other; ALTER PUBLICATION given DROP TABLE other; "
        "COMMENT ON PUBLICATION given IS 'mine'; VACUUM FREEZE pg_publication; VACUUM FULL pg_publication; "
        "VACUUM FULL pg_publication_rel; ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (1, 1)",
    )
    poll_for(source, 0.5)
    drain(source, received)
    state, schemas = source.checkpoint(), source.tables
    source.acknowledge(state)
    source.close()
    again = make_source("u", publication_name="given", schemas=schemas)
    again.restore(state)
    again.open()
    run(db, "INSERT INTO u VALUES (2, 2)")
    assert [row["id"] for row in drain(again).rows("public.u")] == [2]


def test_a_checkpoint_that_does_not_know_the_entries_takes_them_as_they_are(
    db: Any, make_source: Any, drain: Any
) -> None:
    run(db, f"{PLAIN}; {LISTED}")
    source = make_source("t", publication_name="given")
    source.open()
    drain(source)
    written = json.loads(source.checkpoint().to_json())
    source.acknowledge(source.checkpoint())
    source.close()
    old = Checkpoint.from_json(
        json.dumps({k: written[k] for k in written if k not in ("publication_version", "entries")})
    )
    assert (old.publication, old.publication_version, old.entries) == (written["publication"], "", {})
    source.restore(old)
    source.open()
    assert source.checkpoint().entries
    db.execute("INSERT INTO t VALUES (1, 1)")
    assert len(drain(source).rows("public.t")) == 1


@pytest.mark.since(11, "a source needs no option about TRUNCATE")
def test_a_home_goes_on_once_the_table_was_copied_again(
    db: Any, source_db: str, tmp_path: Any, catalog_db: str
) -> None:
    run(db, f"{PLAIN}; INSERT INTO t VALUES (1, 1); CREATE TABLE other (id int PRIMARY KEY)")

    def rows(ps: penstock.Session, name: str) -> list[tuple[Any, ...]]:
        found = ps.engine.reader.rows_arrow(relations.find(ps.catalog, name), ps.frontier()["shop"])
        return sorted(tuple(row.values()) for row in found.to_pylist())

    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as ps:
        ps.add_source("shop", source_db, tables=["t", "other"])
        ps.engine.captures.close()
        publication = sources.get(ps.catalog, "shop").publication
        run(db, f"ALTER PUBLICATION {publication} DROP TABLE t; UPDATE t SET v = 9; INSERT INTO other VALUES (1)")
        run(db, f"ALTER PUBLICATION {publication} ADD TABLE ONLY t")
        with pytest.raises(PublicationLost, match=r"lost public\.t") as lost:
            ps.engine.captures.catch_up("shop")
        assert "resync" in (lost.value.hint or "")
        ps.resync("shop", "t")
        run(db, "INSERT INTO t VALUES (2, 2); INSERT INTO other VALUES (2)")
        ps.engine.captures.catch_up("shop")
        ps.engine.captures.close()
        ps.engine.captures.catch_up("shop")
        for name in ("t", "other"):
            assert rows(ps, name) == db.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()


@pytest.mark.since(11, "a source needs no option about TRUNCATE")
def test_a_table_that_a_home_left_out_and_took_in_again_begins_anew(
    db: Any, source_db: str, tmp_path: Any, catalog_db: str
) -> None:
    run(db, f"{PLAIN}; CREATE TABLE other (id int PRIMARY KEY)")
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as ps:
        for tables in (["t", "other"], ["other"], ["t", "other"]):
            ps.add_source("shop", source_db, tables=tables, sync_modes={"public.t": "stream-only"})
        db.execute("INSERT INTO t VALUES (3, 3)")
        ps.engine.captures.catch_up("shop")
        found = ps.engine.reader.rows_arrow(relations.find(ps.catalog, "t"), ps.frontier()["shop"])
        assert [row["id"] for row in found.to_pylist()] == [3]
