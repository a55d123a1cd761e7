"""Whatever stands in the way is said before anything is made, and a failed open leaves nothing on the source."""

from __future__ import annotations

import re
from collections import Counter

import psycopg
import pytest

from penstock import failpoint
from penstock.capture import Checkpoint, PostgresSource, SourceConfig, check, inspect, remove
from penstock.capture.slot import create_slot
from penstock.errors import (
    AccessRefused,
    AlreadyExists,
    ConfigError,
    MissingPrivilege,
    NoSlotLeft,
    NotFound,
    NotYet,
    SchemaChanged,
    SlotLost,
    SourceError,
    SourceUnreachable,
    UnsafeTable,
)
from penstock.lsn import Lsn


def left_behind(db) -> tuple[int, int]:
    name = db.info.dbname
    slots = db.execute("SELECT count(*) FROM pg_replication_slots WHERE database = %s", [name]).fetchone()
    return slots[0], db.execute("SELECT count(*) FROM pg_publication").fetchone()[0]


@pytest.mark.parametrize(
    ("ddl", "kind", "hint"),
    [
        ("CREATE TABLE t (a int)", UnsafeTable, "ALTER TABLE public.t REPLICA IDENTITY FULL"),
        ("CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING", UnsafeTable, "DEFAULT"),
        ("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)", UnsafeTable, "NOT DEFERRABLE"),
        (
            "CREATE TABLE t (a int PRIMARY KEY); "
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_pkey'::regclass",
            UnsafeTable,
            "REINDEX",
        ),
        (
            "CREATE TABLE t (a int NOT NULL); CREATE UNIQUE INDEX i ON t (a); "
            "ALTER TABLE t REPLICA IDENTITY USING INDEX i; DROP INDEX i",
            UnsafeTable,
            "USING INDEX",
        ),
        ("CREATE UNLOGGED TABLE t (a int PRIMARY KEY)", UnsafeTable, "SET LOGGED"),
        ("CREATE VIEW t AS SELECT 1 AS a", NotYet, "plain tables"),
        pytest.param(
            "CREATE TABLE t (a int) PARTITION BY LIST (a)",
            UnsafeTable,
            "Add a primary key",
            marks=pytest.mark.since(13, "a partitioned table is published as one"),
        ),
        pytest.param(
            "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY LIST (a); "
            "CREATE UNLOGGED TABLE t1 PARTITION OF t FOR VALUES IN (1)",
            UnsafeTable,
            "ALTER TABLE public.t1 SET LOGGED",
            marks=pytest.mark.since(13, "a partitioned table is published as one"),
        ),
        ("CREATE TABLE t (a int PRIMARY KEY, _lsn int)", SourceError, "Rename"),
        pytest.param(
            "CREATE TABLE t (a int PRIMARY KEY, g int GENERATED ALWAYS AS (a + 1) VIRTUAL)",
            NotYet,
            "leave_out",
            marks=pytest.mark.since(18, "virtual generated columns"),
        ),
        ("CREATE TABLE t ()", NotYet, "Leave"),
        ("CREATE TABLE tt (a int PRIMARY KEY)", NotFound, "public.tt"),
    ],
)
def test_tables_that_cannot_be_captured(db, make_source, source_db, ddl, kind, hint):
    db.execute(ddl)
    source = make_source("t")
    with pytest.raises(kind) as refused:
        source.open()
    assert hint in refused.value.hint
    with pytest.raises(kind):
        inspect(source_db, ["t"])
    assert left_behind(db) == (0, 0)
    assert source.phase == "closed"


def test_all_tables_that_cannot_be_captured_are_named_at_once(db, make_source):
    db.execute("CREATE TABLE good (a int PRIMARY KEY); CREATE TABLE bad (a int); CREATE TABLE worse (a int)")
    with pytest.raises(UnsafeTable, match=r"2 tables .*public\.bad .*public\.worse ") as refused:
        make_source().open()
    assert "public.worse REPLICA IDENTITY FULL" in refused.value.hint
    assert left_behind(db) == (0, 0)


@pytest.mark.since(18, "generated columns are published")
def test_a_stored_generated_column_is_captured(db, make_source, drain):
    db.execute("CREATE TABLE t (a int PRIMARY KEY, g int GENERATED ALWAYS AS (a + 1) STORED); INSERT INTO t VALUES (1)")
    source = make_source("t")
    source.open()
    db.execute("INSERT INTO t VALUES (2)")
    assert [row["g"] for row in drain(source).rows("public.t")] == [2, 3]


@pytest.mark.parametrize("timing", ["DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"])
def test_a_deferrable_key_identifies_nothing(db, make_source, drain, timing):
    """Refused before it is published, so the application's UPDATE goes on; with whole rows logged it needs no key."""
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY {timing}, x int); INSERT INTO t VALUES (1, 10), (2, 20)")
    source = make_source("t")
    with pytest.raises(UnsafeTable, match="DEFERRABLE") as refused:
        source.open()
    assert "REPLICA IDENTITY FULL" in refused.value.hint
    assert left_behind(db) == (0, 0)
    db.execute("UPDATE t SET x = x + 1")
    db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    source.open()
    assert source.tables["public.t"].key == ()
    db.execute("UPDATE t SET id = id + 1")  # for a moment two rows have id 2
    left = Counter()
    for row in drain(source).rows("public.t"):
        left[row["id"], row["x"]] += row["_weight"]
    assert +left == Counter({(2, 11): 1, (3, 21): 1})


def test_a_pattern_takes_plain_tables_only(db, source_db):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE VIEW v AS SELECT 1; CREATE TABLE b (id int PRIMARY KEY)")
    db.execute("CREATE SCHEMA other; CREATE TABLE other.c (id int PRIMARY KEY)")
    assert list(inspect(source_db, ["public.*"])) == ["public.a", "public.b"]
    assert list(inspect(source_db, ["other.*", "a", "public.a"])) == ["other.c", "public.a"]
    with pytest.raises(NotFound, match=r"no table matches nowhere\.\*"):
        inspect(source_db, ["nowhere.*"])


def test_inspect_reads_keys_types_and_foreign_keys(db, source_db):
    db.execute("CREATE TABLE p (x int, y text, PRIMARY KEY (y, x))")
    db.execute("CREATE TABLE c (id int PRIMARY KEY, gone int, x int, y text, FOREIGN KEY (y, x) REFERENCES p (y, x))")
    db.execute("ALTER TABLE c DROP gone; ALTER TABLE c ADD z int, ADD FOREIGN KEY (z) REFERENCES c NOT VALID")
    schemas = inspect(source_db, ["public.*"])
    assert schemas["public.p"].key == ("y", "x")
    child = schemas["public.c"]
    assert [(c.name, c.attnum, c.nullable) for c in child.columns] == [
        ("id", 1, False), ("x", 3, True), ("y", 4, True), ("z", 5, True),
    ]  # fmt: skip
    assert [(f.columns, f.parent, f.parent_columns) for f in child.foreign_keys] == [
        (("y", "x"), "public.p", ("y", "x"))
    ]


@pytest.mark.since(18, "NOT NULL … NOT VALID")
def test_a_not_null_that_was_never_validated_promises_nothing(db, source_db):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, NULL)")
    db.execute("ALTER TABLE t ADD CONSTRAINT later NOT NULL x NOT VALID")
    assert inspect(source_db, ["t"])["public.t"].column("x").nullable


@pytest.fixture
def reader(db, source_db):
    """A role that may log in and nothing else."""
    role = f"reader_{db.info.dbname}"
    db.execute(f"CREATE ROLE {role} LOGIN")
    yield role
    db.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def test_each_missing_privilege_is_named_until_none_is_missing(db, source_db, reader):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    dsn = re.sub(r"user=\w+", f"user={reader}", source_db)
    steps = [
        ("REPLICATION", f"ALTER ROLE {reader} REPLICATION"),
        ("GRANT SELECT ON public.t", f"GRANT SELECT ON t TO {reader}"),
        ("BYPASSRLS", f"ALTER ROLE {reader} BYPASSRLS"),
        ("GRANT CREATE ON DATABASE", f"GRANT CREATE ON DATABASE {db.info.dbname} TO {reader}"),
        ("As their owner", "CREATE PUBLICATION p FOR TABLE t"),
    ]
    for hint, remedy in steps:
        with pytest.raises(MissingPrivilege) as missing:
            check(dsn, ["t"], slot="s", publication="p", assume_no_truncate=True)
        assert hint in missing.value.hint
        db.execute(remedy)
    assert list(check(dsn, ["t"], slot="s", publication="p", assume_no_truncate=True)) == ["public.t"]


@pytest.mark.parametrize(
    "publication",
    [
        "FOR TABLE t WITH (publish = 'insert')",
        pytest.param("FOR TABLE t WHERE (id > 5)", marks=pytest.mark.since(15, "row filters")),
        pytest.param("FOR TABLE t (id)", marks=pytest.mark.since(15, "column lists")),
        "FOR TABLE other",
    ],
)
def test_somebody_elses_publication_must_give_everything(db, make_source, publication):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x int); CREATE TABLE other (id int PRIMARY KEY)")
    db.execute(f"CREATE PUBLICATION p {publication}")
    with pytest.raises(SourceError) as refused:
        make_source("t", publication_name="p").open()
    assert refused.value.hint
    assert left_behind(db) == (0, 1)


def test_our_publication_is_extended(db, make_source, drain):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    first = make_source("a", slot="extend_1", publication_name="ours")
    first.open()
    second = make_source("a", "b", slot="extend_2", publication_name="ours")
    second.open()
    db.execute("INSERT INTO b VALUES (1)")
    assert len(drain(second).rows("public.b")) == 1
    assert left_behind(db) == (2, 1)


def test_a_taken_slot_name_is_refused_and_nothing_made(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    db.execute("SELECT pg_create_logical_replication_slot('taken', 'pgoutput')")
    with pytest.raises(AlreadyExists, match="taken"):
        make_source("t", slot="taken").open()
    assert left_behind(db) == (1, 0)


def test_an_old_transaction_in_the_way_is_named_and_the_publication_taken_back(db, make_source, source_db):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with psycopg.connect(source_db) as old:
        old.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(SourceUnreachable, match="waits for transactions") as blocked:
            make_source("t", slot_timeout=0.3).open()
        assert str(old.info.backend_pid) in blocked.value.hint
    assert left_behind(db) == (0, 0)


def test_a_failed_extension_is_taken_back(db, make_source, source_db):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    make_source("a", slot="taken_back", publication_name="ours").open()
    with psycopg.connect(source_db) as old:
        old.execute("INSERT INTO a VALUES (1)")
        with pytest.raises(SourceUnreachable):
            make_source("a", "b", slot="taken_back_2", publication_name="ours", slot_timeout=0.2).open()
    assert db.execute("SELECT tablename FROM pg_publication_tables WHERE pubname = 'ours'").fetchall() == [("a",)]


def test_a_stream_that_cannot_start_takes_everything_back(db, make_source, monkeypatch):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")

    def no_sender(*args, **options):
        raise NoSlotLeft("number of requested standby connections exceeds max_wal_senders")

    monkeypatch.setattr("penstock.capture.reading.WalStream", no_sender)
    source = make_source("t", snapshot_mode="never")
    with pytest.raises(NoSlotLeft):
        source.open()
    assert left_behind(db) == (0, 0)
    assert source.phase == "closed"


@pytest.mark.parametrize("point", ["capture.publication_made", "capture.slot_created"])
def test_remove_clears_what_a_crash_left(db, make_source, source_db, point):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="crashed")
    with failpoint.arm(point), pytest.raises(failpoint.FailpointReached):
        source.open()
    assert left_behind(db) == (point == "capture.slot_created", 1)
    for _ in range(2):
        remove(source_db, "crashed", "penstock_crashed")
        assert left_behind(db) == (0, 0)
    source.open()
    assert left_behind(db) == (1, 1)


def test_remove_leaves_somebody_elses_publication(db, source_db):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION theirs FOR TABLE t")
    remove(source_db, "no_such_slot", "theirs")
    assert left_behind(db) == (0, 1)


def test_a_slot_in_use_is_neither_dropped_nor_shared(db, make_source, source_db, drain, monkeypatch):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="in_use", snapshot_mode="never")
    source.open()
    pid = db.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'in_use'").fetchone()[0]
    second = make_source("t", slot="in_use")
    second.restore(source.checkpoint())
    failures: list[SourceError] = []

    def refused(call) -> None:
        with pytest.raises(SourceError, match=f"in use by server process {pid}") as error:
            call()
        failures.append(error.value)

    calls = (second.open, lambda: remove(source_db, "in_use", "penstock_in_use"))
    monkeypatch.setattr("penstock.capture.slot.LEAVE_TIME", 0.3)
    for call in calls:
        refused(call)
    assert len(failures) == 2
    assert left_behind(db) == (1, 1)
    db.execute("INSERT INTO t VALUES (1)")
    assert len(drain(source).rows("public.t")) == 1


@pytest.fixture
def stopped(db, make_source, drain):
    """A source that ran and stopped, and its checkpoint."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="stopped_slot")
    source.open()
    drain(source)
    state = source.checkpoint()
    source.acknowledge(state)
    db.execute("INSERT INTO t VALUES (1)")
    drain(source)
    yield source, state
    source.close()


def changed(state: Checkpoint, **changes) -> Checkpoint:
    return Checkpoint(**{**state.__dict__, **changes})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"system_identifier": "1"}, "another one"),
        ({"timeline": 9}, "timeline"),
        ({"database": "elsewhere"}, "elsewhere"),
        ({"slot": "other"}, "slot other"),
        ({"lsn": Lsn(0)}, "initial copy was not finished"),
        ({"lsn": Lsn(1 << 50)}, "older backup"),
        ({"lsn": Lsn(16)}, "past the checkpoint"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_a_lost_slot(stopped, change, said):
    source, state = stopped
    source.close()
    source.restore(changed(state, **change))
    with pytest.raises(SlotLost, match=said) as lost:
        source.open()
    assert lost.value.hint
    assert not lost.value.transient


def test_a_dropped_slot_is_lost(db, stopped):
    source, state = stopped
    source.close()
    db.execute("SELECT pg_sleep(0.1)")
    db.execute("SELECT pg_drop_replication_slot('stopped_slot')")
    source.restore(state)
    with pytest.raises(SlotLost, match="does not exist"):
        source.open()


@pytest.mark.since(11, "pg_replication_slot_advance")
def test_a_slot_that_somebody_advanced_is_lost(db, stopped):
    source, state = stopped
    source.close()
    db.execute("SELECT pg_sleep(0.1)")
    db.execute("SELECT pg_replication_slot_advance('stopped_slot', pg_current_wal_lsn())")
    source.restore(state)
    with pytest.raises(SlotLost, match="past the checkpoint"):
        source.open()


def test_a_dropped_publication_is_said(db, stopped):
    source, state = stopped
    source.close()
    db.execute("DROP PUBLICATION penstock_stopped_slot")
    source.restore(state)
    with pytest.raises(SourceError, match="publication penstock_stopped_slot does not exist"):
        source.open()


@pytest.mark.parametrize(
    ("change", "said"),
    [("dbname=nowhere", "does not exist"), ("user=nobody_here", "nobody_here"), ("port=1", "port|connect")],
)
def test_a_server_that_cannot_be_reached(source_db, change, said):
    """Only what may pass by itself is worth another try."""
    dsn = re.sub(rf"{change.partition('=')[0]}=\S+", change, source_db)
    with pytest.raises(SourceUnreachable, match=said) as gone:
        PostgresSource(SourceConfig.from_dsn(dsn, ["t"], "s")).open()
    assert gone.value.transient is (change == "port=1")
    assert isinstance(gone.value, AccessRefused) is (change != "port=1")
    assert gone.value.hint


def test_restore_belongs_before_open(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t")
    source.open()
    with pytest.raises(ConfigError, match="open already"):
        source.restore(None)
    with pytest.raises(ConfigError, match="open already"):
        source.open()
    with pytest.raises(ConfigError, match="max_records"):
        source.poll(max_records=0)


def test_hints_quote_names_that_need_it(db, source_db):
    db.execute('CREATE TABLE "Odd Name" (a int)')
    with pytest.raises(UnsafeTable) as refused:
        inspect(source_db, ['"Odd Name"'])
    assert 'ALTER TABLE public."Odd Name" REPLICA IDENTITY FULL' in refused.value.hint


@pytest.mark.since(18, "generated columns are published")
def test_a_publication_without_the_generated_columns_is_refused(db, source_db):
    db.execute("CREATE TABLE t (a int PRIMARY KEY, g int GENERATED ALWAYS AS (a + 1) STORED)")
    db.execute("CREATE PUBLICATION p FOR TABLE t")
    with pytest.raises(SourceError, match="generated columns") as refused:
        check(source_db, ["t"], publication="p")
    db.execute(refused.value.hint.removeprefix("Run ").removesuffix("."))
    check(source_db, ["t"], publication="p")


@pytest.mark.parametrize(
    "ddl", ["ALTER TABLE t ALTER x TYPE float8", "TRUNCATE t", "ALTER TABLE t ALTER x TYPE int8 USING x + 1"]
)
def test_ddl_between_the_look_and_the_snapshot_stops_the_copy(db, make_source, monkeypatch, ddl):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x int8); INSERT INTO t VALUES (1, 2)")

    def create_then_alter(*args, **options):
        created = create_slot(*args, **options)
        db.execute(ddl)
        return created

    monkeypatch.setattr("penstock.capture.attach.create_slot", create_then_alter)
    with pytest.raises(SchemaChanged, match="while its copy was prepared"):
        make_source("t").open()
    assert left_behind(db) == (0, 0)


def test_a_server_that_passes_no_messages_on_cannot_tell_of_ddl(db, make_source):
    if db.info.server_version >= 140000:
        pytest.skip("pgoutput passes messages on from 14")
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(SourceError, match="ddl_trigger needs PostgreSQL 14"):
        make_source("t", ddl_trigger=True).open()
    assert db.execute("SELECT count(*) FROM pg_event_trigger").fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
