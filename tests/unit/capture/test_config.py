"""A configuration that exists can be used."""

from __future__ import annotations

import dataclasses

import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock.capture import Checkpoint, SourceConfig
from penstock.errors import ConfigError, NotYet
from penstock.lsn import Lsn

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
    ],
)
def test_bad_options_are_refused_with_a_hint(change):
    with pytest.raises(ConfigError) as refused:
        SourceConfig(**{**GOOD, **change})
    assert refused.value.hint


@pytest.mark.parametrize(
    ("dsn", "tables", "options"),
    [
        ("nonsense", ["t"], {}),
        ("host=h", ["t"], {}),
        ("host=h dbname=d port=x", ["t"], {}),
        ("host=h dbname=d connect_timeout=soon", ["t"], {}),
        ("host=h dbname=d", [], {}),
        ("host=h dbname=d", "t", {}),
        ("host=h dbname=d", ["t"], {"no_such_option": 1}),
    ],
)
def test_bad_dsns_are_refused_with_a_hint(dsn, tables, options):
    with pytest.raises(ConfigError) as refused:
        SourceConfig.from_dsn(dsn, tables, slot_name="s", **options)
    assert refused.value.hint


@pytest.mark.parametrize("mode", ["always", "initial_only"])
def test_modes_that_are_not_there_yet(mode):
    with pytest.raises(NotYet, match=mode):
        SourceConfig(**GOOD, snapshot_mode=mode)


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
