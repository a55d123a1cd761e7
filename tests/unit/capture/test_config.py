"""A configuration that exists can be used."""

from __future__ import annotations

import dataclasses
import traceback
from pathlib import Path

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from penstock.capture import Checkpoint, PostgresSource, SourceConfig
from penstock.capture.connection import connect
from penstock.capture.source_file import read_file
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import CatalogError, ConfigError, NotYet, PenstockError
from penstock.lsn import Lsn
from penstock.passwords import without_password
from penstock.relation.home import Home

GOOD = {"database": "shop", "table_name": "orders", "slot_name": "s"}


def test_names_get_their_schema_and_the_publication_its_name():
    config = SourceConfig(**GOOD, schema_name="sales", additional_tables=["public.*", "lines"])
    assert config.tables == ("sales.orders", "public.*", "sales.lines")
    assert config.publication_name == "penstock_s"
    assert SourceConfig(**GOOD, publication_name="mine").publication_name == "mine"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:p%40ss@db.example:5433/shop?sslmode=require&options=-c%20geqo%3Doff",
        "host=db.example port=5433 dbname=shop user=me password='p@ss' sslmode=require options='-c geqo=off'",
    ],
)
def test_a_dsn_comes_back_whole(dsn):
    config = SourceConfig.from_dsn(dsn, ["orders"], slot_name="s", heartbeat_interval=3)
    assert (config.hostname, config.port, config.database, config.username) == ("db.example", 5433, "shop", "me")
    again = conninfo_to_dict(config.dsn)
    assert (again["password"], again["sslmode"], again["options"]) == ("p@ss", "require", "-c geqo=off")
    assert config.heartbeat_interval == 3


@pytest.mark.parametrize(
    ("dsn", "ports"),
    [
        ("postgresql://me@a:5433,b:5434/shop?target_session_attrs=read-write", "5433,5434"),
        ("postgresql://me@a,b/shop?target_session_attrs=read-write", ","),
        ("host=a,b port=5433 dbname=shop target_session_attrs=read-write", "5433"),
    ],
)
def test_a_dsn_may_name_several_hosts(dsn, ports):
    again = conninfo_to_dict(SourceConfig.from_dsn(dsn, ["orders"], slot_name="s").dsn)
    assert (again["host"], str(again["port"]), again["target_session_attrs"]) == ("a,b", ports, "read-write")


def test_what_a_dsn_leaves_out_is_left_to_libpq():
    again = conninfo_to_dict(SourceConfig.from_dsn("service=shop dbname=d", ["t"], "s").dsn)
    assert not again.keys() & {"host", "port", "user", "password"}
    assert again["service"] == "shop"


def test_a_socket_folder_is_a_host():
    assert conninfo_to_dict(SourceConfig.from_dsn("host=/run/pg dbname=d", ["t"], "s").dsn)["host"] == "/run/pg"


@pytest.mark.parametrize(
    "change",
    [
        {"slot_name": "Bad-Name"},
        {"slot_name": ""},
        {"port": 0},
        {"port": "x"},
        {"ssl_mode": "maybe"},
        {"snapshot_mode": "sometimes"},
        {"poll_interval": 0},
        {"max_batch_size": -1},
        {"database": ""},
        {"table_name": ""},
        {"publication_name": "p" * 64},
        {"heartbeat_interval": "10"},
        {"heartbeat_interval": float("nan")},
        {"idle_timeout": float("inf")},
        {"max_batch_size": 1.5},
        {"copy_workers": 0},
        {"copy_workers": True},
        {"max_transaction_memory_bytes": 0},
        {"toast_handling": "guess"},
        {"reader": "trigger"},
        {"streaming": True},
        {"format": "avro"},
        {"reconnect": "yes"},
        {"failover": 1},
        {"password": 1234},
        {"slot_name": 7},
        {"additional_tables": "orders"},
        {"additional_tables": ["orders", ""]},
        {"publication_row_filter": {"t": ""}},
        {"publication_row_filter": 7},
        {"publication_column_list": {"t": []}},
        {"publication_column_list": [1]},
        {"publication_column_list": " , "},
    ],
)
def test_bad_options_are_refused_with_a_hint(change):
    with pytest.raises(ConfigError) as refused:
        SourceConfig(**{**GOOD, **change})
    assert refused.value.hint


@pytest.mark.parametrize(
    "given",
    [
        {"sslcompression": "0", "sslpassword": "it's \\ one"},
        [["sslcompression", "0"], ["sslpassword", "it's \\ one"]],
        (("sslcompression", "0"), ("sslpassword", "it's \\ one")),
    ],
)
def test_further_parameters_reach_libpq(given):
    config = SourceConfig.from_mapping({"database": "d", "table.name": "t", "slot.name": "s", "dsn.options": given})
    found = conninfo_to_dict(config.dsn)
    assert (found["sslcompression"], found["sslpassword"]) == ("0", "it's \\ one")
    assert hash(config) == hash(dataclasses.replace(config))


@pytest.mark.parametrize(
    ("dsn", "tables", "options"),
    [
        ("nonsense", ["t"], {}),
        ("host=h", ["t"], {}),
        ("host=h dbname=d port=x", ["t"], {}),
        ("host=h dbname=d connect_timeout=soon", ["t"], {}),
        (None, ["t"], {}),
        (5, ["t"], {}),
        ("host=h dbname=d", [], {}),
        ("host=h dbname=d", "t", {}),
        ("host=h dbname=d", ["t"], {"no_such_option": 1}),
    ],
)
def test_bad_dsns_are_refused_with_a_hint(dsn, tables, options):
    with pytest.raises(ConfigError) as refused:
        SourceConfig.from_dsn(dsn, tables, slot_name="s", **options)
    assert refused.value.hint


def test_a_configuration_does_not_change_and_hides_its_password():
    config = SourceConfig(**GOOD, password="hunter2")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.port = 1
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"system_identifier": 1}', '{"lsn": "x"}'])
def test_what_is_not_a_checkpoint_is_refused(text):
    with pytest.raises(ConfigError, match="not a checkpoint"):
        Checkpoint.from_json(text)


def test_a_checkpoint_survives_json():
    state = Checkpoint("7421", 3, "shop", "s", Lsn.parse("16/B374D848"))
    assert Checkpoint.from_json(state.to_json()) == state


DOCUMENT = {
    "connector": "postgres-cdc",
    "hostname": "db.example",
    "database": "myapp",
    "username": "replication_user",
    "table.name": "users",
    "slot.name": "users_slot",
    "port": "5433",
    "password": "hunter2",
    "schema.name": "app",
    "publication.name": "pub",
    "format": "debezium-json",
    "snapshot.mode": "never",
    "ssl.mode": "verify-full",
    "heartbeat.interval.ms": "2500",
    "max.batch.size": "77",
    "poll.interval.ms": "50",
    "max.wal.lag.bytes": "12345",
    "slot.advance.interval.ms": "1500",
    "connect.timeout.ms": "4000",
    "include.before.image": "true",
    "toast.handling": "sentinel",
    "publication.row.filter": "status = 'active'",
    "publication.column.list": "id, name",
    "server.heartbeat.enabled": "off",
    "server.heartbeat.interval.ms": "7000",
}
KEYWORDS = SourceConfig(
    hostname="db.example", database="myapp", username="replication_user", table_name="users", slot_name="users_slot",
    port=5433, password="hunter2", schema_name="app", publication_name="pub", format="debezium-json",
    snapshot_mode="never", ssl_mode="verify-full", heartbeat_interval=2.5, max_batch_size=77, poll_interval=0.05,
    max_wal_lag_bytes=12345, slot_advance_interval=1.5, connect_timeout=4.0, include_before_image=True,
    toast_handling="sentinel", publication_row_filter="status = 'active'", publication_column_list="id, name",
    server_heartbeat_enabled=False, server_heartbeat_interval=7.0,
)  # fmt: skip


def as_mapping(tmp_path) -> SourceConfig:
    return SourceConfig.from_mapping(DOCUMENT)


def as_environment(tmp_path) -> SourceConfig:
    given = {f"PENSTOCK_SOURCE_{name.replace('.', '_').upper()}": value for name, value in DOCUMENT.items()}
    return SourceConfig.from_env(environment={**given, "PATH": "/bin", "PENSTOCK_HOME": "data"})


def as_yaml(tmp_path) -> SourceConfig:
    (tmp_path / "source.yaml").write_text(yaml.safe_dump({**DOCUMENT, "port": 5433, "include.before.image": True}))
    return SourceConfig.from_yaml(tmp_path / "source.yaml")


def as_nested_yaml(tmp_path) -> SourceConfig:
    nested: dict = {}
    for name, value in DOCUMENT.items():
        at = nested
        *above, last = name.split(".")
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    (tmp_path / "source.yaml").write_text(yaml.safe_dump(nested))
    return SourceConfig.from_yaml(tmp_path / "source.yaml")


@pytest.mark.parametrize("read", [as_mapping, as_environment, as_yaml, as_nested_yaml])
def test_every_form_says_the_same(read, tmp_path):
    assert read(tmp_path) == KEYWORDS


def test_defaults_of_a_mapping_are_those_of_the_keywords():
    config = SourceConfig.from_mapping({"database": "d", "table.name": "t", "slot.name": "s"})
    assert config == SourceConfig(database="d", table_name="t", slot_name="s")


def test_every_option_is_in_the_table_of_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    for option in dataclasses.fields(SourceConfig):
        assert f"| `{option.name}` |" in page, f"{option.name} is not documented"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"connector": "mysql-cdc"}, "postgres-cdc"),
        ({"slot.nam": "s"}, "Did you mean slot.name?"),
        ({"heartbeat.interval.msec": "1"}, "Did you mean heartbeat.interval.ms?"),
        ({"nothing.like.it": "1"}, "slot_name"),
        ({"max.batch.size": "many"}, "whole number"),
        ({"poll.interval.ms": "soon"}, "number"),
        ({"failover": "perhaps"}, "true or false"),
        ({"heartbeat.interval": "1", "heartbeat.interval.ms": "1000"}, "one of the two"),
        ({"table.name": ""}, "table.name"),
        ({"publication.row.filter": "{not json"}, "JSON"),
        ({"poll.interval.ms": None}, "number"),
        ({"poll.interval.ms": [1]}, "number"),
        ({"poll.interval.ms": True}, "number"),
        ({"poll.interval": True}, "number"),
        ({"dsn.options": "sslpassword=x"}, "sslcompression"),
    ],
)
def test_bad_mappings_are_refused_with_a_hint(change, said):
    with pytest.raises(ConfigError) as refused:
        SourceConfig.from_mapping({"database": "d", "table.name": "t", "slot.name": "s", **change})
    assert said in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("- a", "not a mapping"),
        ("", "not a mapping"),
        (None, "cannot be read"),
        ("slot.name: a\nslot: {name: b}", "slot.name is given twice"),
        ("slot: {name: b}\nslot.name: a", "slot.name is given twice"),
        ("slot.name: a\nslot.name: b", r"slot.name is given twice \(line 2\)"),
        ("slot:\n  name: a\n  name: b", r"name is given twice \(line 3\)"),
        ("slot.name: a\nslot_name: b", "slot_name is given twice"),
    ],
)
def test_bad_files_are_refused_with_a_hint(tmp_path, text, said):
    if text is not None:
        (tmp_path / "source.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        SourceConfig.from_yaml(tmp_path / "source.yaml")
    assert refused.value.hint


def test_filters_and_columns_are_for_every_table_or_for_one():
    config = SourceConfig(
        **GOOD,
        publication_row_filter={"orders": "id > 5", "sales.lines": "true"},
        publication_column_list={"orders": 'id, "Odd, name"', "sales.lines": ["id"]},
    )
    assert config.row_filters == {"public.orders": "id > 5", "sales.lines": "true"}
    assert config.column_lists == {"public.orders": ("id", "Odd, name"), "sales.lines": ("id",)}
    every = SourceConfig.from_mapping({
        "database": "d", "table.name": "t", "slot.name": "s",
        "publication.row.filter": '{"t": "a"}', "publication.column.list": "a, b",
    })  # fmt: skip
    assert (every.row_filters, every.column_lists) == ({"public.t": "a"}, {"*": ("a", "b")})


SECRET = "hunter2"


def everything_said(error: BaseException) -> str:
    """What a log could show of an error: its texts and its arguments, and those of what it came from."""
    said = "".join(traceback.format_exception(error))
    at: BaseException | None = error
    while at is not None:
        said += f"{at.args!r} {at!r} {vars(at)!r}"
        at = at.__cause__ or at.__context__
    return said


@pytest.mark.parametrize(
    "change",
    [
        {"hostname": 5},
        {"hostname": f"a\0{SECRET}"},
        {"password": f"a\0{SECRET}"},
        {"poll_interval": True},
        {"dsn_options": f"sslpassword={SECRET}"},
        {"dsn_options": [["sslpassword", SECRET, "c"]]},
        {"dsn_options": [["sslcompression", 0]]},
        {"dsn_options": [["nonsense", SECRET]]},
        {"dsn_options": {"nonsense": SECRET}},
        {"dsn_options": [["password", SECRET]]},
        {"dsn_options": [["port", "1,2"]]},
        {"dsn_options": [["connect_timeout", "3"]]},
        {"dsn_options": [["keepalives", "0"], ["keepalives", "1"]]},
        {"dsn_options": [["sslpassword", f"a\0{SECRET}"]]},
    ],
)
def test_an_option_that_cannot_be_used_is_named_without_its_value(change):
    with pytest.raises(ConfigError) as refused:
        SourceConfig(**{**GOOD, **change})
    (name,) = change
    assert name in refused.value.message
    assert refused.value.hint
    assert SECRET not in everything_said(refused.value)


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{SECRET} x@host/db",
        f"postgresql://me:{SECRET}/x@host:5432/db",
        f"postgresql://me:x/{SECRET}@host:5432/db",
        f"postgresql://me:%zz{SECRET}@host/db",
        f"postgresql://me:x@{SECRET}@127.0.0.1/db",
        f"postgresql://me:{SECRET}@x@127.0.0.1/db",
        f"postgresql://me@there:{SECRET}@127.0.0.1/db",
        f"postgresql://:{SECRET}@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?pass%77ord={SECRET}",
        f"host=127.0.0.1 port=1 dbname=d password=x\\ {SECRET}",
        f"host=h dbname=d password=a\0{SECRET}",
        f"host=h dbname=d password=a {SECRET}",
        f"host=h dbname=d password=a {SECRET}=b",
        f"host=h dbname=d password='{SECRET}",
        f"host=h password={SECRET} port=x",
        f"host=h dbname=d password={SECRET} port=x",
        f"host=127.0.0.1 port=1 dbname=d user=u password={SECRET} sslpassword={SECRET}",
        f"postgresql://u:{SECRET}@127.0.0.1:1/d",
        f"host=/nowhere dbname=d password={SECRET} sslmode=verify-full sslrootcert=/nowhere",
    ],
)
def test_no_error_shows_a_password(dsn):
    with pytest.raises(PenstockError) as refused:
        PostgresSource(SourceConfig.from_dsn(dsn, ["t"], "s")).open()
    assert SECRET not in everything_said(refused.value)
    with pytest.raises(PenstockError) as refused:
        connect(dsn)
    assert SECRET not in everything_said(refused.value)


@pytest.mark.parametrize("text", [f"password: {SECRET}\n  x: ]", f"password: '{SECRET}", f"password:\n  {SECRET}: a"])
def test_no_error_of_a_file_shows_a_password(tmp_path, text):
    (tmp_path / "source.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        SourceConfig.from_yaml(tmp_path / "source.yaml")
    assert SECRET not in everything_said(refused.value) or "no such source option" in refused.value.message


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://ada:{SECRET}@db/shop",
        f"postgresql://:{SECRET}@db/shop",
        f"postgresql://ada:a:{SECRET}@db/shop",
        f"postgresql://ada:p@{SECRET}@db/shop",
        f"postgresql://ada:x/{SECRET}@db/shop",
        f"postgresql://ada@there:{SECRET}@db/shop",
        f"postgresql://ada:x y{SECRET}@db/shop",
        f"postgresql://db/shop?user=a&password={SECRET}&sslmode=prefer",
        f"postgresql://db/shop?pass%77ord={SECRET}",
        f"mysql://ada:{SECRET}@db/shop",
        f"host=db password={SECRET}",
        f"host=db password = 'x\\'{SECRET}'",
        f"host=db password=x\\ {SECRET} user=a",
        f"host=db password='x {SECRET}",
        f"host=db PASSWORD={SECRET}",
        *(
            f"host=db {name}={SECRET}"
            for name in ("sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
        ),
    ],
)
def test_no_connection_string_is_shown_with_a_password(dsn):
    shown = without_password(dsn)
    assert SECRET not in shown
    assert "***" in shown


@pytest.mark.parametrize("dsn", ["", "service=shop", "postgresql://ada@db:5433/shop?sslmode=require", "host=@abstract"])
def test_a_connection_string_without_a_secret_is_shown_as_it_is(dsn):
    assert without_password(dsn) == dsn


def test_what_is_shown_is_the_connection_but_for_its_secrets():
    dsn = f"postgresql://ada:{SECRET}@a:1,[::1]:2/my%20shop?application_name=it%27s&sslpassword={SECRET}"
    shown = conninfo_to_dict(without_password(dsn))
    assert shown == {**conninfo_to_dict(dsn), "password": "***", "sslpassword": "***"}


def test_a_catalog_that_cannot_be_read_is_refused_without_its_password(tmp_path):
    with pytest.raises(CatalogError) as refused:
        Catalog(Home.at(tmp_path), f"postgresql://me:a {SECRET}@host/db")
    assert SECRET not in everything_said(refused.value)


def test_no_file_in_another_encoding_is_shown(tmp_path):
    (tmp_path / "source.yaml").write_bytes(f"password: {SECRET}\xfc\n".encode("latin-1"))
    for read in (SourceConfig.from_yaml, lambda path: read_file(path, SourceConfig.types())):
        with pytest.raises(ConfigError, match="not UTF-8") as refused:
            read(tmp_path / "source.yaml")
        assert refused.value.hint
        assert SECRET not in everything_said(refused.value)


def test_nothing_that_holds_a_password_prints_it():
    config = SourceConfig.from_dsn(f"host=h dbname=d password={SECRET} sslpassword={SECRET}", ["t"], "s")
    source = Source(1, "shop", config.dsn, (), {}, "s", "p", "streaming", None, None, None)
    shown = f"{config!r} {config} {source!r} {source} {vars(PostgresSource(config))!r}"
    assert SECRET in config.dsn
    assert SECRET not in shown


def test_keys_alone_are_not_available():
    with pytest.raises(NotYet, match="include_before_image"):
        SourceConfig(**GOOD, include_before_image=False)
